package modeltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var errClientGone = errors.New("the client has disconnected")

// streamLaws are about streams that end before the provider ends them. The law that looks at the
// whole process comes first.
func streamLaws() []law {
	return []law{
		{situation: Situation{Name: "breaking the loop leaves nothing behind", Text: greeting, Stall: true}, exclusive: true, check: checkRelease},
		{situation: Situation{Name: "a stall ends with the cause of its context", Text: greeting, Stall: true}, check: checkStall},
		{situation: Situation{Name: "a stall from the start ends with a timeout", Stall: true}, check: checkTimeout},
		{situation: Situation{Name: "a context that has ended", Text: greeting, Stall: true}, check: checkEndedContext},
	}
}

// checkRelease: breaking out of the loop releases everything.
func checkRelease(t *testing.T, ctx context.Context, w lawContext) {
	w.text(t, ctx) // things that only the first stream opens are no leak
	before := goleak.IgnoreCurrent()

	for range 8 {
		w.text(t, ctx)
	}

	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// text reads up to the first text and breaks the loop.
func (w lawContext) text(t *testing.T, ctx context.Context) {
	t.Helper()
	for d, err := range w.model.Stream(ctx, request()) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Text != "" {
			return
		}
	}
	t.Fatal("the stream ended but should have stalled")
}

// checkStall: a stalled stream ends with its context and returns the cause.
func checkStall(t *testing.T, ctx context.Context, w lawContext) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ended error
	text := ""

	for d, err := range w.model.Stream(ctx, request()) {
		ended = err
		text += d.Text
		if text == w.in.Text {
			cancel(errClientGone)
		}
	}

	if !errors.Is(ended, errClientGone) {
		t.Errorf("got text %q, then %v; want %v", text, ended, errClientGone)
	}
}

// checkTimeout: a stream without any content ends with its context.
func checkTimeout(t *testing.T, ctx context.Context, w lawContext) {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Millisecond, errClientGone)
	defer cancel()

	_, err := w.ask(t, ctx, request())

	if !errors.Is(err, errClientGone) {
		t.Errorf("got %v, want %v", err, errClientGone)
	}
}

// checkEndedContext: there is no request if the context has already ended.
func checkEndedContext(t *testing.T, ctx context.Context, w lawContext) {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errClientGone)

	a, err := w.ask(t, ctx, request())

	if !errors.Is(err, errClientGone) || len(a.Message.Parts) > 0 {
		t.Errorf("got %+v and %v, want nothing and %v", a, err, errClientGone)
	}
}
