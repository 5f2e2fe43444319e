package local_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// crashScript uses every effect class in both lanes, a refusal, and a result that is delivered
// later.
const crashScript = `
rules:
  - when: {not_called: spawn_background}
    text: first
    calls:
      - {name: spawn_background, args: {tool: bg_note, title: Work, args: {}}}
      - {name: echo, args: {text: a}}
      - {name: note, args: {text: b}}
      - {name: nonsense, args: {}}
  - when: {not_called: charge}
    calls: [{name: charge, args: {text: c}}, {name: spawn_background, args: {tool: bg_once, args: {}}}]
  - when: {notifications: 2}
    text: all came home
  - when: {called: charge}
    text: waiting
`

// laneScript asks for approval, detaches calls in three ways, and asks for input in the middle of
// its work.
const laneScript = `
rules:
  - when: {not_called: needs}
    calls:
      - {name: needs, args: {text: a}}
      - {name: ask, args: {}}
      - {name: hold_note, args: {text: b}}
      - {name: permit, args: {}}
      - {name: charge, args: {text: c}}
steps: [{text: x}, {text: it goes on, repeat: true}]
`

// scenario is one run of TestCrashPoints.
type scenario struct {
	setup   enginetest.Setup
	effects map[string]perdure.EffectClass // by tool
	least   int64                          // transactions of a run without a crash
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"calls": {
			setup:   enginetest.Setup{Script: crashScript, MaxRuns: 5},
			effects: map[string]perdure.EffectClass{"note": perdure.Idempotent, "bg_note": perdure.Idempotent, "charge": perdure.AtMostOnce, "bg_once": perdure.AtMostOnce},
			least:   15,
		},
		"lanes": {
			setup:   enginetest.Setup{Script: laneScript, MaxRuns: 5, Background: []string{"charge"}},
			effects: map[string]perdure.EffectClass{"needs": perdure.AtMostOnce, "hold_note": perdure.Idempotent, "permit": perdure.Idempotent, "charge": perdure.AtMostOnce},
			least:   20,
		},
	}
}

// TestCrashPoints kills the engine at each of its transactions, before the commit and between the
// commit and its result, and then lets another one finish (R2). Nothing may be lost, doubled or
// stuck, at any of these points.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	for name, p := range scenarios() {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_after_%t", name, after), func(t *testing.T) {
				t.Parallel()
				for n := int64(1); ; n++ {
					if !crashAt(t, p, death{N: n, After: after}) {
						if n <= p.least {
							t.Errorf("the scenario has only %d transactions", n-1)
						}
						return
					}
				}
			})
		}
	}
}

// crashAt runs the scenario with one crash and reports whether the crash happened.
func crashAt(t *testing.T, p scenario, point death) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st := memory.New(memory.Config{})
	w := newWorld(t, p.setup, func(*testing.T) store.Store { return st }, func(store.Store) {})
	w.Release("ask_after")
	id := seeded(t, ctx, st, w)

	w.point = point
	mortal := w.Start(t)
	leave := attend(ctx, w, mortal, id)
	rest := make(chan error, 1) // one result; nobody may be listening
	go func() { rest <- mortal.Sessions().WaitIdle(ctx, id) }()
	died := false
	select {
	case <-w.mortal.Died:
		died = true
	case err := <-rest:
		if err != nil {
			t.Fatalf("without a death: %v", err)
		}
	}
	leave()
	w.Kill(t)
	eng := w.Start(t)
	defer attend(ctx, w, eng, id)()
	finish := []func() error{
		func() error { return eng.Sessions().WaitIdle(ctx, id) },
		func() error { // delivers what does not wake the session
			_, err := eng.Send(ctx, id, perdure.Text("what else?"))
			return err
		},
		func() error { return eng.Sessions().WaitIdle(ctx, id) },
	}
	for _, do := range finish {
		if err := do(); err != nil {
			t.Fatalf("%+v: %v; journal:\n%s", point, err, (&rig{eng: eng, id: id}).story())
		}
	}
	checkAftermath(t, aftermath{eng: eng, id: id, world: w, point: point, effects: p.effects})
	w.Kill(t)
	return died
}

// attend plays a person who follows a session: approves calls, answers questions, and detaches
// hold_note. What an engine did not do before it died is requested again from its successor. It
// ends with leave.
func attend(ctx context.Context, w *world, eng engine.Engine, id perdure.SessionID) (leave func()) {
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		_ = eng.Follow(ctx, id, 0, func(f engine.Frame) error { // it ends with ctx
			if f.Event == nil {
				return nil
			}
			switch fact := f.Event.Fact.(type) { // a second answer is refused, which is fine
			case perdure.ApprovalRequested:
				_, _ = eng.Approvals().Decide(ctx, fact.Approval.ID, perdure.Verdict{Approve: true, By: "user"})
			case perdure.TaskUpdated:
				if q := fact.Task.InputRequest; q != nil && q.Kind == "question" {
					_, _ = eng.Tasks().Send(ctx, fact.Task.ID, perdure.TaskMessage{Text: "yes", InReplyTo: q.ID, By: "user"})
				}
			case perdure.ToolStarted:
				if fact.Name == "hold_note" {
					group.Go(func() { sendAway(ctx, eng, perdure.CallKey{Session: id, Call: fact.CallID}) })
				}
			case perdure.TaskCreated:
				if fact.Task.Tool == "hold_note" {
					w.Release("hold_note")
				}
			}
			return nil
		})
	})
	return func() { stop(); group.Wait() }
}

