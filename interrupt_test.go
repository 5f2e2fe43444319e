package perdure_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// TestDecideInterrupt walks through RC8: results are kept, running calls are stopped, and calls
// that never started are recorded as such.
func TestDecideInterrupt(t *testing.T) {
	t.Parallel()
	keepAll(t, []law{
		{"RC8_a_model_call_is_stopped", interruptsModel},
		{"RC8_an_answer_that_came_first_is_kept_and_its_calls_never_start", interruptsAfterAnswer},
		{"RC8_results_are_kept_running_calls_stopped_planned_ones_answered", interruptsCalls},
		{"RC8_a_call_that_ends_with_a_result_keeps_it", interruptKeepsResult},
		{"RC8_a_wait_for_the_next_attempt_ends", interruptsWait},
		{"RC8_a_failure_that_came_first_closes_the_message", interruptsAfterFailure},
		{"RC8_background_tasks_go_on", interruptSparesTasks},
		{"RC8_survives_a_crash", interruptSurvives},
		{"DL10_a_message_of_mode_interrupt_starts_the_next_turn", interruptByMessage},
		{"nothing_runs_nothing_to_interrupt", interruptAtRest},
		{"comes_before_no_progress", interruptBeforeSeal},
	})
}

func (w *simulator) interrupted() {
	w.intend(perdure.InterruptRequested{By: "ada", Reason: "enough"})
	w.wake()
}

func interruptsModel(t *testing.T) {
	w := asking(t, perdure.Agent{})

	w.interrupted()
	if c, ok := w.model(); !ok || !c.Stop {
		t.Fatalf("due: got %+v, want the model call to be stopped", w.due)
	}
	n := len(w.journal)
	w.settle(w.stopped("half an ans")...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "turn.canceled", "session.idled")
	want := perdure.TurnCanceled{By: "ada", Reason: "enough"}
	if diff := cmp.Diff(last[perdure.TurnCanceled](t, w), want); diff != "" {
		t.Errorf("end (-got +want):\n%s", diff)
	}
	message := w.session.Transcript[len(w.session.Transcript)-1]
	if !message.Interrupted || message.Text() != "half an ans" {
		t.Errorf("last message: got %+v, want the text so far, interrupted", message)
	}
}

func interruptsAfterAnswer(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.interrupted()
	n := len(w.journal)

	w.settle(w.answer("on it", call("a"))...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "act.started",
		"tool.completed", "act.completed", "turn.canceled", "session.idled")
	wantNeverStarted(t, last[perdure.ToolCompleted](t, w))
}

func wantNeverStarted(t *testing.T, got perdure.ToolCompleted) {
	t.Helper()
	want := perdure.Refused(got.CallID, perdure.ErrorInterrupted, "The call was interrupted before it reported a result.")
	if diff := cmp.Diff(got.Result, want); diff != "" || got.Status != perdure.StatusInterrupted {
		t.Errorf("status: got %s, want interrupted; result (-got +want):\n%s", got.Status, diff)
	}
}

func interruptsCalls(t *testing.T) {
	w := asking(t, perdure.Agent{MaxParallelCalls: 2})
	w.settle(w.answer("", call("a"), call("b"), call("c"), call("d"))...)
	w.settle(done(w.runs()[0].Call, `"kept"`))
	n := len(w.journal)

	w.interrupted()

	wantTypes(t, w.since(n), "turn.interrupt_requested", "tool.completed")
	completed := last[perdure.ToolCompleted](t, w)
	if completed.CallID != "d" {
		t.Errorf("answered: got %s, want the planned d", completed.CallID)
	}
	wantNeverStarted(t, completed)
	for _, run := range w.runs() {
		if !run.Stop {
			t.Errorf("running: got %+v, want a stop", run)
		}
	}
	n = len(w.journal)
	for len(w.runs()) > 0 {
		c := w.runs()[0].Call
		w.settle(perdure.ToolCompleted{CallID: c.ID, Result: perdure.Failed(c.ID, perdure.ErrorInterrupted, perdure.TextInterrupted)})
	}
	wantTypes(t, w.since(n), "tool.completed", "tool.completed", "act.completed", "turn.canceled", "session.idled")
	if act := last[perdure.ActCompleted](t, w); act.SuccessCount != 1 || act.ErrorCount != 3 {
		t.Errorf("act completed: got %+v, want the one success and 3 errors", act)
	}
}

