package api

import (
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/danielgtaylor/huma/v2"
)

// errSlow ends the stream of a client that does not keep up, after an event that says so (ST5).
var errSlow = errors.New("the client is too slow")

// stream writes Server-Sent Events. Only one goroutine writes. Per client it holds no more than the
// frame being written.
type stream struct {
	out  *responseWriter
	head []byte // reused buffer for the start of a frame
}

// openStream writes the header of a long-running response.
func openStream(c huma.Context, form string) {
	c.SetHeader("Content-Type", form)
	c.SetHeader("X-Accel-Buffering", "no") // disables buffering in proxies such as nginx
	c.SetHeader("Connection", "close")     // see hijackedConn
	c.SetStatus(http.StatusOK)
}

// part writes a part of a frame.
func (s *stream) part(text string) error {
	_, err := s.out.Write([]byte(text))
	return err
}

// flush sends the frame. A client that is too slow gets a last event, and an error ends the stream.
func (s *stream) flush() error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	if !s.out.slow.IsZero() {
		_ = s.part("event: slow\ndata: {}\n\n")
		_ = s.out.Flush()
		return errSlow
	}
	return nil
}

// frame writes a frame without flushing it. id is empty if the client cannot resume from the frame;
// data contains no line end.
func (s *stream) frame(id, name string, data ...[]byte) error {
	s.head = s.head[:0]
	if id != "" {
		s.head = append(append(append(s.head, "id: "...), id...), '\n')
	}
	s.head = append(append(append(s.head, "event: "...), name...), "\ndata: "...)
	if _, err := s.out.Write(s.head); err != nil {
		return err
	}
	for _, piece := range data {
		if _, err := s.out.Write(piece); err != nil {
			return err
		}
	}
	if err := s.part("\n\n"); err != nil || s.out.slow.IsZero() {
		return err
	}
	return s.flush() // a slow client is cut at once
}

// send writes a frame and flushes it.
func (s *stream) send(id, name string, data []byte) error {
	if err := s.frame(id, name, data); err != nil {
		return err
	}
	return s.flush()
}

// say writes a line that is not an event.
func (s *stream) say(line string) error {
	if err := s.part(line + "\n\n"); err != nil {
		return err
	}
	return s.flush()
}

// eventStream answers with the events of a session as they are recorded.
func (a *API) eventStream(ctx context.Context, in *eventQuery, filter typeFilter) (*streamed, error) {
	field, text := "query.after", in.After
	if in.LastID != "" {
		field, text = "header.Last-Event-ID", in.LastID
	}
	after, given, err := parseSeq(field, text)
	if err != nil {
		return nil, err
	}
	session, err := a.cfg.Engine.Sessions().Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if after > session.LastSeq {
		return nil, invalid(field, "the session has only %d events; %d is beyond its end", session.LastSeq, after)
	}
	one := &sessionTopic{session: session, at: after, hasPosition: given}
	return a.longRunning(ctx, formEvents, func(s *stream) error {
		f := a.follower(s, filter, requestOf(ctx).disclosure)
		f.topics = []topic{one}
		return f.follow(ctx)
	}), nil
}

// longRunning returns a long-running response. It is written after the operation has returned, so
// that the operation's memory and stack are not held for each client for the whole time (R20). For
// the same reason, write must not reference data of the operation.
func (a *API) longRunning(ctx context.Context, form string, write func(*stream) error) *streamed {
	return &streamed{Body: func(c huma.Context) {
		if c.Method() == http.MethodHead {
			c.SetHeader("Content-Type", form)
			return
		}
		openStream(c, form)
		requestOf(ctx).rest = func(s *stream) {
			defer a.cfg.Telemetry.Stream()()
			a.streamEnded(ctx, write(s))
		}
	}}
}

// streamEnded logs why a stream ended, if that is not an ordinary disconnect. A client cut by a
// write deadline has ended ctx too.
func (a *API) streamEnded(ctx context.Context, err error) {
	if err != nil && (ctx.Err() == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		a.cfg.Log.InfoContext(ctx, "stream cut", "request_id", requestOf(ctx).id, "error", err)
	}
}
