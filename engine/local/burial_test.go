package local_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// laggard is a store in which a worker's lease has passed whenever somebody looks, and holds again whenever somebody writes:
// its beat was under way.
type laggard struct {
	store.Store
	looks atomic.Int64
}

const lateWorker = perdure.WorkerID("worker_late")

func (l *laggard) View(ctx context.Context, fn func(store.Reader) error) error {
	err := l.Store.InTx(ctx, func(tx store.Tx) error {
		w, err := tx.Worker(lateWorker)
		if err != nil {
			return err
		}
		w.LeaseUntil = tx.Now()
		return tx.PutWorker(w)
	})
	if err != nil {
		return err
	}
	return l.Store.View(ctx, func(r store.Reader) error { return fn(lookingReader{r, &l.looks}) })
}

func (l *laggard) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := l.Store.InTx(ctx, func(tx store.Tx) error { _, err := tx.BeatWorker(lateWorker, time.Hour); return err })
	if err != nil {
		return err
	}
	return l.Store.InTx(ctx, fn)
}

// lookingReader counts who asks for all workers.
type lookingReader struct {
	store.Reader
	looks *atomic.Int64
}

func (l lookingReader) Workers() ([]store.Worker, error) {
	l.looks.Add(1)
	return l.Reader.Workers()
}

// TestTheLivingAreNotBuried has a worker beat between the look that finds it dead and its burial, every time.
func TestTheLivingAreNotBuried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		err := st.InTx(t.Context(), func(tx store.Tx) error { return tx.PutWorker(store.Worker{ID: lateWorker}) })
		if err != nil {
			t.Fatal(err)
		}
		late := &laggard{Store: st}
		r := newRound(t, 1, clockRings)
		eng, err := local.Open(t.Context(), local.Config{
			Store: late, Model: obedient{}, Tools: r.tools(r.office.desk("a", late, 0, false)), Shared: true, Drain: -1,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- eng.Run(ctx) }()
		pass(time.Minute)

		err = st.View(t.Context(), func(r store.Reader) error { _, err := r.Worker(lateWorker); return err })

		stop()
		if err := errors.Join(err, <-ended); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		if late.looks.Load() < 2 {
			t.Errorf("looked for the dead %d times, want some", late.looks.Load())
		}
	})
}
