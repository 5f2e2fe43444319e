package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/sse"
)

// errCut is the reason for a new connection after the server has ended the previous one.
var errCut = errors.New("the stream ended")

// maxEventBytes limits one event. The largest is a message with images, 28 MiB as it was sent.
const maxEventBytes = 64 << 20

// handlerError is the error of the frame handler, which ends the stream.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }

// stream reads a stream of events, and starts a new one when it is cut off. next returns the
// request for the current position. take receives the frames one after another; an error of take
// ends the stream, and cut asks for a new connection. The data of a frame is valid only while take
// runs.
func (e *Engine) stream(ctx context.Context, next func() request, take func(sse.Event) (cut bool, err error)) error {
	p := e.retryBudget(e.cfg.Outage)
	for {
		r := next()
		err := e.streamOnce(ctx, r, p, take)
		last, failure := (*handlerError)(nil), (*retryableError)(nil)
		switch {
		case errors.As(err, &last):
			return last.err
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", r.what, context.Cause(ctx))
		case !errors.As(err, &failure):
			return err
		}
		if err := p.wait(ctx, failure); err != nil {
			return e.finalError(ctx, r.what, err)
		}
	}
}

// streamOnce reads one stream to its end. Its error is never nil.
func (e *Engine) streamOnce(ctx context.Context, r request, p *retryBudget, take func(sse.Event) (cut bool, err error)) error {
	r.accept = "text/event-stream"
	s, err := r.encode()
	if err != nil {
		return err
	}
	a, err := e.open(ctx, s)
	if err != nil {
		return err
	}
	defer a.close()
	if a.status == http.StatusNoContent {
		return &retryableError{err: errCut}
	}
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return fmt.Errorf("%s: the server answered with content type %q instead of text/event-stream; "+
			"check for a proxy in between", r.what, kind)
	}
	opened := time.Now()
	events := sse.NewReader(a, maxEventBytes)
	for {
		got, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong): // not retried, because the same event would arrive again
			return fmt.Errorf("%s: the stream has a frame of more than %d bytes", r.what, maxEventBytes)
		case err != nil:
			p.noteResponse() // the server was reachable until now
			if time.Since(opened) > maxPause {
				p.resetPause()
			}
			return &retryableError{err: err}
		}
		switch cut, err := take(got); {
		case err != nil:
			return &handlerError{err}
		case cut:
			p.noteResponse()
			return &retryableError{err: errCut}
		}
		p.resetPause()
	}
}
