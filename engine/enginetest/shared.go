package enginetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// SharedWorld is one store with several engines over it at the same time, and the outside world
// that they share.
type SharedWorld interface {
	Outside
	// Join starts one more engine over the store and runs it.
	Join(t *testing.T) engine.Engine
	// KillEngine ends an engine like SIGKILL: from then on it changes nothing. The others keep
	// running.
	KillEngine(t *testing.T, eng engine.Engine)
}

// SharedHarness opens shared worlds. Each law gets a fresh one.
type SharedHarness func(t *testing.T, s Setup) SharedWorld

// RunShared runs the laws of several engines over one store. Each law runs in in, which may make
// its time virtual; a worker is declared dead only after its lease.
func RunShared(t *testing.T, in func(*testing.T, func(*testing.T)), open SharedHarness) {
	for name, check := range map[string]func(*testing.T, SharedHarness){
		"a_call_is_detached_through_any_engine":                   detachElsewhere,
		"a_refused_detach_is_answered_through_any_engine":         detachRefusedElsewhere,
		"a_detach_survives_the_death_of_the_engine_with_the_call": detachAfterDeath,
		"the_progress_of_a_bulk_is_known_to_any_engine":           bulkElsewhere,
		"a_queued_run_starts_beside_a_subagent":                   queuedBesideSubagent,
		"a_detach_of_a_call_that_becomes_unknown_does_nothing":    detachOfUnknown,
		"output_is_shown_through_any_engine":                      outputElsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T) { check(t, open) })
		})
	}
}

// pair is a session that one of two engines drives.
type pair struct {
	*scene // of the engine that drives the session
	SharedWorld
	other engine.Engine // set by started
}

// beginPair opens a shared world with one engine, and creates a session in it.
func beginPair(t *testing.T, open SharedHarness, setup Setup) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	t.Cleanup(cancel)
	w := open(t, setup)
	p := &pair{scene: &scene{t: t, ctx: ctx, eng: w.Join(t)}, SharedWorld: w}
	agent := setup.Agent
	agent.Instructions = "You are tested."
	session, err := p.eng.Sessions().Create(ctx, agent)
	if err != nil {
		t.Fatalf("NewSession: %v", err)
	}
	p.id = session.ID
	return p
}

// started says something and waits until a hold tool runs; it returns the key of its call. The
// other engine starts only now, so that it cannot drive the session.
func (p *pair) started(tool string) perdure.CallKey {
	p.t.Helper()
	p.say("go")
	p.Entered(p.t, tool, 1)
	p.other = p.Join(p.t)
	return p.called(tool)
}

// outputElsewhere pins EV11: an engine that does not drive a session shows the output of a call in
// it while the call runs.
func outputElsewhere(t *testing.T, open SharedHarness) {
	p := beginPair(t, open, Setup{Script: "steps:\n  - calls: [" + ask("hold", "{}") + "]\n  - calls: [" +
		ask("stream_hold", "{}") + "]\n  - text: done\n"})
	p.started("hold")
	shown, begun := errors.New("shown"), false

	err := p.other.Follow(p.ctx, p.id, 0, func(f engine.Frame) error {
		if !begun {
			begun = true
			p.Release("hold")
		}
		if f.Type == "tool.output.delta" && strings.Contains(string(f.Data), "one") {
			return shown
		}
		return nil
	})

	if !errors.Is(err, shown) {
		t.Errorf("no output was shown: %v; journal:\n%s", err, p.journalText())
	}
	p.Release("stream_hold")
	p.rest()
}

