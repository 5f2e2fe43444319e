package anthropic_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/anthropic/anthropictest"
	"github.com/perdure/perdure/model/modeltest"
	"github.com/perdure/perdure/model/scripted"
)

const key = "local-0123456789abcdef"

// TestLaws is not parallel, because one of the laws counts goroutines.
func TestLaws(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, s modeltest.Situation) model.Model {
		t.Helper()
		if s.Error != nil && s.Error.Code == model.Stalled {
			return nil // the runtime finds it, by its own clock (TN8)
		}
		var server http.Handler = anthropictest.New(script(t, replyOf(s)), anthropictest.Config{Key: key})
		if s.SplitCharacters {
			server = shredder{server}
		}
		return ask(t, server)
	})
}

// script is a model that always answers the same.
func script(t testing.TB, r scripted.Reply) model.Model {
	t.Helper()
	m, err := scripted.New(scripted.Script{Steps: []scripted.Step{{Reply: r, Repeat: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask is the adapter in front of a server of its own.
func ask(t testing.TB, h http.Handler) *anthropic.Model {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return adapter(t, anthropic.Config{Name: "claude-test", Key: key, BaseURL: server.URL, HTTP: server.Client()})
}

func adapter(t testing.TB, cfg anthropic.Config) *anthropic.Model {
	t.Helper()
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// replyOf is the reply that does what the provider of a situation does.
func replyOf(s modeltest.Situation) scripted.Reply {
	if s.Error != nil {
		return scripted.Reply{Error: &scripted.Failure{Code: s.Error.Code, Text: s.Error.Text, RetryAfter: s.Error.RetryAfter}}
	}
	r := scripted.Reply{Text: s.Text, Thinking: s.Thinking, Signature: s.Signature, Finish: s.Finish, Usage: &s.Usage}
	before := len(s.Text)
	for i, c := range s.Calls {
		r.Calls = append(r.Calls, scripted.Call{ID: string(c.ID), Name: c.Name, RawArgs: string(c.Arguments)})
		if i < len(s.Calls)-1 {
			before += len(c.Arguments)
		}
	}
	switch {
	case s.CutText > 0:
		r.CutAfterBytes = &s.CutText
	case s.CutArguments > 0:
		r.CutAfterBytes = new(before + s.CutArguments)
	case s.Stall:
		// The call is what never comes.
		r.Calls = []scripted.Call{{Name: "never"}}
		r.Pace = time.Hour
		if s.Text == "" {
			r.Stall = time.Hour
		}
	}
	return r
}

// shredder sends an answer byte by byte.
type shredder struct{ whole http.Handler }

func (s shredder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.whole.ServeHTTP(shreds{w}, r)
}

type shreds struct{ http.ResponseWriter }

func (s shreds) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := s.ResponseWriter.Write(p[i : i+1]); err != nil {
			return i, err
		}
		if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func (s shreds) Unwrap() http.ResponseWriter { return s.ResponseWriter }
