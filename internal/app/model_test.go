package app

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/model"
)

// scriptOf writes a script, and returns the name of its model.
func scriptOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "scripted:" + path
}

// asking makes the models of the program.
func asking() *models {
	return newModels(cli.OpenOptions{AskModels: true, Log: slog.New(slog.DiscardHandler)})
}

// TestContinuesFrom: a partial answer is continued only if the model supports it, and no session
// uses another model that does not (TN20).
func TestContinuesFrom(t *testing.T) {
	t.Parallel()
	plain := scriptOf(t, "steps: [{text: It is in the drawer.}]")
	able := scriptOf(t, "prefix: true\nsteps: [{text: It is in the drawer.}]")
	m := asking()

	for name, want := range map[string]bool{
		able: true, plain: false, "": false, "scripted:/nowhere/at/all.yaml": false, "other:x": false,
		"openai:x@http://127.0.0.1:1/v1": false, "anthropic:x@http://127.0.0.1:1": false,
	} {
		if got := m.ContinuesFrom(name); got != want {
			t.Errorf("%q: got %t", name, got)
		}
	}
	a, err := model.Collect(m.Stream(t.Context(), model.Request{Model: able, Messages: []perdure.Message{perdure.Text("where?")}, Prefix: "It is"}), nil)
	if err != nil || a.Message.Text() != " in the drawer." {
		t.Errorf("got %q, %v", a.Message.Text(), err)
	}
	m.use("session_1", able)
	if !m.ContinuesFrom(able) {
		t.Error("a session that asks another model which goes on keeps all from it")
	}
	m.use("session_2", plain)
	if m.ContinuesFrom(able) {
		t.Error("a session asks a model that does not go on, and might be sent the beginning of an answer")
	}
}

// TestPrefillByName sends the beginning of an answer to the Anthropic models that the operator
// names, and to no others. It is not parallel, since it sets an environment variable.
func TestPrefillByName(t *testing.T) {
	t.Setenv(prefillVariable, "claude-able, claude-too")
	t.Setenv(anthropicKey, "")
	bodies := make(chan string, 1) // one request at a time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- string(body)
		w.WriteHeader(http.StatusTeapot) // only the request matters here
	}))
	t.Cleanup(server.Close)
	m := asking()

	for name, want := range map[string]bool{"claude-able": true, "claude-too": true, "claude": false, "claude-able-2": false, "openai:claude-able": false} {
		if !strings.Contains(name, ":") {
			name = "anthropic:" + name
		}
		if got := m.ContinuesFrom(name + "@" + server.URL); got != want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	_, err := model.Collect(m.Stream(t.Context(), model.Request{
		Model: "anthropic:claude-able@" + server.URL, Messages: []perdure.Message{perdure.Text("where?")}, Prefix: "It is",
	}), nil)
	if body := <-bodies; err == nil || !strings.Contains(body, `"It is"`) || !strings.Contains(body, `"assistant"`) {
		t.Errorf("%v; asked %s", err, body)
	}
}
