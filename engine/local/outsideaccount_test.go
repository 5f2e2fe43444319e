package local_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// TestAccountOutsideSession: a call outside any session has the account of the acting user, and of
// nobody else. Its result does not show the token.
func TestAccountOutsideSession(t *testing.T) {
	t.Parallel()
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	model, err := scripted.New(scripted.Script{Name: "silent", Steps: []scripted.Step{{Reply: scripted.Reply{Text: "done"}}}})
	if err != nil {
		t.Fatal(err)
	}
	tells := tool.New(tool.Spec{Name: "tells", Description: "Tells its token.", Class: perdure.Pure},
		func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
			opened, err := env.OpenSecret(ctx, perdure.SecretRef("connection:desk"), "desk.example.com")
			return env.Call.User + " has " + opened.Value + ".", err
		})
	eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: model, Tools: tool.NewRegistry(tells),
		Storage: local.Storage{Secrets: local.Secrets{Keys: keys}}})
	if err != nil {
		t.Fatal(err)
	}
	const canary = "canary-of-ada"
	ada := engine.WithOwner(t.Context(), engine.Owner{Org: "default", User: "ada"})
	w := engine.ConnectionWrite{Provider: "desk", Token: canary, Hosts: []string{"desk.example.com"}}
	if _, err := eng.Connections().Put(ada, w); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		owner engine.Owner
		want  string
	}{
		{engine.Owner{Org: "default", User: "ada"}, "ada has <redacted>."},
		{engine.Owner{Org: "default", User: "bob"}, "connection_required"},
		{engine.Owner{Org: "default"}, "connection_required"},
		{engine.Owner{Org: "acme", User: "ada"}, "connection_required"},
	} {
		got, err := eng.Tools().Call(engine.WithOwner(t.Context(), c.owner), "tells", []byte(`{}`))
		said := string(got.Result) + got.Error
		if err != nil || !strings.Contains(said, c.want) || strings.Contains(said, canary) {
			t.Errorf("%+v: %v: %s", c.owner, err, said)
		}
	}
}
