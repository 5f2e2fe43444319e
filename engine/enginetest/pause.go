package enginetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// pauseLaws pin the pause of a session by a person.
func pauseLaws() []law {
	return []law{
		{"calls_that_were_claimed_settle_and_the_others_wait", pauseHoldsCalls},
		{"an_answer_under_way_is_finished", pauseFinishesAnswer},
		{"nobody_is_asked_again_after_a_kill", pauseAfterKill},
		{"tasks_go_on_and_their_results_wait", pauseKeepsResults},
		{"interrupt_and_cancel_work_in_it", pauseIsInterrupted},
		{"a_paused_session_fires_nothing", pauseWithholdsFires},
		{"a_budget_stops_it_after_the_pause", pauseOverBudget},
		{"is_of_one_session", pauseOfOne},
		{"a_fork_begins_without_it", pauseNotForked},
		{"an_import_keeps_it", pauseImported},
	}
}

// pause pauses the session.
func (s *scene) pause() {
	s.t.Helper()
	if err := s.eng.Sessions().Pause(s.ctx, s.id, "user", "let me look"); err != nil {
		s.t.Fatalf("PauseSession: %v", err)
	}
}

// resume resumes the session.
func (s *scene) resume() {
	s.t.Helper()
	if err := s.eng.Sessions().Resume(s.ctx, s.id, "user"); err != nil {
		s.t.Fatalf("ResumeSession: %v; journal:\n%s", err, s.journalText())
	}
}

// isPaused checks that the session is idle and paused by a person, with or without an open turn.
func (s *scene) isPaused(turn bool) {
	s.t.Helper()
	s.rest()
	row, err := s.eng.Sessions().Get(s.ctx, s.id)
	if err != nil || row.Status != perdure.SessionPaused || row.Paused == nil || row.Paused.By != "user" ||
		row.Paused.Reason != "let me look" || row.Paused.At.IsZero() {
		s.t.Fatalf("the session is %+v, %v; want it paused by user; journal:\n%s", row, err, s.journalText())
	}
	if fold := s.fold(); (fold.Turn != nil) != turn || fold.Suspended() != turn || (row.Turn != nil) != turn {
		s.t.Fatalf("it has the turn %+v, shown as %+v, want one %t; journal:\n%s", fold.Turn, row.Turn, turn, s.journalText())
	}
}

// twoCalls is an agent that makes two calls in sequence.
const twoCalls = `
steps:
  - calls: [{name: hold_note, args: {text: a}}, {name: note, args: {text: b}}]
  - {text: done, repeat: true}
`

// firstOfTwoRunning is a scene in which the first of two calls is running.
func firstOfTwoRunning(t *testing.T, open Harness) *scene {
	t.Helper()
	s := begin(t, open, Setup{Script: twoCalls, Agent: perdure.Agent{SerialCalls: true}})
	s.say("go")
	s.Entered(t, "hold_note", 1)
	return s
}

func pauseHoldsCalls(t *testing.T, open Harness) {
	s := firstOfTwoRunning(t, open)
	s.pause()
	if row, err := s.eng.Sessions().Get(s.ctx, s.id); err != nil || row.Status != perdure.SessionPaused || row.Paused == nil {
		t.Errorf("while a call runs it is %+v, %v; want paused", row, err)
	}
	s.Release("hold_note")
	s.isPaused(true)
	s.pause() // has no further effect
	s.say("and this")
	s.crash()
	s.isPaused(true)
	if n := len(facts[perdure.SessionPauses](s)); n != 1 || len(s.Effects("note")) != 0 ||
		len(s.Effects("hold_note")) != 1 || len(s.ledger()) != 1 {
		t.Fatalf("%d events of the pause, %v, ledger %+v; want one, and one call; journal:\n%s",
			n, s.effects(), s.ledger(), s.journalText())
	}
	reject := perdure.Text("no")
	reject.Mode = perdure.ModeReject
	if _, err := s.eng.Send(s.ctx, s.id, reject); !errors.Is(err, perdure.Conflict) {
		t.Errorf("a message with mode reject during a turn: %v, want Conflict", err)
	}

	s.resume()
	s.turnEnds(1)
	s.rest()

	if s.turns() != 1 || s.final() != "done" || len(s.Effects("note")) != 1 || len(s.Effects("hold_note")) != 1 ||
		s.status() != perdure.SessionIdle || len(s.fold().Queue) != 0 {
		t.Errorf("%d turns, %q, %v, %s; want the turn to continue; journal:\n%s",
			s.turns(), s.final(), s.effects(), s.status(), s.journalText())
	}
	if row, err := s.eng.Sessions().Get(s.ctx, s.id); err != nil || row.Paused != nil {
		t.Errorf("after it: %+v, %v", row, err)
	}
	if err := s.eng.Sessions().Resume(s.ctx, s.id, "user"); !errors.Is(err, perdure.Conflict) {
		t.Errorf("resume of a session that is not stopped: %v, want Conflict", err)
	}
	const missing = "session_00000000000000000000000000000001"
	if err := s.eng.Sessions().Pause(s.ctx, missing, "user", ""); !errors.Is(err, perdure.NotFound) {
		t.Errorf("pause of a missing session: %v, want NotFound", err)
	}
	if err := s.eng.Sessions().Resume(s.ctx, missing, "user"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("resume of a missing session: %v, want NotFound", err)
	}
}

