package enginetest

import (
	"testing"

	"github.com/perdure/perdure"
)

func crashLaws() []law {
	return []law{
		{"runs_a_pure_call_again", pureAgain},
		{"runs_an_idempotent_call_again_under_its_key", idempotentAgain},
		{"makes_an_at_most_once_call_unknown", atMostOnceUnknown},
		{"asks_a_tool_that_can_reconcile", reconciles},
		{"gives_up_on_a_call_that_was_run_too_often", givesUp},
		{"runs_a_task_again_under_its_ids", taskAgain},
		{"makes_an_at_most_once_task_unknown", taskUnknown},
		{"asks_the_model_again_for_an_open_answer", modelAgain},
		{"delivers_what_ended_before_the_crash", deliversLater},
		{"a_graceful_stop_leaves_tasks_as_they_are", gracefulStop},
		{"takes_up_a_message_that_nobody_saw", messageBeforeRun},
	}
}

// crashed runs one held call, kills the engine during the call, starts another engine and lets the
// call end.
func crashed(t *testing.T, open Harness, tool string) *scene {
	s := begin(t, open, Setup{Script: oneTool(tool, "{text: a}")})
	s.say("hi")
	s.Entered(t, tool, 1)
	s.crash()
	s.Release(tool)
	s.rest()
	return s
}

func pureAgain(t *testing.T, open Harness) { // LG8
	s := crashed(t, open, "hold")

	if got := s.onlyResult("hold"); got.Status != perdure.StatusSuccess || s.final() != "done" {
		t.Errorf("got %+v", got)
	}
	taken := facts[perdure.ToolTakenOver](s)
	if len(taken) != 1 || taken[0].How != perdure.TakeOverRunAgain || taken[0].Executions != 2 {
		t.Errorf("taken over %+v", taken)
	}
}

func idempotentAgain(t *testing.T, open Harness) { // LG10, I3
	s := crashed(t, open, "hold_note")

	keys := s.Effects("hold_note")
	if len(keys) != 2 || keys[0] != keys[1] || s.onlyResult("hold_note").Status != perdure.StatusSuccess {
		t.Errorf("effects under %v", keys)
	}
}

func atMostOnceUnknown(t *testing.T, open Harness) { // LG8, TN17, I2
	s := crashed(t, open, "hold_charge")

	got := s.onlyResult("hold_charge")
	if got.Status != perdure.StatusUnknown || got.Result.Error != perdure.TextUnknown || s.final() != "done" {
		t.Errorf("got %+v; an unknown call never blocks the turn (LG11)", got)
	}
	if n := len(s.Effects("hold_charge")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	session, err := s.eng.Sessions().Get(s.ctx, s.id)
	if err != nil || session.Unknown != 1 {
		t.Errorf("the session shows %d unknown, %v", session.Unknown, err)
	}
}

func reconciles(t *testing.T, open Harness) { // LG8
	s := crashed(t, open, "guarded")

	if got := s.onlyResult("guarded"); got.Status != perdure.StatusSuccess || len(s.Effects("guarded")) != 1 {
		t.Errorf("got %+v after %d effects", got, len(s.Effects("guarded")))
	}
}

func givesUp(t *testing.T, open Harness) { // LG9
	s := begin(t, open, Setup{Script: oneTool("hold", "{text: a}"), MaxRuns: 2})
	s.say("hi")
	s.Entered(t, "hold", 1)
	s.crash()
	s.Entered(t, "hold", 2)
	s.crash()
	s.rest()

	got := s.onlyResult("hold")
	if got.Result.Error != "gave up after 2 executions" || got.Result.ErrorKind != perdure.ErrorInternal {
		t.Errorf("got %+v", got)
	}
}

func taskAgain(t *testing.T, open Harness) { // RC13 row 8, RC14
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	before := s.onlyTask()
	s.crash()
	s.Entered(t, "bg_hold", 2)
	s.Release("bg_hold")
	s.rest()

	after := s.onlyTask()
	if after.ID != before.ID || after.Run != before.Run || after.Attempt != 2 || after.Executions != 2 ||
		after.State != perdure.TaskSucceeded {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if n := len(facts[perdure.TaskDelivered](s)); n != 1 {
		t.Errorf("delivered %d times", n)
	}
}

func taskUnknown(t *testing.T, open Harness) { // RC13 row 10
	s := begin(t, open, Setup{Script: spawning("bg_charge", "{}")})
	s.say("go")
	s.Entered(t, "bg_charge", 1)
	s.crash()
	s.rest()

	if task := s.onlyTask(); task.State != perdure.TaskUnknown || task.Delivered != perdure.DeliveredInjected ||
		len(s.Effects("bg_charge")) != 1 {
		t.Errorf("got %s, delivered %s, %d effects", task.State, task.Delivered, len(s.Effects("bg_charge")))
	}
}

func modelAgain(t *testing.T, open Harness) { // TN20 restart, TN3
	s := begin(t, open, Setup{Script: `
steps:
  - {text: "a slow answer", chunk: 4, pace: 20ms}
`})
	s.say("go")
	s.until("open answer", func(e perdure.Event) bool { _, ok := e.Fact.(perdure.OutputStarted); return ok })
	s.crash()
	s.rest()

	started, completed := facts[perdure.OutputStarted](s), facts[perdure.OutputCompleted](s)
	if len(started) != 1 || len(completed) != 1 || started[0].MessageID != completed[0].Message.ID ||
		s.final() != "a slow answer" {
		t.Errorf("started %+v, completed %+v", started, completed)
	}
}

func deliversLater(t *testing.T, open Harness) { // DL9
	s := begin(t, open, Setup{Script: `
rules:
  - when: {last_role: notification}
    text: home
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: stream, args: {}}}, {name: hold, args: {text: a}}]
steps: [{text: x, repeat: true}]
`})
	s.say("go")
	s.Entered(t, "hold", 1)
	s.until("end of the run", func(e perdure.Event) bool {
		f, ok := e.Fact.(perdure.TaskUpdated)
		return ok && f.Task.State == perdure.TaskSucceeded
	})
	s.crash()
	s.Release("hold")
	s.rest()

	if n := len(facts[perdure.TaskDelivered](s)); n != 1 || s.final() != "home" {
		t.Errorf("delivered %d times, final %q", n, s.final())
	}
}

func gracefulStop(t *testing.T, open Harness) { // RC11
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.Stop(t)
	s.eng = s.Start(t)
	s.Entered(t, "bg_hold", 2)
	stopped := s.onlyTask()
	s.Release("bg_hold")
	s.rest()

	if stopped.State != perdure.TaskRunning {
		t.Errorf("the stop left the task %s", stopped.State)
	}
	if task := s.onlyTask(); task.State != perdure.TaskSucceeded {
		t.Errorf("got %s", task.State)
	}
}

func messageBeforeRun(t *testing.T, open Harness) { // the ordinary start finds unread messages
	s := begin(t, open, Setup{Script: "steps: [{text: hello}]"})
	s.Stop(t)
	s.say("hi")
	s.eng = s.Start(t)
	s.rest()

	if got := s.final(); got != "hello" {
		t.Errorf("got %q", got)
	}
}
