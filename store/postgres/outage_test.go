//go:build soak

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgserver"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// TestR09Outages stops and starts the server under load, PERDURE_OUTAGES times.
func TestR09Outages(t *testing.T) {
	t.Parallel()
	c := pgtest.Own(t, pgserver.Config{})
	url, err := c.Database(t.Context(), migrated)
	if err != nil {
		t.Fatal(err)
	}
	l := newLoad(t, url)
	for range soak.Count(t, "PERDURE_OUTAGES", 3, 100) {
		l.progress(t, 40)
		if err := errors.Join(c.Stop(), c.Start()); err != nil {
			t.Fatal(err)
		}
	}
	l.finish(t)
}

// TestR09KilledBackends kills connections at random under load, PERDURE_OUTAGES times.
func TestR09KilledBackends(t *testing.T) {
	t.Parallel()
	url := database(t)
	l := newLoad(t, url)
	killed := 0
	for range 5 * soak.Count(t, "PERDURE_OUTAGES", 3, 100) {
		l.progress(t, 10)
		n, err := pgtest.Shared(t).KillBackends(t.Context(), url, 2, "perdure")
		if err != nil {
			t.Fatal(err)
		}
		killed += n
	}
	if killed == 0 {
		t.Error("nothing was killed")
	}
	l.finish(t)
}

// load is a set of writers in two stores on one database. Each writes to a session of its own, and
// all to a shared one.
type load struct {
	stores  []*postgres.Store
	acked   [8][]perdure.EventID // by writer; read once they have ended
	count   atomic.Int64
	stop    context.CancelFunc
	writers sync.WaitGroup
	errs    [8]error
}

func newLoad(t *testing.T, url string) *load {
	t.Helper()
	l := &load{stores: []*postgres.Store{open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})}}
	begun(t, l.stores[0])
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for w := range l.acked {
		write(t, l.stores[0], func(tx store.Tx) error {
			return tx.Sessions().Create(store.Session{ID: ownSession(w), CreatedAt: noon})
		})
		l.writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if l.errs[w] = l.write(w, n); l.errs[w] != nil {
					return
				}
			}
		})
	}
	t.Cleanup(func() { stop(); l.writers.Wait() })
	return l
}

func ownSession(w int) perdure.SessionID { return perdure.SessionID(fmt.Sprint("session_of_", w)) }

// write runs one transaction: an event in the writer's own session, and a byte in the shared
// counter.
func (l *load) write(w, n int) error {
	e := titled(fmt.Sprintf("event_%d_%d", w, n))
	err := l.stores[w%2].InTx(context.Background(), func(tx store.Tx) error {
		return errors.Join(grow(tx), tx.Journal().Append(ownSession(w), []perdure.Event{e}))
	})
	if errors.Is(err, perdure.Unavailable) && contains(err, "in doubt") { // reads it back, as an engine does
		var stored bool
		stored, err = l.isStored(w, e.ID)
		if err == nil && !stored {
			return nil
		}
	}
	if err == nil {
		l.acked[w] = append(l.acked[w], e.ID)
		l.count.Add(1)
	}
	return err
}

// isStored reports whether an event is the last of a writer's session.
func (l *load) isStored(w int, id perdure.EventID) (is bool, err error) {
	err = l.stores[w%2].View(context.Background(), func(r store.Reader) error {
		events, err := r.Journal().Events(ownSession(w), int64(len(l.acked[w])), 0)
		is = len(events) == 1 && events[0].ID == id
		return err
	})
	return is, err
}

// progress waits until n more transactions were acknowledged.
func (l *load) progress(t *testing.T, n int64) {
	t.Helper()
	for want := l.count.Load() + n; l.count.Load() < want; {
		if err := l.stores[0].View(t.Context(), func(r store.Reader) error {
			_, err := r.Sessions().Get(theSession)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// finish ends the load. Every acknowledged event is stored once, in order, and nothing else is.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.progress(t, 20)
	l.stop()
	l.writers.Wait()
	if err := errors.Join(l.errs[:]...); err != nil {
		t.Fatalf("a transaction failed: %v", err)
	}
	total := 0
	for w, acked := range l.acked {
		var found []perdure.Event
		err := l.stores[0].View(t.Context(), func(r store.Reader) (err error) {
			found, err = r.Journal().Events(ownSession(w), 0, 0)
			return err
		})
		if err != nil || len(found) != len(acked) {
			t.Fatalf("writer %d: got %d events, %v, want %d", w, len(found), err, len(acked))
		}
		for i, e := range found {
			if e.ID != acked[i] || e.Seq != int64(i+1) {
				t.Errorf("writer %d: got %s at %d, want %s at %d", w, e.ID, e.Seq, acked[i], i+1)
			}
		}
		total += len(acked)
	}
	if got := grown(t, l.stores[1]); got != total {
		t.Errorf("the counter has %d, want %d", got, total)
	}
	t.Logf("%d transactions", total)
}