func pauseFinishesAnswer(t *testing.T, open Harness) {
	s := begin(t, open, streaming(perdure.RecoverContinue))
	s.midway()
	s.pause()
	s.isPaused(false)
	s.wants("agent: " + slowText)
	s.resume()
	s.rest()
	if s.turns() != 1 || s.status() != perdure.SessionIdle {
		t.Errorf("%d turns, %s; want one, idle", s.turns(), s.status())
	}
}

// pauseAfterKill kills the engine during a model response: the model is called again after the
// resume, and not before.
func pauseAfterKill(t *testing.T, open Harness) {
	for _, recovery := range []perdure.RecoveryMode{perdure.RecoverContinue, perdure.RecoverFinalize,
		perdure.RecoverRestart} {
		t.Run(string(recovery), func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, streaming(recovery))
			s.keptMidway()
			s.pause()
			s.crash()
			s.isPaused(true)
			if n := len(facts[perdure.ReasonStarted](s)); n != 1 {
				t.Errorf("the model was asked %d times, want once; journal:\n%s", n, s.journalText())
			}
			s.resume()
			s.turnEnds(1)
			s.rest()
			if final := s.final(); s.turns() != 1 || s.status() != perdure.SessionIdle || final != slowText &&
				final != "As I said." {
				t.Errorf("%d turns, %s, %q; want the answer; journal:\n%s", s.turns(), s.status(), final, s.journalText())
			}
			s.recovered(recovery)
		})
	}
}

func pauseKeepsResults(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("spawn_background", "{tool: bg_hold, args: {}}"))})
	s.say("go")
	s.turnEnds(1)
	s.Entered(t, "bg_hold", 1)
	s.pause()
	s.Release("bg_hold")
	s.ended(s.onlyTask().ID)
	held := nth[perdure.DeliveryHeld](s, 1, nil)
	s.isPaused(false)
	if s.turns() != 1 || s.deliveries() != 0 || held.Why != "paused" {
		t.Errorf("%d turns, %d deliveries, held for %q; want the result to wait; journal:\n%s",
			s.turns(), s.deliveries(), held.Why, s.journalText())
	}
	s.resume()
	s.turnEnds(2)
	s.rest()
	if s.deliveries() != 1 || !strings.HasPrefix(s.final(), "home: ") {
		t.Errorf("%d deliveries, %q; want the result delivered once", s.deliveries(), s.final())
	}
}

func pauseIsInterrupted(t *testing.T, open Harness) {
	s := firstOfTwoRunning(t, open)
	s.pause()
	s.Release("hold_note")
	s.isPaused(true)
	s.interrupt()
	s.isPaused(false)
	if len(s.Effects("note")) != 0 || s.turns() != 1 {
		t.Errorf("%v, %d turns", s.effects(), s.turns())
	}
	s.resume()
	s.rest()
	if s.turns() != 1 || s.status() != perdure.SessionIdle {
		t.Errorf("%d turns, %s; want nothing to continue; journal:\n%s", s.turns(), s.status(), s.journalText())
	}

	b := begin(t, open, Setup{Script: detachingScript(ask("spawn_background", "{tool: bg_hold, args: {}}"))})
	b.say("go")
	b.turnEnds(1)
	b.Entered(t, "bg_hold", 1)
	b.pause()
	b.cancel(b.onlyTask().ID)
	b.isPaused(false)
	if task := b.onlyTask(); task.State != perdure.TaskCanceled {
		t.Errorf("got %+v, want it canceled", task)
	}
}

