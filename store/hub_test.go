package store_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const session perdure.SessionID = "session_1"

var errOnPurpose = errors.New("on purpose")

// journal is a journal of n events.
type journal int64

func (j *journal) read(after int64, limit int) (events []perdure.Event, err error) {
	if limit == store.Page {
		limit = store.PageEvents
	}
	for seq := after + 1; seq <= int64(*j) && len(events) < limit; seq++ {
		events = append(events, perdure.Event{Session: session, Seq: seq})
	}
	return events, nil
}

func TestHubKeepsTheNewest1024Frames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub, j := store.NewHub(), journal(1)
		frames, leave := make(chan store.Frame, 2_000), make(chan struct{})
		go hub.Watch(t.Context(), session, 0, j.read, func(f store.Frame) error {
			frames <- f
			<-leave
			return nil
		})
		synctest.Wait() // the watcher is blocked in fn

		for i := range 1_500 {
			hub.Publish(store.Frame{Session: session, Data: i})
		}
		close(leave)
		synctest.Wait()

		close(frames)
		<-frames // the event
		want, dropped := 1_500-1_024, 1_500-1_024
		for f := range frames {
			if f.Data != want || f.Dropped != dropped {
				t.Fatalf("got frame %v with %d dropped, want frame %d with %d", f.Data, f.Dropped, want, dropped)
			}
			want, dropped = want+1, 0
		}
		if want != 1_500 {
			t.Errorf("the frames end before %d, want 1500", want)
		}
	})
}

// TestHubCountsWhatWasLostOnTheWay relays frames of another process, each after one that was lost.
// A watcher that misses some of them learns of both losses.
func TestHubCountsWhatWasLostOnTheWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub, j := store.NewHub(), journal(1)
		frames, leave := make(chan store.Frame, 2_000), make(chan struct{})
		go hub.Watch(t.Context(), session, 0, j.read, func(f store.Frame) error {
			frames <- f
			<-leave
			return nil
		})
		synctest.Wait() // the watcher is blocked in fn

		for i := range 1_500 {
			hub.Relay(store.Frame{Session: session, Data: i, Dropped: 1})
		}
		close(leave)
		synctest.Wait()

		close(frames)
		<-frames // the event
		shown, dropped := 0, 0
		for f := range frames {
			shown, dropped = shown+1, dropped+f.Dropped
		}
		if shown != 1_024 || shown+dropped != 3_000 {
			t.Errorf("%d frames were shown and %d dropped, want 1024 and 1976", shown, dropped)
		}
	})
}

func TestHubReadsEveryPage(t *testing.T) {
	t.Parallel()
	for _, n := range []journal{0, 1, 31, 32, 33, 64, 1_000} {
		synctest.Test(t, func(t *testing.T) {
			seen := journal(0)
			go store.NewHub().Watch(t.Context(), session, 0, n.read, func(f store.Frame) error {
				if seen++; f.Event.Seq != int64(seen) {
					t.Errorf("got seq %d, want %d", f.Event.Seq, seen)
				}
				return nil
			})

			synctest.Wait()

			if seen != n {
				t.Errorf("got %d events, want %d", seen, n)
			}
		})
	}
}

// TestHubHoldsOnePage: a watcher that is blocked behind large events holds one or two of them, and
// continues when it is released.
func TestHubHoldsOnePage(t *testing.T) {
	t.Parallel()
	for size, held := range map[int]int{store.PageBytes: 1, store.PageBytes - 1: 2} {
		synctest.Test(t, func(t *testing.T) {
			const n = 64
			j, shown, step := &largeJournal{n: n, size: size}, 0, make(chan struct{})
			go store.NewHub().Watch(t.Context(), session, 0, j.read, func(f store.Frame) error {
				if shown++; f.Event.Seq != int64(shown) {
					t.Errorf("got seq %d, want %d", f.Event.Seq, shown)
				}
				<-step
				return nil
			})

			for i := 1; i <= n; i++ {
				synctest.Wait() // the watcher is blocked in fn
				if shown != i || j.given < i || j.given >= i+held {
					t.Fatalf("it was shown %d events and given %d, want it to stand at %d and to hold at most %d",
						shown, j.given, i, held)
				}
				step <- struct{}{}
			}

			synctest.Wait()
			if j.given != n || j.largest != held {
				t.Errorf("it was given %d events, at most %d at once; want %d and %d", j.given, j.largest, n, held)
			}
		})
	}
}

// largeJournal is a journal of n events of one size, which records what it returned.
type largeJournal struct {
	n, size        int
	given, largest int // events in total, and at most at once
}

func (j *largeJournal) read(after int64, limit int) (events []perdure.Event, err error) {
	largest := limit
	if limit == store.Page {
		largest = min(store.PageEvents, (store.PageBytes+j.size-1)/j.size)
	}
	for seq := after + 1; seq <= int64(j.n) && (largest <= 0 || len(events) < largest); seq++ {
		events = append(events, perdure.Event{Session: session, Seq: seq})
	}
	j.given += len(events)
	j.largest = max(j.largest, len(events))
	return events, nil
}

func TestHubEndsWithTheErrorOfRead(t *testing.T) {
	t.Parallel()
	read := func(int64, int) ([]perdure.Event, error) { return nil, fmt.Errorf("read: %w", errOnPurpose) }

	err := store.NewHub().Watch(t.Context(), session, 0, read, func(store.Frame) error { return nil })

	if !errors.Is(err, errOnPurpose) {
		t.Errorf("got error %v, want %v", err, errOnPurpose)
	}
}

func TestHubReadsOnlyWhenTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub, j, reads := store.NewHub(), journal(0), 0
		done := make(chan error, 1)
		read := func(after int64, limit int) ([]perdure.Event, error) {
			reads++
			return j.read(after, limit)
		}
		go func() { done <- hub.Watch(t.Context(), session, 0, read, func(store.Frame) error { return nil }) }()
		synctest.Wait()

		hub.Notify("session_2")
		hub.Publish(store.Frame{Session: session})
		synctest.Wait()
		if reads != 1 {
			t.Errorf("read %d times before the first commit, want once", reads)
		}
		hub.Notify(session)
		synctest.Wait()
		if reads != 2 {
			t.Errorf("read %d times after it, want twice", reads)
		}

		hub.Close()
		hub.Close()
		if err := <-done; !errors.Is(err, perdure.Unavailable) {
			t.Errorf("got error %v, want %v", err, perdure.Unavailable)
		}
	})
}
