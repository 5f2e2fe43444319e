package temporal

import (
	"errors"
	"slices"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// absentHome is what Temporal says when no process polls the task queue of a home.
func absentHome() error { return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil) }

// dead is what Temporal says when the process of an activity is silent.
func dead() error { return temporal.NewHeartbeatTimeoutError() }

// TestSession tests the laws of the Session workflow.
func TestSession(t *testing.T) {
	t.Parallel()
	laws := map[string]func(*testing.T){
		"drives_once_and_completes_a_minute_later":      sessionOnce,
		"counts_grants_from_the_stored_one":             sessionGrants,
		"moves_at_once_when_its_process_died":           sessionDied,
		"raises_a_stale_grant_above_the_stored_one":     sessionLost,
		"continues_at_the_home_that_the_host_names":     sessionHome,
		"evicts_an_owner_that_does_not_answer":          sessionEvicts,
		"evicts_an_owner_without_a_home_in_the_end":     sessionEvictsHomeless,
		"says_that_the_home_is_gone":                    sessionHomeGone,
		"waits_longer_for_a_home_each_time":             sessionHomeAgain,
		"goes_to_the_home_that_the_signal_names":        sessionHomeKnown,
		"uses_the_queue_of_a_capability":                sessionCapability,
		"hears_of_events_while_it_is_driven":            sessionHeardMeanwhile,
		"ignores_a_signal_that_says_nothing_new":        sessionKnown,
		"drives_an_orphan_although_its_events_are_read": sessionOrphan,
		"wakes_at_the_time_that_the_host_names":         sessionAlarm,
		"survives_a_storm_of_signals":                   sessionStorm,
		"continues_as_new_with_what_it_knows":           sessionContinues,
		"backs_off_from_a_failing_host":                 sessionFails,
		"parks_what_fails_for_good":                     sessionPermanent,
		"is_placed_again_when_its_process_stops":        sessionMoved,
		"is_interrupted_when_an_operator_cancels":       sessionCanceled,
		"is_interrupted_when_canceled_while_idle":       sessionCanceledIdle,
		"does_not_spin_when_the_journal_is_shorter":     sessionRestored,
		"hears_of_events_of_a_shorter_journal":          sessionImported,
	}
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			law(t)
		})
	}
}

func sessionOnce(t *testing.T) {
	s := newStage(t)
	s.drives(rests(3))

	tries := s.session(t, wake{Seq: 3})

	s.finished(t)
	if len(tries) != 1 || tries[0].queue != "p" || tries[0].ID != "s" {
		t.Errorf("tries = %+v, want one of s on the general queue", tries)
	}
	if idle := s.Now().Sub(s.began); idle < linger {
		t.Errorf("it completed after %s, want %s: a new start within a second is refused", idle, linger)
	}
}

func sessionGrants(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) { return rests(int64(6+n))(n, in) })
	s.after(10*time.Second, wake{Seq: 8, Grant: 5})
	s.after(20*time.Second, wake{Seq: 9, Grant: 40})

	tries := s.session(t, wake{Seq: 7, Grant: 4})

	if got := grants(tries); !slices.Equal(got, []int64{5, 6, 41}) {
		t.Errorf("grants = %v, want each above the one before and above the stored one", got)
	}
}

func sessionDied(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if n < 3 {
			return driveResult{}, dead()
		}
		return rests(1)(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	if got := grants(tries); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Fatalf("grants = %v, want 1 2 3", got)
	}
	if tries[2].at != tries[0].at {
		t.Errorf("the next process was asked after %s, want at once", tries[2].at-tries[0].at)
	}
}

func sessionLost(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if in.Grant <= 17 {
			return driveResult{workResult: workResult{Grant: 17, Lost: true}}, nil
		}
		return rests(1)(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	if got := grants(tries); !slices.Equal(got, []int64{1, 18}) {
		t.Errorf("grants = %v, want 1, which is stale, and 18", got)
	}
}

func sessionHome(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if n == 1 {
			return driveResult{workResult: workResult{Grant: in.Grant - 1, Home: "h1"}}, nil
		}
		return rests(1)(n, in)
	})
	s.after(10*time.Second, wake{Seq: 2})

	tries := s.session(t, wake{Seq: 1})

	if len(tries) != 3 || tries[1].queue != "p/home/h1" || tries[1].Evict || tries[1].HomeGone {
		t.Fatalf("tries = %+v, want the second at home h1", tries)
	}
	if tries[2].queue != "p" {
		t.Errorf("the next events went to %s, want the general queue: the host says where", tries[2].queue)
	}
}

