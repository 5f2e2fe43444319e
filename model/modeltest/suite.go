// Package modeltest holds the laws that every model.Model keeps.
//
// It imports the root, model, and libraries for tests. The one thing to know: a law does not say what is asked but
// what the provider does, as a [Situation]; an adapter's test makes a provider that does it (a script, a local server,
// a recorded stream) and hands the model over. An adapter's own test is that, and a call of [Run].
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// Situation is what a provider does when it is asked, whatever it is asked and however often: it sends thinking,
// text and calls, in this order, and then ends as the situation says. Zero fields are not sent.
type Situation struct {
	Name      string
	Thinking  string
	Signature string
	Text      string
	Shredded  bool               // the wire breaks the text where it likes, inside of characters too, many times
	Calls     []perdure.ToolCall // their arguments go over the wire as they stand, also where they are no JSON
	Usage     perdure.Usage      // reported in whatever portions the provider has
	Finish    model.Finish       // the regular end; empty: one of the ends below

	Error        *model.Error // the provider answers this and nothing else
	CutText      int          // the connection breaks after so many bytes of the text
	CutArguments int          // the connection breaks after so many bytes of the last call's arguments
	Stall        bool         // after the text nothing more comes; the provider waits until the client is gone
}

// Make makes the model of one situation; what it opens it closes in t.Cleanup. It may return nil for an Error
// that the provider has no way to say, and for Thinking where the provider has none.
type Make func(t *testing.T, s Situation) model.Model

// law is one promise of the port, in one situation.
type law struct {
	situation Situation
	alone     bool // runs while no other law does, since it looks at the whole process
	keep      func(t *testing.T, ctx context.Context, w world)
}

// world is what a law looks at.
type world struct {
	model model.Model
	in    Situation
}

// Run proves that the models of newModel keep the laws. The test that calls it is not parallel, because one law counts the
// goroutines of the process.
func Run(t *testing.T, newModel Make) {
	var laws []law
	laws = append(laws, streamLaws()...)
	laws = append(laws, answerLaws()...)
	laws = append(laws, errorLaws()...)
	laws = append(laws, cutLaws()...)
	for _, l := range laws {
		t.Run(l.situation.Name, func(t *testing.T) {
			if !l.alone {
				t.Parallel()
			}
			m := newModel(t, l.situation)
			if m == nil {
				if l.situation.Error == nil && l.situation.Thinking == "" {
					t.Fatal("the harness made no model, and this situation is not one that a provider may lack")
				}
				t.Skip("this provider has no such situation")
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the law took a minute"))
			defer cancel()
			l.keep(t, ctx, world{model: m, in: l.situation})
		})
	}
}

// request is what the laws ask.
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

// call is a call that the situations make.
func call(id, args string) perdure.ToolCall {
	return perdure.ToolCall{ID: perdure.CallID(id), Name: "lookup", Arguments: json.RawMessage(args)}
}

// ask collects the answer to req and checks what holds of every stream.
func (w world) ask(t *testing.T, ctx context.Context, req model.Request) (model.Answer, error) {
	t.Helper()
	var deltas []model.Delta
	var ended error
	// All is read before it is collected, since Collect looks at nothing after a Finish.
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

// checkDelta checks what holds of every delta.
func checkDelta(t *testing.T, d model.Delta) {
	t.Helper()
	if !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking) {
		t.Errorf("the delta %q %q ends inside of a character", d.Text, d.Thinking)
	}
	if d.Call != nil && (d.Call.Name == "" || !utf8.Valid(d.Call.Arguments)) {
		t.Errorf("the call %s(%q) was yielded, and it is not complete", d.Call.Name, d.Call.Arguments)
	}
	if d.Broken < 0 {
		t.Errorf("got %d broken calls", d.Broken)
	}
}

// sameCalls checks calls by id, name and meaning of their arguments.
func sameCalls(t *testing.T, got, want []perdure.ToolCall) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d calls, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Name != want[i].Name {
			t.Errorf("call %d is %s %s, want %s %s", i, got[i].ID, got[i].Name, want[i].ID, want[i].Name)
		}
		gotArgs, err := perdure.CanonicalJSON(got[i].Arguments)
		if err != nil {
			t.Errorf("arguments of call %d: %v", i, err)
		}
		wantArgs, err := perdure.CanonicalJSON(want[i].Arguments)
		if err != nil {
			t.Fatal(err)
		}
		if string(gotArgs) != string(wantArgs) {
			t.Errorf("arguments of call %d are %s, want %s", i, gotArgs, wantArgs)
		}
	}
}
