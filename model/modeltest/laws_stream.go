package modeltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var errGone = errors.New("the client is gone")

// streamLaws say how a stream ends before the provider ends it. The one that looks at the whole process stands first.
func streamLaws() []law {
	return []law{
		{situation: Situation{Name: "breaking the loop leaves nothing behind", Text: greeting, Stall: true}, alone: true, keep: keepRelease},
		{situation: Situation{Name: "a stall ends with the cause of its context", Text: greeting, Stall: true}, keep: keepStall},
		{situation: Situation{Name: "a stall from the start ends with a timeout", Stall: true}, keep: keepTimeout},
		{situation: Situation{Name: "a context that has ended", Text: greeting, Stall: true}, keep: keepEnded},
	}
}

// keepRelease: whoever breaks the loop holds nothing any more, and neither does the model.
func keepRelease(t *testing.T, ctx context.Context, w world) {
	w.text(t, ctx) // what the first stream opens for all of them is no leak
	before := goleak.IgnoreCurrent()

	for range 8 {
		w.text(t, ctx)
	}

	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// text reads up to the first text and breaks the loop.
func (w world) text(t *testing.T, ctx context.Context) {
	t.Helper()
	for d, err := range w.model.Stream(ctx, request()) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Text != "" {
			return
		}
	}
	t.Fatal("the stream ended, and it should have stalled")
}

// keepStall: a stream that hangs ends when its context does, with the cause.
func keepStall(t *testing.T, ctx context.Context, w world) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ended error
	text := ""

	for d, err := range w.model.Stream(ctx, request()) {
		ended = err
		text += d.Text
		if text == w.in.Text {
			cancel(errGone)
		}
	}

	if !errors.Is(ended, errGone) {
		t.Errorf("got text %q, then %v; want %v", text, ended, errGone)
	}
}

// keepTimeout: nothing at all came, and the wait ends all the same.
func keepTimeout(t *testing.T, ctx context.Context, w world) {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Millisecond, errGone)
	defer cancel()

	_, err := w.ask(t, ctx, request())

	if !errors.Is(err, errGone) {
		t.Errorf("got %v, want %v", err, errGone)
	}
}

// keepEnded: nothing is asked for a context that has ended.
func keepEnded(t *testing.T, ctx context.Context, w world) {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errGone)

	a, err := w.ask(t, ctx, request())

	if !errors.Is(err, errGone) || len(a.Message.Parts) > 0 {
		t.Errorf("got %+v and %v, want nothing and %v", a, err, errGone)
	}
}