func sessionEvicts(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		switch n {
		case 1:
			return driveResult{workResult: workResult{Home: "h1", Present: true}}, nil
		case 2:
			return driveResult{}, absentHome()
		}
		return rests(1)(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	if len(tries) != 3 || tries[2].queue != "p" || !tries[2].Evict || tries[2].HomeGone {
		t.Errorf("tries = %+v, want the third on the general queue, and to evict", tries)
	}
}

func sessionEvictsHomeless(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if !in.Evict {
			return driveResult{workResult: workResult{Grant: in.Grant - 1, Present: true}}, nil
		}
		return rests(1)(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	if len(tries) != presentTries+1 || !tries[presentTries].Evict || tries[presentTries].at-tries[0].at < presentWait {
		t.Errorf("tries = %+v, want the last to evict, after %s", tries, presentWait)
	}
}

func sessionHomeGone(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		switch n {
		case 1:
			return driveResult{workResult: workResult{Home: "h1"}}, nil
		case 2:
			return driveResult{}, absentHome()
		}
		return rests(1)(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	if len(tries) != 3 || tries[2].queue != "p" || !tries[2].HomeGone || tries[2].Evict {
		t.Errorf("tries = %+v, want the third on the general queue, without its home", tries)
	}
}

func sessionHomeAgain(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		switch {
		case n == 6:
			return rests(1)(n, in)
		case n%2 == 0:
			return driveResult{}, absentHome()
		}
		return driveResult{workResult: workResult{Home: "h1"}}, nil // this session has files there
	})

	tries := s.session(t, wake{Seq: 1})

	var queues []string
	for _, one := range tries {
		queues = append(queues, one.queue)
	}
	want := []string{"p", "p/home/h1", "p", "p/home/h1", "p", "p/home/h1"}
	if !slices.Equal(queues, want) || !tries[2].HomeGone || tries[3].HomeGone {
		t.Errorf("tries = %+v, want the home and the general queue in turn", tries)
	}
	if tries[4].at <= tries[3].at && tries[3].at <= tries[2].at {
		t.Error("a host that insists on a home is asked again without a wait")
	}
}

func sessionHomeKnown(t *testing.T) {
	s := newStage(t)
	s.drives(rests(1))

	tries := s.session(t, wake{Seq: 1, Home: "h7"})

	if len(tries) != 1 || tries[0].queue != "p/home/h7" {
		t.Errorf("tries = %+v, want one at home h7", tries)
	}
}

func sessionCapability(t *testing.T) {
	s := newStage(t)
	s.drives(rests(1))

	tries := s.session(t, wake{Seq: 1, Queue: "gpu"})

	if len(tries) != 1 || tries[0].queue != "p/with/gpu" {
		t.Errorf("tries = %+v, want one on the queue of gpu", tries)
	}
}

func sessionHeardMeanwhile(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if n == 1 { // these are committed when the driver has already read the journal
			s.SignalWorkflow(wakeSignal, wake{Seq: 5})
		}
		return rests(int64(1+4*(n-1)))(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	if len(tries) != 2 {
		t.Errorf("%d tries, want a second one for the events of the meantime", len(tries))
	}
}

func sessionKnown(t *testing.T) {
	s := newStage(t)
	s.drives(rests(9))
	s.after(time.Second, wake{Seq: 4})
	s.after(2*time.Second, wake{Seq: 9})

	if tries := s.session(t, wake{Seq: 4}); len(tries) != 1 {
		t.Errorf("%d tries, want 1: the driver has read up to 9", len(tries))
	}
}

// sessionImported: a session that was read up to 37 is deleted, and imported with 21 events.
func sessionImported(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) { return rests([]int64{37, 21, 30}[n-1])(n, in) })
	s.after(5*time.Second, wake{Seq: 21, Due: true})
	s.after(10*time.Second, wake{Seq: 30, Grant: 2})

	if tries := s.session(t, wake{Seq: 37}); len(tries) != 3 {
		t.Errorf("%d tries, want 3: at the start, after the import, and for event 30", len(tries))
	}
}

func sessionOrphan(t *testing.T) {
	s := newStage(t)
	s.drives(rests(9))
	s.after(5*time.Second, wake{Seq: 9, Due: true})

	if tries := s.session(t, wake{Seq: 9}); len(tries) != 2 {
		t.Errorf("%d tries, want 2: the owner of the session is gone", len(tries))
	}
}

