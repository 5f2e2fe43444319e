package sessionport_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// leaked is the secret of these tests.
const leaked = "hunter2-hunter2-and-more"

// nowhere wants neither journal nor tasks of a session to have the secret.
func (h *hushed) nowhere(t *testing.T, id perdure.SessionID) {
	t.Helper()
	events, err := h.eng.Events(h.ctx, id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := h.eng.Tasks().List(h.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if text, err := json.Marshal(e); err != nil || strings.Contains(string(text), leaked) {
			t.Errorf("event %s, %v", text, err)
		}
	}
	for _, task := range tasks {
		if text, err := json.Marshal(task); err != nil || strings.Contains(string(text), leaked) {
			t.Errorf("task %s, %v", text, err)
		}
	}
}

// TestSecretsWithinArguments: a secret in an object of an argument is also masked on its own, in
// the output of the model and the tool.
func TestSecretsWithinArguments(t *testing.T) {
	t.Parallel()
	h := newHushed(t, `
steps:
  - text: I log in with `+leaked+` now
    calls: [{name: login, args: {auth: {user: me, password: `+leaked+`}}}]
  - {text: done, repeat: true}
`)
	spec := tool.Spec{Name: "login", Description: "Logs in.", Class: perdure.Idempotent, Parameters: json.RawMessage(
		`{"type":"object","properties":{"auth":{"type":"object","properties":{"user":{"type":"string"},"password":{"type":"string","writeOnly":true}}}}}`)}
	h.start(tool.New(spec, func(_ context.Context, in struct {
		Auth map[string]string `json:"auth"`
	}, env tool.Env) (tool.Result, error) {
		env.Report().Output("stdout", []byte("trying "+in.Auth["password"]+"\n"))
		return tool.Failf("the server refused the password %s", in.Auth["password"]), nil
	}))
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}

	h.say(s, "go")

	h.nowhere(t, s.ID)
}

// keeping is a store that records the texts of checkpoints.
type keeping struct {
	store.Store
	mu   *sync.Mutex
	kept *[]string // guarded by mu
}

func (k keeping) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return k.Store.InTx(ctx, func(tx store.Tx) error { return fn(keepingTx{tx, k}) })
}

type keepingTx struct {
	store.Tx
	of keeping
}

// keepingTxJournal overrides a part of one noun.
type keepingTxJournal struct {
	store.Journal
	keepingTx
}

func (k keepingTx) Journal() store.Journal { return keepingTxJournal{k.Tx.Journal(), k} }

// keepingTxReader reads what the transaction shows.
type keepingTxReader struct {
	store.Reader
	tx keepingTx
}

func (k keepingTx) Reader() store.Reader { return keepingTxReader{k.Tx.Reader(), k} }

func (r keepingTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (k keepingTxJournal) PutPartial(p store.Partial) error {
	k.of.mu.Lock()
	*k.of.kept = append(*k.of.kept, p.Text)
	k.of.mu.Unlock()
	return k.Journal.PutPartial(p)
}

// TestSecretOverAContinuedAnswer: an answer that breaks off within a secret and is continued shows
// it neither in a checkpoint nor in live frames.
func TestSecretOverAContinuedAnswer(t *testing.T) {
	t.Parallel()
	said := "The word is " + leaked + ", and that is all there is to be said of it."
	h := newHushed(t, fmt.Sprintf(`
prefix: true
rules:
  - when: {attempt: 1, step: 1}
    text: %q
    chunk: 5
    pace: 2ms
    error: {code: provider_unavailable, retry_after: 1ms, after_bytes: %d}
steps:
  - calls: [{name: secret_store, args: {operation: set, name: n, value: %q}}]
  - {text: %q, chunk: 5, pace: 2ms}
  - {text: done, repeat: true}
`, said, len("The word is hunter2-hun"), leaked, said))
	h.cfg = func(cfg *local.Config) { cfg.Limits.CheckpointBytes, cfg.Timing.Checkpoint = 1, time.Millisecond }
	var mu sync.Mutex
	var kept []string
	var live strings.Builder
	h.over = func(s store.Store) store.Store { return keeping{s, &mu, &kept} }
	h.start()
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{Recovery: perdure.RecoverContinue})
	if err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(h.ctx)
	watched := make(chan error, 1)
	go func() {
		watched <- h.st.Watch(watching, s.ID, 0, func(f store.Frame) error {
			var told struct{ Delta string }
			if body, err := json.Marshal(f.Data); err == nil && f.Type == "output.message.delta" && json.Unmarshal(body, &told) == nil {
				mu.Lock()
				defer mu.Unlock()
				live.WriteString(told.Delta)
			}
			return nil
		})
	}()

	h.say(s, "go")
	stop()
	<-watched

	mu.Lock()
	defer mu.Unlock()
	if text := live.String(); text == "" || strings.Contains(text, leaked) {
		t.Errorf("the follower saw %q", text)
	}
	if text := strings.Join(kept, "\n"); text == "" || strings.Contains(text, leaked) {
		t.Errorf("kept were %s", text)
	}
	h.nowhere(t, s.ID)
}

// TestSummariesAreMasked: the model's summary of a conversation contains no secret.
func TestSummariesAreMasked(t *testing.T) {
	t.Parallel()
	h := newHushed(t, `
rules:
  - when: {last_contains: "user: begin", last_role: user}
    text: they keep `+leaked+` as a secret
  - when: {user_contains: end, last_role: user}
    text: over
steps:
  - calls: [{name: secret_store, args: {operation: set, name: n, value: `+leaked+`}}]
  - {text: "`+strings.Repeat("a word ", 300)+`", repeat: true}
`)
	h.start()
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{MaxContextTokens: 1200, Summarise: true})
	if err != nil {
		t.Fatal(err)
	}

	for _, text := range []string{"begin", "more", "and more", "still more", "the end"} {
		h.say(s, text)
	}

	events, err := h.eng.Events(h.ctx, s.ID, 0, 0)
	if text, _ := json.Marshal(events); err != nil || !strings.Contains(string(text), "they keep") {
		t.Errorf("nothing was summed up: %v", err)
	}
	h.nowhere(t, s.ID)
}

// TestArtifactsAreMasked: the names and contents of a tool's artifacts contain no secret.
func TestArtifactsAreMasked(t *testing.T) {
	t.Parallel()
	h := newHushed(t, `
steps:
  - calls: [{name: secret_store, args: {operation: set, name: n, value: `+leaked+`}}]
  - calls: [{name: spawn_background, args: {tool: leaver, args: {}}}]
  - {text: done, repeat: true}
`)
	spec := tool.Spec{Name: "leaver", Description: "Leaves a report.", Class: perdure.Idempotent}
	h.start(tool.NewBackground(spec, func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
		value, err := env.Secrets.Reveal(ctx, "n")
		env.Sink.Artifact(perdure.Artifact{Name: "report of " + value, URL: "https://h.test/?key=" + value, Path: "/" + value})
		return "left", err
	}))
	s, err := h.eng.Sessions().Create(h.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}

	h.say(s, "go")

	if tasks, err := h.eng.Tasks().List(h.ctx, s.ID); err != nil || len(tasks) != 1 || len(tasks[0].Artifacts) == 0 {
		t.Errorf("nothing was left: %+v, %v", tasks, err)
	}
	h.nowhere(t, s.ID)
}
