package perdure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestPause: nothing starts while a person's pause stands, and afterwards the turn continues where
// it stopped.
func TestPause(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		test func(*testing.T, *simulator)
	}{
		{"claimed_calls_settle_and_the_others_wait", pauseInAct},
		{"an_answer_under_way_is_finished", pauseInReason},
		{"a_turn_that_has_its_answer_ends", pauseBeforeTheEnd},
		{"a_failed_answer_is_not_asked_for_again", pauseBeforeARetry},
		{"messages_wait_and_start_a_turn_after_it", pauseAtRest},
		{"a_wake_waits_as_a_notification", pauseBeforeAWake},
		{"an_interrupt_ends_the_turn_that_it_holds", pauseThenInterrupt},
		{"a_budget_ends_the_turn_that_it_holds", pauseUnderBudget},
		{"no_question_is_sent_and_expired_ones_close", pauseBeforeAQuestion},
		{"a_summary_is_not_begun", pauseBeforeASummary},
		{"the_first_one_stands", pauseTwice},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newSimulator(t, perdure.Agent{SerialCalls: true})
			w.tick = time.Second
			c.test(t, w)
		})
	}
}

// paused lets the driver see a person's pause.
func (w *simulator) paused() {
	w.intend(perdure.SessionPauses{By: "ada", Reason: "let me look"})
	w.wake()
}

// resumed lets the driver see the end of the pause.
func (w *simulator) resumed() { w.intend(perdure.SessionResumes{By: "ada"}); w.wake() }

// stands checks that the driver released the session, at rest and paused, with or without its turn.
func (w *simulator) stands(turn bool) {
	w.tb.Helper()
	s := w.session
	if !w.rested || !s.AtRest() || s.Status != perdure.SessionPaused || (s.Turn != nil) != turn || s.Suspended() != turn {
		w.tb.Fatalf("rested %t, at rest %t, status %s, turn %+v; due %+v", w.rested, s.AtRest(), s.Status, s.Turn, w.due)
	}
}

// said counts the facts of the journal of one type.
func said[F perdure.Fact](w *simulator) (n int) {
	for _, e := range w.events {
		if _, ok := e.Fact.(F); ok {
			n++
		}
	}
	return n
}

func notes(names ...string) (calls []asked) {
	for _, name := range names {
		calls = append(calls, asked{PlannedCall: perdure.PlannedCall{ID: perdure.CallID(name), Name: "note", Class: perdure.Pure}, Args: "{}"})
	}
	return calls
}

func pauseInAct(t *testing.T, w *simulator) {
	w.receive("go", "")
	w.wake()
	w.settle(w.answer("", notes("a", "b")...)...)

	w.paused()
	if runs := w.runs(); len(runs) != 1 || runs[0].Stop || w.session.AtRest() || w.session.Suspended() {
		t.Fatalf("a call that was claimed is not left alone: due %+v, at rest %t", w.due, w.session.AtRest())
	}
	w.settle(done(w.runs()[0].Call, `1`))
	w.stands(true)
	w.crash(3) // the pause is in the journal: the next driver finds it
	w.stands(true)

	w.resumed()
	if runs := w.runs(); len(runs) != 1 || runs[0].Call.ID != "b" || w.session.Status != perdure.SessionActive {
		t.Fatalf("due %+v, status %s; want the second call", w.due, w.session.Status)
	}
	w.settle(done(w.runs()[0].Call, `2`))
	w.settle(w.answer("done")...)
	if said[perdure.TurnStarted](w) != 1 || said[perdure.TurnCompleted](w) != 1 || !w.rested || w.session.Status != perdure.SessionIdle {
		t.Errorf("%d turns started and %d completed, status %s; want one, idle", said[perdure.TurnStarted](w), said[perdure.TurnCompleted](w), w.session.Status)
	}
}

func pauseInReason(t *testing.T, w *simulator) {
	w.receive("go", "")
	w.wake()
	w.paused()
	if c, ok := w.model(); !ok || c.Stop || w.session.AtRest() {
		t.Fatalf("the question to the model is not left alone: due %+v", w.due)
	}

	w.settle(w.answer("", notes("a")...)...)

	w.stands(true)
	if said[perdure.ToolStarted](w) != 0 {
		t.Error("a call was claimed in a pause")
	}
	w.resumed()
	if len(w.runs()) != 1 {
		t.Errorf("due %+v, want the call", w.due)
	}
}

func pauseBeforeTheEnd(t *testing.T, w *simulator) {
	w.receive("go", "")
	w.wake()
	w.paused()
	w.settle(w.answer("an answer")...)
	w.stands(false)
	if said[perdure.TurnCompleted](w) != 1 {
		t.Error("the turn has its answer, and did not complete")
	}
	w.resumed()
	if !w.rested || w.session.Status != perdure.SessionIdle {
		t.Errorf("status %s, due %+v; want idle", w.session.Status, w.due)
	}
}

func pauseBeforeARetry(t *testing.T, w *simulator) {
	w.receive("go", "")
	w.wake()
	w.paused()
	w.settle(w.failure("provider_unavailable", true)...)
	w.stands(true)
	w.resumed()
	if c, ok := w.model(); !ok || c.Attempt != 2 {
		t.Errorf("due %+v, want the second attempt", w.due)
	}
}

func pauseAtRest(t *testing.T, w *simulator) {
	w.paused()
	w.receive("go", "")
	w.wake()
	w.stands(false)
	if len(w.session.Queue) != 1 {
		t.Fatalf("queue %+v, want the message", w.session.Queue)
	}
	w.resumed()
	if _, ok := w.model(); !ok || w.session.Turn.Cause != perdure.CauseMessage {
		t.Errorf("due %+v, want a turn for the message", w.due)
	}
}

