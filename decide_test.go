package perdure_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/perdure/perdure"
)

// law is one named law.
type law struct {
	name string
	keep func(*testing.T)
}

func keepAll(t *testing.T, all []law) {
	t.Helper()
	for _, l := range all {
		t.Run(l.name, func(t *testing.T) { t.Parallel(); l.keep(t) })
	}
}

// TestDecide walks the rows of TN1 and those of 4.6.
func TestDecide(t *testing.T) {
	t.Parallel()
	keepAll(t, []law{
		{"TN1_nothing_queued_rests", restsAtFirst},
		{"TN1_input_starts_a_turn_and_asks_the_model", inputStartsATurn},
		{"TN1_calls_below_the_limit_act", callsAct},
		{"TN1_calls_at_the_limit_are_answered_and_end_the_turn", limitEndsTheTurn},
		{"TN1_queued_input_gives_one_more_reason_step", queuedInputReasonsAgain},
		{"TN1_queued_input_at_the_limit_starts_the_next_turn", queuedInputAtTheLimit},
		{"TN1_refusal_ends", refusalEnds},
		{"TN1_answer_ends", answerEnds},
		{"TN1_retryable_failure_waits_and_reasons_again", failureRetries},
		{"TN1_attempts_used_up_fail", attemptsEnd},
		{"TN20_cut_off_text_stands_and_the_model_continues_once", cutOffContinues},
		{"TN20_never_twice_in_a_row", cutOffTwice},
		{"TN20_a_whole_answer_ends_the_row", cutOffAgainLater},
		{"TN20_not_after_a_fatal_failure_or_at_the_limit", cutOffEnds},
		{"TN1_fatal_failure_fails_with_its_code", fatalFails},
		{"TN1_violation_fails_when_the_siblings_are_done", violationFails},
		{"TN1_every_result_reasons_again", resultsReasonAgain},
		{"TN1_no_progress_seals", noProgressSeals},
		{"TN1_no_progress_0_is_off", noProgressOff},
		{"TN2_the_end_is_one_commit_and_the_next_turn_starts_at_once", nextTurnAtOnce},
		{"TN3_a_step_taken_up_again_keeps_its_ids", idsAreKept},
		{"TN22_empty_answer_is_asked_once_more_then_ends", emptyAnswer},
	})
}

// since returns the types of the events after the first n.
func (w *simulator) since(n int) []perdure.EventType {
	types := []perdure.EventType{}
	for _, e := range w.events[n:] {
		types = append(types, e.Type())
	}
	return types
}

// last returns the last fact of a type.
func last[T perdure.Fact](t *testing.T, w *simulator) T {
	t.Helper()
	for i := len(w.events) - 1; i >= 0; i-- {
		if fact, ok := w.events[i].Fact.(T); ok {
			return fact
		}
	}
	var none T
	t.Fatalf("no %s in %v", none.EventType(), w.since(0))
	return none
}

func wantTypes(t *testing.T, got []perdure.EventType, want ...perdure.EventType) {
	t.Helper()
	if diff := cmp.Diff(got, want, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("events (-got +want):\n%s", diff)
	}
}

// call asks for one free call.
func call(id perdure.CallID) asked {
	return asked{PlannedCall: perdure.PlannedCall{ID: id, Name: "work", Class: perdure.Pure, Fingerprint: "sha256:00"}, Args: `{}`}
}

// asking returns a simulator with a running model call.
func asking(t *testing.T, agent perdure.Agent) *simulator {
	w := newSimulator(t, agent)
	w.receive("do it", "")
	w.wake()
	return w
}

func restsAtFirst(t *testing.T) {
	w := newSimulator(t, perdure.Agent{})

	if !w.rested {
		t.Errorf("got %+v, want rest", w.due)
	}
}

func inputStartsATurn(t *testing.T) {
	w := newSimulator(t, perdure.Agent{Model: "m"})
	n := len(w.journal)

	id := w.receive("do it", "")
	w.wake()

	wantTypes(t, w.since(n), "message.received", "session.activated", "turn.started", "reason.started", "output.message.started")
	started, reason := last[perdure.TurnStarted](t, w), last[perdure.ReasonStarted](t, w)
	if started.Cause != perdure.CauseMessage || started.MessageID != id {
		t.Errorf("turn started: got %+v, want one by message %s", started, id)
	}
	if reason.Iteration != 1 || reason.Attempt != 1 || !cmp.Equal(reason.Inputs, []perdure.MessageID{id}) {
		t.Errorf("reason started: got %+v, want iteration 1, attempt 1, input %s", reason, id)
	}
	want := []perdure.Command{perdure.CallModel{Turn: started.TurnID, Exec: reason.ExecID, Message: reason.MessageID, Attempt: 1}}
	if diff := cmp.Diff(w.due, want); diff != "" {
		t.Errorf("due (-got +want):\n%s", diff)
	}
}

