package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// errTopicEnded ends a stream: one of its topics has ended.
var errTopicEnded = errors.New("the topic has ended")

// follower is one client that follows topics. Only the goroutine that serves it uses it. It fetches
// new frames only after the previous ones are written. So a slow client holds little memory, most
// of it shared with others. While it is slow it misses live frames, but never events.
type follower struct {
	a          *API
	s          *stream
	filter     typeFilter
	disclosure Disclosure
	wake       chan struct{} // capacity 1: one pending signal to look again stands for many
	topics     []topic
	signedBy   string // signs the positions of several topics; empty: one session, whose seq is the position
}

// topic is something that a client follows.
type topic interface {
	name() string
	// begin joins the source of the topic, and writes the initial state for a client without a
	// position.
	begin(ctx context.Context, f *follower) error
	// nextPiece writes what is new, a limited amount at a time, and reports whether there was
	// anything.
	next(ctx context.Context, f *follower) (some bool, err error)
	// parseSeq returns the position up to which the client has been sent frames; empty: none.
	position() string
	// remove undoes begin. Without begin it does nothing.
	leave(f *follower)
}

func (a *API) follower(s *stream, filter typeFilter, d Disclosure) *follower {
	return &follower{a: a, s: s, filter: filter, disclosure: d, wake: make(chan struct{}, 1)}
}

