package scripted_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/modeltest"
	"github.com/perdure/perdure/model/scripted"
)

// TestLaws is not parallel, because one of the laws counts goroutines.
func TestLaws(t *testing.T) {
	modeltest.Run(t, func(t *testing.T, s modeltest.Situation) model.Model {
		t.Helper()
		m, err := scripted.New(scripted.Script{Steps: []scripted.Step{{Reply: replyOf(s), Repeat: true}}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// replyOf is the reply that does what the provider of a situation does.
func replyOf(s modeltest.Situation) scripted.Reply {
	if s.Error != nil {
		return scripted.Reply{Error: &scripted.Failure{Code: s.Error.Code, Text: s.Error.Text, RetryAfter: s.Error.RetryAfter}}
	}
	r := scripted.Reply{Text: s.Text, Thinking: s.Thinking, Signature: s.Signature, Finish: s.Finish, Usage: &s.Usage}
	if s.SplitCharacters {
		r.Chunk = 1
	}
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
