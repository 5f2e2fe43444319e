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
	"github.com/perdure/perdure/tool"
)

// laggard is a store in which a worker's lease has expired for every reader, and is valid again for
// every writer, as when its beat is just being committed.
type laggard struct {
	store.Store
	looks atomic.Int64
}

const lateWorker = perdure.WorkerID("worker_late")

func (l *laggard) View(ctx context.Context, fn func(store.Reader) error) error {
	err := l.Store.InTx(ctx, func(tx store.Tx) error {
		w, err := tx.Workers().Get(lateWorker)
		if err != nil {
			return err
		}
		w.LeaseUntil = tx.Now()
		return tx.Workers().Put(w)
	})
	if err != nil {
		return err
	}
	return l.Store.View(ctx, func(r store.Reader) error { return fn(lookingReader{r, &l.looks}) })
}

func (l *laggard) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := l.Store.InTx(ctx, func(tx store.Tx) error { _, err := tx.Workers().Renew(lateWorker, time.Hour); return err })
	if err != nil {
		return err
	}
	return l.Store.InTx(ctx, fn)
}

// lookingReader counts the reads of all workers.
type lookingReader struct {
	store.Reader
	looks *atomic.Int64
}

// lookingReaderWorkers overrides a part of one noun.
type lookingReaderWorkers struct {
	store.WorkerReader
	lookingReader
}

func (l lookingReader) Workers() store.WorkerReader {
	return lookingReaderWorkers{l.Reader.Workers(), l}
}

func (l lookingReaderWorkers) List() ([]store.Worker, error) {
	l.looks.Add(1)
	return l.WorkerReader.List()
}

// TestTheLivingAreNotBuried has a worker beat between the read that finds its lease expired and the
// declaration of its death, every time.
func TestTheLivingAreNotBuried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		err := st.InTx(t.Context(), func(tx store.Tx) error { return tx.Workers().Put(store.Worker{ID: lateWorker}) })
		if err != nil {
			t.Fatal(err)
		}
		late := &laggard{Store: st}
		r := newRound(t, 1, clockRings)
		eng, err := local.Open(t.Context(), local.Config{
			Store: late, Model: obedient{}, Tools: r.tools(r.office.desk("a", late, 0, false)),
			Workers: local.Workers{Shared: true}, Timing: local.Timing{Drain: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- eng.Run(ctx) }()
		pass(time.Minute)

		err = st.View(t.Context(), func(r store.Reader) error { _, err := r.Workers().Get(lateWorker); return err })

		stop()
		if err := errors.Join(err, <-ended); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		if late.looks.Load() < 2 {
			t.Errorf("looked for the dead %d times, want some", late.looks.Load())
		}
	})
}

// mute is a store that answers the first calls, and then blocks.
type mute struct {
	store.Store
	left atomic.Int64
}

func (h *mute) View(ctx context.Context, fn func(store.Reader) error) error {
	if h.left.Add(-1) < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Store.View(ctx, fn)
}

func (h *mute) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if h.left.Add(-1) < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Store.InTx(ctx, fn)
}

// TestLostWhileItStarts: a worker whose lease expires before it has recovered the work that it
// finds reports that it is lost, not that it was stopped (LG20).
func TestLostWhileItStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for answers := range int64(8) {
			st := &mute{Store: memory.New(memory.Config{})}
			st.left.Store(1 + answers) // the worker is registered
			eng, err := local.Open(t.Context(), local.Config{Store: st, Model: obedient{}, Tools: tool.NewRegistry(), Workers: local.Workers{Shared: true, Lease: 3 * time.Second, Beat: time.Second}})
			if err != nil {
				t.Fatal(err)
			}

			if err := eng.Run(t.Context()); !errors.Is(err, perdure.Lost) {
				t.Errorf("after %d answers it ended with %v, want lost", answers, err)
			}
		}
	})
}
