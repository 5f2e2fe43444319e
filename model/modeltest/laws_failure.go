package modeltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// errorLaws say that each code arrives as a typed error (4.6).
func errorLaws() []law {
	var laws []law
	for _, code := range model.Codes() {
		failure := &model.Error{Code: code, Text: "the provider says no"}
		if code == model.RateLimited {
			failure.RetryAfter = 7 * time.Second
		}
		laws = append(laws, law{situation: Situation{Name: "error " + string(code), Error: failure}, keep: keepError})
	}
	return laws
}

// keepError: the error has its code and what the provider asks for, and nothing comes beside it.
func keepError(t *testing.T, ctx context.Context, w world) {
	a, err := w.ask(t, ctx, request())

	var got *model.Error
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want a *model.Error", err)
	}
	if got.Code != w.in.Error.Code {
		t.Errorf("got code %q (%s), want %q", got.Code, got.Text, w.in.Error.Code)
	}
	if got.RetryAfter != w.in.Error.RetryAfter {
		t.Errorf("got retry after %s, want %s", got.RetryAfter, w.in.Error.RetryAfter)
	}
	if len(a.Message.Parts) > 0 || a.Message.Thinking != "" || a.Finish != "" || a.Discarded != 0 {
		t.Errorf("got %+v beside the error", a)
	}
}

// cutLaws are those of streams that break.
func cutLaws() []law {
	calls := []perdure.ToolCall{call("call_a", `{"word":"Neiße"}`), call("call_b", `{"word":"Oder und Neiße"}`)}
	return []law{
		// After 10 bytes one half of the ö has come.
		{situation: Situation{Name: "cut in the text", Text: "Grüß, Görlitz", CutText: 10}, keep: keepCutText},
		{situation: Situation{Name: "cut in the arguments", Text: greeting, Calls: calls[1:], CutArguments: 12}, keep: keepCutArguments},
		{situation: Situation{Name: "cut in the arguments of the second call", Calls: calls, CutArguments: 12}, keep: keepCutArguments},
	}
}

// keepCutText: what came is kept, and the answer is not taken for a whole one.
func keepCutText(t *testing.T, ctx context.Context, w world) {
	a, err := w.ask(t, ctx, request())

	w.cut(t, a, err)
	if got := a.Message.Text(); got == "" || !strings.HasPrefix(w.in.Text[:w.in.CutText], got) {
		t.Errorf("got text %q, want the beginning of %q", got, w.in.Text[:w.in.CutText])
	}
}

// keepCutArguments: the call that was cut is counted and not yielded; those before it were complete (TN7).
func keepCutArguments(t *testing.T, ctx context.Context, w world) {
	a, err := w.ask(t, ctx, request())

	w.cut(t, a, err)
	sameCalls(t, a.Message.Calls(), w.in.Calls[:len(w.in.Calls)-1])
	if a.Discarded != 1 {
		t.Errorf("got %d discarded calls, want 1", a.Discarded)
	}
	if got := a.Message.Text(); got != w.in.Text {
		t.Errorf("got text %q, want %q", got, w.in.Text)
	}
}

// cut checks that a stream that broke may be tried again.
func (w world) cut(t *testing.T, a model.Answer, err error) {
	t.Helper()
	var got *model.Error
	if !errors.As(err, &got) || got.Code != model.Unavailable {
		t.Errorf("got %v, want %s", err, model.Unavailable)
	}
	if a.Finish != "" || !a.Message.Interrupted {
		t.Errorf("got finish %q, interrupted %v; want an answer that is not whole", a.Finish, a.Message.Interrupted)
	}
}
