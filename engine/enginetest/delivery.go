package enginetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

func deliveryLaws() []law {
	return []law{
		{"ManualDetachedOneResult", manualDetached},
		{"SetDelivery", setDelivery},
		{"WakesCoalesced", wakesCoalesced},
		{"WakeSurvivesRestart", wakeSurvives},
		{"NoPollNeeded", noPollNeeded},
		{"CancelTellsModel", cancelTellsModel},
		{"OutboxWithTerminal", outboxWithTerminal},
		{"RoutedNotifiesOnly", routedNotifies},
		{"DetachedReadIsNotInjected", detachedRead},
	}
}

// manual sets the delivery of a task to manual.
func (s *scene) manual(id perdure.TaskID) {
	s.t.Helper()
	if task, err := s.eng.Tasks().SetDelivery(s.ctx, id, perdure.Manual, ""); err != nil || task.Delivery != perdure.Manual {
		s.t.Fatalf("SetDelivery: %+v, %v", task, err)
	}
}

// drain returns the ready tasks.
func (s *scene) drain() []perdure.Task {
	s.t.Helper()
	tasks, err := s.eng.Tasks().Drain(s.ctx, s.id)
	if err != nil {
		s.t.Fatalf("DrainReady: %v", err)
	}
	return tasks
}

// manualDetached pins TestManualDetachedOneResult, LN8 and DL7, and that each result is drained
// once (DrainReadyOnce).
func manualDetached(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"))})
	s.say("go")
	task := s.detach("hold")
	s.manual(task.ID)
	early := s.drain()
	s.Release("hold")
	s.ended(task.ID)
	s.rest()
	ready, again := s.drain(), s.drain()
	s.say("what came?")
	s.rest()

	if len(early) != 0 || len(ready) != 1 || ready[0].ID != task.ID || ready[0].Call != task.Call ||
		ready[0].Result != `{"held":"a"}` || len(again) != 0 {
		t.Errorf("early %d, ready %+v, again %d", len(early), ready, len(again))
	}
	if len(s.results()) != 1 || s.deliveries() != 0 || s.turns() != 2 ||
		s.onlyTask().Delivered != perdure.DeliveredDrained {
		t.Errorf("%d results, injected %d times, %d turns, %s",
			len(s.results()), s.deliveries(), s.turns(), s.onlyTask().Delivered)
	}
}

func setDelivery(t *testing.T, open Harness) { // 6.3: live, settled, unknown; LN10: it survives a relaunch
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"))})
	s.say("go")
	task := s.detach("hold")
	s.turnEnds(1)
	live, err := s.eng.Tasks().SetDelivery(s.ctx, task.ID, "", perdure.WakeNotify)
	_, word := s.eng.Tasks().SetDelivery(s.ctx, task.ID, "by pigeon", "")
	_, unknown := s.eng.Tasks().SetDelivery(s.ctx, "task_0123456789abcdef0123456789abcdef", perdure.Manual, "")
	s.crash()
	s.Release("hold")
	s.ended(task.ID)
	s.rest()
	_, settled := s.eng.Tasks().SetDelivery(s.ctx, task.ID, perdure.Manual, perdure.WakeNone)

	if err != nil || live.Delivery != perdure.ToLoop || live.Wake != perdure.WakeNotify ||
		s.onlyTask().Wake != perdure.WakeNotify || s.turns() != 1 {
		t.Errorf("%v, live %+v, later %s, %d turns", err, live, s.onlyTask().Wake, s.turns())
	}
	if !errors.Is(word, perdure.Invalid) || !errors.Is(unknown, perdure.NotFound) ||
		!errors.Is(settled, perdure.Conflict) {
		t.Errorf("no such word: %v; unknown: %v; settled: %v", word, unknown, settled)
	}
}

