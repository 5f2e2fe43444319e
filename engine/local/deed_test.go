package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/webhook"
)

// wayOut allows all egress and reaches nothing.
type wayOut struct{}

func (wayOut) Do(context.Context, perdure.WebRequest) (perdure.WebResponse, error) {
	return perdure.WebResponse{}, errors.New("nothing leaves here")
}

func (wayOut) Resolve(context.Context, string, string, perdure.NetworkList) ([]netip.AddrPort, error) {
	return nil, nil
}

// deed is an action that the audit log must record.
type deed struct {
	action string
	do     func() error
}

// TestS26NoDeedWithoutItsEntry: an action whose audit entry cannot be written is not done;
// otherwise the entry exists, with the actor's name, and the chain is complete. Both are in one
// commit, so neither exists without the other.
func TestS26NoDeedWithoutItsEntry(t *testing.T) {
	t.Parallel()
	kept := memory.New(memory.Config{})
	var mute atomic.Bool
	st := faulty.New(kept, faulty.Plan{At: func(p faulty.Point) faulty.Fault {
		if p.Method == "Audit.Add" && mute.Load() {
			return faulty.Fault{Act: faulty.Fail, Kind: perdure.Storage}
		}
		return faulty.Fault{}
	}})
	script, err := scripted.Parse("none", []byte("steps:\n  - text: one\n"))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{
		Store: st, Model: script, Tools: tool.NewRegistry(plainTool("echo")),
		Storage: local.Storage{Secrets: local.Secrets{Keys: keys}}, Webhooks: local.Webhooks{Egress: wayOut{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := store.Acting(t.Context(), "token_1 ada")
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := eng.Sessions().Export(ctx, s.ID, &archive); err != nil {
		t.Fatal(err)
	}
	if err := eng.Sessions().Delete(ctx, s.ID); err != nil {
		t.Fatal(err)
	}

	for _, d := range deedsOf(ctx, eng, s.ID, archive.Bytes()) {
		before, entries := state(t, kept), audited(t, kept)
		mute.Store(true)
		err := d.do()
		mute.Store(false)
		if !errors.Is(err, perdure.Storage) || state(t, kept) != before {
			t.Errorf("%s without an entry: got %v, and\n%s\nof\n%s", d.action, err, state(t, kept), before)
		}
		if err := d.do(); err != nil {
			t.Fatalf("%s: %v", d.action, err)
		}
		if state(t, kept) == before {
			t.Errorf("%s changed nothing", d.action)
		}
		if got := audited(t, kept)[len(entries):]; len(got) != 1 || got[0].Action != d.action || got[0].Actor != "token_1 ada" || strings.Contains(fmt.Sprint(got), "correct-horse") {
			t.Errorf("%s: got the entries %+v", d.action, got)
		}
	}
}

// deedsOf are actions, each of which is possible once those before it are done.
func deedsOf(ctx context.Context, eng *local.Engine, session perdure.SessionID, archive []byte) []deed {
	hook := webhook.Webhook{ID: "webhook_00000000000000000000000000000001", URL: "https://a.test/", Body: webhook.BodyID, Owner: "ada"}
	off := false
	put := func(version int64, prompt string) func() error {
		return func() error {
			_, err := eng.Agents().Put(ctx, engine.AgentWrite{Name: "reader", Version: version, Overlay: agent.Overlay{SystemPrompt: prompt}})
			return err
		}
	}
	lay := func(version int64, prompt string) func() error {
		return func() error {
			_, err := eng.Harnesses().Put(ctx, engine.HarnessWrite{Name: "house", Version: version, Overlay: agent.Overlay{SystemPrompt: prompt}})
			return err
		}
	}
	set := func() error {
		return eng.Secrets().Set(ctx, session, engine.SecretWrite{Name: "KEY", Value: "correct-horse"})
	}
	return []deed{
		{"session.imported", func() error {
			_, err := eng.Sessions().Import(ctx, bytes.NewReader(archive), engine.Import{})
			return err
		}},
		{"secret.set", set},
		{"secret.set", set}, // a rotation is another value under its name
		{"secret.removed", func() error { return eng.Secrets().Remove(ctx, session, "KEY") }},
		{"agent.created", put(0, "Read.")},
		{"agent.changed", put(1, "Read slowly.")},
		{"agent.deleted", func() error { return eng.Agents().Delete(ctx, "reader", 2) }},
		{"harness.created", lay(0, "Be brief.")},
		{"harness.changed", lay(1, "Be polite.")},
		{"harness.deleted", func() error { return eng.Harnesses().Delete(ctx, "house", 2) }},
		{"webhook.created", func() error { _, err := eng.Webhooks().Create(ctx, hook); return err }},
		{"webhook.changed", func() error { _, err := eng.Webhooks().Change(ctx, hook.ID, webhook.Patch{Enabled: &off}); return err }},
		{"webhook.rotated", func() error { _, err := eng.Webhooks().Rotate(ctx, hook.ID); return err }},
		{"webhook.removed", func() error { return eng.Webhooks().Delete(ctx, hook.ID) }},
	}
}

// state is the state that the actions change, as text.
func state(t *testing.T, st store.Store) string {
	t.Helper()
	var text strings.Builder
	err := st.View(t.Context(), func(r store.Reader) error {
		sessions, err := r.Sessions().List(store.SessionFilter{})
		secrets, failed := r.Secrets().List(store.SecretFilter{})
		hooks, broken := r.Webhooks().List()
		agents, wrong := r.Directory().Agents().List(agent.StatusFilter{All: true})
		layers, amiss := r.Directory().Harnesses().List(agent.StatusFilter{All: true})
		for _, one := range sessions {
			fmt.Fprintln(&text, one.ID)
		}
		for _, one := range secrets {
			fmt.Fprintln(&text, one.Name, one.Version)
		}
		for _, one := range hooks {
			fmt.Fprintln(&text, one.ID, one.Version, one.Enabled)
		}
		for _, one := range agents {
			fmt.Fprintln(&text, one.ID, one.Version, one.Status)
		}
		for _, one := range layers {
			fmt.Fprintln(&text, one.ID, one.Version, one.Status)
		}
		return errors.Join(err, failed, broken, wrong, amiss)
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// audited are the entries of the default org, from a complete chain.
func audited(t *testing.T, st store.Store) (found []store.AuditEntry) {
	t.Helper()
	err := st.View(t.Context(), func(r store.Reader) error {
		found = nil
		_, err := store.CheckAudit(r.Audit(), func(e store.AuditEntry) { found = append(found, e) }, t.Errorf)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clip(found)
}
