package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func watchLaws() []law {
	return []law{
		{"shows_what_is_there_and_what_comes", watchFromStart},
		{"begins_after_a_seq", watchFromMiddle},
		{"shows_a_session_and_no_other", watchOneSession},
		{"shows_a_session_that_comes_later", watchUnknown},
		{"shows_no_event_of_a_failed_transaction", watchFailure},
		{"misses_nothing_beside_writers", watchBesideWriters},
		{"delays_nobody_but_the_slow", slowWatcher},
		{"shows_frames_in_order", watchFrames},
		{"shows_a_frame_after_the_events_before_it", watchFrameAfterEvent},
		{"counts_the_frames_that_it_dropped", droppedFrames},
		{"ends_with_ctx", watchEndsWithContext},
		{"ends_with_the_error_of_fn", watchEndsWithError},
		{"ends_with_its_session", watchEndsWithSession},
		{"ends_when_another_takes_the_id", watchEndsWithReplacement},
		{"ends_with_close", watchEndsWithClose},
	}
}

// watchRun is a Watch in its own goroutine. It is as slow as the reader of its frames.
type watchRun struct {
	s      *subject
	frames chan store.Frame // no capacity: Watch blocks in fn until the frame is received
	done   chan error       // capacity 1: Watch can end without a receiver
	cancel context.CancelFunc
}

