package enginetest

import (
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

func laneCrashLaws() []law {
	return []law{
		{"DetachSurvivesKill", detachSurvivesKill},
		{"KillBetweenDetachAndEnd", killBetween},
		{"QueuedRoutedSurvivesKill", queuedRouted},
		{"GracefulStopLeavesDetached", stopLeavesDetached},
		{"CancelDetachedSurvivesKill", cancelDetachedSurvives},
	}
}

// detachSurvivesKill pins RC13: a detached call is taken over by its class, under the key of the
// call.
func detachSurvivesKill(t *testing.T, open Harness) {
	for tool, again := range map[string]bool{"hold": true, "hold_note": true, "hold_charge": false} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: detachingScript(ask(tool, "{text: a}"))})
			s.say("go")
			before := s.detach(tool)
			s.turnEnds(1)
			s.crash()
			if again {
				s.Entered(t, tool, 2)
				s.Release(tool)
			}
			want, runs := perdure.TaskSucceeded, 2
			if !again {
				want, runs = perdure.TaskUnknown, 1
			}
			after := s.awaitDelivered(want)
			if after.ID != before.ID || after.Run != before.Run || after.Executions != runs || after.Attempt != 2 {
				t.Errorf("before %+v, after %+v", before, after)
			}
			if keys := s.Effects(tool); tool != "hold" &&
				(len(keys) != runs || keys[0] != keys[len(keys)-1] || keys[0] != before.LedgerKey().IdempotencyKey()) {
				t.Errorf("effects under %v", keys)
			}
			if !again && !strings.HasPrefix(s.final(), "home: Background run ended with unknown outcome.") {
				t.Errorf("the model received %q", s.final())
			}
		})
	}
}

// killBetween ends the work when its engine can no longer record that.
func killBetween(t *testing.T, open Harness) {
	for tool, want := range map[string]perdure.TaskState{"hold_note": perdure.TaskSucceeded,
		"hold_charge": perdure.TaskUnknown} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: detachingScript(ask(tool, "{text: a}")), SoftBudget: soon})
			s.say("go")
			s.awaitDetached()
			s.Kill(t)
			s.Release(tool)
			s.eng = s.Start(t)

			s.awaitDelivered(want)
			if calls := s.ledger(); len(calls) != 1 || calls[0].State == perdure.CallRunning {
				t.Errorf("the ledger has %+v", calls)
			}
		})
	}
}

func queuedRouted(t *testing.T, open Harness) { // RC13 row 4
	s := begin(t, open, Setup{
		Script:     detachingScript(ask("hold_charge", "{text: a}"), ask("hold_note", "{text: b}")),
		Background: []string{"hold_charge", "hold_note"}, PerSession: 1,
	})
	s.say("go")
	s.turnEnds(1)
	s.Entered(t, "hold_charge", 1)
	s.crash()
	s.Entered(t, "hold_note", 1)
	s.Release("hold_note")
	s.rest()

	tasks := s.tasks()
	if len(tasks) != 2 || tasks[0].State != perdure.TaskUnknown || tasks[1].State != perdure.TaskSucceeded ||
		tasks[1].Executions != 1 || tasks[1].Attempt != 1 {
		t.Errorf("got %+v", tasks)
	}
	for _, tool := range []string{"hold_charge", "hold_note"} {
		if n := len(s.Effects(tool)); n != 1 {
			t.Errorf("%d effects of %s", n, tool)
		}
	}
	if got := s.results(); len(got) != 2 {
		t.Errorf("%d results", len(got))
	}
}

func stopLeavesDetached(t *testing.T, open Harness) { // RC11
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"), ask("hold_note", "{text: b}"))})
	s.say("go")
	id := s.detach("hold").ID
	s.Entered(t, "hold_note", 1)
	s.Stop(t)
	s.eng = s.Start(t)
	s.Entered(t, "hold", 2)
	s.Entered(t, "hold_note", 2)
	stopped := s.onlyTaskOf(id)
	s.Release("hold")
	s.Release("hold_note")
	s.awaitDelivered(perdure.TaskSucceeded)

	if got := s.results(); stopped.State != perdure.TaskRunning || len(got) != 2 || got[1] != `{"held":"b"}` {
		t.Errorf("the stop left the task %s; results %q", stopped.State, got)
	}
}

func cancelDetachedSurvives(t *testing.T, open Harness) { // RC13 row 2
	s := begin(t, open, Setup{Script: detachingScript(ask("hold_stubborn", "{text: a}"))})
	s.say("go")
	s.cancel(s.detach("hold_stubborn").ID)
	s.crash()

	if task := s.awaitDelivered(perdure.TaskCanceled); task.Executions != 1 {
		t.Errorf("%d executions", task.Executions)
	}
}