// follow writes existing and new frames until the client disconnects, the server drains or a topic
// ends.
func (f *follower) follow(ctx context.Context) error {
	defer func() {
		for _, t := range f.topics {
			t.leave(f)
		}
	}()
	if err := f.s.say("retry: 1000"); err != nil {
		return err
	}
	for _, t := range f.topics {
		if err := t.begin(ctx, f); err != nil {
			return err
		}
	}
	ping := time.NewTicker(f.a.cfg.Timing.Ping)
	defer ping.Stop()
	for {
		if f.a.isDraining() {
			return f.s.send("", "end", []byte("{}"))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		some, err := f.round(ctx)
		if errors.Is(err, errTopicEnded) && ctx.Err() == nil {
			_ = f.s.send("", "end", []byte("{}"))
		}
		if err != nil {
			return err
		}
		if some {
			continue
		}
		select {
		case <-f.wake:
		case <-ping.C:
			if err := f.s.say(": ping"); err != nil {
				return err
			}
		case <-f.a.draining:
		case <-ctx.Done():
		}
	}
}

// round writes a limited amount of each topic and flushes it.
func (f *follower) round(ctx context.Context) (some bool, err error) {
	for _, t := range f.topics {
		got, err := t.next(ctx, f)
		if err != nil {
			return some, errors.Join(err, f.s.out.Flush()) // send the frames before the error
		}
		some = some || got
	}
	if some {
		err = f.s.flush()
	}
	return some, err
}

// frame writes a frame of a topic. If counts is true, the client can resume after it.
func (f *follower) frame(t topic, kind string, data []byte, counts bool) error {
	id := ""
	if counts {
		id = f.position()
	}
	if f.signedBy == "" {
		return f.s.frame(id, kind, data)
	}
	return f.s.frame(id, kind, f.opening(t), data, []byte("}"))
}

// opening returns the text before the data of a frame. A closing brace ends the frame.
func (f *follower) opening(t topic) []byte { return []byte(`{"topic":"` + t.name() + `","data":`) }

// position returns the position after the last frame written, from which the client can resume.
func (f *follower) position() string {
	if f.signedBy == "" {
		return f.topics[0].position()
	}
	places := make([]string, len(f.topics))
	for i, t := range f.topics {
		places[i] = t.position()
	}
	return f.a.cursors.write(f.signedBy, places...)
}

// sessionTopic follows a session: its events and live frames.
type sessionTopic struct {
	session         engine.Session
	at              int64 // seq of the last event that was written or filtered out
	hasPosition     bool  // the client has a position, at; otherwise it starts with a snapshot
	positionUnknown bool  // the client's position does not exist in this journal
	feed            *feed // nil: begin has not been called
	feedPosition    feedPosition
}

func (t *sessionTopic) name() string { return string(t.session.ID) }

func (t *sessionTopic) position() string {
	if !t.hasPosition {
		return ""
	}
	return strconv.FormatInt(t.at, 10)
}

// begin joins the session's feed. A client without a valid position first gets a snapshot.
func (t *sessionTopic) begin(ctx context.Context, f *follower) error {
	if !t.hasPosition || t.positionUnknown {
		t.at, t.hasPosition = t.session.LastSeq, true
		if err := t.snapshot(ctx, f); err != nil {
			return err
		}
	}
	// Release the rest of the session.
	t.session = engine.Session{ID: t.session.ID, LastSeq: t.session.LastSeq}
	t.feed, t.feedPosition = f.a.openFeed(ctx, t.session.ID, t.session.LastSeq, t.at, f.wake)
	return nil
}

func (t *sessionTopic) leave(f *follower) {
	if t.feed != nil {
		f.a.feeds.leave(t.session.ID, t.feed, f.wake)
	}
}

// next writes new frames from the feed, or events from the journal if the feed no longer has them.
func (t *sessionTopic) next(ctx context.Context, f *follower) (bool, error) {
	some, behind, ended := t.feed.take(&t.feedPosition)
	if behind {
		return true, t.catchUp(ctx, f)
	}
	for _, one := range some {
		if err := t.show(f, one); err != nil {
			return true, err
		}
	}
	if ended {
		return len(some) > 0, errors.Join(errTopicEnded, t.feed.err)
	}
	return len(some) > 0, nil
}

// catchUp writes events from the journal.
func (t *sessionTopic) catchUp(ctx context.Context, f *follower) error {
	for size := 0; size < takeBytes && t.feedPosition.afterSeq < t.feed.coveredAfter(); {
		p, release, err := f.a.eventCache.get(ctx, eventKey{t.session.ID, t.feedPosition.afterSeq + 1})
		if err != nil {
			return err
		}
		t.feedPosition.afterSeq = p.seq
		err = t.show(f, takenFrame{piece: p})
		release()
		if err != nil {
			return err
		}
		size += p.size
	}
	return nil
}

// show writes one frame: an event with a position, or a live frame without one.
func (t *sessionTopic) show(f *follower, one takenFrame) error {
	if one.dropped > 0 {
		if err := f.s.part(fmt.Sprintf(": %d live frames were dropped\n\n", one.dropped)); err != nil {
			return err
		}
	}
	t.at = max(t.at, one.seq)
	if !f.filter.matches(one.kind) {
		return nil
	}
	return f.frame(t, one.kind, one.body(f.disclosure), one.seq > 0)
}

// snapshot writes the session as of its last seq, message by message (ST2). A client with an
// invalid position receives it as a reset, which tells it to discard its state.
func (t *sessionTopic) snapshot(ctx context.Context, f *follower) error {
	kind, opening, closing := "snapshot", "", "]}\n\n"
	if t.positionUnknown {
		kind = "reset"
	}
	if f.signedBy != "" {
		opening, closing = string(f.opening(t)), "]}}\n\n"
	}
	head, err := json.Marshal(t.session)
	if err != nil {
		return err
	}
	seq := strconv.FormatInt(t.session.LastSeq, 10)
	if err := f.s.part("id: " + f.position() + "\nevent: " + kind + "\ndata: " + opening + `{"session":` + string(head) + `,"seq":` + seq + `,"messages":[`); err != nil {
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
	err = f.a.eachEvent(ctx, t.session.ID, section{to: t.session.LastSeq}, func(e perdure.Event) error {
		if m, ok := fold.apply(e); ok {
			return show(m)
		}
		return nil
	})
	if m, ok := fold.partial(); ok && err == nil {
		err = show(m)
	}
	if err == nil {
		err = f.s.part(closing)
	}
	if err != nil {
		return err
	}
	return f.s.flush()
}