func pauseBeforeAWake(t *testing.T, w *simulator) {
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.paused()
	if w.session.AtRest() {
		t.Error("at rest while a task works")
	}
	w.update(id, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskSucceeded})
	w.wake()
	w.wake()
	w.stands(false)
	if n := said[perdure.DeliveryHeld](w); n != 1 {
		t.Errorf("delivery.held was said %d times, want once", n)
	}
	w.resumed()
	if _, ok := w.model(); !ok || w.session.Turn.Cause != perdure.CauseDelivery || said[perdure.TaskDelivered](w) != 1 {
		t.Errorf("due %+v, want a turn for the result", w.due)
	}
}

func pauseThenInterrupt(t *testing.T, w *simulator) {
	w.receive("go", "")
	w.wake()
	w.settle(w.answer("", notes("a", "b")...)...)
	w.paused()
	w.settle(done(w.runs()[0].Call, `1`))
	w.stands(true)

	w.intend(perdure.InterruptRequested{By: "ada", Reason: "no"})
	w.wake()

	w.stands(false)
	if said[perdure.TurnCanceled](w) != 1 || said[perdure.ToolStarted](w) != 1 {
		t.Errorf("%d turns canceled, %d calls claimed; want 1 and 1", said[perdure.TurnCanceled](w), said[perdure.ToolStarted](w))
	}
	w.resumed()
	if !w.rested || w.session.Status != perdure.SessionIdle {
		t.Errorf("status %s, due %+v; want idle", w.session.Status, w.due)
	}
}

func pauseUnderBudget(t *testing.T, w *simulator) {
	w.receive("go", "")
	w.wake()
	w.settle(w.answer("", notes("a")...)...)
	w.paused()
	w.settle(done(w.runs()[0].Call, `1`))
	w.stands(true)

	w.intend(perdure.BudgetExhausted{BudgetNotice: perdure.BudgetNotice{BudgetID: "bdgt_1", Why: "nothing is left"}})
	w.wake()
	w.stands(false)
	if said[perdure.TurnSealed](w) != 1 {
		t.Fatal("the budget did not seal the turn")
	}
	w.resumed()
	if !w.rested || w.session.Status != perdure.SessionPaused || w.session.Paused != nil || w.session.Halt == nil {
		t.Errorf("status %s, paused %+v, halt %+v; want the budget alone to stop it", w.session.Status, w.session.Paused, w.session.Halt)
	}
	w.intend(perdure.BudgetResumed{BudgetID: "bdgt_1", By: "runtime"})
	w.wake()
	if _, ok := w.model(); !ok || w.session.Turn.Cause != perdure.CauseResume {
		t.Errorf("due %+v, want the turn that was cut short", w.due)
	}
}

func pauseBeforeAQuestion(t *testing.T, w *simulator) {
	w.receive("go", "")
	w.wake()
	w.paused()
	calls := notes("a", "b")
	calls[1].ClientSide, calls[1].AnswerTimeout = true, time.Minute
	calls[0].ApprovalTimeout = 48 * time.Hour
	calls[0].Permissions = []perdure.Permission{{Kind: "effect", Target: "note"}}
	w.settle(w.answer("", calls...)...)
	w.stands(true)
	w.resumed()
	if said[perdure.ApprovalRequested](w) != 1 || said[perdure.ToolCallRequested](w) != 1 || w.session.Status != perdure.SessionWaiting {
		t.Fatalf("%d approvals and %d calls asked for, status %s; want both, waiting", said[perdure.ApprovalRequested](w), said[perdure.ToolCallRequested](w), w.session.Status)
	}

	w.paused()
	if _, waits := w.due[0].(perdure.WaitUntil); len(w.due) != 1 || !waits || !w.session.AtRest() {
		t.Fatalf("due %+v, at rest %t; want only the moment when the client has run out of time", w.due, w.session.AtRest())
	}
	w.now = w.now.Add(time.Hour)
	w.wake()
	if n := said[perdure.ToolCompleted](w); n != 1 {
		t.Errorf("%d results; want that of the client's call, which ran out of time", n)
	}
	w.resumed()
	if w.session.Status != perdure.SessionWaiting {
		t.Errorf("status %s after the pause, want waiting", w.session.Status)
	}
}

func pauseBeforeASummary(t *testing.T, _ *simulator) {
	w := longTalk(t, 4, 40, perdure.Agent{MaxContextTokens: 300, Summarise: true})
	w.tick = time.Second
	for range 12 {
		w.receive("more", "")
		w.wake()
		if _, due := summing(w); due {
			break
		}
		w.settle(w.answer(strings.Repeat("an answer ", 12))...)
	}
	if _, due := summing(w); !due {
		t.Fatalf("no summary is due: %+v", w.due)
	}

	w.paused()
	w.stands(true)

	w.resumed()
	if _, due := summing(w); !due {
		t.Errorf("due %+v, want the summary", w.due)
	}
}

func pauseTwice(t *testing.T, w *simulator) {
	w.paused()
	at := w.session.Paused.At
	w.intend(perdure.SessionPauses{By: "bob", Reason: "me too"})
	w.wake()
	if p := w.session.Paused; p.By != "ada" || p.Reason != "let me look" || !p.At.Equal(at) {
		t.Errorf("got %+v, want the first pause", p)
	}
	w.resumed()
	w.resumed()
	if w.session.Paused != nil || w.session.Status != perdure.SessionStarted || w.session.CoveredStatus != "" {
		t.Errorf("paused %+v, status %s over %q; want what it was", w.session.Paused, w.session.Status, w.session.CoveredStatus)
	}
}
