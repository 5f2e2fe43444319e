package api

import (
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/danielgtaylor/huma/v2"
)

// errSlow ends the stream of a client that does not keep up: it was told (ST5).
var errSlow = errors.New("the client does not keep up")

// stream writes Server-Sent Events. One goroutine writes; what it holds of a client is the frame that it writes.
type stream struct {
	out  *answer
	head []byte // what the next frame begins with, while it is made
}

// openStream begins an answer that goes on.
func openStream(c huma.Context, form string) {
	c.SetHeader("Content-Type", form)
	c.SetHeader("X-Accel-Buffering", "no") // for proxies that would collect a stream
	c.SetHeader("Connection", "close")     // see line
	c.SetStatus(http.StatusOK)
}

// part writes a piece of a frame.
func (s *stream) part(text string) error {
	_, err := s.out.Write([]byte(text))
	return err
}

// flush ends a frame: it is sent, and a client that is too slow is told and cut.
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

// frame writes a frame that is sent with the next flush. id is empty for what is not resumed from; data has no line end.
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
	return s.flush() // it is told at once
}

// send writes one frame and sends it.
func (s *stream) send(id, name string, data []byte) error {
	if err := s.frame(id, name, data); err != nil {
		return err
	}
	return s.flush()
}

// say writes a line that is no event.
func (s *stream) say(line string) error {
	if err := s.part(line + "\n\n"); err != nil {
		return err
	}
	return s.flush()
}

// eventStream answers with the events of a session, as they come.
func (a *API) eventStream(ctx context.Context, in *eventQuery, filter typeFilter) (*streamed, error) {
	field, text := "query.after", in.After
	if in.LastID != "" {
		field, text = "header.Last-Event-ID", in.LastID
	}
	after, given, err := position(field, text)
	if err != nil {
		return nil, err
	}
	session, err := a.cfg.Engine.Session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if after > session.LastSeq {
		return nil, invalid(field, "the session has %d events; nothing comes after %d", session.LastSeq, after)
	}
	one := &sessionTopic{session: session, at: after, given: given}
	return a.goesOn(ctx, formEvents, func(s *stream) error {
		f := a.follower(s, filter, requestOf(ctx).disclosure)
		f.topics = []topic{one}
		return f.follow(ctx)
	}), nil
}

// goesOn is an answer that is written for as long as its client stays. It is written when the operation has returned: what
// that needed, and how deep it was called, would else be held for each client all the while (R20). So write holds nothing of it.
func (a *API) goesOn(ctx context.Context, form string, write func(*stream) error) *streamed {
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

// streamEnded notes why a stream ended, when a person may want to know. A client that was cut has ended ctx too.
func (a *API) streamEnded(ctx context.Context, err error) {
	if err != nil && (ctx.Err() == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		a.cfg.Log.InfoContext(ctx, "a stream was cut", "request_id", requestOf(ctx).id, "error", err)
	}
}
