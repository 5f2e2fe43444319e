package taskrun

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/effecttest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
)

// TestSinkKeepsOutputOverFaults fails transactions in every way after which the store still works:
// no byte of output may be lost or written twice (BG13).
func TestSinkKeepsOutputOverFaults(t *testing.T) {
	t.Parallel()
	for _, act := range []faulty.Act{faulty.Fail, faulty.DoAndTimeout} {
		for n := 1; n <= 6; n++ {
			t.Run(fmt.Sprintf("act_%d_at_%d", act, n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					e, id := bed(t, nil)
					task := effecttest.Running(t, e.core.Store, id, "x")
					e.core.Store = faulty.New(e.core.Store, faulty.Nth("InTx", n, faulty.Fault{Act: act}))
					e.core.Work = e.core.Store
					sink := e.NewSink(task, 0)
					want := ""
					for line := range 40 {
						text := fmt.Sprintf("line %d\n", line)
						want += text
						sink.Output("stdout", []byte(text))
						if line%5 == 0 {
							pass(t)
						}
					}
					sink.Close()

					got := ""
					err := e.core.Store.View(context.Background(), func(r store.Reader) error {
						chunks, _, err := r.Tasks().ReadLog(task.ID, 0, 1<<20)
						for _, c := range chunks {
							got += string(c.Bytes)
						}
						return err
					})
					if err != nil || got != want {
						t.Errorf("%v; got %d bytes, want %d", err, len(got), len(want))
					}
					e.core.Runner.Shutdown(context.Background())
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
	task := effecttest.Running(t, e.core.Store, id, "x")
	err := e.core.Store.InTx(t.Context(), func(tx store.Tx) error {
		_, err := tx.Tasks().Update(id, task.ID, perdure.TaskUpdate{Attempt: 1, IncrementAttempt: true, Worker: effecttest.Worker})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sink := e.NewSink(task, 0)
	sink.Output("stdout", []byte("late"))
	sink.Close()

	err = e.core.Store.View(t.Context(), func(r store.Reader) error {
		_, end, err := r.Tasks().ReadLog(task.ID, 0, 0)
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

// reported is a sink of a new task, and the reports that were stored.
func reported(t *testing.T) (sink *Sink, read func() (perdure.Task, int64)) {
	t.Helper()
	e, id := bed(t, nil)
	task := effecttest.Running(t, e.core.Store, id, "x")
	return e.NewSink(task, 0), func() (now perdure.Task, end int64) {
		err := e.core.Store.View(context.Background(), func(r store.Reader) (err error) {
			if now, err = r.Tasks().Get(id, task.ID); err != nil {
				return err
			}
			_, end, err = r.Tasks().ReadLog(task.ID, 0, 0)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return now, end
	}
}

// after lets virtual time pass.
func after(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
}

// TestSinkWritesAfterASilence has no timer while nothing is unwritten, and writes output within its
// bound however long the work was silent before.
func TestSinkWritesAfterASilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink, read := reported(t)
		sink.Heartbeat()
		if sink.timer != nil {
			t.Error("a run that reports nothing has a timer")
		}
		for round := range 3 {
			after(t, time.Hour)
			sink.Output("stdout", []byte("word\n"))
			after(t, sinkFlush)

			if _, end := read(); end != int64(5*(round+1)) {
				t.Errorf("round %d: the log has %d bytes", round+1, end)
			}
			if !sink.due.IsZero() {
				t.Error("a timer is set although nothing is unwritten")
			}
		}
		sink.Output("stdout", []byte("last"))
		sink.Close()

		if task, end := read(); end != 19 || task.LogBytes != 19 {
			t.Errorf("after the end the log has %d bytes, the row says %d", end, task.LogBytes)
		}
		sink.Output("stdout", []byte("too late"))
		sink.Status("too late")
		after(t, time.Hour)
		if task, end := read(); end != 19 || task.StateDetail == "too late" {
			t.Errorf("what came after the end was written: %d bytes, %q", end, task.StateDetail)
		}
		sink.tasks.core.Runner.Shutdown(context.Background())
	})
}

// TestSinkProgressIsRare writes progress at most four times a second: the latest value each time,
// and the last one before the end (EV7, TK10).
func TestSinkProgressIsRare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink, read := reported(t)
		seen := map[float64]bool{}
		for i := range 200 { // two seconds
			sink.Progress(float64(i+1), 200, "")
			after(t, 10*time.Millisecond)
			if task, _ := read(); task.Progress != nil {
				seen[*task.Progress.Current] = true
			}
		}
		if len(seen) < 7 || len(seen) > 9 {
			t.Errorf("the row was written %d times in two seconds", len(seen))
		}
		sink.Artifact(perdure.Artifact{Name: "one"})
		after(t, time.Second)
		sink.Artifact(perdure.Artifact{Name: "two"})
		sink.Progress(201, 0, "end")
		sink.Close()

		if task, _ := read(); *task.Progress.Current != 201 || len(task.Artifacts) != 2 {
			t.Errorf("got %v and %v", *task.Progress.Current, task.Artifacts)
		}
		sink.tasks.core.Runner.Shutdown(context.Background())
	})
}

// TestSinkHoldsBackWhatIsTooMuch bounds memory: a writer that is faster than the store waits for
// it.
func TestSinkHoldsBackWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sink, read := reported(t)
		began := time.Now()
		for range 10 {
			sink.Output("stdout", make([]byte, sinkMax/2+1))
		}
		if time.Since(began) >= sinkFlush {
			t.Errorf("it waited %s, but not for the store", time.Since(began))
		}
		if sink.size > 2*sinkMax {
			t.Errorf("%d bytes wait", sink.size)
		}
		sink.Close()
		if _, end := read(); end != 10*(sinkMax/2+1) {
			t.Errorf("the log has %d bytes", end)
		}
		sink.tasks.core.Runner.Shutdown(context.Background())
	})
}

func TestTailKeepsTheEnd(t *testing.T) { // BG12
	t.Parallel()
	tail := lineLog{keepChars: tailChars}
	tail.write("stdout", []byte("one\n"))
	tail.write("stderr", []byte("two \xff\n"))
	if got := tail.String(); got != "[stdout] one\n[stderr] two \uFFFD\n" {
		t.Errorf("got %q", got)
	}
	for range 10 { // the line is never complete
		tail.write("stdout", []byte(strings.Repeat("日", 5000)+"end"))
	}
	long := tail.String()
	if size := len(tail.text) + len(tail.open[0].bytes); size > 100*tailChars {
		t.Errorf("%d bytes are kept", size)
	}
	if n := utf8.RuneCountInString(long); n != 2048 || !strings.HasSuffix(long, "日end") || !utf8.ValidString(long) {
		t.Errorf("got %d characters, %q", n, long[len(long)-20:])
	}
}
