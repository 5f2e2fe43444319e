package effect

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
)

// TestSinkKeepsOutputOverFaults fails transactions in every way that leaves the store alive: no byte of output
// may be lost or come twice (BG13).
func TestSinkKeepsOutputOverFaults(t *testing.T) {
	t.Parallel()
	for _, act := range []faulty.Act{faulty.Fail, faulty.DoAndTimeout} {
		for n := 1; n <= 6; n++ {
			t.Run(fmt.Sprintf("act_%d_at_%d", act, n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					e, id := bed(t, nil)
					task := stored(t, e, id, "x")
					e.cfg.Store = faulty.New(e.cfg.Store, faulty.Nth("InTx", n, faulty.Fault{Act: act}))
					sink := newTaskSink(e, task, 0)
					want := ""
					for line := range 40 {
						text := fmt.Sprintf("line %d\n", line)
						want += text
						sink.Output("stdout", []byte(text))
						if line%5 == 0 {
							pass(t)
						}
					}
					sink.close()

					got := ""
					err := e.cfg.Store.View(context.Background(), func(r store.Reader) error {
						chunks, _, err := r.ReadLog(task.ID, 0, 1<<20)
						for _, c := range chunks {
							got += string(c.Bytes)
						}
						return err
					})
					if err != nil || got != want {
						t.Errorf("%v; got %d bytes, want %d", err, len(got), len(want))
					}
					e.cfg.Dispatcher.Shutdown(context.Background())
				})
			})
		}
	}
}

// pass lets the sink flush what it has, in virtual time.
func pass(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*sinkFlush)
	defer cancel()
	<-ctx.Done()
}

// TestSinkOfASupersededAttempt writes nothing and ends the work (TK6).
func TestSinkOfASupersededAttempt(t *testing.T) {
	t.Parallel()
	e, id := bed(t, nil)
	task := stored(t, e, id, "x")
	err := e.cfg.Store.InTx(t.Context(), func(tx store.Tx) error {
		_, err := tx.UpdateTask(id, task.ID, perdure.TaskUpdate{Attempt: 1, IncrementAttempt: true, Worker: testWorker})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sink := newTaskSink(e, task, 0)
	sink.Output("stdout", []byte("late"))
	sink.close()

	err = e.cfg.Store.View(t.Context(), func(r store.Reader) error {
		_, end, err := r.ReadLog(task.ID, 0, 0)
		if end != 0 {
			t.Errorf("%d bytes of a superseded attempt are in the log", end)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if cause := sink.Heartbeat(); cause != perdure.CauseSuperseded {
		t.Errorf("the sink answers %q", cause)
	}
}