// pauseWithholdsFires pins SC21.
func pauseWithholdsFires(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: twoCalls})
	words := s.hourly()
	words.Action = perdure.ScheduleAction{Message: "look around"}
	speaks, runs := s.create(words), s.create(s.hourly())
	s.pause()
	for _, id := range []perdure.ScheduleID{speaks.ID, runs.ID} {
		s.withheld(id, "paused by user: let me look")
	}
	s.isPaused(false)
	s.resume()
	if fire, err := s.eng.Schedules().Trigger(s.ctx, runs.ID, "user"); err != nil || fire.Outcome != perdure.Fired {
		t.Errorf("after it: got %+v, %v", fire, err)
	}
}

// pauseOverBudget stops a session by both: a resume ends the pause, and the budget still applies.
func pauseOverBudget(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes})
	s.cap(budget.ModelCalls, "2")
	s.say("go")
	s.sealedBy(1)
	s.pause()
	s.isPaused(false)
	s.cap(budget.ModelCalls, "3") // the budget allows it to continue
	s.rest()
	if s.turns() != 1 {
		t.Fatalf("%d turns in a paused session; journal:\n%s", s.turns(), s.journalText())
	}
	s.resume()
	s.turnEnds(2)
	s.sealedBy(2)

	s.pause()
	s.resume()
	row, err := s.eng.Sessions().Get(s.ctx, s.id)
	if err != nil || row.Status != perdure.SessionPaused || row.Paused != nil {
		t.Errorf("got %+v, %v; want only the budget to stop it", row, err)
	}
	if err := s.eng.Sessions().Resume(s.ctx, s.id, "user"); !errors.Is(err, perdure.Conflict) {
		t.Errorf("resume with an exhausted budget: %v, want Conflict", err)
	}

	soft := begin(t, open, Setup{Script: fourNotes})
	soft.cap(budget.ModelCalls, "50", func(b *budget.Budget) { b.Soft = budget.Whole(2) })
	soft.say("go")
	soft.sealedBy(1)
	soft.pause()
	soft.resume() // ends both: a soft limit is waived
	soft.turnEnds(2)
	soft.rest()
	if soft.final() != "done" || soft.status() != perdure.SessionIdle {
		t.Errorf("it ended with %q, %s; journal:\n%s", soft.final(), soft.status(), soft.journalText())
	}
}

// pauseOfOne: a subagent continues while its parent is paused, and can be paused itself.
func pauseOfOne(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: family(oneChild, does("hold", "{text: a}")...)})
	s.say("go")
	s.Entered(t, "hold", 1)
	child := s.child()
	child.pause()
	s.pause()
	s.Release("hold")
	child.isPaused(true)
	if s.fold().Suspended() {
		t.Error("the parent has a running call, but reports none")
	}
	child.resume()
	child.turnEnds(1)
	s.isPaused(true)
	s.resume()
	s.turnEnds(1)
	s.rest()
	if done := s.onlyResult("spawn_subagent"); done.Status != perdure.StatusSuccess ||
		s.status() != perdure.SessionIdle {
		t.Errorf("got %+v, %s; journal:\n%s", done, s.status(), s.journalText())
	}
}

func pauseNotForked(t *testing.T, open Harness) {
	s := firstOfTwoRunning(t, open)
	s.pause()
	s.Release("hold_note")
	s.isPaused(true)
	f := s.fork(engine.Fork{})
	f.rest()
	if fold := f.fold(); fold.Paused != nil || fold.Turn != nil || f.status() == perdure.SessionPaused {
		t.Errorf("the fork is paused by %+v, with turn %+v", fold.Paused, fold.Turn)
	}
	f.say("go on")
	f.turnEnds(1)
	f.rest()
	s.isPaused(true)
}

func pauseImported(t *testing.T, open Harness) {
	setup := Setup{Script: twoCalls, Agent: perdure.Agent{SerialCalls: true}}
	s := begin(t, open, setup)
	s.say("go")
	s.Entered(t, "hold_note", 1)
	s.pause()
	s.Release("hold_note")
	s.isPaused(true)

	there := s.elsewhere(open, setup)
	there.take(s.export(), engine.Import{})
	there.isPaused(true)
	there.resume()
	there.turnEnds(1)
	there.rest()
	if there.final() != "done" || len(there.Effects("note")) != 1 || len(there.Effects("hold_note")) != 0 {
		t.Errorf("it ended with %q after %v; journal:\n%s", there.final(), there.effects(), there.journalText())
	}
}
