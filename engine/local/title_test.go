package local_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// titler is a utility model that counts its requests, and answers or fails.
type titler struct {
	answer string // empty: it fails

	mu      sync.Mutex
	prompts []string // guarded by mu
}

func (m *titler) Stream(_ context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	m.mu.Lock()
	m.prompts = append(m.prompts, req.System+"\n"+req.Messages[0].Text())
	m.mu.Unlock()
	return func(yield func(model.Delta, error) bool) {
		if m.answer == "" {
			yield(model.Delta{}, &model.Error{Code: model.Processing, Text: "it fails"})
			return
		}
		if yield(model.Delta{Text: m.answer, Usage: &perdure.Usage{InputTokens: 3, OutputTokens: 2}}, nil) {
			yield(model.Delta{Finish: model.FinishStop}, nil)
		}
	}
}

func (m *titler) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prompts
}

// titled is an engine with a utility model that names sessions.
func titled(t *testing.T, m *titler, on bool) *local.Engine {
	t.Helper()
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{
		Store: memory.New(memory.Config{}), Model: parsed(t, "steps:\n  - text: an answer\n    repeat: true\n"), Tools: tool.NewRegistry(),
		Timing: local.Timing{Drain: -1}, Utility: local.Utility{Model: m, Titles: on}, Storage: local.Storage{Secrets: local.Secrets{Keys: keys}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1) // Run's one result
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return eng
}

// chat sends a message and waits for the end of the turn.
func chat(t *testing.T, eng *local.Engine, id perdure.SessionID, text string) {
	t.Helper()
	_, err := eng.Send(t.Context(), id, perdure.Text(text))
	if err := errors.Join(err, eng.Sessions().WaitIdle(t.Context(), id)); err != nil {
		t.Fatal(err)
	}
}

// billed is a session whose title a model writes.
type billed struct {
	eng   *local.Engine
	id    perdure.SessionID
	named bool // the model succeeds
}

// title waits until the session has recorded n model calls for its title and, if the model
// succeeds, the title. It returns the title.
func (b billed) title(t *testing.T, n int) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	done, bills := errors.New("found"), 0
	err := b.eng.Follow(ctx, b.id, 0, func(f engine.Frame) error {
		if f.Event == nil {
			return nil
		}
		if g, ok := f.Event.Fact.(perdure.Generation); ok && g.Tool == "session_title" {
			bills++
		}
		_, named := f.Event.Fact.(perdure.SessionUpdated)
		if bills == n && (named || !b.named) {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatalf("%d of %d: %v", bills, n, err)
	}
	s, err := b.eng.Sessions().Get(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	return s.Title
}

// TestTitles: a session without a title gets one after its first turn, once, with its secrets
// masked; a session with a title keeps it, and without the option there is none.
func TestTitles(t *testing.T) {
	t.Parallel()
	m := &titler{answer: "About correct-horse-battery"}
	eng := titled(t, m, true)
	own, err := eng.Sessions().Create(t.Context(), perdure.Agent{Title: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		err = eng.Secrets().Set(t.Context(), s.ID, engine.SecretWrite{Name: "word", Value: "correct-horse-battery"})
	}
	if err != nil {
		t.Fatal(err)
	}

	chat(t, eng, own.ID, "hello")
	chat(t, eng, s.ID, "my word is correct-horse-battery")

	if got := (billed{eng, s.ID, true}).title(t, 1); !strings.HasPrefix(got, "About ") || strings.Contains(got, "horse") {
		t.Errorf("title %q", got)
	}
	chat(t, eng, s.ID, "and again")
	if got, err := eng.Sessions().Get(t.Context(), own.ID); err != nil || got.Title != "mine" {
		t.Errorf("its own title: %q, %v", got.Title, err)
	}
	if all := m.asked(); len(all) != 1 || strings.Contains(all[0], "horse") || !strings.Contains(all[0], "an answer") {
		t.Errorf("asked %q", all)
	}
	silent := &titler{answer: "never"}
	eng = titled(t, silent, false)
	if s, err = eng.Sessions().Create(t.Context(), perdure.Agent{}); err != nil {
		t.Fatal(err)
	}
	chat(t, eng, s.ID, "hello")
	if len(silent.asked()) > 0 {
		t.Error("a title was written without the option")
	}
}

// TestTitleFails: a utility model that fails delays and fails no turn, and is asked once for each.
func TestTitleFails(t *testing.T) {
	t.Parallel()
	m := &titler{}
	eng := titled(t, m, true)
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}

	for n := 1; n <= 2; n++ {
		chat(t, eng, s.ID, "hello")
		if got := (billed{eng, s.ID, false}).title(t, n); got != "" {
			t.Errorf("title %q", got)
		}
	}
	if n := len(m.asked()); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// TestFirstOfItsKind: tools get the key of the first stored provider of a kind.
func TestFirstOfItsKind(t *testing.T) {
	t.Parallel()
	const key = "k-of-the-first-provider"
	keys, err := secret.Create(filepath.Join(t.TempDir(), "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan tool.Credential, 1) // one call
	reads := tool.New(tool.Spec{Name: "reads", Description: "Reads a key.", Class: perdure.Pure},
		func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
			found, err := env.Credentials.Credential(ctx, "openai")
			got <- found
			return "done", err
		})
	h := furnish(t, "steps:\n  - calls: [{name: reads}]\n  - text: done\n", func(cfg *local.Config) {
		cfg.Storage.Secrets.Keys = keys
		cfg.Tools = tool.NewRegistry(reads)
	})
	for _, w := range []engine.ProviderWrite{
		{Name: "first", Kind: "openai", BaseURL: "https://first.test/v1", Key: new(string)}, {Name: "second", Kind: "openai", BaseURL: "https://second.test/v1", Key: new(string)},
	} {
		*w.Key = key
		if w.Name != "first" {
			*w.Key = "another"
		}
		if _, err := h.Providers().Put(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	s, err := h.Sessions().Create(t.Context(), perdure.Agent{Tools: []string{"reads"}})
	if err != nil {
		t.Fatal(err)
	}

	h.say(t, s.ID)

	if found := <-got; found.Key != key || found.BaseURL != "https://first.test/v1" {
		t.Errorf("got the key of %s", found.BaseURL)
	}
}
