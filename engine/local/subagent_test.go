package local_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// familyScript is a parent with one subagent that it waits for and one in the background. Both call
// a tool and start a run of their own; the second one asks a question.
const familyScript = `
rules:
  - when: {user_contains: piece one, not_called: note}
    calls: [{name: note, args: {text: one}}, {name: spawn_background, args: {tool: bg_note, args: {}}}]
  - when: {user_contains: piece one, notifications: 1}
    text: "one has ended"
  - when: {user_contains: piece one}
    text: "one waits for its run"
  - when: {user_contains: piece two, not_called: ask}
    calls: [{name: ask, args: {}}, {name: charge, args: {text: two}}, {name: spawn_background, args: {tool: bg_once, args: {}}}]
  - when: {user_contains: piece two, notifications: 2}
    text: "two has ended"
  - when: {user_contains: piece two}
    text: "two waits"
  - when: {user_contains: go, not_called: spawn_subagent}
    calls:
      - {name: spawn_subagent, args: {name: two, task: piece two, background: true}}
      - {name: spawn_subagent, args: {name: one, task: piece one}}
steps: [{text: it goes on, repeat: true}]
`

// familyEffects are the effects of the story, by tool.
func familyEffects() map[string]perdure.EffectClass {
	return map[string]perdure.EffectClass{"note": perdure.Idempotent, "bg_note": perdure.Idempotent, "charge": perdure.AtMostOnce, "bg_once": perdure.AtMostOnce}
}

// dumpTree is a world in which subagents work.
type dumpTree struct {
	*world
	st  *memory.Store
	id  perdure.SessionID // the parent
	ctx context.Context
}

func newFamily(t *testing.T, s enginetest.Setup, over func(store.Store) store.Store) *dumpTree {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	f := &dumpTree{st: memory.New(memory.Config{}), ctx: ctx}
	f.world = newWorld(t, s, func(*testing.T) store.Store { return over(f.st) }, func(store.Store) {})
	f.Release("ask_after")
	return f
}

// asIs is a store without faults.
func asIs(st store.Store) store.Store { return st }

