package dispatch_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
)

// inDiary runs a law with a journal.
func inDiary(t *testing.T, routes map[string]dispatch.Route, d *diary, law func(t *testing.T, r *rig)) {
	t.Helper()
	if d.fail == nil {
		d.fail = map[string]int{}
	}
	inRig(t, routes, func(c *dispatch.LoopConfig) { c.Journal = d }, law)
}

func TestJournalRecordsFirst(t *testing.T) {
	t.Parallel()
	d := &diary{}
	inDiary(t, map[string]dispatch.Route{"slow": dispatch.DetachAfter(time.Second)}, d, func(t *testing.T, r *rig) {
		out := r.launch(t, call("slow", "turn-1", "call-1"))
		r.WaitTurn(t.Context(), "turn-1")
		if _, err := r.h.Cancel(out.Task, "user", "enough"); err != nil {
			t.Fatal(err)
		}
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.launch(t, call("needs-approval", "turn-1", "call-2"))
		r.asked(t, "turn-1")
		r.InterruptTurn("turn-1")

		want := []string{
			"begin call-1 running", "detached call-1 running", "canceling call-1 running", "ended call-1 canceled",
			"begin call-2 running", "ended call-2 awaiting_input", "ended call-2 canceled",
		}
		if got := d.read(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestJournalRefusesStart(t *testing.T) {
	t.Parallel()
	d := &diary{fail: map[string]int{"begin": 1}}
	inDiary(t, nil, d, func(t *testing.T, r *rig) {
		l := call("fast", "turn-1", "call-1")
		l.Task = "task_1"
		_, err := r.Start(t.Context(), l)
		if !errors.Is(err, errFull) || len(r.h.ListRunning())+len(r.h.ListCompleted()) != 0 {
			t.Errorf("got %v, want the journal's error and no task", err)
		}
		r.none(t, "turn-1")
		r.launch(t, l) // the id is free again
		r.item(t, "turn-1")
	})
}

func TestJournalRefusesDetach(t *testing.T) { // LN7
	t.Parallel()
	d := &diary{fail: map[string]int{"detached": 2}}
	inDiary(t, map[string]dispatch.Route{"slow": dispatch.DetachAfter(5 * time.Second)}, d, func(t *testing.T, r *rig) {
		begun := time.Now()
		r.launch(t, call("slow", "turn-1", "call-1"))

		if u, ok := r.WaitTurn(t.Context(), "turn-1"); !ok || u.Detached == nil || time.Since(begun) != 7*time.Second {
			t.Errorf("got %+v after %s, want it detached after 7 s", u, time.Since(begun))
		}
		r.release <- 1
	})
}

func TestJournalRefusesCancel(t *testing.T) { // RC1: committed first
	t.Parallel()
	d := &diary{fail: map[string]int{"canceling": 1}}
	inDiary(t, nil, d, func(t *testing.T, r *rig) {
		out := r.launch(t, call("block", "turn-1", "call-1"))
		_, err := r.h.Cancel(out.Task, "user", "")
		synctest.Wait()
		if !errors.Is(err, errFull) || len(r.h.ListRunning()) != 1 {
			t.Errorf("got %v, want the journal's error and the task running", err)
		}
		r.release <- 1
		r.item(t, "turn-1")
	})
}

// TestJournalIsAskedAgain holds back an end until the journal has it, of work that ran and of a
// question.
func TestJournalIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fast", "needs-approval"} {
		d := &diary{fail: map[string]int{"ended": 3}}
		inDiary(t, nil, d, func(t *testing.T, r *rig) {
			begun := time.Now()
			r.launch(t, call(name, "turn-1", "call-1"))
			r.next(t, dispatch.EventStarted)

			if _, ok := r.WaitTurn(t.Context(), "turn-1"); !ok || time.Since(begun) != 3*time.Second {
				t.Errorf("reported after %s, want 3 s", time.Since(begun))
			}
			if name == "fast" {
				return
			}
			d.mu.Lock()
			d.fail["ended"] = 2
			d.mu.Unlock()
			r.InterruptTurn("turn-1")
			if i := r.item(t, "turn-1"); !i.Result.NeverStarted {
				t.Errorf("got %+v", i)
			}
		})
	}
}

// TestShutdownLeavesTasks: stopping the dispatcher fails and cancels nothing (RC11), and all waits
// return.
func TestShutdownLeavesTasks(t *testing.T) {
	t.Parallel()
	for _, fails := range []int{0, 1000} {
		d := &diary{fail: map[string]int{"ended": fails}}
		inDiary(t, nil, d, func(t *testing.T, r *rig) {
			r.launch(t, call("block", "turn-1", "call-1"))
			r.launch(t, call("fast", "turn-2", "call-2"))
			<-r.entered
			waited := make(chan bool, 2)
			go func() { _, ok := r.WaitTurn(t.Context(), "turn-1"); waited <- ok }()
			go func() {
				for ok := true; ok; {
					_, ok = r.h.NextEvent(t.Context())
				}
				waited <- false
			}()
			synctest.Wait()

			if left := r.Shutdown(t.Context()); left != 0 {
				t.Errorf("%d left", left)
			}

			if <-waited || <-waited {
				t.Error("work that was left running was delivered")
			}
			for _, line := range d.read() {
				if line == "ended call-1 canceled" || line == "ended call-1 failed" {
					t.Errorf("the journal says %q", line)
				}
			}
			if _, err := r.Start(t.Context(), call("fast", "turn-1", "call-3")); !errors.Is(err, perdure.Unavailable) {
				t.Errorf("a start after it: got %v, want Unavailable", err)
			}
		})
	}
}

// TestCancelWhileRelaunched cancels a task while its relaunch is with the journal: it does not run.
func TestCancelWhileRelaunched(t *testing.T) {
	t.Parallel()
	d := &diary{}
	inDiary(t, nil, d, func(t *testing.T, r *rig) {
		out := r.launch(t, call("needs-approval", "turn-1", "call-1"))
		q := r.asked(t, "turn-1")
		d.hold = make(chan struct{})
		said := make(chan error, 1)
		go func() {
			_, err := r.Start(t.Context(), answer(q, perdure.ApprovalApproved))
			said <- err
		}()
		synctest.Wait()
		if _, err := r.h.Cancel(out.Task, "user", ""); err != nil {
			t.Fatal(err)
		}
		close(d.hold)

		if err := <-said; !errors.Is(err, perdure.Conflict) || len(r.entered) != 0 {
			t.Errorf("got %v, want Conflict", err)
		}
		if i := r.item(t, "turn-1"); i.Result.ErrorKind != perdure.ErrorCanceled {
			t.Errorf("got %+v", i)
		}
		r.none(t, "turn-1")
	})
}

// TestStoppedWhileItAsks cancels or interrupts a call while its question is with the journal: it
// ends, and nobody is asked.
func TestStoppedWhileItAsks(t *testing.T) {
	t.Parallel()
	for _, want := range []perdure.ErrorKind{perdure.ErrorCanceled, perdure.ErrorInterrupted} {
		d := &diary{fail: map[string]int{"ended": 1}}
		inDiary(t, nil, d, func(t *testing.T, r *rig) {
			out := r.launch(t, call("needs-approval", "turn-1", "call-1"))
			synctest.Wait()
			if want == perdure.ErrorInterrupted {
				r.InterruptTurn("turn-1")
			} else if _, err := r.h.Cancel(out.Task, "user", ""); err != nil {
				t.Fatal(err)
			}

			if i := r.item(t, "turn-1"); i.Result.ErrorKind != want || !i.Result.NeverStarted {
				t.Errorf("got %+v, want it %s", i, want)
			}
			if asked := r.h.ListPendingApprovals(); len(asked) != 0 {
				t.Errorf("asked %+v", asked)
			}
		})
	}
}

// TestJournalHearsNothingOfTheEnded cancels and answers a task that has ended.
func TestJournalHearsNothingOfTheEnded(t *testing.T) {
	t.Parallel()
	d := &diary{}
	inDiary(t, nil, d, func(t *testing.T, r *rig) {
		out := r.launch(t, call("needs-approval", "turn-1", "call-1"))
		q := r.asked(t, "turn-1")
		r.InterruptTurn("turn-1")
		before := len(d.read())

		_, canceled := r.h.Cancel(out.Task, "user", "")
		_, answered := r.Start(t.Context(), answer(q, perdure.ApprovalApproved))

		if after := d.read(); canceled != nil || !errors.Is(answered, perdure.Conflict) || len(after) != before {
			t.Errorf("got %v and %v, and the journal %q", canceled, answered, after)
		}
	})
}
