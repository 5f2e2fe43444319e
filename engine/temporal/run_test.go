package temporal

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// ends is a RunTask whose task has ended.
func ends(_ int, in workInput) (runResult, error) {
	return runResult{Ended: true, workResult: workResult{Grant: in.Grant}}, nil
}

// TestRun tests the laws of the Run workflow.
func TestRun(t *testing.T) {
	t.Parallel()
	laws := map[string]func(*testing.T){
		"completes_with_the_task":                       runOnce,
		"moves_when_its_process_died":                   runDied,
		"raises_a_stale_grant":                          runLost,
		"goes_home_and_then_says_that_it_is_gone":       runHome,
		"waits_for_a_slot_with_longer_and_longer_waits": runFull,
		"starts_when_a_slot_is_free":                    runSlot,
		"completes_while_a_person_decides":              runWaits,
		"continues_with_the_answer_of_a_person":         runAnswered,
		"cancels_the_task_when_an_operator_cancels":     runCanceled,
		"cancels_a_task_that_no_process_has":            runCanceledBefore,
		"continues_as_new_with_what_it_knows":           runContinues,
		"asks_again_later_if_the_host_says_nothing":     runNothing,
	}
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(t)
		})
	}
}

func runOnce(t *testing.T) {
	s := newStage(t)
	s.runs(ends)

	tries := s.run(t, wake{Grant: 3, Queue: "browser"})

	s.finished(t)
	if len(tries) != 1 || tries[0].Grant != 4 || tries[0].ID != "t" || tries[0].queue != "p/with/browser" {
		t.Errorf("tries = %+v, want one of t under grant 4 on the queue of browser", tries)
	}
	if s.Now().Sub(s.began) > time.Second {
		t.Error("the workflow of an ended task waits for more")
	}
}

func runDied(t *testing.T) {
	s := newStage(t)
	s.runs(func(n int, in workInput) (runResult, error) {
		if n == 1 {
			return runResult{}, dead()
		}
		return ends(n, in)
	})

	if got := grants(s.run(t, wake{})); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("grants = %v, want 1 2", got)
	}
}

func runLost(t *testing.T) {
	s := newStage(t)
	s.runs(func(n int, in workInput) (runResult, error) {
		if in.Grant <= 5 {
			return runResult{workResult: workResult{Grant: 5, Lost: true}}, nil
		}
		return ends(n, in)
	})

	if got := grants(s.run(t, wake{})); !slices.Equal(got, []int64{1, 6}) {
		t.Errorf("grants = %v, want 1 6", got)
	}
}

func runHome(t *testing.T) {
	s := newStage(t)
	s.runs(func(n int, in workInput) (runResult, error) {
		switch n {
		case 1:
			return runResult{workResult: workResult{Home: "h2"}}, nil
		case 2:
			return runResult{}, absentHome()
		}
		return ends(n, in)
	})

	tries := s.run(t, wake{})

	if len(tries) != 3 || tries[1].queue != "p/home/h2" || tries[2].queue != "p" || !tries[2].HomeGone {
		t.Errorf("tries = %+v, want home h2, then the general queue without the home", tries)
	}
}

func runFull(t *testing.T) {
	s := newStage(t)
	s.runs(func(n int, in workInput) (runResult, error) {
		if n < 7 {
			return runResult{Full: true}, nil
		}
		return ends(n, in)
	})

	tries := s.run(t, wake{})

	var waits []time.Duration
	for i := 1; i < len(tries); i++ {
		waits = append(waits, (tries[i].at-tries[i-1].at)/time.Second)
	}
	if want := []time.Duration{5, 10, 20, 40, 60, 60}; !slices.Equal(waits, want) {
		t.Errorf("it waited %v seconds, want %v", waits, want)
	}
}

func runSlot(t *testing.T) {
	s := newStage(t)
	s.runs(func(n int, in workInput) (runResult, error) {
		if n == 1 {
			return runResult{Full: true}, nil
		}
		return ends(n, in)
	})
	s.after(2*time.Second, wake{})

	tries := s.run(t, wake{})

	if len(tries) != 2 || tries[1].at != 2*time.Second {
		t.Errorf("tries = %+v, want the second with the signal", tries)
	}
}

func runWaits(t *testing.T) {
	s := newStage(t)
	s.runs(func(int, workInput) (runResult, error) { return runResult{Waits: true}, nil })

	tries := s.run(t, wake{})

	s.finished(t)
	if len(tries) != 1 {
		t.Errorf("%d tries, want 1", len(tries))
	}
}

func runAnswered(t *testing.T) {
	s := newStage(t)
	s.runs(func(n int, in workInput) (runResult, error) {
		if n == 1 {
			return runResult{Waits: true}, nil
		}
		return ends(n, in)
	})
	s.after(linger-time.Second, wake{Grant: 1})

	if got := grants(s.run(t, wake{})); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("grants = %v, want 1 2", got)
	}
}

func runCanceled(t *testing.T) {
	s := newStage(t)
	canceled := make(chan struct{})
	s.onStop = sync1(func() { close(canceled) })
	s.runs(func(n int, in workInput) (runResult, error) {
		s.CancelWorkflow()
		<-canceled
		return ends(n, in)
	})

	s.run(t, wake{})

	// A server waits for an activity that was started; this environment does not, so TestLive does.
	if !slices.Equal(s.stops, []string{"t"}) {
		t.Errorf("cancels = %v, want t", s.stops)
	}
}

func runCanceledBefore(t *testing.T) {
	s := newStage(t)
	s.runs(func(n int, in workInput) (runResult, error) { return runResult{Full: true}, nil })
	s.RegisterDelayedCallback(s.CancelWorkflow, time.Second)

	tries := s.run(t, wake{})

	if !temporal.IsCanceledError(s.GetWorkflowError()) || !slices.Equal(s.stops, []string{"t"}) {
		t.Errorf("it ended with %v and cancels %v, want canceled and t", s.GetWorkflowError(), s.stops)
	}
	if len(tries) != 1 {
		t.Errorf("%d tries, want none after the cancel", len(tries))
	}
}

func runContinues(t *testing.T) {
	s := newStage(t)
	s.runs(func(_ int, in workInput) (runResult, error) {
		s.SetContinueAsNewSuggested(true)
		s.SignalWorkflow(wakeSignal, wake{Grant: 9})
		return runResult{Full: true, workResult: workResult{Grant: in.Grant}}, nil
	})

	s.run(t, wake{Grant: 3})

	var next *workflow.ContinueAsNewError
	if err := s.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("the workflow ended with %v, want a continuation", err)
	}
	var got runState
	if err := converted(next.Input, &got); err != nil {
		t.Fatal(err)
	}
	if want := (runState{Task: "t", Full: 1, placement: placement{Grant: 9}}); got != want {
		t.Errorf("it continues with %+v, want %+v", got, want)
	}
}

func runNothing(t *testing.T) {
	s := newStage(t)
	s.runs(func(n int, in workInput) (runResult, error) {
		if n < 3 {
			return runResult{}, nil
		}
		return ends(n, in)
	})

	tries := s.run(t, wake{})

	if len(tries) != 3 || tries[1].at == tries[0].at {
		t.Errorf("tries = %+v, want a wait between them", tries)
	}
}
