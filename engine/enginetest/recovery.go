package enginetest

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
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
		{"lists_the_tasks_that_match_a_query", listsTasksWhere},
	}
}

// onlyRecovery returns the one recovery of the running engine.
func (s *scene) onlyRecovery() engine.Recovery {
	s.t.Helper()
	all, err := s.eng.Tasks().Recoveries(s.ctx)
	if w, is := s.World.(Spread); is {
		all, err = s.recoveriesOf(w.Engines())
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

// recoveriesOf adds up what several engines have taken over, as one recovery.
func (s *scene) recoveriesOf(engines []engine.Engine) ([]engine.Recovery, error) {
	var sum []engine.Recovery
	for _, eng := range engines {
		all, err := eng.Tasks().Recoveries(s.ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			if len(sum) == 0 {
				sum = []engine.Recovery{r}
				continue
			}
			one := &sum[0]
			one.Tasks, one.Calls, one.Unknown, one.Repeated = one.Tasks+r.Tasks, one.Calls+r.Calls, one.Unknown+r.Unknown, one.Repeated+r.Repeated
			one.Sessions = max(one.Sessions, r.Sessions)
			for how, n := range r.Actions {
				one.Actions[how] += n
			}
		}
	}
	return sum, nil
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

func listsTasksWhere(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: still})
	var ids []perdure.TaskID
	for _, text := range []string{"a", "b", "c"} {
		made := s.host(engine.HostCallRequest{Tool: "note", Args: json.RawMessage(`{"text":"` + text + `"}`)})
		ids = append(ids, s.ended(made.Task.ID).ID)
	}
	done, none := []perdure.TaskState{perdure.TaskSucceeded}, []perdure.TaskState{perdure.TaskRunning, perdure.TaskUnknown}
	own := engine.TaskFilter{Session: s.id}
	for name, c := range map[string]struct {
		q    engine.TaskQuery
		want []perdure.TaskID
	}{
		"all":           {engine.TaskQuery{TaskFilter: own}, ids},
		"newest":        {engine.TaskQuery{TaskFilter: own, States: done, Newest: true, Limit: 2}, []perdure.TaskID{ids[2], ids[1]}},
		"after":         {engine.TaskQuery{TaskFilter: own, After: ids[0], Limit: 1}, ids[1:2]},
		"newest, after": {engine.TaskQuery{Newest: true, After: ids[1], States: done}, ids[:1]},
		"tool":          {engine.TaskQuery{TaskFilter: engine.TaskFilter{Tool: "charge"}, Limit: 2}, nil},
		"state":         {engine.TaskQuery{States: none, Newest: true}, nil},
		"kind":          {engine.TaskQuery{Kinds: []perdure.TaskKind{perdure.KindMonitor}, Limit: 5}, nil},
	} {
		found, err := s.eng.Tasks().ListWhere(s.ctx, c.q)
		var got []perdure.TaskID
		for _, task := range found {
			got = append(got, task.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
	if _, err := s.eng.Tasks().ListWhere(s.ctx, engine.TaskQuery{After: "task_00000000000000000000000000000000"}); !errors.Is(err, perdure.NotFound) {
		t.Errorf("after no task: %v", err)
	}
	if _, err := s.eng.Tasks().ListWhere(s.ctx, engine.TaskQuery{States: []perdure.TaskState{"asleep"}}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("no such state: %v", err)
	}
}