// sessions are all sessions of the family, the parent first.
func (f *dumpTree) sessions(t *testing.T, eng engine.Engine) []perdure.SessionID {
	t.Helper()
	list, err := eng.Sessions().List(f.ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	ids := []perdure.SessionID{f.id}
	for _, s := range list {
		if s.ID != f.id {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// story is the journals of the family.
func (f *dumpTree) story(t *testing.T, eng engine.Engine) (text string) {
	t.Helper()
	for _, id := range f.sessions(t, eng) {
		text += string(id) + ": " + (&rig{eng: eng, id: id}).story() + "\n"
	}
	return text
}

// insist retries while the store is not available.
func insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !errors.Is(err, perdure.Unavailable) || ctx.Err() != nil {
			return err
		}
	}
}

// attend plays a person who answers what the parent's tasks ask, and retries. It ends with leave.
func (f *dumpTree) attend(eng engine.Engine) (leave func()) {
	ctx, stop := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = eng.Follow(ctx, f.id, 0, func(frame engine.Frame) error { // it ends with ctx
			if frame.Event == nil {
				return nil
			}
			if u, ok := frame.Event.Fact.(perdure.TaskUpdated); ok && u.Task.InputRequest != nil {
				_ = insist(ctx, func() error { // a second answer is refused, which is fine
					_, err := eng.Tasks().Send(ctx, u.Task.ID, perdure.TaskMessage{Text: "yes", InReplyTo: u.Task.InputRequest.ID, By: "user"})
					return err
				})
			}
			return nil
		})
	}()
	return func() { stop(); <-done }
}

// finish waits until the parent is idle, sends a message, and waits again; then all sessions are
// idle.
func (f *dumpTree) finish(t *testing.T, eng engine.Engine, point any) {
	t.Helper()
	more := perdure.Text("what else?")
	more.ID = perdure.MessageID("message_0123456789abcdef0123456789abcdef")
	for _, do := range []func() error{
		func() error { return eng.Sessions().WaitIdle(f.ctx, f.id) },
		func() error {
			_, err := eng.Send(f.ctx, f.id, more)
			return err
		},
		func() error { return eng.Sessions().WaitIdle(f.ctx, f.id) },
	} {
		if err := insist(f.ctx, do); err != nil {
			t.Fatalf("%+v: %v; journals:\n%s", point, err, f.story(t, eng))
		}
	}
}

// check checks the invariants of an idle family. fewer permits a missing subagent, if the parent
// was told so.
func (f *dumpTree) check(t *testing.T, eng engine.Engine, point any, fewer bool) {
	t.Helper()
	children := 2
	var record chaos.Record
	ids := f.sessions(t, eng)
	if events, err := eng.Events(f.ctx, f.id, 0, 0); err == nil && fewer {
		for _, e := range events {
			if done, ok := e.Fact.(perdure.ToolCompleted); ok && done.Status != perdure.StatusSuccess {
				children--
			}
		}
	}
	if len(ids) != children+1 {
		t.Errorf("%+v: %d sessions", point, len(ids))
	}
	for _, id := range ids {
		events, err := eng.Events(f.ctx, id, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		record.Journals = append(record.Journals, chaos.Journal{Session: id, Events: events})
		checkRows(t, aftermath{eng: eng, id: id, point: point}, events)
		session, err := eng.Sessions().Get(f.ctx, id)
		if err != nil || session.Status != perdure.SessionIdle && session.Status != perdure.SessionStarted || session.NeedsYou > 0 || session.OpenTasks > 0 {
			t.Errorf("%+v: got %+v, %v", point, session, err)
		}
	}
	for tool, class := range familyEffects() {
		for _, key := range f.Effects(tool) {
			record.Ledger = append(record.Ledger, chaos.Line{Effect: tool, Class: string(class), Key: key})
		}
	}
	if report := chaos.Evaluate(record, chaos.Run{}); !report.OK {
		t.Errorf("%+v: %+v", point, report)
	}
	f.checkHandles(t, point, children)
}

// checkHandles checks I9: each handle has one child, is settled, none is live, and the parent's
// record has the same end.
func (f *dumpTree) checkHandles(t *testing.T, point any, children int) {
	t.Helper()
	err := f.st.View(f.ctx, func(r store.Reader) error {
		handles, err := r.Spawns().List("")
		if err != nil {
			return err
		}
		seen := map[perdure.SessionID]bool{}
		for _, h := range handles {
			task, err := r.Tasks().Get(h.Key.Session, h.Task)
			if err != nil {
				return err
			}
			if h.State != store.SpawnSettled || seen[h.Child] || task.State != h.Status || task.Links.ChildSession != h.Child || task.Delivered == perdure.NotDelivered {
				t.Errorf("%+v: handle %+v of %+v", point, h, task)
			}
			seen[h.Child] = true
		}
		count, err := r.Spawns().Count(f.id)
		if err != nil || count.Live != 0 || count.Total != children {
			t.Errorf("%+v: got %+v, %v", point, count, err)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%+v: %v", point, err)
	}
}

// familyCrash runs the story with one crash and reports whether the crash happened.
func familyCrash(t *testing.T, point death) bool {
	t.Helper()
	f := newFamily(t, enginetest.Setup{Script: familyScript, MaxRuns: 5}, asIs)
	f.id = seeded(t, f.ctx, f.st, f.world)
	f.point = point
	first := f.Start(t)
	leave := f.attend(first)
	rest := make(chan error, 1) // one result; nobody may be listening
	go func() { rest <- first.Sessions().WaitIdle(f.ctx, f.id) }()
	died := false
	select {
	case <-f.mortal.Died:
		died = true
	case err := <-rest:
		if err != nil {
			t.Fatalf("without a death: %v; journals:\n%s", err, f.story(t, first))
		}
	}
	leave()
	f.Kill(t)
	eng := f.Start(t)
	defer f.attend(eng)()
	f.finish(t, eng, point)
	f.check(t, eng, point, false)
	f.Kill(t)
	return died
}

// flaky injects faults into transactions that append facts, by their number in the run of an
// engine.
type flaky struct {
	store.Store
	fate  func(n int64) fate
	count atomic.Int64
}

// InTx chooses the fate of a transaction before its commit.
func (s *flaky) InTx(ctx context.Context, fn func(store.Tx) error) error {
	var answer fate
	err := s.Store.InTx(ctx, func(tx store.Tx) error {
		spy := &spyTx{Tx: tx}
		if err := fn(spy); err != nil {
			return err
		}
		if answer = commits; len(spy.facts) > 0 {
			answer = s.fate(s.count.Add(1))
		}
		if answer == aborts {
			return perdure.Unavailable
		}
		return nil
	})
	if err == nil && answer == forgets {
		return perdure.Unavailable
	}
	return err
}

// TestSubagentFaults lets each commit of the story fail, or be in doubt, without a crash: the same
// engine finishes everything.
func TestSubagentFaults(t *testing.T) {
	t.Parallel()
	const stride = 5 // every fifth commit
	for lane := range int64(4) {
		for name, what := range map[string]fate{"fails": aborts, "answer_lost": forgets} {
			t.Run(fmt.Sprintf("%s_%d", name, lane), func(t *testing.T) {
				t.Parallel()
				for n := 1 + lane*stride; !t.Failed(); n += 4 * stride {
					if !familyFault(t, n, what) {
						if n <= 25 {
							t.Errorf("the story has only %d commits", n-1)
						}
						return
					}
				}
			})
		}
	}
}

// familyFault runs the story with one fault and reports whether the fault happened.
func familyFault(t *testing.T, at int64, what fate) bool {
	t.Helper()
	var bad *flaky
	f := newFamily(t, enginetest.Setup{Script: familyScript, MaxRuns: 5, Beat: 20 * time.Millisecond}, func(st store.Store) store.Store {
		if bad != nil {
			bad = &flaky{Store: st, fate: func(n int64) fate {
				if n == at {
					return what
				}
				return commits
			}}
			return bad
		}
		return st
	})
	f.id = seeded(t, f.ctx, f.st, f.world)
	bad = &flaky{}
	eng := f.Start(t)
	defer f.attend(eng)()
	f.finish(t, eng, at)
	hit := bad.count.Load() >= at
	f.check(t, eng, fmt.Sprintf("%v at commit %d", what, at), what == aborts)
	f.Kill(t)
	return hit
}

const (
	freeOne = "{name: spawn_subagent, args: {name: one, task: piece one, background: true}}"
	waitOne = "{name: spawn_subagent, args: {name: one, task: piece one}}"
)

// parentOf is a script of a parent that makes calls, and of a child's rules.
func parentOf(calls, child string) string {
	return "rules:\n" + child + `
  - when: {user_contains: go, last_role: notification}
    text: "home: {{note}}"
  - when: {user_contains: go, not_called: spawn_subagent}
    calls: [` + calls + `]
steps: [{text: it goes on, repeat: true}]
`
}

// childDoes is a child that calls a tool, then answers.
func childDoes(tool string) string {
	return `  - when: {user_contains: piece, not_called: ` + tool + `}
    calls: [{name: ` + tool + `, args: {text: a}}]
  - when: {user_contains: piece}
    text: "forty-two"`
}

// subagent waits for the parent's record of a subagent in a state.
func (r *rig) subagent(match func(perdure.Task) bool) perdure.Task {
	r.t.Helper()
	f := r.until(func(f perdure.Fact) bool {
		switch f := f.(type) {
		case perdure.TaskCreated:
			return f.Task.Kind == perdure.KindSubagent && f.Task.Links.ChildSession != "" && match(f.Task)
		case perdure.TaskUpdated:
			return f.Task.Kind == perdure.KindSubagent && f.Task.Links.ChildSession != "" && match(f.Task)
		}
		return false
	})
	if u, ok := f.(perdure.TaskUpdated); ok {
		return u.Task
	}
	return f.(perdure.TaskCreated).Task
}

func anyTask(perdure.Task) bool { return true }

// told reports whether facts are the commit of a subagent's end.
func toldEnd(facts []perdure.Fact) bool {
	return has(facts, func(u perdure.TaskUpdated) bool {
		return u.Task.Kind == perdure.KindSubagent && u.Task.State.Terminal()
	})
}

// TestSubagentEndAnswerLost: the commit that reports the end to the parent is in doubt: the parent
// is woken anyway.
func TestSubagentEndAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: parentOf(freeOne, childDoes("hold"))})
	r.say("go")
	r.Entered(t, "hold", 1)
	r.until(func(f perdure.Fact) bool { _, ok := f.(perdure.SessionIdled); return ok })
	judge, hit := once(forgets, toldEnd)
	r.st.set(judge)
	r.Release("hold")
	<-hit
	r.rest()
}

// TestSubagentRepairAnswerLost: the commit that requests another answer is in doubt (SA12).
func TestSubagentRepairAnswerLost(t *testing.T) {
	t.Parallel()
	call := `{name: spawn_subagent, args: {name: one, task: piece one, background: true, result_schema: {type: integer}}}`
	r := newRig(t, enginetest.Setup{Script: parentOf(call, `  - when: {user_contains: Answer again}
    text: "7"
  - when: {user_contains: piece}
    text: "seven"`)})
	judge, hit := once(forgets, func(f []perdure.Fact) bool {
		return has(f, func(m perdure.MessageReceived) bool { return m.Key == "parent:repair" })
	})
	r.st.set(judge)
	r.say("go")
	<-hit
	r.rest()
	if task := r.subagent(func(t perdure.Task) bool { return t.State.Terminal() }); task.Result != "7" && task.State != perdure.TaskSucceeded {
		t.Errorf("got %+v", task)
	}
}

// TestSubagentTakenOverAnswerLost: the commit by which the next engine takes over the record of a
// subagent whose end was not reported is in doubt.
func TestSubagentTakenOver(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]fate{"fails": aborts, "answer_lost": forgets} {
		for _, at := range []string{"take over", "tell"} {
			t.Run(name+"_"+at, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, enginetest.Setup{Script: parentOf(freeOne, childDoes("hold")), Beat: 20 * time.Millisecond})
				r.say("go")
				r.Entered(t, "hold", 1)
				r.until(func(f perdure.Fact) bool { _, ok := f.(perdure.SessionIdled); return ok })
				child := &rig{world: r.world, st: r.st, eng: r.eng, id: r.subagent(anyTask).Links.ChildSession, ctx: r.ctx, t: t}
				r.st.set(func(f []perdure.Fact) fate {
					if toldEnd(f) {
						return aborts
					}
					return commits
				})
				r.Release("hold")
				child.until(func(f perdure.Fact) bool { _, ok := f.(perdure.SessionIdled); return ok })
				r.Kill(t)
				judge, hit := once(what, func(f []perdure.Fact) bool {
					return at == "tell" && toldEnd(f) || at != "tell" && has(f, any1[perdure.TaskReattached])
				})
				r.st.set(judge)
				r.eng = r.Start(t)
				<-hit
				r.rest()
			})
		}
	}
}