// detachElsewhere pins LN20: the engine that is asked need not be the one that runs the call.
func detachElsewhere(t *testing.T, open SharedHarness) {
	p := beginPair(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"))})
	key := p.started("hold")

	task, err := p.other.Calls().Detach(p.ctx, key, "user")
	if err != nil {
		t.Fatalf("Detach: %v; journal:\n%s", err, p.journalText())
	}
	p.turnEnds(1)
	p.Release("hold")
	p.awaitDelivered(perdure.TaskSucceeded)
	_, late := p.other.Calls().Detach(p.ctx, key, "user")

	if left := p.awaitDetached(); left.Reason != perdure.DetachedByHost || left.TaskID != task.ID {
		t.Errorf("got %+v", left)
	}
	if !errors.Is(late, perdure.NotFound) {
		t.Errorf("a call that ended: %v, want NotFound", late)
	}
	if n := len(facts[perdure.ToolDetachRequested](p.scene)); n != 1 {
		t.Errorf("%d intents, want 1: a call that ended gets none", n)
	}
}

// detachRefusedElsewhere pins LN20: the caller receives why the call stays in the foreground.
func detachRefusedElsewhere(t *testing.T, open SharedHarness) {
	p := beginPair(t, open, Setup{
		Script: detachingScript(ask("hold", "{text: a}"), ask("hold_note", "{text: b}")), PerSessionDetached: 1,
	})
	first := p.started("hold")
	p.Entered(t, "hold_note", 1)
	if _, err := p.other.Calls().Detach(p.ctx, first, "user"); err != nil {
		t.Fatalf("Detach: %v; journal:\n%s", err, p.journalText())
	}

	_, full := p.other.Calls().Detach(p.ctx, p.called("hold_note"), "user")

	if !errors.Is(full, perdure.Conflict) || !strings.Contains(full.Error(), "No background slot is free") {
		t.Errorf("without a slot: %v", full)
	}
	if s := p.fold(); s.Turn == nil || s.Turn.DetachRequested(p.called("hold_note").Call) {
		t.Errorf("the refused intent is still pending; journal:\n%s", p.journalText())
	}
	p.Release("hold")
	p.Release("hold_note")
	p.rest()
}

// detachAfterDeath pins LN20: the process that runs the call dies before it sees the intent, and
// the next driver carries it out.
func detachAfterDeath(t *testing.T, open SharedHarness) {
	p := beginPair(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"))})
	key := p.started("hold")
	p.KillEngine(t, p.eng)
	p.eng = p.other

	task, err := p.other.Calls().Detach(p.ctx, key, "user")
	if err != nil {
		t.Fatalf("Detach: %v; journal:\n%s", err, p.journalText())
	}
	p.turnEnds(1)
	p.Release("hold")
	p.awaitDelivered(perdure.TaskSucceeded)

	taken := facts[perdure.ToolTakenOver](p.scene)
	if len(taken) != 1 || taken[0].How != perdure.TakeOverRunAgain {
		t.Errorf("taken over %+v", taken)
	}
	if left := facts[perdure.ToolDetached](p.scene); len(left) != 1 || left[0].TaskID != task.ID {
		t.Errorf("detached %+v", left)
	}
}

// detachOfUnknown pins LN20: a call that crash recovery settles has nothing to detach.
func detachOfUnknown(t *testing.T, open SharedHarness) {
	p := beginPair(t, open, Setup{Script: detachingScript(ask("hold_charge", "{text: a}"))})
	key := p.started("hold_charge")
	p.KillEngine(t, p.eng)
	p.eng = p.other

	_, err := p.other.Calls().Detach(p.ctx, key, "user")
	p.rest()

	if got := p.onlyResult("hold_charge"); !errors.Is(err, perdure.NotFound) || got.Status != perdure.StatusUnknown {
		t.Errorf("%v, %+v; want NotFound and a call of unknown outcome", err, got)
	}
	if len(p.tasks()) != 0 || len(facts[perdure.ToolDetachRefused](p.scene)) != 0 {
		t.Errorf("journal:\n%s", p.journalText())
	}
}

// bulkElsewhere pins H15: the progress of a bulk, and its id, are those of the store.
func bulkElsewhere(t *testing.T, open SharedHarness) {
	p := beginPair(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"))})
	key := p.started("hold")
	task, err := p.eng.Calls().Detach(p.ctx, key, "user")
	if err != nil {
		t.Fatalf("Detach: %v; journal:\n%s", err, p.journalText())
	}
	order := engine.BulkCancel{Filter: engine.TaskFilter{Session: p.id}, By: "user", Why: "enough"}

	begun, err := p.eng.Tasks().CancelWhere(p.ctx, order)
	if err != nil {
		t.Fatal(err)
	}
	p.ended(task.ID)
	order.ID = begun.ID
	again, err := p.other.Tasks().CancelWhere(p.ctx, order)
	if err != nil || again.ID != begun.ID || again.Matched != 1 || !again.BeganAt.Equal(begun.BeganAt) {
		t.Errorf("the same request elsewhere: %+v, %v; want that of %+v", again, err, begun)
	}
	order.Filter.Tool = "note"
	if _, err := p.other.Tasks().CancelWhere(p.ctx, order); !errors.Is(err, perdure.Conflict) {
		t.Errorf("another request under the same id: %v, want Conflict", err)
	}
	if shown := p.bulkDone(p.other, begun.ID); shown.Matched != 1 || shown.Done != 1 || shown.Failed != 0 || shown.EndedAt.IsZero() {
		t.Errorf("got %+v", shown)
	}
}

// bulkDone asks an engine for a bulk until it is done.
func (p *pair) bulkDone(eng engine.Engine, id perdure.BulkID) engine.Bulk {
	p.t.Helper()
	for tick := time.Tick(10 * time.Millisecond); ; {
		b, err := eng.Tasks().Bulk(p.ctx, id)
		if err != nil || b.State == engine.BulkDone {
			if err != nil {
				p.t.Fatalf("Bulk: %v", err)
			}
			return b
		}
		<-tick
	}
}

// queuedBesideSubagent: a subagent occupies no slot of its parent, so a queued run starts when the
// one before it ends.
func queuedBesideSubagent(t *testing.T, open SharedHarness) {
	spawn := "{name: spawn_background, args: {tool: bg_hold, title: Work, args: {}}}"
	p := beginPair(t, open, Setup{Script: family(freeChild+", "+spawn+", "+spawn, does("hold", "{text: a}")...), PerSession: 1})
	p.say("go")
	p.Entered(t, "hold", 1)
	p.Entered(t, "bg_hold", 1)
	p.turnEnds(1)
	tasks := p.tasks()
	first := slices.IndexFunc(tasks, func(t perdure.Task) bool { return t.Tool == "bg_hold" && t.State == perdure.TaskRunning })
	if first < 0 {
		t.Fatalf("no run is running: %+v", tasks)
	}
	p.cancel(tasks[first].ID)
	p.Entered(t, "bg_hold", 2)
	p.Release("bg_hold")
	p.Release("hold")
	p.rest()
}
