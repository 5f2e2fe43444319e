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

// hubFrames is how many frames may wait for one watcher; if there are more, the oldest is dropped.
const hubFrames = 1_024

// Hub implements Watch and Publish for any store that learns of every commit, its own and those of
// other processes. A watcher is only notified that the journal grew, and then reads the store from
// its own position. So no event is lost and no writer waits for a watcher. A frame may be dropped.
// Safe for concurrent use; it has no goroutines of its own.
type Hub struct {
	mu       sync.Mutex // guards the fields below, and those of the watchers
	watchers map[perdure.SessionID]map[*watcher]bool
	closed   bool
}

// watcher is one running Watch.
type watcher struct {
	wake    chan struct{} // capacity 1: one signal to read again covers many
	commits int           // number of notifications so far
	frames  []queued      // oldest first, at most hubFrames
	dropped int           // frames dropped since the last one was delivered
}

// queued is a frame that waits for a watcher.
type queued struct {
	frame   Frame
	commits int // notifications before it was published: their events come first
}

// NewHub returns a hub without watchers.
func NewHub() *Hub {
	return &Hub{watchers: map[perdure.SessionID]map[*watcher]bool{}}
}

// Notify tells the watchers of a session that a commit added to its journal. Call it once the
// commit is readable and before its success is reported to anybody. It never blocks.
func (h *Hub) Notify(session perdure.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[session] {
		w.commits++
		w.signal()
	}
}

// Publish queues a frame for every watcher of its session. A watcher whose queue is full loses its
// oldest frame, which the next frame counts in Dropped. It never blocks.
func (h *Hub) Publish(frame Frame) {
	frame.Dropped = 0
	h.Relay(frame)
}

// Relay is Publish for a frame of another process. Its Dropped counts the frames that were lost on
// the way, right before it.
func (h *Hub) Relay(frame Frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[frame.Session] {
		if len(w.frames) == hubFrames {
			w.dropped += w.frames[0].frame.Dropped + 1
			w.frames = w.frames[1:]
		}
		w.frames = append(w.frames, queued{frame: frame, commits: w.commits})
		w.signal()
	}
}

// Watched returns the watched sessions, in no order, for a store that has to ask what others wrote.
func (h *Hub) Watched() []perdure.SessionID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.watchers))
}

// Close ends every Watch, including later ones. Closing again does nothing.
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

// Watch implements Store.Watch. It runs in the caller's goroutine and gets the session's events
// from read, which is JournalReader.Events in a View of its own. It reads one Page at a time, which
// is the most that a watcher with a slow fn holds. It ends with the first error of ctx, read or fn,
// and with Unavailable once the hub is closed.
func (h *Hub) Watch(
	ctx context.Context, session perdure.SessionID, after int64,
	read func(after int64, limit int) ([]perdure.Event, error), fn func(Frame) error,
) error {
	w := h.add(session)
	defer h.remove(session, w)
	position := tail{session: session, seq: after, read: read, fn: fn}
	for known := -1; ctx.Err() == nil; {
		// notifications whose events were shown; -1, so that the first round shows the existing
		// events
		frame, commits, closed := h.next(w)
		switch {
		case closed:
			return fmt.Errorf("watch session %s: %w: the store is closed", session, perdure.Unavailable)
		case commits > known:
			known = commits
			if err := position.deliver(ctx); err != nil {
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

// ReadJournal returns the read function of a Watch. Every call reads the session's row and its
// events in one View, so that both are of one snapshot. It follows one session: NotFound says that
// the session was removed, or that another session has its id now. A session that does not exist
// yet has no events.
func ReadJournal(view func(func(Reader) error) error,
	session perdure.SessionID) func(after int64, limit int) ([]perdure.Event, error) {
	var first *Session // the row as first seen
	return func(after int64, limit int) (events []perdure.Event, err error) {
		var row Session
		err = view(func(r Reader) (err error) {
			if row, err = r.Sessions().Get(session); err == nil {
				events, err = r.Journal().Events(session, after, limit)
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
			return nil, fmt.Errorf("session %s: %w: another session has its id now", session, perdure.NotFound)
		}
		return events, nil
	}
}

// next takes the oldest frame of a watcher, with the number of notifications that came before it.
// If there is none, frame is nil and commits counts all notifications.
func (h *Hub) next(w *watcher) (frame *Frame, commits int, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(w.frames) == 0 {
		return nil, w.commits, h.closed
	}
	first := w.frames[0]
	w.frames[0] = queued{} // for the garbage collector
	w.frames = w.frames[1:]
	first.frame.Dropped += w.dropped
	w.dropped = 0
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
	default: // a signal is pending already
	}
}

// tail is a watcher's position in a journal.
type tail struct {
	session perdure.SessionID
	seq     int64 // of the last event shown
	read    func(after int64, limit int) ([]perdure.Event, error)
	fn      func(Frame) error
}

// deliver shows the events from the position to the current end, where a page is empty.
func (t *tail) deliver(ctx context.Context) error {
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
