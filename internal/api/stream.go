package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// errSlow ends the stream of a client that does not keep up: it was told (ST5).
var errSlow = errors.New("the client does not keep up")

// stream writes Server-Sent Events. One goroutine writes; what it holds of a client is the frame that it writes.
type stream struct{ out *answer }

// openStream begins an answer that goes on.
func openStream(c huma.Context, form string) *stream {
	_, w := humago.Unwrap(c)
	s := &stream{out: answerOf(w)}
	c.SetHeader("Content-Type", form)
	c.SetHeader("X-Accel-Buffering", "no") // for proxies that would collect a stream
	c.SetStatus(http.StatusOK)
	return s
}

// answerOf finds our own writer; a middleware may have wrapped it.
func answerOf(w http.ResponseWriter) *answer {
	if a, ok := w.(*answer); ok {
		return a
	}
	return newAnswer(w, 15*time.Second)
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

// send writes one frame. id is empty for what is not resumed from; data has no line end.
func (s *stream) send(id, name string, data []byte) error {
	head := ""
	if id != "" {
		head = "id: " + id + "\n"
	}
	if err := s.part(head + "event: " + name + "\ndata: "); err != nil {
		return err
	}
	if _, err := s.out.Write(data); err != nil {
		return err
	}
	if err := s.part("\n\n"); err != nil {
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
	return &streamed{Body: func(c huma.Context) {
		if c.Method() == http.MethodHead {
			c.SetHeader("Content-Type", formEvents)
			return
		}
		defer a.cfg.Telemetry.Stream()()
		f := follower{a: a, s: openStream(c, formEvents), filter: filter, disclosure: requestOf(ctx).disclosure}
		err := f.s.say("retry: 1000")
		if err == nil && !given {
			after = session.LastSeq
			err = f.snapshot(ctx, session)
		}
		if err == nil {
			err = f.follow(ctx, in.ID, after)
		}
		a.streamEnded(ctx, err)
	}}, nil
}

// streamEnded notes why a stream ended, when a person may want to know. A client that was cut has ended ctx too.
func (a *API) streamEnded(ctx context.Context, err error) {
	if err != nil && (ctx.Err() == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		a.cfg.Log.InfoContext(ctx, "a stream was cut", "request_id", requestOf(ctx).id, "error", err)
	}
}

// follower is one client that follows a session.
type follower struct {
	a          *API
	s          *stream
	filter     typeFilter
	disclosure Disclosure
}

// snapshot writes the session as it stands at its last seq, message by message (ST2).
func (f *follower) snapshot(ctx context.Context, session engine.Session) error {
	head, err := json.Marshal(session)
	if err != nil {
		return err
	}
	seq := strconv.FormatInt(session.LastSeq, 10)
	if err := f.s.part("id: " + seq + "\nevent: snapshot\ndata: {\"session\":" + string(head) + ",\"seq\":" + seq + ",\"messages\":["); err != nil {
		return err
	}
	fold, first := conversation{}, true
	show := func(m message) error {
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if !first {
			text = append([]byte(","), text...)
		}
		first = false
		_, err = f.s.out.Write(text)
		return err
	}
	err = f.a.eachEvent(ctx, session.ID, span{to: session.LastSeq}, func(e perdure.Event) error {
		if m, ok := fold.apply(e); ok {
			return show(m)
		}
		return nil
	})
	if m, ok := fold.partial(); ok && err == nil {
		err = show(m)
	}
	if err == nil {
		err = f.s.part("]}\n\n")
	}
	if err != nil {
		return err
	}
	return f.s.flush()
}

// follow writes what comes after a seq until the client goes, the server drains or the engine has nothing more to
// say. The engine is asked for the next frame only when the last one is written, so that a slow client holds one
// frame and no more; what it misses in between are live frames, never events.
func (f *follower) follow(ctx context.Context, id perdure.SessionID, after int64) error {
	ctx, cancel := context.WithCancel(ctx)
	frames, ended := make(chan engine.Frame), make(chan error, 1) // capacity 1: the one end is told without a listener
	go func() {
		ended <- f.a.cfg.Engine.Follow(ctx, id, after, func(frame engine.Frame) error {
			select {
			case frames <- frame:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(ended)
	}()
	defer func() {
		cancel()
		for range ended { // until the goroutine is gone
		}
	}()
	ping := time.NewTicker(f.a.cfg.Ping)
	defer ping.Stop()
	for {
		var err error
		select {
		case frame := <-frames:
			err = f.show(frame)
		case <-ping.C:
			err = f.s.say(": ping")
		case <-f.a.draining:
			return f.s.send("", "end", []byte("{}"))
		case err := <-ended:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			_ = f.s.send("", "end", []byte("{}"))
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// show writes one frame: an event with its seq as id, or something live without one.
func (f *follower) show(frame engine.Frame) error {
	if frame.Dropped > 0 {
		if err := f.s.say(fmt.Sprintf(": %d live frames were dropped", frame.Dropped)); err != nil {
			return err
		}
	}
	if frame.Event == nil {
		if frame.Type == "" || !f.filter.takes(frame.Type) {
			return nil
		}
		data := frame.Data
		if len(data) == 0 {
			data = []byte("{}")
		}
		return f.s.send("", frame.Type, data)
	}
	e := *frame.Event
	if !f.filter.takes(string(e.Type())) {
		return nil
	}
	text, err := perdure.EncodeEvent(disclosed(e, f.disclosure))
	if err != nil {
		return err
	}
	return f.s.send(strconv.FormatInt(e.Seq, 10), string(e.Type()), text)
}