func sessionAlarm(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		r, err := rests(1)(n, in)
		if n == 1 {
			r.Again = s.Now().Add(72 * time.Hour).UnixMilli()
		}
		return r, err
	})

	tries := s.session(t, wake{Seq: 1})

	if len(tries) != 2 || tries[1].at < 72*time.Hour || tries[1].at > 73*time.Hour {
		t.Errorf("tries = %+v, want the second after three days", tries)
	}
}

func sessionStorm(t *testing.T) {
	s := newStage(t)
	const signals = 5000
	s.drives(func(n int, in workInput) (driveResult, error) {
		if n == 1 {
			for i := range signals {
				s.SignalWorkflow(wakeSignal, wake{Seq: int64(i)})
			}
		}
		return rests(signals-1)(n, in)
	})

	if tries := s.session(t, wake{Seq: 1}); len(tries) != 1 {
		t.Errorf("%d tries, want 1: the driver had read what the signals were about", len(tries))
	}
}

func sessionContinues(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if n == 2 {
			s.SetCurrentHistoryLength(eventsLimit)
			s.SignalWorkflow(wakeSignal, wake{Seq: 12, Queue: "gpu"})
			r, _ := rests(11)(n, in)
			r.Again = 1 << 40
			return r, nil
		}
		return rests(10)(n, in)
	})
	s.after(time.Second, wake{Seq: 11, Grant: 30, Queue: "gpu"})

	s.session(t, wake{Seq: 10, Queue: "gpu"})

	var next *workflow.ContinueAsNewError
	if err := s.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("the workflow ended with %v, want a continuation", err)
	}
	var got sessionState
	if err := converted(next.Input, &got); err != nil {
		t.Fatal(err)
	}
	want := sessionState{ID: "s", Seq: 12, Seen: 11, Again: 1 << 40, placement: placement{Grant: 31, Queue: "gpu"}}
	if got != want {
		t.Errorf("it continues with %+v, want %+v", got, want)
	}
}

func sessionFails(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if n < 9 {
			return driveResult{}, temporal.NewApplicationError("unavailable", "failed")
		}
		return rests(1)(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	var waits []time.Duration
	for i := 1; i < len(tries); i++ {
		waits = append(waits, tries[i].at-tries[i-1].at)
	}
	want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 30}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(waits, want) {
		t.Errorf("it waited %v, want %v", waits, want)
	}
}

func sessionPermanent(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if n == 1 {
			return driveResult{}, temporal.NewNonRetryableApplicationError("invalid", permanentType, nil)
		}
		return rests(1)(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	if len(tries) != 2 || tries[1].at != permanentWait {
		t.Errorf("tries = %+v, want the second after %s", tries, permanentWait)
	}
}

func sessionMoved(t *testing.T) {
	s := newStage(t)
	s.drives(func(n int, in workInput) (driveResult, error) {
		if n == 1 {
			return driveResult{workResult: workResult{Grant: in.Grant, Moved: true}}, nil
		}
		return rests(1)(n, in)
	})

	tries := s.session(t, wake{Seq: 1})

	if got := grants(tries); !slices.Equal(got, []int64{1, 2}) || tries[1].at != tries[0].at {
		t.Errorf("tries = %+v, want the second at once under grant 2", tries)
	}
}

func sessionCanceled(t *testing.T) {
	s := newStage(t)
	interrupted := make(chan struct{})
	s.onStop = sync1(func() { close(interrupted) })
	s.drives(func(n int, in workInput) (driveResult, error) {
		s.CancelWorkflow()
		<-interrupted // the turn ends because the journal says so
		return rests(1)(n, in)
	})

	s.session(t, wake{Seq: 1})

	if !temporal.IsCanceledError(s.GetWorkflowError()) {
		t.Errorf("the workflow ended with %v, want canceled", s.GetWorkflowError())
	}
	if !slices.Equal(s.stops, []string{"s"}) {
		t.Errorf("interrupts = %v, want one of s", s.stops)
	}
}

func sessionCanceledIdle(t *testing.T) {
	s := newStage(t)
	s.drives(rests(1))
	s.RegisterDelayedCallback(s.CancelWorkflow, 10*time.Second)

	s.session(t, wake{Seq: 1})

	if !slices.Equal(s.stops, []string{"s"}) {
		t.Errorf("interrupts = %v, want one of s", s.stops)
	}
}

func sessionRestored(t *testing.T) {
	s := newStage(t)
	s.drives(rests(4)) // the store was restored from a copy; the signal was about event 90

	if tries := s.session(t, wake{Seq: 90}); len(tries) != 1 {
		t.Errorf("%d tries, want 1", len(tries))
	}
}
