package provider_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/openai/openaitest"
	"github.com/perdure/perdure/model/provider"
	"github.com/perdure/perdure/model/scripted"
)

// source has providers in a map.
type source struct {
	mu      sync.Mutex
	all     map[string]provider.Provider // guarded by mu
	model   string                       // guarded by mu; the default
	failure error                        // guarded by mu; of every look-up
}

func (s *source) Provider(_ context.Context, name string) (provider.Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.all[name]
	if s.failure != nil {
		return p, s.failure
	}
	if !ok {
		return p, fmt.Errorf("provider %q: %w", name, perdure.NotFound)
	}
	return p, nil
}

func (s *source) DefaultModel(context.Context, perdure.SessionID) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model == "" {
		return "", perdure.NotFound
	}
	return s.model, nil
}

func (s *source) put(p provider.Provider) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[p.Name] = p
}

// word is a model that always gives the same answer.
func word(t *testing.T, text string) model.Model {
	t.Helper()
	m, err := scripted.Parse("word", []byte("steps:\n  - text: "+text+"\n    repeat: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func serve(t *testing.T, server *httptest.Server) string {
	t.Helper()
	t.Cleanup(server.Close)
	return server.URL
}

// says asks a model and returns its text, or its error.
func says(t *testing.T, m model.Model, name string) string {
	t.Helper()
	a, err := model.Collect(m.Stream(t.Context(), model.Request{Model: name, Messages: []perdure.Message{perdure.Text("hello")}, Attempt: 1}), nil)
	if err != nil {
		return err.Error()
	}
	return a.Message.Text()
}

// TestModels asks the models of two providers by name and by default, and sees a new key and a new
// server at the next request.
func TestModels(t *testing.T) {
	t.Parallel()
	first := serve(t, httptest.NewServer(openaitest.New(word(t, "one"), openaitest.Config{Key: "k-1"})))
	second := serve(t, httptest.NewServer(anthropictest.New(word(t, "two"), anthropictest.Config{Key: "k-2"})))
	moved := serve(t, httptest.NewServer(openaitest.New(word(t, "moved"), openaitest.Config{Key: "k-3"})))
	s := &source{all: map[string]provider.Provider{}}
	m := provider.New(provider.Config{Source: s})
	s.put(provider.Provider{Name: "gate", Kind: provider.OpenAI, BaseURL: first + "/v1", Key: "k-1", Version: "1"})
	s.put(provider.Provider{Name: "claude", Kind: provider.Anthropic, BaseURL: second, Key: "k-2", Version: "1"})

	for name, want := range map[string]string{
		"gate/meta/large:8b": "one", "gate:meta/large": "one", "claude/opus": "two", "claude:opus": "two",
		"none/x": "model_unavailable", "gate": "model_unavailable", "": "model_unavailable",
	} {
		if got := says(t, m, name); !strings.HasPrefix(got, want) {
			t.Errorf("%q says %q, want %q", name, got, want)
		}
	}
	s.mu.Lock()
	s.model = "claude/opus"
	s.mu.Unlock()
	if got := says(t, m, ""); got != "two" {
		t.Errorf("the default says %q", got)
	}
	s.put(provider.Provider{Name: "gate", Kind: provider.OpenAI, BaseURL: moved + "/v1", Key: "k-3", Version: "2"})
	if got := says(t, m, "gate/large"); got != "moved" {
		t.Errorf("after the change it says %q", got)
	}
	if m.MaxTools("", "never/asked") < 1 || m.ContinuesFrom("never/asked") {
		t.Error("a model that was not asked has no limit of tools, or continues an answer")
	}
}

// TestModelsFail: a failure of the source is retried unless only a change of the configuration can
// help.
func TestModelsFail(t *testing.T) {
	t.Parallel()
	s := &source{all: map[string]provider.Provider{}}
	m := provider.New(provider.Config{Source: s})
	for _, c := range []struct {
		err  error
		want model.Code
	}{
		{fmt.Errorf("%w: busy", perdure.Unavailable), model.Unavailable},
		{fmt.Errorf("%w: %w: no keyring", provider.KeyUnavailable, perdure.Unavailable), model.Misconfigured},
		{perdure.NotFound, model.ModelUnavailable},
	} {
		s.failure = c.err
		_, err := model.Collect(m.Stream(t.Context(), model.Request{Model: "gate/x"}), nil)
		failed := (*model.Error)(nil)
		if !errors.As(err, &failed) || failed.Code != c.want {
			t.Errorf("%v: got %v, want %s", c.err, err, c.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(perdure.CauseInterrupt)
	if _, err := model.Collect(m.Stream(ctx, model.Request{Model: "gate/x"}), nil); !errors.Is(err, perdure.CauseInterrupt) {
		t.Errorf("a request that has ended: %v", err)
	}
}

// TestCheck refuses what could never be asked, without repeating the key.
func TestCheck(t *testing.T) {
	t.Parallel()
	const key = "k-that-no-error-shows"
	for name, p := range map[string]provider.Provider{
		"no kind":      {Key: key},
		"a wrong kind": {Kind: "other", Key: key},
		"no URL":       {Kind: provider.OpenAI, BaseURL: "models.test", Key: key},
		"a password":   {Kind: provider.OpenAI, BaseURL: "https://ada:word@models.test/v1", Key: key},
		"in the clear": {Kind: provider.OpenAI, BaseURL: "http://models.test/v1", Key: key},
		"a line break": {Kind: provider.Anthropic, Key: key + "\n"},
		"not a scheme": {Kind: provider.Anthropic, BaseURL: "file:///etc/passwd", Key: key},
	} {
		err := p.Check()
		if !errors.Is(err, perdure.Invalid) || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]provider.Provider{
		"its own server": {Kind: provider.OpenAI, Key: key}, "loopback": {Kind: provider.OpenAI, BaseURL: "http://127.0.0.1:1/v1", Key: key},
		"no key": {Kind: provider.Anthropic, BaseURL: "http://models.test"},
	} {
		if err := p.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzSplit: a name that is split can be put together again, and has both parts.
func FuzzSplit(f *testing.F) {
	for _, name := range []string{"openai:gpt-5", "ollama/llama3:8b", "gate:meta/llama", "x", "/", ":x", "x:", "", "a/b@http://c"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, m, ok := provider.Split(name)
		if ok != (p != "" && m != "") || ok && p+name[len(p):len(p)+1]+m != name || strings.ContainsAny(p, "/:") {
			t.Errorf("%q: %q, %q, %t", name, p, m, ok)
		}
	})
}