func callsAct(t *testing.T) {
	w := asking(t, perdure.Agent{MaxIterations: 2})
	n := len(w.journal)

	w.settle(w.answer("on it", call("a"), call("b"))...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "act.started", "tool.started", "tool.started")
	if got := len(w.runs()); got != 2 {
		t.Errorf("running calls: got %d, want 2", got)
	}
}

func limitEndsTheTurn(t *testing.T) {
	w := asking(t, perdure.Agent{MaxIterations: 1})
	n := len(w.journal)

	w.settle(w.answer("on it", call("a"), call("b"))...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "act.started",
		"tool.completed", "tool.completed", "act.completed", "turn.completed", "session.idled")
	result := last[perdure.ToolCompleted](t, w).Result
	if result.Error != "not executed: iteration limit reached" || !result.NeverStarted || result.ErrorKind != perdure.ErrorRejected {
		t.Errorf("result: got %+v, want a rejection with the text of TN1, never started", result)
	}
	end := last[perdure.TurnCompleted](t, w)
	if end.StopReason != perdure.StopMaxIterations || end.ToolCallCount != 2 || end.LLMCallCount != 1 || end.Iterations != 1 {
		t.Errorf("end: got %+v, want max_iterations after 1 iteration, 1 model call and 2 calls", end)
	}
}

func queuedInputReasonsAgain(t *testing.T) {
	w := asking(t, perdure.Agent{MaxIterations: 2})
	id := w.receive("and this", perdure.ModeSteer)
	n := len(w.journal)

	w.settle(w.answer("done")...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "reason.started", "output.message.started")
	reason := last[perdure.ReasonStarted](t, w)
	if reason.Iteration != 2 || !cmp.Equal(reason.Inputs, []perdure.MessageID{id}) {
		t.Errorf("reason started: got %+v, want iteration 2 with %s", reason, id)
	}
}

func queuedInputAtTheLimit(t *testing.T) {
	w := asking(t, perdure.Agent{MaxIterations: 1})
	w.receive("and this", perdure.ModeSteer)
	n := len(w.journal)

	w.settle(w.answer("done")...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "turn.completed", "session.idled",
		"session.activated", "turn.started", "reason.started", "output.message.started")
	if got := last[perdure.TurnCompleted](t, w).StopReason; got != perdure.StopEnd {
		t.Errorf("stop reason: got %s, want end", got)
	}
}

func refusalEnds(t *testing.T) {
	w := asking(t, perdure.Agent{})
	facts := w.answer("I would rather not")
	reason := facts[2].(perdure.ReasonCompleted)
	reason.Refusal = true
	facts[2] = reason

	w.settle(facts...)

	if got := last[perdure.TurnCompleted](t, w).StopReason; got != perdure.StopRefusal || !w.rested {
		t.Errorf("stop reason: got %s, rested %t; want refusal and rest", got, w.rested)
	}
}

func answerEnds(t *testing.T) {
	w := asking(t, perdure.Agent{})
	c, _ := w.model()
	w.now = w.now.Add(1500 * time.Millisecond)

	w.settle(w.answer("the answer")...)

	want := perdure.TurnCompleted{
		Iterations: 1, DurationMS: 1500, Usage: perdure.Usage{InputTokens: 10, OutputTokens: 3}, FinalMessageID: c.Message,
		FinalPreview: "the answer", LLMCallCount: 1, StopReason: perdure.StopEnd,
	}
	if diff := cmp.Diff(last[perdure.TurnCompleted](t, w), want); diff != "" {
		t.Errorf("end (-got +want):\n%s", diff)
	}
	idled := last[perdure.SessionIdled](t, w)
	if idled.Usage != want.Usage || idled.Iterations != 1 || !w.rested {
		t.Errorf("idled: got %+v, rested %t; want the turn's usage and rest", idled, w.rested)
	}
}

func failureRetries(t *testing.T) {
	w := asking(t, perdure.Agent{})
	first, _ := w.model()
	n := len(w.journal)

	w.settle(w.failure("provider_unavailable", true)...)

	wantTypes(t, w.since(n), "llm.generation", "reason.completed", "reason.started")
	again, _ := w.model()
	if again.Message != first.Message || again.Exec == first.Exec || again.Attempt != 2 {
		t.Errorf("retry: got %+v after %+v, want the same message, another exec, attempt 2", again, first)
	}
	if wait := again.NotBefore.Sub(w.now); wait < 900*time.Millisecond || wait > 1100*time.Millisecond {
		t.Errorf("wait before attempt 2: got %s, want a second ± 10 %%", wait)
	}
	if reason := last[perdure.ReasonStarted](t, w); !reason.NotBefore.Equal(again.NotBefore) || reason.Iteration != 1 {
		t.Errorf("journaled: got %+v, want the wait of %s in iteration 1", reason, again.NotBefore)
	}
}

