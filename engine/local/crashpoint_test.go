package local_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// crashScript uses every class in both lanes, a refusal and a result that comes home.
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

// TestCrashPoints kills the engine at each of its transactions, before it and after it without telling, and
// then lets another one finish (R2). Nothing may be lost, doubled or stuck, wherever the cut was.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after_%t", after), func(t *testing.T) {
			t.Parallel()
			for n := int64(1); ; n++ {
				if !crashAt(t, death{n: n, after: after}) {
					if n < 15 {
						t.Errorf("the scenario has only %d transactions", n-1)
					}
					return
				}
			}
		})
	}
}

// crashAt plays the scenario with one death and reports whether it came to that.
func crashAt(t *testing.T, point death) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st := memory.New(memory.Config{})
	w := newWorld(t, enginetest.Setup{Script: crashScript, MaxRuns: 5}, func(*testing.T) store.Store { return st }, func(store.Store) {})
	id := seeded(t, ctx, st, w)

	w.point = point
	mortal := w.Start(t)
	rest := make(chan error, 1) // one result; nobody may be listening
	go func() { rest <- mortal.WaitIdle(ctx, id) }()
	died := false
	select {
	case <-w.mortal.expired:
		died = true
	case err := <-rest:
		if err != nil {
			t.Fatalf("without a death: %v", err)
		}
	}
	w.Kill(t)
	eng := w.Start(t)
	if err := eng.WaitIdle(ctx, id); err != nil {
		t.Fatalf("%+v: %v", point, err)
	}
	checkAftermath(t, aftermath{eng: eng, id: id, world: w, point: point})
	w.Kill(t)
	return died
}

// seeded makes a session with a message in it, without an engine that runs.
func seeded(t *testing.T, ctx context.Context, st *memory.Store, w *world) perdure.SessionID {
	t.Helper()
	eng := w.Start(t)
	s, err := eng.NewSession(ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop(t)
	if err := eng.Send(ctx, s.ID, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// aftermath is what a death and a recovery left behind.
type aftermath struct {
	eng   engine.Engine
	id    perdure.SessionID
	world *world
	point death
}

func checkAftermath(t *testing.T, a aftermath) {
	t.Helper()
	ctx := t.Context()
	events, err := a.eng.Events(ctx, a.id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	record := chaos.Record{Journals: []chaos.Journal{{Session: a.id, Events: events}}}
	for tool, class := range map[string]perdure.EffectClass{"note": perdure.Idempotent, "bg_note": perdure.Idempotent, "charge": perdure.AtMostOnce, "bg_once": perdure.AtMostOnce} {
		for _, key := range a.world.Effects(tool) {
			record.Ledger = append(record.Ledger, chaos.Line{Effect: tool, Class: string(class), Key: key})
		}
		name := tool
		record.Expected = append(record.Expected, chaos.Order{Session: a.id, Tool: name, Effect: tool})
	}
	report := chaos.Judge(record, chaos.Run{})
	if !report.OK {
		t.Errorf("%+v: %+v", a.point, report)
	}
	session, err := a.eng.Session(ctx, a.id)
	if err != nil || session.Status != perdure.SessionIdle {
		t.Errorf("%+v: the session is %s, %v", a.point, session.Status, err)
	}
	checkRows(t, a, events)
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
	tasks, err := a.eng.Tasks(t.Context(), a.id)
	if err != nil || len(tasks) != len(fold.Tasks) {
		t.Fatalf("%+v: %d rows, %d folded, %v", a.point, len(tasks), len(fold.Tasks), err)
	}
	for _, row := range tasks {
		folded := fold.Tasks[row.ID]
		if row.State != folded.State || row.Delivered != folded.Delivered || row.Attempt != folded.Attempt || row.Summary != folded.Summary {
			t.Errorf("%+v: row %+v, fold %+v", a.point, row, folded)
		}
	}
	calls, err := a.eng.Calls(t.Context(), a.id)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		if call.State == perdure.CallRunning {
			t.Errorf("%+v: call %s still runs in the ledger", a.point, call.Key)
		}
	}
}