func (s *subject) watch(session perdure.SessionID, after int64) *watchRun {
	ctx, cancel := context.WithCancel(s.ctx)
	w := &watchRun{s: s, frames: make(chan store.Frame), done: make(chan error, 1), cancel: cancel}
	s.Cleanup(cancel)
	st := s.Store
	go func() {
		w.done <- st.Watch(ctx, session, after, func(f store.Frame) error {
			select {
			case w.frames <- f:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return w
}

// follow watches a session from its start, and returns after its only event, so that no frame is
// sent too early.
func (s *subject) follow(session perdure.SessionID) *watchRun {
	s.Helper()
	w := s.watch(session, 0)
	w.wantEvents(1, 1)
	return w
}

// next receives the next frame.
func (w *watchRun) next() store.Frame {
	w.s.Helper()
	select {
	case f := <-w.frames:
		return f
	case err := <-w.done:
		w.s.Fatalf("watch ended: %v", err)
	case <-w.s.ctx.Done():
		w.s.Fatal("no frame arrived")
	}
	return store.Frame{}
}

// wantEvents receives frames and requires that they are the events from first to last.
func (w *watchRun) wantEvents(first, last int64) {
	w.s.Helper()
	for seq := first; seq <= last; seq++ {
		f := w.next()
		if f.Event == nil || f.Event.Seq != seq || f.Event.Session != f.Session {
			w.s.Fatalf("got frame %+v with event %+v, want seq %d", f, f.Event, seq)
		}
	}
}

// end waits until the Watch has ended.
func (w *watchRun) end() error {
	w.s.Helper()
	select {
	case err := <-w.done:
		return err
	case f := <-w.frames:
		w.s.Fatalf("got frame %+v, want the end", f)
	case <-w.s.ctx.Done():
		w.s.Fatal("watch did not end")
	}
	return nil
}

func watchFromStart(s *subject) {
	id := s.session()
	s.append(id, 300)

	w := s.watch(id, 0)

	w.wantEvents(1, 300)
	s.append(id, 1)
	w.wantEvents(301, 301)
	s.append(id, 300)
	w.wantEvents(302, 601)
	want := s.journal(id)
	s.append(id, 1)
	f := w.next()
	s.same("session", f.Session, id)
	s.same("event", *f.Event, s.journal(id)[len(want)])
}

func watchFromMiddle(s *subject) {
	id := s.session()
	s.append(id, 10)

	middle, end, beyond := s.watch(id, 7), s.watch(id, 10), s.watch(id, 12)

	middle.wantEvents(8, 10)
	s.append(id, 4)
	middle.wantEvents(11, 14)
	end.wantEvents(11, 14)
	beyond.wantEvents(13, 14)
}

func watchOneSession(s *subject) {
	id, other := s.session(), s.session()
	s.append(id, 1)
	w := s.follow(id)

	s.append(other, 3)
	s.Publish(store.Frame{Session: other, Type: "task.live"})
	s.append(id, 1)

	f := w.next()
	s.same("session", f.Session, id)
	s.same("seq", f.Event.Seq, int64(2))
}

func watchUnknown(s *subject) {
	row := s.newSession()
	w := s.watch(row.ID, 0)

	s.write(func(tx store.Tx) error { return tx.Sessions().Create(row) })
	s.append(row.ID, 2)

	w.wantEvents(1, 2)
}

func watchFailure(s *subject) {
	id := s.session()
	s.append(id, 1)
	w := s.follow(id)

	s.refused(errOnPurpose, func(tx store.Tx) error {
		if err := tx.Journal().Append(id, s.events(3)); err != nil {
			return err
		}
		return errOnPurpose
	})
	want := s.events(1)
	s.write(func(tx store.Tx) error { return tx.Journal().Append(id, want) })

	s.same("event", w.next().Event.ID, want[0].ID)
}

// Several watchers, each from a position of its own, while others write.
func watchBesideWriters(s *subject) {
	const writers, rounds, batch = 4, 50, 10 // 2,000 events
	id := s.session()
	s.append(id, 100)
	var watchers []*watchRun
	for _, after := range []int64{0, 50, 1000} {
		watchers = append(watchers, s.watch(id, after))
	}
	written := make(chan error, writers)
	for range writers {
		go func() {
			for range rounds {
				events := s.events(batch)
				if err := s.InTx(s.ctx, func(tx store.Tx) error { return tx.Journal().Append(id, events) }); err != nil {
					written <- err
					return
				}
			}
			written <- nil
		}()
	}

	watchers[2].wantEvents(1001, 2100)
	watchers[1].wantEvents(51, 2100)
	watchers[0].wantEvents(1, 2100)

	for range writers {
		if err := <-written; err != nil {
			s.Error(err)
		}
	}
}

func slowWatcher(s *subject) {
	id := s.session()
	s.append(id, 1)
	slow := s.watch(id, 0) // blocks in fn with its first event
	fast := s.follow(id)

	for seq := int64(2); seq <= 50; seq++ {
		s.append(id, 1)
		s.Publish(store.Frame{Session: id, Type: "task.live", Data: seq})
		fast.wantEvents(seq, seq)
		s.same("frame", fast.next().Data, any(seq))
	}

	slow.wantEvents(1, 1)
}

func watchFrames(s *subject) {
	id := s.session()
	s.append(id, 1)
	one, other := s.follow(id), s.follow(id)

	for i := range 50 {
		s.Publish(store.Frame{Session: id, Type: "tool.progress", Data: fmt.Sprint(i), Dropped: 7})
	}

	for _, w := range []*watchRun{one, other} {
		for i := range 50 {
			s.same("frame", w.next(), store.Frame{Session: id, Type: "tool.progress", Data: fmt.Sprint(i)})
		}
	}
	s.same("events", len(s.journal(id)), 1)
}

func watchFrameAfterEvent(s *subject) {
	id := s.session()
	s.append(id, 1)
	w := s.follow(id)

	for seq := int64(2); seq < 50; seq++ {
		s.append(id, 1)
		s.Publish(store.Frame{Session: id, Type: "task.live", Data: seq})
	}

	shown := int64(1)
	for frames := 0; frames < 48; {
		f := w.next()
		if f.Event != nil {
			shown = f.Event.Seq
			continue
		}
		frames++
		if seq, _ := f.Data.(int64); seq > shown {
			s.Fatalf("the frame after event %d arrived when event %d was the last", seq, shown)
		}
	}
}

// A watcher that receives nothing misses the oldest frames, not the newest.
func droppedFrames(s *subject) {
	const frames = 10_000
	id := s.session()
	s.append(id, 1)
	w := s.follow(id)
	s.append(id, 1)

	for i := range frames {
		s.Publish(store.Frame{Session: id, Type: "output.message.delta", Data: i})
	}

	next, dropped := 0, 0
	for next < frames {
		f := w.next()
		if f.Event != nil {
			continue
		}
		next += f.Dropped
		dropped += f.Dropped
		if f.Data != next {
			s.Fatalf("got frame %v with %d dropped before it, want frame %d", f.Data, f.Dropped, next)
		}
		next++
	}
	if dropped == 0 {
		s.Error("nothing was dropped: the queue of frames for a watcher is not bounded")
	}
	s.append(id, 1)
	w.wantEvents(3, 3)
}

func watchEndsWithContext(s *subject) {
	id := s.session()
	s.append(id, 1)
	idle := s.follow(id)
	done, cancel := context.WithCancel(s.ctx)
	cancel()

	idle.cancel()

	if err := idle.end(); !errors.Is(err, context.Canceled) {
		s.Errorf("got error %v, want %v", err, context.Canceled)
	}
	err := s.Watch(done, id, 0, func(store.Frame) error {
		s.Error("fn was called")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		s.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func watchEndsWithError(s *subject) {
	id := s.session()
	s.append(id, 3)
	shown := 0

	err := s.Watch(s.ctx, id, 0, func(store.Frame) error {
		shown++
		if shown == 2 {
			return errOnPurpose
		}
		return nil
	})

	if !errors.Is(err, errOnPurpose) {
		s.Errorf("got error %v, want %v", err, errOnPurpose)
	}
	s.same("frames shown", shown, 2)
}

// wantGone requires that the Watch ends with its session and delivers nothing more.
func (w *watchRun) wantGone() {
	w.s.Helper()
	if err := w.end(); !errors.Is(err, perdure.NotFound) {
		w.s.Errorf("got %v, want NotFound", err)
	}
}

func watchEndsWithSession(s *subject) {
	id := s.session()
	s.append(id, 1)
	w := s.follow(id)

	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(id) })

	w.wantGone()
}

// A session is removed, and another org restores a session with the same id and events at once and
// continues it. A watcher of the first session sees nothing of the second.
func watchEndsWithReplacement(s *subject) {
	id := s.session()
	s.append(id, 1)
	w := s.follow(id)
	d := s.dump(id)
	d.Session.Org = "acme"

	s.write(func(tx store.Tx) error {
		if err := tx.Sessions().Remove(id); err != nil {
			return err
		}
		return tx.Sessions().Restore(d)
	})
	s.append(id, 1)

	w.wantGone()
}

func watchEndsWithClose(s *subject) {
	id, quiet := s.session(), s.session()
	s.append(id, 1)
	watchers := []*watchRun{s.follow(id), s.watch(quiet, 0), s.watch(mint[perdure.SessionID](s), 5)}

	if err := s.Close(); err != nil {
		s.Fatal(err)
	}

	for _, w := range watchers {
		if err := w.end(); !errors.Is(err, perdure.Unavailable) {
			s.Errorf("got error %v, want %v", err, perdure.Unavailable)
		}
	}
}