func attemptsEnd(t *testing.T) {
	w := asking(t, perdure.Agent{})

	for range perdure.DefaultModelAttempts {
		w.settle(w.failure("provider_stalled", true)...)
	}

	end := last[perdure.TurnFailed](t, w)
	if end.Code != "provider_stalled" || !end.Retryable || end.Error != "it failed" || !w.rested {
		t.Errorf("end: got %+v, rested %t; want provider_stalled after 5 attempts", end, w.rested)
	}
	if got := last[perdure.ReasonStarted](t, w).Attempt; got != perdure.DefaultModelAttempts {
		t.Errorf("attempts: got %d, want %d", got, perdure.DefaultModelAttempts)
	}
}

func fatalFails(t *testing.T) {
	w := asking(t, perdure.Agent{})
	n := len(w.journal)

	w.settle(w.failure("invalid_tool_schema", false)...)

	wantTypes(t, w.since(n), "llm.generation", "reason.completed", "output.message.completed", "turn.failed", "session.idled")
	if got := last[perdure.TurnFailed](t, w); got.Code != "invalid_tool_schema" || got.Retryable {
		t.Errorf("end: got %+v, want invalid_tool_schema, not retryable", got)
	}
}

func cutOffContinues(t *testing.T) {
	w := asking(t, perdure.Agent{})
	first, _ := w.model()
	n := len(w.journal)

	w.settle(w.cutOff("half an ans", true)...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.recovered", "reason.completed", "reason.started", "output.message.started")
	next, _ := w.model()
	if next.Message == first.Message || next.Attempt != 1 || !next.NotBefore.After(w.now) {
		t.Errorf("next: got %+v after %+v, want a new message, attempt 1, after a wait", next, first)
	}
	got := w.session.Transcript
	if n := len(got); n != 3 || got[1].Text() != "half an ans" || !got[1].Interrupted || got[2].Role != perdure.RoleNotification {
		t.Errorf("transcript: got %+v, want the question, the half answer, and a word on it", got)
	}
}

func cutOffTwice(t *testing.T) {
	w := asking(t, perdure.Agent{})

	w.settle(w.cutOff("half an ans", true)...)
	w.settle(w.failure("provider_unavailable", true)...) // without text: asked again as ever
	w.settle(w.cutOff("wer and a qua", true)...)

	if end := last[perdure.TurnFailed](t, w); end.Code != "provider_unavailable" || !end.Retryable || !w.rested {
		t.Errorf("end: got %+v, rested %t; want provider_unavailable", end, w.rested)
	}
}

func cutOffAgainLater(t *testing.T) {
	w := asking(t, perdure.Agent{})

	w.settle(w.cutOff("half an ans", true)...)
	w.settle(w.answer("wer", call("a"))...)
	w.settle(done(w.runs()[0].Call, `1`))
	w.settle(w.cutOff("and", true)...)

	if _, ok := w.model(); !ok {
		t.Errorf("due: got %+v, want that the model is asked once more", w.due)
	}
}

func cutOffEnds(t *testing.T) {
	for name, agent := range map[string]perdure.Agent{"fatal": {}, "limit": {MaxIterations: 1}} {
		w := asking(t, agent)

		w.settle(w.cutOff("half an ans", name != "fatal")...)

		if end := last[perdure.TurnFailed](t, w); end.Code != "provider_unavailable" || !w.rested {
			t.Errorf("%s: got %+v, rested %t; want a failed turn", name, end, w.rested)
		}
	}
}

func violationFails(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.violates["a"] = true

	w.settle(w.answer("", call("a"), call("b"))...)
	running := w.runs()
	if len(running) != 1 || running[0].Call.ID != "b" || running[0].Stop {
		t.Fatalf("running: got %+v, want b, which continues (LG14)", running)
	}
	w.settle(done(running[0].Call, `1`))

	end := last[perdure.TurnFailed](t, w)
	if end.Code != perdure.CodeDeterminism || end.Retryable || !w.rested {
		t.Errorf("end: got %+v, rested %t; want determinism_violation, not retryable", end, w.rested)
	}
	w.receive("go on", "")
	w.wake()
	if _, ok := w.model(); !ok {
		t.Errorf("due: got %+v, want that the session continues (LG14)", w.due)
	}
}

func resultsReasonAgain(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.settle(w.answer("", call("a"), call("b"))...)
	id := w.receive("by the way", perdure.ModeSteer)
	n := len(w.journal)

	w.settle(done(w.runs()[1].Call, `2`))
	w.settle(done(w.runs()[0].Call, `1`))

	wantTypes(t, w.since(n), "tool.completed", "tool.completed", "act.completed", "reason.started", "output.message.started")
	if act := last[perdure.ActCompleted](t, w); act.SuccessCount != 2 || act.ErrorCount != 0 {
		t.Errorf("act completed: got %+v, want 2 successes", act)
	}
	var texts []string
	for _, m := range w.session.Transcript[1:] {
		for _, part := range m.Parts {
			if part.Result != nil {
				texts = append(texts, string(part.Result.CallID)+"="+string(part.Result.Result))
			}
		}
		if m.ID == id {
			texts = append(texts, "message")
		}
	}
	if diff := cmp.Diff(texts, []string{"a=1", "b=2", "message"}); diff != "" {
		t.Errorf("transcript after the calls (-got +want):\n%s", diff)
	}
	w.settle(w.answer("", call("c"))...)
	w.settle(done(w.runs()[0].Call, `3`))
	w.settle(w.answer("done")...)
	if end := last[perdure.TurnCompleted](t, w); end.ToolCallCount != 3 || end.LLMCallCount != 3 || end.Iterations != 3 {
		t.Errorf("end: got %+v, want 3 calls, model calls and iterations", end)
	}
}

func noProgressSeals(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.moment.NoProgress = 3
	w.settle(w.answer("", call("a"))...)
	w.crash(1) // the first taking after new events counts none

	for range 2 {
		w.crash(1)
		if w.runs()[0].Stop {
			t.Fatalf("sealed after %d take-ups, want 3", w.takeUps)
		}
	}
	w.crash(1)
	if runs := w.runs(); len(runs) != 1 || !runs[0].Stop {
		t.Fatalf("due after 3 take-ups: got %+v, want the call to be stopped", w.due)
	}
	w.settle(completed(w.runs()[0].Call, perdure.Failed("a", perdure.ErrorInterrupted, perdure.TextInterrupted)))

	if end := last[perdure.TurnSealed](t, w); end.Reason != "no_progress" || !w.rested {
		t.Errorf("end: got %+v, rested %t; want no_progress", end, w.rested)
	}
}

func noProgressOff(t *testing.T) {
	w := asking(t, perdure.Agent{})

	for range 10 {
		w.crash(1)
	}

	if c, ok := w.model(); !ok || c.Stop {
		t.Errorf("due after 10 take-ups: got %+v, want that the model is asked", w.due)
	}
}

func nextTurnAtOnce(t *testing.T) {
	w := asking(t, perdure.Agent{})
	id := w.receive("then this", perdure.ModeQueue)
	n := len(w.journal)

	w.settle(w.answer("done")...)

	wantTypes(t, w.since(n), "output.message.completed", "llm.generation", "reason.completed", "turn.completed", "session.idled",
		"session.activated", "turn.started", "reason.started", "output.message.started")
	if got := last[perdure.TurnStarted](t, w).MessageID; got != id {
		t.Errorf("next turn: got input %s, want %s", got, id)
	}
}

func idsAreKept(t *testing.T) {
	w := asking(t, perdure.Agent{})
	before := w.due
	n := len(w.journal)

	w.now = w.now.Add(time.Hour)
	w.crash(2)

	if diff := cmp.Diff(w.due, before); diff != "" {
		t.Errorf("due after the crash (-got +want):\n%s", diff)
	}
	wantTypes(t, w.since(n))
}

func emptyAnswer(t *testing.T) {
	w := asking(t, perdure.Agent{})
	n := len(w.journal)

	w.settle(w.failure(perdure.CodeEmptyAnswer, true)...)
	if again, ok := w.model(); !ok || again.Attempt != 2 || !again.NotBefore.IsZero() {
		t.Fatalf("due: got %+v, want attempt 2 at once", w.due)
	}
	w.settle(w.failure(perdure.CodeEmptyAnswer, true)...)

	wantTypes(t, w.since(n), "llm.generation", "reason.completed", "reason.started", "llm.generation", "reason.completed",
		"output.message.completed", "turn.completed", "session.idled")
	if end := last[perdure.TurnCompleted](t, w); end.StopReason != perdure.StopEnd || end.FinalPreview != "" {
		t.Errorf("end: got %+v, want end without text", end)
	}
	if message := last[perdure.OutputCompleted](t, w).Message; len(message.Parts) != 0 {
		t.Errorf("final message: got %+v, want an empty one", message)
	}
}
