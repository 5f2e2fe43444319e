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

// errTopicEnded ends a stream: nothing more comes of one of its topics.
var errTopicEnded = errors.New("the engine has nothing more to say")

// follower is one client that follows topics. Only the goroutine that serves it uses it. It takes what comes next only when
// what it took before is written, so that a slow client holds little, which others hold with it; what it misses in between are
// live frames, never events.
type follower struct {
	a          *API
	s          *stream
	filter     typeFilter
	disclosure Disclosure
	wake       chan struct{} // capacity 1: one signal to look again stands for many
	topics     []topic
	which      string // signs the positions of several topics; empty: there is one session, and its seq is the position
}

// topic is something that a client follows.
type topic interface {
	name() string
	// begin joins what the topic comes from, and writes what a client needs who has no place in it.
	begin(ctx context.Context, f *follower) error
	// next writes what is new, at most a little, and reports whether there was something.
	next(ctx context.Context, f *follower) (some bool, err error)
	// place is how far the client has been written to, for a position; empty: not at all.
	place() string
	// leave ends what begin began; without that it does nothing.
	leave(f *follower)
}

func (a *API) follower(s *stream, filter typeFilter, d Disclosure) *follower {
	return &follower{a: a, s: s, filter: filter, disclosure: d, wake: make(chan struct{}, 1)}
}

// follow writes what there is and what comes, until the client goes, the server drains or a topic ends.
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
	ping := time.NewTicker(f.a.cfg.Ping)
	defer ping.Stop()
	for {
		if f.a.drains() {
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

// round writes a little of each topic and sends it.
func (f *follower) round(ctx context.Context) (some bool, err error) {
	for _, t := range f.topics {
		got, err := t.next(ctx, f)
		if err != nil {
			return some, errors.Join(err, f.s.out.Flush()) // what came before it
		}
		some = some || got
	}
	if some {
		err = f.s.flush()
	}
	return some, err
}

// frame writes a frame of a topic. counts: the client may go on from it.
func (f *follower) frame(t topic, kind string, data []byte, counts bool) error {
	id := ""
	if counts {
		id = f.position()
	}
	if f.which == "" {
		return f.s.frame(id, kind, data)
	}
	return f.s.frame(id, kind, f.opening(t), data, []byte("}"))
}

// opening is what stands before the data of a frame, which a brace ends.
func (f *follower) opening(t topic) []byte { return []byte(`{"topic":"` + t.name() + `","data":`) }

// position is where the client may go on.
func (f *follower) position() string {
	if f.which == "" {
		return f.topics[0].place()
	}
	places := make([]string, len(f.topics))
	for i, t := range f.topics {
		places[i] = t.place()
	}
	return f.a.cursors.write(f.which, places...)
}

// sessionTopic follows a session: its events and what is live.
type sessionTopic struct {
	session engine.Session
	at      int64 // seq of the last event that was written or left out by the filter
	given   bool  // at is where the client wants to go on; else it has no place yet
	lost    bool  // its place is none of this journal
	feed    *feed // nil: it has not begun
	in      place
}

func (t *sessionTopic) name() string { return string(t.session.ID) }

func (t *sessionTopic) place() string {
	if !t.given {
		return ""
	}
	return strconv.FormatInt(t.at, 10)
}

// begin joins the session's feed. A client without a place in it gets the session as it stands.
func (t *sessionTopic) begin(ctx context.Context, f *follower) error {
	if !t.given || t.lost {
		t.at, t.given = t.session.LastSeq, true
		if err := t.snapshot(ctx, f); err != nil {
			return err
		}
	}
	t.session = engine.Session{ID: t.session.ID, LastSeq: t.session.LastSeq} // the rest of it is not needed any more
	t.feed, t.in = f.a.follow(ctx, t.session.ID, t.session.LastSeq, t.at, f.wake)
	return nil
}

func (t *sessionTopic) leave(f *follower) {
	if t.feed != nil {
		f.a.feeds.leave(t.session.ID, t.feed, f.wake)
	}
}

// next writes what is in the feed, or of the journal what the feed has no more.
func (t *sessionTopic) next(ctx context.Context, f *follower) (bool, error) {
	some, behind, ended := t.feed.take(&t.in)
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

// catchUp writes events out of the journal.
func (t *sessionTopic) catchUp(ctx context.Context, f *follower) error {
	for size := 0; size < takeBytes && t.in.after < t.feed.reach(); {
		p, release, err := f.a.olds.hold(ctx, oldKey{t.session.ID, t.in.after + 1})
		if err != nil {
			return err
		}
		t.in.after = p.seq
		err = t.show(f, taken{piece: p})
		release()
		if err != nil {
			return err
		}
		size += p.size
	}
	return nil
}

// show writes one frame: an event with a position, or something live without one.
func (t *sessionTopic) show(f *follower, one taken) error {
	if one.dropped > 0 {
		if err := f.s.part(fmt.Sprintf(": %d live frames were dropped\n\n", one.dropped)); err != nil {
			return err
		}
	}
	t.at = max(t.at, one.seq)
	if !f.filter.takes(one.kind) {
		return nil
	}
	return f.frame(t, one.kind, one.body(f.disclosure), one.seq > 0)
}

// snapshot writes the session as it stands at its last seq, message by message (ST2). Whose place was none of this journal is
// told to let go of what it has.
func (t *sessionTopic) snapshot(ctx context.Context, f *follower) error {
	kind, opening, closing := "snapshot", "", "]}\n\n"
	if t.lost {
		kind = "reset"
	}
	if f.which != "" {
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
	err = f.a.eachEvent(ctx, t.session.ID, span{to: t.session.LastSeq}, func(e perdure.Event) error {
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
