package enginetest

import (
	"maps"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func recoveryLaws() []law {
	return []law{
		{"reports_a_call_that_it_took_over", recoveredCall},
		{"reports_a_task_that_it_took_over", recoveredTask},
		{"reports_a_task_whose_outcome_is_unknown_until_it_is_resolved", recoveredUnknown},
		{"reports_nothing_where_nothing_was_left", recoveredNothing},
		{"counts_tasks_by_state", countsTasks},
	}
}

// onlyRecovery returns the one recovery of the running engine.
func (s *scene) onlyRecovery() engine.Recovery {
	s.t.Helper()
	all, err := s.eng.Tasks().Recoveries(s.ctx)
	if w, is := s.World.(Spread); is && len(all) == 0 {
		all, err = w.Engines()[1].Tasks().Recoveries(s.ctx)
	}
	if err != nil || len(all) != 1 {
		s.t.Fatalf("recoveries %+v, %v, want one", all, err)
	}
	r := all[0]
	if !r.Crashed || r.LastSignAt.IsZero() || r.BeganAt.IsZero() || r.EndedAt.Before(r.BeganAt) || r.Repeated != 0 {
		s.t.Errorf("got %+v", r)
	}
	return r
}

func recoveredCall(t *testing.T, open Harness) {
	s := crashed(t, open, "hold_charge")

	r := s.onlyRecovery()
	want := map[perdure.TakeOver]int{perdure.TakeOverUnknown: 1}
	if r.Calls != 1 || r.Tasks != 0 || r.Sessions != 1 || r.Unknown != 1 || !maps.Equal(r.Actions, want) {
		t.Errorf("got %+v, want one call in one session, with an unknown outcome", r)
	}
}

func recoveredTask(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.crash()
	s.Entered(t, "bg_hold", 2)
	s.Release("bg_hold")
	s.rest()

	r := s.onlyRecovery() // the call that started the task may not have been settled
	if r.Tasks != 1 || r.Calls > 1 || r.Unknown != 0 || r.Actions[perdure.TakeOverRunAgain] != 1+r.Calls {
		t.Errorf("got %+v, want one task that ran again", r)
	}
}

func recoveredUnknown(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_charge", "{}")})
	s.say("go")
	s.Entered(t, "bg_charge", 1)
	s.crash()
	s.rest()

	if r := s.onlyRecovery(); r.Tasks != 1 || r.Unknown != 1 {
		t.Errorf("got %+v, want one unknown task", r)
	}
	err := s.eng.Tasks().Resolve(s.ctx, s.onlyTask().ID, engine.Resolution{Answer: perdure.ResolveHappened, By: "ops"})
	if r := s.onlyRecovery(); err != nil || r.Tasks != 1 || r.Unknown != 0 {
		t.Errorf("got %+v after its resolution, %v", r, err)
	}
}

func recoveredNothing(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{text: hello}]"})
	s.say("go")
	s.rest()
	s.crash()
	s.rest()

	if all, err := s.eng.Tasks().Recoveries(s.ctx); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
}

func countsTasks(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)

	running, err := s.eng.Tasks().Overview(s.ctx)
	if err != nil || running.States[perdure.TaskRunning] != 1 || running.Monitors[perdure.TaskRunning] != 0 || running.HeartbeatMS <= 0 || running.GraceMS <= 0 {
		t.Errorf("while it runs: %+v, %v", running, err)
	}
	s.Release("bg_hold")
	s.rest()
	ended, err := s.eng.Tasks().Overview(s.ctx)
	if err != nil || ended.States[perdure.TaskRunning] != 0 || ended.States[perdure.TaskSucceeded] != 1 {
		t.Errorf("after its end: %+v, %v", ended, err)
	}
}