// sendAway detaches a call as soon as it runs.
func sendAway(ctx context.Context, eng engine.Engine, call perdure.CallKey) {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		if _, err := eng.Calls().Detach(ctx, call, "user"); err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// seeded creates a session with a message in it, without a running engine.
func seeded(t *testing.T, ctx context.Context, st *memory.Store, w *world) perdure.SessionID {
	t.Helper()
	eng := w.Start(t)
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []budget.Currency{budget.ModelCalls, budget.Tokens, budget.Calls} {
		if _, err := eng.Budgets().Set(ctx, budget.Budget{Subject: budget.Subject{Scope: budget.Org}, Currency: c, Limit: budget.Whole(1_000_000)}, "user"); err != nil {
			t.Fatal(err)
		}
	}
	w.Stop(t)
	if _, err := eng.Send(ctx, s.ID, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// aftermath is the state that a crash and a recovery have left.
type aftermath struct {
	eng   engine.Engine
	id    perdure.SessionID
	world *world
	point any // the crash point, for failure messages

	effects map[string]perdure.EffectClass
	// by tool: the tool that starts it; if the model was told that that one failed, the effect may
	// be missing
	excused map[string]string
}

// told reports whether the model was told that a call or its task failed.
func told(events []perdure.Event, door, tool string) bool {
	return slices.ContainsFunc(events, func(e perdure.Event) bool {
		switch f := e.Fact.(type) {
		case perdure.ToolCompleted:
			return f.Name == door && f.Status != perdure.StatusSuccess
		case perdure.TaskUpdated:
			return f.Task.Tool == tool && f.Task.State == perdure.TaskFailed
		}
		return false
	})
}

func checkAftermath(t *testing.T, a aftermath) {
	t.Helper()
	ctx := t.Context()
	events, err := a.eng.Events(ctx, a.id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	record := chaos.Record{Journals: []chaos.Journal{{Session: a.id, Events: events}}}
	for tool, class := range a.effects {
		for _, key := range a.world.Effects(tool) {
			record.Ledger = append(record.Ledger, chaos.Line{Effect: tool, Class: string(class), Key: key})
		}
		if door, excused := a.excused[tool]; !excused || !told(events, door, tool) {
			record.Expected = append(record.Expected, chaos.Order{Session: a.id, Tool: tool, Effect: tool})
		}
	}
	report := chaos.Evaluate(record, chaos.Run{})
	if !report.OK {
		t.Errorf("%+v: %+v", a.point, report)
	}
	session, err := a.eng.Sessions().Get(ctx, a.id)
	if err != nil || session.Status != perdure.SessionIdle {
		t.Errorf("%+v: the session is %s, %v", a.point, session.Status, err)
	}
	if open, err := a.eng.Approvals().List(ctx, engine.ApprovalFilter{Session: a.id, State: perdure.ApprovalOpen}); err != nil || len(open) > 0 {
		t.Errorf("%+v: %d approvals are open, %v", a.point, len(open), err)
	}
	checkRows(t, a, events)
	checkAccounts(t, a, events)
}

// checkAccounts wants no open reservation, wherever the crash was, even during a model call. Each
// account equals its ledger, and each answer is counted once (BU2).
func checkAccounts(t *testing.T, a aftermath, events []perdure.Event) {
	t.Helper()
	standing, err := a.eng.Budgets().List(t.Context(), engine.BudgetFilter{})
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for _, e := range events {
		if _, ok := e.Fact.(perdure.Generation); ok {
			answers++
		}
	}
	for _, b := range standing {
		lines, err := a.eng.Budgets().Entries(t.Context(), b.ID, 0)
		var sum budget.Amount
		for _, line := range lines {
			if line.Kind == budget.Charge {
				sum = sum.Plus(line.Amount)
			}
		}
		if err != nil || b.Reserved != 0 || b.Spent != sum || b.Currency == budget.ModelCalls && sum != budget.Whole(int64(answers)) {
			t.Errorf("%+v: %s: reserved %s, spent %s, its ledger says %s, %d answers, %v", a.point, b.Currency, b.Reserved, b.Spent, sum, answers, err)
		}
	}
}

// checkRows compares the fold of the journal with the stored tasks and calls (PR2).
func checkRows(t *testing.T, a aftermath, events []perdure.Event) {
	t.Helper()
	fold := perdure.NewSession(a.id)
	for _, e := range events {
		if err := fold.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	tasks, err := a.eng.Tasks().List(t.Context(), a.id)
	if err != nil || len(tasks) != len(fold.Tasks) {
		t.Fatalf("%+v: %d rows, %d folded, %v", a.point, len(tasks), len(fold.Tasks), err)
	}
	for _, row := range tasks {
		folded := fold.Tasks[row.ID]
		if row.State != folded.State || row.Delivered != folded.Delivered || row.Attempt != folded.Attempt || row.Summary != folded.Summary {
			t.Errorf("%+v: row %+v, fold %+v", a.point, row, folded)
		}
	}
	calls, err := a.eng.Calls().List(t.Context(), a.id)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		if call.State == perdure.CallRunning {
			t.Errorf("%+v: call %s still runs in the ledger", a.point, call.Key)
		}
	}
}
