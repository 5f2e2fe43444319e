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

// errorLaws check that each code arrives as a typed error.
func errorLaws() []law {
	var laws []law
	for _, code := range model.Codes() {
		failure := &model.Error{Code: code, Text: "the provider says no"}
		if code == model.RateLimited {
			failure.RetryAfter = 7 * time.Second
		}
		laws = append(laws, law{situation: Situation{Name: "error " + string(code), Error: failure}, check: checkError})
	}
	return laws
}

// checkError: the error has its code and the requested wait, and nothing comes with it.
func checkError(t *testing.T, ctx context.Context, w lawContext) {
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
		t.Errorf("got %+v together with the error", a)
	}
}

// cutLaws are about streams that break.
func cutLaws() []law {
	calls := []perdure.ToolCall{call("call_a", `{"word":"Neiße"}`), call("call_b", `{"word":"Oder und Neiße"}`)}
	return []law{
		// The first 10 bytes end in the middle of the ö.
		{situation: Situation{Name: "cut in the text", Text: "Grüß, Görlitz", CutText: 10}, check: checkCutText},
		{situation: Situation{Name: "cut in the arguments", Text: greeting, Calls: calls[1:], CutArguments: 12}, check: checkCutArguments},
		{situation: Situation{Name: "cut in the arguments of the second call", Calls: calls, CutArguments: 12}, check: checkCutArguments},
	}
}

// checkCutText: the text so far is returned, and the answer is incomplete.
func checkCutText(t *testing.T, ctx context.Context, w lawContext) {
	a, err := w.ask(t, ctx, request())

	w.cut(t, a, err)
	if got := a.Message.Text(); got == "" || !strings.HasPrefix(w.in.Text[:w.in.CutText], got) {
		t.Errorf("got text %q, want a prefix of %q", got, w.in.Text[:w.in.CutText])
	}
}

// checkCutArguments: the call that was cut off is counted and not yielded; earlier ones are
// complete.
func checkCutArguments(t *testing.T, ctx context.Context, w lawContext) {
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

// cut checks that a broken stream is retryable.
func (w lawContext) cut(t *testing.T, a model.Answer, err error) {
	t.Helper()
	var got *model.Error
	if !errors.As(err, &got) || got.Code != model.Unavailable {
		t.Errorf("got %v, want %s", err, model.Unavailable)
	}
	if a.Finish != "" || !a.Message.Interrupted {
		t.Errorf("got finish %q, interrupted %v; want an incomplete answer", a.Finish, a.Message.Interrupted)
	}
}