// TestSubagentCancelAnswerLost: the commit that cancels a subagent which waits for a person is in
// doubt.
func TestSubagentCancelAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: parentOf(freeOne, childDoes("needs"))})
	r.say("go")
	task := r.subagent(func(t perdure.Task) bool { return t.State == perdure.TaskAwaitingInput })
	judge, _ := once(forgets, func(f []perdure.Fact) bool { return has(f, any1[perdure.SessionStopped]) })
	r.st.set(judge)
	if _, err := r.eng.Tasks().Cancel(r.ctx, task.ID, "user", "enough"); err == nil {
		t.Error("the answer was not lost")
	}
	r.rest()
	if open, err := r.eng.Approvals().List(r.ctx, engine.ApprovalFilter{State: perdure.ApprovalOpen}); err != nil || len(open) > 0 {
		t.Errorf("%d approvals are open, %v", len(open), err)
	}
}

// TestSubagentWaitOverFaults: the store is unavailable while a call waits for its subagent: it
// keeps waiting.
func TestSubagentWaitOverFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: parentOf(waitOne, childDoes("hold"))})
	r.say("go")
	r.Entered(t, "hold", 1)
	var failures atomic.Int64
	var told atomic.Bool
	r.st.set(func(f []perdure.Fact) fate {
		if toldEnd(f) { // the wait reads after this
			failures.Store(5)
			told.Store(true)
		}
		return commits
	})
	r.st.setView(func() bool { return failures.Add(-1) >= 0 })
	r.Release("hold")
	for !told.Load() || failures.Load() >= 0 { // the test itself reads after them
		pass(time.Millisecond)
	}
	r.rest()
	done := r.until(func(f perdure.Fact) bool { _, ok := f.(perdure.ToolCompleted); return ok }).(perdure.ToolCompleted)
	if done.Status != perdure.StatusSuccess || string(done.Result.Result) != `"forty-two"` {
		t.Errorf("got %+v", done)
	}
}
