package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/perdure/perdure"
)

// hubFrames is how many ephemeral frames wait for one watcher; beyond, the oldest goes.
const hubFrames = 1_024

// Hub is the Watch and Publish of any store that learns of every commit: by itself, or from other processes. The journal stays in the
// store: a watcher is only told that it grew, and reads on from its own position. So no event is lost and no
// writer waits. It is safe for concurrent use and has no goroutines of its own.
type Hub struct {
	mu       sync.Mutex // guards the fields below, and those of the watchers
	watchers map[perdure.SessionID]map[*watcher]bool
	closed   bool
}

// watcher is one Watch that runs.
type watcher struct {
	wake    chan struct{} // capacity 1: one signal to look again stands for many
	commits int           // commits told so far
	frames  []queued      // the oldest first, at most hubFrames
	dropped int           // frames that went since the last one was taken
}

// queued is an ephemeral frame on its way to a watcher.
type queued struct {
	frame   Frame
	commits int // told before it was published: their events come before it
}

// NewHub returns a hub without watchers.
func NewHub() *Hub {
	return &Hub{watchers: map[perdure.SessionID]map[*watcher]bool{}}
}

// Notify tells the watchers of a session that a commit added to its journal. Call it once the commit can be
// read and before anybody is told of its success. It never blocks.
func (h *Hub) Notify(session perdure.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[session] {
		w.commits++
		w.signal()
	}
}

// Publish queues an ephemeral frame for each watcher of its session. A watcher whose queue is full loses its
// oldest frame, which the next one counts in Dropped. It never blocks.
func (h *Hub) Publish(frame Frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[frame.Session] {
		if len(w.frames) == hubFrames {
			w.frames = w.frames[1:]
			w.dropped++
		}
		w.frames = append(w.frames, queued{frame: frame, commits: w.commits})
		w.signal()
	}
}

// Watched lists the sessions that somebody watches, in no order, for a store that has to ask what others wrote to them.
func (h *Hub) Watched() []perdure.SessionID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.watchers))
}

// Close ends every Watch, those to come included. Closing again does nothing.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, watchers := range h.watchers {
		for w := range watchers {
			w.signal()
		}
	}
}

// Watch is Store.Watch. It runs in the caller's goroutine and takes the session's events from read, which is
// JournalReader.Events in a View of its own; it asks for one Page at a time, so that is what a watcher whose fn
// stalls holds. It ends with the first error of ctx, of read or of fn, and with Unavailable once the hub is closed.
func (h *Hub) Watch(
	ctx context.Context, session perdure.SessionID, after int64,
	read func(after int64, limit int) ([]perdure.Event, error), fn func(Frame) error,
) error {
	w := h.add(session)
	defer h.remove(session, w)
	position := tail{session: session, seq: after, read: read, fn: fn}
	for known := -1; ctx.Err() == nil; { // commits whose events were shown; the first look shows what is there
		frame, commits, closed := h.next(w)
		switch {
		case closed:
			return fmt.Errorf("watch session %s: %w: the store is closed", session, perdure.Unavailable)
		case commits > known:
			known = commits
			if err := position.catchUp(ctx); err != nil {
				return err
			}
		case frame == nil:
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
		}
		if frame == nil {
			continue
		}
		if err := fn(*frame); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Journal is what Watch reads of a session of a store, each time in a View of its own, so that whose it is and what happened in it
// are of one snapshot. It shows one session: NotFound says that it was removed, or that another one is under its id now. One
// that is not there yet has no events.
func Journal(view func(func(Reader) error) error, session perdure.SessionID) func(after int64, limit int) ([]perdure.Event, error) {
	var first *Session // as it was when it was there for the first time
	return func(after int64, limit int) (events []perdure.Event, err error) {
		var row Session
		err = view(func(r Reader) (err error) {
			if row, err = r.Session(session); err == nil {
				events, err = r.Events(session, after, limit)
			}
			return err
		})
		switch {
		case err != nil && first == nil && errors.Is(err, perdure.NotFound):
			return nil, nil
		case err != nil:
			return nil, err
		case first == nil:
			first = &row
		case row.Secret != first.Secret || row.Org != first.Org || !row.CreatedAt.Equal(first.CreatedAt):
			return nil, fmt.Errorf("session %s: %w: another one is under its id", session, perdure.NotFound)
		}
		return events, nil
	}
}

// next takes the oldest frame of a watcher, with the number of commits that came before it. When there is
// none, it is nil and the number is that of all commits.
func (h *Hub) next(w *watcher) (frame *Frame, commits int, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(w.frames) == 0 {
		return nil, w.commits, h.closed
	}
	first := w.frames[0]
	w.frames[0] = queued{} // let go of what it shows
	w.frames = w.frames[1:]
	first.frame.Dropped, w.dropped = w.dropped, 0
	return &first.frame, first.commits, h.closed
}

func (h *Hub) add(session perdure.SessionID) *watcher {
	w := &watcher{wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[session] == nil {
		h.watchers[session] = map[*watcher]bool{}
	}
	h.watchers[session][w] = true
	return w
}

func (h *Hub) remove(session perdure.SessionID, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[session], w)
	if len(h.watchers[session]) == 0 {
		delete(h.watchers, session)
	}
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// tail is a watcher's position in a journal.
type tail struct {
	session perdure.SessionID
	seq     int64 // of the event that was shown last
	read    func(after int64, limit int) ([]perdure.Event, error)
	fn      func(Frame) error
}

// catchUp shows the events from the position to the present end, which is where a page has none.
func (t *tail) catchUp(ctx context.Context) error {
	for {
		events, err := t.read(t.seq, Page)
		if err != nil {
			return fmt.Errorf("watch session %s after %d: %w", t.session, t.seq, err)
		}
		if len(events) == 0 {
			return nil
		}
		for i := range events {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := t.fn(Frame{Session: t.session, Event: &events[i]}); err != nil {
				return err
			}
			t.seq = events[i].Seq
		}
	}
}
