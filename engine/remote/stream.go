package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// errCut is why a new connection is needed when the server itself ended the last one.
var errCut = errors.New("the stream ended")

// ended is what whoever takes the frames said; the stream ends with it.
type ended struct{ err error }

func (e *ended) Error() string { return e.err.Error() }

// stream reads a stream of events and begins a new one where the last was cut. next returns the request from
// where things stand; take gets the frames, one after another, and ends the stream with an error other than
// errCut. A frame's data is only valid while take runs.
func (e *Engine) stream(ctx context.Context, next func() request, take func(frame) (cut bool, err error)) error {
	p := e.patience(e.cfg.Outage)
	for {
		r := next()
		err := e.streamOnce(ctx, r, p, take)
		last, failure := (*ended)(nil), (*away)(nil)
		switch {
		case errors.As(err, &last):
			return last.err
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", r.what, context.Cause(ctx))
		case !errors.As(err, &failure):
			return err
		}
		if err := p.wait(ctx, failure); err != nil {
			return e.explain(ctx, r.what, err)
		}
	}
}

// streamOnce reads one stream to its end. The error is never nil.
func (e *Engine) streamOnce(ctx context.Context, r request, p *patience, take func(frame) (cut bool, err error)) error {
	r.accept = "text/event-stream"
	s, err := r.seal()
	if err != nil {
		return err
	}
	a, err := e.open(ctx, s)
	if err != nil {
		return err
	}
	defer a.close()
	if a.status == http.StatusNoContent {
		return &away{err: errCut}
	}
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return fmt.Errorf("%s: the server answered with %q, want text/event-stream: is there a proxy between?", r.what, kind)
	}
	opened := time.Now()
	frames := newFrames(a, maxFrameBytes)
	for {
		got, err := frames.next()
		switch {
		case errors.Is(err, errLongFrame):
			return fmt.Errorf("%s: %w", r.what, err)
		case err != nil:
			p.meet() // it was there until now
			if time.Since(opened) > lastPause {
				p.progress()
			}
			return &away{err: err}
		}
		switch cut, err := take(got); {
		case err != nil:
			return &ended{err}
		case cut:
			p.meet()
			return &away{err: errCut}
		}
		p.progress()
	}
}