// wakesCoalesced pins DL3 and DL8: ready results are delivered together, each with its own task.
func wakesCoalesced(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: stream, args: {}}}, {name: spawn_background, args: {tool: bg_note, args: {}}}, {name: spawn_background, args: {tool: bg_once, args: {}}}, {name: hold, args: {}}]
steps: [{text: x}, {text: all here, repeat: true}]
`})
	s.say("go")
	nth(s, 3, func(f perdure.TaskUpdated) bool { return f.Task.State == perdure.TaskSucceeded })
	s.Release("hold")
	s.rest()

	seen := map[perdure.TaskID]bool{}
	for _, f := range facts[perdure.TaskDelivered](s) {
		for _, id := range f.TaskIDs {
			seen[id] = true
		}
	}
	if len(seen) != 3 || s.deliveries() != 3 || s.turns() != 1 || len(facts[perdure.ReasonStarted](s)) != 2 {
		t.Errorf("%d tasks in %d notifications, %d turns, %d model calls",
			len(seen), s.deliveries(), s.turns(), len(facts[perdure.ReasonStarted](s)))
	}
}

// wakeSurvives pins DL1, DL9 and TestWakeSurvivesRestart: the engine crashes after the end of the
// work is journaled.
func wakeSurvives(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("hold_charge", "{text: a}"))})
	s.say("go")
	task := s.detach("hold_charge")
	s.turnEnds(1)
	s.Release("hold_charge")
	s.ended(task.ID)
	s.crash()
	got := s.awaitDelivered(perdure.TaskSucceeded)

	if got.Executions != 1 || s.turns() != 2 || !strings.HasPrefix(s.final(), "home: Background run completed.") {
		t.Errorf("%d turns, final %q", s.turns(), s.final())
	}
}

func noPollNeeded(t *testing.T, open Harness) { // TestNoPollNeeded
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}")), SoftBudget: soon})
	s.say("go")
	s.awaitDetached()
	s.turnEnds(1)
	s.Release("hold")
	s.awaitDelivered(perdure.TaskSucceeded)

	started := facts[perdure.TurnStarted](s)
	if len(started) != 2 || started[1].Cause != perdure.CauseDelivery || !strings.HasPrefix(s.final(), "home: ") {
		t.Errorf("turns %+v, final %q", started, s.final())
	}
}

func cancelTellsModel(t *testing.T, open Harness) { // TestCancelTellsModel, RC7
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"))})
	s.say("go")
	task := s.detach("hold")
	s.turnEnds(1)
	s.cancel(task.ID)
	got := s.awaitDelivered(perdure.TaskCanceled)

	for _, line := range []string{"home: Background run canceled.", "- run_id: " + string(got.Run),
		"- summary: Canceled by request.", "- call_id: " + string(got.Call)} {
		if !strings.Contains(s.final()+"\n", line+"\n") {
			t.Errorf("the model received %q, without %q", s.final(), line)
		}
	}
}

func outboxWithTerminal(t *testing.T, open Harness) { // TestOutboxWithTerminal, DL1, DL7
	s := begin(t, open, Setup{Script: detachingScript(ask("hold_charge", "{text: a}"))})
	s.say("go")
	task := s.detach("hold_charge")
	s.manual(task.ID)
	s.turnEnds(1)
	s.Release("hold_charge")
	s.ended(task.ID)
	s.crash()
	ready := s.drain()
	s.crash()
	s.rest()

	if len(ready) != 1 || ready[0].ID != task.ID || ready[0].State != perdure.TaskSucceeded || len(s.drain()) != 0 ||
		s.deliveries() != 0 {
		t.Errorf("ready %+v, again %d, injected %d", ready, len(s.drain()), s.deliveries())
	}
}

func routedNotifies(t *testing.T, open Harness) { // DL6
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}")), Background: []string{"hold"}})
	s.say("go")
	s.turnEnds(1)
	s.Release("hold")
	s.ended(s.onlyTask().ID)
	s.rest()
	before := s.deliveries()
	s.say("next")
	s.awaitDelivered(perdure.TaskSucceeded)

	started := facts[perdure.TurnStarted](s)
	if before != 0 || len(started) != 2 || started[1].Cause != perdure.CauseMessage {
		t.Errorf("delivered %d times before, turns %+v", before, started)
	}
}

func detachedRead(t *testing.T, open Harness) { // DL5
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: hold}
    calls: [{name: hold, args: {text: a}}]
  - when: {not_called: check_background_tool}
    calls: [{name: check_background_tool, args: {background_id: '{{(result "hold").task_id}}', wait_seconds: 60}}]
steps: [{text: x}, {text: x}, {text: read it, repeat: true}]
`})
	s.say("go")
	s.detach("hold")
	s.called("check_background_tool")
	s.Release("hold")
	s.rest()

	if got := s.onlyTask(); got.Delivered != perdure.DeliveredRead || s.deliveries() != 0 || s.turns() != 1 {
		t.Errorf("delivered %s, injected %d, %d turns", got.Delivered, s.deliveries(), s.turns())
	}
	if got := string(s.onlyResult("check_background_tool").Result.Result); !strings.Contains(got, `"completed"`) ||
		!strings.Contains(got, "held") {
		t.Errorf("read %s", got)
	}
}
