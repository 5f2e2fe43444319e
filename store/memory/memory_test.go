package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store {
			st := memory.New(memory.Config{})
			t.Cleanup(func() {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			})
			return st
		},
		Traces: func(_ *testing.T, st store.Store, id perdure.SessionID) []string {
			return st.(*memory.Store).Traces(string(id))
		},
	})
}

func TestClock(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.FixedZone("east", 3600))
	st := memory.New(memory.Config{Now: func() time.Time { return at }})

	err := st.View(t.Context(), func(r store.Reader) error {
		if got, want := r.Now(), at.UTC().Truncate(time.Microsecond); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// In a synctest bubble the clock is the bubble's, and a waiting transaction is durably blocked.
func TestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		hold := func(store.Tx) error {
			<-time.After(time.Hour)
			return nil
		}
		go st.InTx(t.Context(), hold)
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		if err := st.InTx(ctx, hold); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("got error %v after %v, want %v after a minute", err, time.Since(start), context.DeadlineExceeded)
		}
		err := st.InTx(t.Context(), func(tx store.Tx) error {
			if since := tx.Now().Sub(start); since != time.Hour {
				t.Errorf("the next one ran after %v, want an hour", since)
			}
			return tx.Workers().Put(store.Worker{ID: "worker_1"})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A transaction that has begun before Close is committed; one that waits is not.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		leave := make(chan struct{})
		began, waits := make(chan error, 1), make(chan error, 1)
		go func() {
			began <- st.InTx(t.Context(), func(store.Tx) error {
				<-leave
				return nil
			})
		}()
		synctest.Wait()
		go func() { waits <- st.InTx(t.Context(), func(store.Tx) error { return nil }) }()
		synctest.Wait()

		if err := st.Close(); err != nil {
			t.Fatal(err)
		}

		if err := <-waits; !errors.Is(err, perdure.Unavailable) {
			t.Errorf("the one that waits: got error %v, want %v", err, perdure.Unavailable)
		}
		close(leave)
		if err := <-began; err != nil {
			t.Errorf("the one that began: %v", err)
		}
	})
}
