// Package modeltest is the suite of laws that every model.Model must pass.
//
// The package imports the root package, model, and libraries for tests.
//
// The one thing to know: a law does not prescribe a request but the behaviour of the provider, as a
// [Situation]. The test of an adapter sets up a provider that behaves like that (a script, a local
// server, a recorded stream) and passes the model to [Run].
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/model"
)

// Situation is the behaviour of a provider for every request: it sends thinking, text and calls, in
// this order, and then ends in the given way. Zero fields are not sent.
type Situation struct {
	Name            string
	Thinking        string
	Signature       string
	Text            string
	SplitCharacters bool               // the text arrives in many pieces that can split characters
	Calls           []perdure.ToolCall // the arguments are sent unchanged, even if they are not valid JSON
	Usage           perdure.Usage      // may be reported in several parts
	Finish          model.Finish       // the regular end; empty: one of the ends below

	Error        *model.Error // the provider answers only with this error
	CutText      int          // the connection breaks after this many bytes of the text
	CutArguments int          // the connection breaks after this many bytes of the last call's arguments
	Stall        bool         // nothing follows the text; the provider waits until the client disconnects
}

// Make returns the model for a situation; it closes what it opens in t.Cleanup. It may return nil
// for an Error that the provider cannot report, and for Thinking if the provider has none.
type Make func(t *testing.T, s Situation) model.Model

// law is a promise of the port in one situation.
type law struct {
	situation Situation
	exclusive bool // it looks at the whole process, so no other law may run at the same time
	check     func(t *testing.T, ctx context.Context, w lawContext)
}

// lawContext is the input of a law.
type lawContext struct {
	model model.Model
	in    Situation
}

// Run checks the laws for the models of newModel. The calling test must not be parallel, because
// one law counts the goroutines of the process.
func Run(t *testing.T, newModel Make) {
	var laws []law
	laws = append(laws, streamLaws()...)
	laws = append(laws, answerLaws()...)
	laws = append(laws, errorLaws()...)
	laws = append(laws, cutLaws()...)
	for _, l := range laws {
		t.Run(l.situation.Name, func(t *testing.T) {
			if !l.exclusive {
				t.Parallel()
			}
			m := newModel(t, l.situation)
			if m == nil {
				if l.situation.Error == nil && l.situation.Thinking == "" {
					t.Fatal("the harness returned no model, but every provider must support this situation")
				}
				t.Skip("this provider does not support the situation")
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the law took a minute"))
			defer cancel()
			l.check(t, ctx, lawContext{model: m, in: l.situation})
		})
	}
}

// request is the request of the laws.
func request() model.Request {
	return model.Request{
		Session:  "session_00000000000000000000000000000001",
		System:   "Answer briefly.",
		Messages: []perdure.Message{perdure.Text("What do you know of Görlitz?")},
		Tools: []model.Tool{{
			Name: "lookup", Description: "Looks a word up.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}`),
		}},
		MaxTokens: 1000,
		Attempt:   1,
	}
}

// call is a call in the situations.
func call(id, args string) perdure.ToolCall {
	return perdure.ToolCall{ID: perdure.CallID(id), Name: "lookup", Arguments: json.RawMessage(args)}
}

// ask collects the answer to req and checks what must hold for every stream.
func (w lawContext) ask(t *testing.T, ctx context.Context, req model.Request) (model.Answer, error) {
	t.Helper()
	var deltas []model.Delta
	var ended error
	// Everything is read before it is collected, because Collect stops after a Finish.
	for d, err := range w.model.Stream(ctx, req) {
		if n := len(deltas); ended != nil || n > 0 && deltas[n-1].Finish != "" {
			t.Errorf("%+v and error %v came after the end", d, err)
		}
		if ended = err; err == nil {
			checkDelta(t, d)
			deltas = append(deltas, d)
		}
	}
	return model.Collect(func(yield func(model.Delta, error) bool) {
		for _, d := range deltas {
			if !yield(d, nil) {
				return
			}
		}
		if ended != nil {
			yield(model.Delta{}, ended)
		}
	}, nil)
}

// checkDelta checks what must hold for every delta.
func checkDelta(t *testing.T, d model.Delta) {
	t.Helper()
	if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking) {
		t.Errorf("the delta %q %q splits a character", d.Text, d.Thinking)
	}
	if d.Call != nil && (d.Call.Name == "" || !utf8.Valid(d.Call.Arguments)) {
		t.Errorf("the incomplete call %s(%q) was yielded", d.Call.Name, d.Call.Arguments)
	}
	if d.DiscardedCalls < 0 {
		t.Errorf("got %d broken calls", d.DiscardedCalls)
	}
}

// sameCalls compares calls by id, name and the value of their arguments.
func sameCalls(t *testing.T, got, want []perdure.ToolCall) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d calls, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Name != want[i].Name {
			t.Errorf("call %d is %s %s, want %s %s", i, got[i].ID, got[i].Name, want[i].ID, want[i].Name)
		}
		gotArgs, err := strictjson.Canonical(got[i].Arguments)
		if err != nil {
			t.Errorf("arguments of call %d: %v", i, err)
		}
		wantArgs, err := strictjson.Canonical(want[i].Arguments)
		if err != nil {
			t.Fatal(err)
		}
		if string(gotArgs) != string(wantArgs) {
			t.Errorf("arguments of call %d are %s, want %s", i, gotArgs, wantArgs)
		}
	}
}