func interruptKeepsResult(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.settle(w.answer("", call("a"))...)
	w.interrupted()

	w.settle(done(w.runs()[0].Call, `"real"`))

	result := w.session.Transcript[len(w.session.Transcript)-1].Parts[0].Result
	if string(result.Result) != `"real"` || !w.rested {
		t.Errorf("result: got %s, rested %t; want the real one (RC3)", result.Result, w.rested)
	}
}

func interruptsWait(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.settle(w.failure("provider_unavailable", true)...)

	w.interrupted()

	if c, ok := w.model(); !ok || !c.Stop || !c.NotBefore.IsZero() {
		t.Errorf("due: got %+v, want a stop that does not wait", w.due)
	}
}

func interruptsAfterFailure(t *testing.T) {
	w := asking(t, perdure.Agent{})
	c, _ := w.model()
	w.interrupted()
	n := len(w.journal)

	w.settle(w.failure("provider_unavailable", true)...)

	wantTypes(t, w.since(n), "llm.generation", "reason.completed", "output.message.completed", "turn.canceled", "session.idled")
	closed := last[perdure.OutputCompleted](t, w)
	if closed.Message.ID != c.Message || !closed.Interrupted || !closed.Message.Interrupted || len(closed.Message.Parts) != 0 {
		t.Errorf("closed: got %+v, want message %s, empty and interrupted", closed, c.Message)
	}
	if got := w.session.Transcript; len(got) != 1 {
		t.Errorf("transcript: got %+v, want the input alone", got)
	}
}

func interruptSparesTasks(t *testing.T) {
	w := asking(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)

	w.interrupted()
	w.settle(w.stopped("")...)

	if got := w.session.Tasks[id]; got.State != perdure.TaskRunning || got.CancelRequested() {
		t.Errorf("task: got %+v, want it untouched", got)
	}
	if !w.rested || w.session.AtRest() {
		t.Errorf("rested %t, at rest %t; want that the driver releases the session while the task runs", w.rested, w.session.AtRest())
	}
}

func interruptSurvives(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.settle(w.answer("", call("a"))...)
	w.intend(perdure.InterruptRequested{By: "ada"})

	w.crash(3)

	if runs := w.runs(); len(runs) != 1 || !runs[0].Stop {
		t.Errorf("due: got %+v, want the call to be stopped", w.due)
	}
}

func interruptByMessage(t *testing.T) {
	w := asking(t, perdure.Agent{})
	id := w.receive("stop, do this", perdure.ModeInterrupt)
	w.wake()
	n := len(w.journal)

	w.settle(w.stopped("")...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "turn.canceled", "session.idled",
		"session.activated", "turn.started", "reason.started", "output.message.started")
	if got := last[perdure.TurnStarted](t, w).MessageID; got != id {
		t.Errorf("next turn: got input %s, want %s", got, id)
	}
	if got := last[perdure.TurnCanceled](t, w).By; got != "user" {
		t.Errorf("canceled by %q, want the message's source", got)
	}
}

func interruptAtRest(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.settle(w.answer("done")...)
	n := len(w.journal)

	w.interrupted()

	wantTypes(t, w.since(n), "turn.interrupt_requested")
	if !w.rested {
		t.Errorf("due: got %+v, want rest", w.due)
	}
}

func interruptBeforeSeal(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.interrupted()
	w.moment.NoProgress = 1
	w.crash(1)
	w.crash(1)

	w.settle(w.stopped("")...)

	if got := last[perdure.TurnCanceled](t, w).By; got != "ada" {
		t.Errorf("canceled by %q, want ada", got)
	}
}
