package effecttest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

// slow is a store whose views, once it is slow, end only with their context.
type slow struct {
	store.Store
	now   atomic.Bool
	asked chan struct{} // capacity 1
}

// View reads, or waits for the end of ctx.
func (s *slow) View(ctx context.Context, fn func(store.Reader) error) error {
	if !s.now.Load() {
		return s.Store.View(ctx, fn)
	}
	s.asked <- struct{}{}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Hour):
		return errors.New("nothing ended the view")
	}
}

// WaitEnds ends a wait for a task that is reading the store after an event. The read must end with
// the wait, and the wait must return what it saw before. start makes the wait over a bed.
func WaitEnds(t *testing.T, start func(b *Bed, task perdure.Task) func(context.Context) ([]perdure.Task, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := New(t, nil)
		task := Running(t, b.Core.Store, b.Session, "x")
		wait := start(b, task)
		st := &slow{Store: b.Core.Store, asked: make(chan struct{}, 1)}
		b.Core.Store = st
		ctx, cancel := context.WithCancelCause(t.Context())
		ended, begun := make(chan error, 1), time.Now()
		go func() {
			seen, err := wait(ctx)
			if len(seen) != 1 || seen[0].ID != task.ID {
				t.Errorf("it saw %v", seen)
			}
			ended <- err
		}()
		synctest.Wait()
		st.now.Store(true)
		err := st.InTx(t.Context(), func(tx store.Tx) error {
			events := []perdure.Event{taskrecord.Event(task, perdure.TaskUpdated{Task: task})}
			core.Stamp(events, tx.Now())
			return tx.Journal().Append(b.Session, events)
		})
		if err != nil {
			t.Fatal(err)
		}
		<-st.asked
		cancel(perdure.CauseInterrupt)
		if err := <-ended; !errors.Is(err, perdure.CauseInterrupt) || time.Since(begun) > time.Minute {
			t.Errorf("it ended with %v, %s after its start", err, time.Since(begun))
		}
		b.Core.Runner.Shutdown(context.Background())
	})
}
