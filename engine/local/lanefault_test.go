package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

const callX = `
rules:
  - when: {last_role: notification}
    text: home
  - when: {not_called: x}
    calls: [{name: x, args: {}}]
  - when: {called: x}
    text: done
`

func (s *shop) story() string { return (&rig{eng: s.eng, id: s.id}).story() }

func (s *shop) openApprovals(n int) []perdure.Approval {
	s.t.Helper()
	for i := 0; i < 200; i++ {
		list, err := s.eng.Approvals().List(s.ctx, engine.ApprovalFilter{Session: s.id, State: perdure.ApprovalOpen})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(list) >= n {
			return list
		}
		<-time.After(10 * time.Millisecond)
	}
	s.t.Fatalf("no %d approvals; %s", n, s.story())
	return nil
}

func perm(kind, target string) []perdure.Permission {
	return []perdure.Permission{{Kind: kind, Target: target}}
}

// until returns a ctx that also ends when the channel is closed.
func until(ctx context.Context, closed <-chan struct{}) context.Context {
	short, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-closed:
		case <-ctx.Done():
		}
	}()
	return short
}

// Regression: an approval of one thing answers the question for another.
func TestLaneFaultApprovalAnswersAnotherQuestion(t *testing.T) {
	t.Parallel()
	got, seen := make(chan tool.Reply, 1), make(chan struct{})
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		_, _ = env.Dialog.Ask(until(ctx, seen), tool.Question{Prompt: "list?", Permissions: perm("command", "ls")})
		reply, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "remove?", Permissions: perm("command", "rm -rf /")})
		got <- reply
		return answer{"approved": "?"}, err
	})
	s := openShop(t, callX, local.Config{Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour}}, x)
	s.run()
	s.session()
	s.say("go")
	ls := s.openApprovals(1)[0]
	close(seen)
	for asked := false; !asked; <-time.After(5 * time.Millisecond) {
		open, err := s.eng.Approvals().List(s.ctx, engine.ApprovalFilter{Session: s.id, State: perdure.ApprovalOpen})
		if err != nil {
			t.Fatal(err)
		}
		asked = len(open) == 1 && open[0].ID != ls.ID
	}
	_, err := s.eng.Approvals().Decide(s.ctx, ls.ID, perdure.Verdict{Approve: true, By: "user"})
	t.Log("approve ls:", err)
	select {
	case r := <-got:
		if r.Approved {
			t.Errorf("a person approved ls, and rm -rf / is allowed: %+v", r)
		}
	case <-time.After(time.Second):
	}
}

// Regression: after a restart the stored approval of one thing answers the question for another.
func TestLaneFaultRerunAsksForMore(t *testing.T) {
	t.Parallel()
	var life atomic.Int32
	entered := make(chan struct{}, 9)
	got := make(chan tool.Reply, 9)
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		target := "ls"
		if life.Add(1) > 1 {
			target = "rm -rf /"
		}
		reply, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "May I " + target, Permissions: perm("command", target)})
		if target == "ls" {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		got <- reply
		return answer{}, err
	})
	st := memory.New(memory.Config{})
	a := openShop(t, callX, local.Config{Store: st, Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour}}, x)
	a.run()
	a.session()
	a.say("go")
	_, err := a.eng.Approvals().Decide(a.ctx, a.openApprovals(1)[0].ID, perdure.Verdict{Approve: true, By: "user"})
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	a.stop()
	<-a.done
	b := openShop(t, callX, local.Config{Store: st, Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour}}, x)
	b.id = a.id
	b.run()
	select {
	case r := <-got:
		if r.Approved {
			t.Errorf("a person approved ls before the crash, and rm -rf / is allowed after it: %+v; %s", r, b.story())
		}
	case <-time.After(2 * time.Second):
	}
}

// Regression: a client's result for a call that does not wait for it overwrites the stored output
// of that call.
func TestLaneFaultAnswerOverwritesOutput(t *testing.T) {
	t.Parallel()
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Pure}, func(ctx context.Context, _ words, env tool.Env) (string, error) {
		return strings.Repeat("t", 100_000), nil
	})
	s := openShop(t, callX, local.Config{}, x)
	s.run()
	s.session()
	s.say("go")
	s.rest()
	calls, _ := s.eng.Calls().List(s.ctx, s.id)
	forged, _ := json.Marshal(strings.Repeat("F", 100_000))
	path := tool.OutputPath(calls[0].Key.Call)
	read := func() string {
		var f store.File
		_ = s.st.View(s.ctx, func(r store.Reader) (err error) { f, err = r.Files().Get(s.id, path); return err })
		return string(f.Content[:min(len(f.Content), 8)])
	}
	before := read()
	err := s.eng.Calls().Answer(s.ctx, calls[0].Key, "mallory", perdure.ToolResult{Result: forged})
	if after := read(); before != after {
		t.Errorf("%v, and the output that the tool left was %q and is %q", err, before, after)
	}
	foreign := perdure.CallKey{Session: s.id, Call: "call_nobody_made"}
	err = s.eng.Calls().Answer(s.ctx, foreign, "mallory", perdure.ToolResult{Result: forged})
	_ = s.st.View(s.ctx, func(r store.Reader) error {
		if f, ferr := r.Files().Get(s.id, tool.OutputPath(foreign.Call)); ferr == nil {
			t.Errorf("%v, and %s was written, %d bytes", err, f.Path, f.SizeBytes)
		}
		return nil
	})
}

// Regression: an answer that takes a person longer than the idle limit ends the turn.
func TestLaneFaultSlowPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parsed, err := scripted.Parse("law", []byte(callX))
		if err != nil {
			t.Fatal(err)
		}
		m := slow{parsed}
		x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Pure, Policy: tool.PolicyRequiresApproval}, func(context.Context, words, tool.Env) (answer, error) { return answer{}, nil })
		eng, err := local.Open(t.Context(), local.Config{Store: memory.New(memory.Config{}), Model: m, Tools: tool.NewRegistry(x), Timing: local.Timing{Stall: -1}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = eng.Run(ctx); close(done) }()
		defer func() { stop(); <-done }()
		session, _ := eng.Sessions().Create(ctx, perdure.Agent{})
		if _, err := eng.Send(ctx, session.ID, perdure.Text("hello")); err != nil {
			t.Fatal(err)
		}
		<-time.After(90 * time.Minute)
		list, err := eng.Approvals().List(ctx, engine.ApprovalFilter{Session: session.ID, State: perdure.ApprovalOpen})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if _, err := eng.Approvals().Decide(ctx, list[0].ID, perdure.Verdict{By: "user"}); err != nil {
			t.Fatal(err)
		}
		if err := eng.Sessions().WaitIdle(ctx, session.ID); err != nil {
			t.Fatal(err)
		}
		events, _ := eng.Events(ctx, session.ID, 0, 0)
		for _, e := range events {
			if f, ok := e.Fact.(perdure.TurnFailed); ok {
				t.Errorf("the person answered, and the turn failed: %+v", f)
			}
		}
	})
}

// slow is a model that takes a second.
type slow struct{ model.Model }

func (m slow) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			yield(model.Delta{}, context.Cause(ctx))
			return
		}
		m.Model.Stream(ctx, r)(yield)
	}
}

// Regression: a detach that was committed, although both its commit and the read-back returned an
// error.
func TestLaneFaultDetachTwice(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	entered := make(chan struct{}, 1)
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		entered <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return answer{"did": "it"}, nil
	})
	s := openShop(t, callX, local.Config{Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour}}, x)
	var blind atomic.Bool
	judge, _ := once(forgets, func(f []perdure.Fact) bool {
		return has(f, func(perdure.ToolDetached) bool { blind.Store(true); return true })
	})
	s.st.set(judge)
	s.st.setView(func() bool { return blind.CompareAndSwap(true, false) })
	s.run()
	s.session()
	s.say("go")
	<-entered
	calls, _ := s.eng.Calls().List(s.ctx, s.id)
	_, first := s.eng.Calls().Detach(s.ctx, calls[0].Key, "user")
	_, second := s.eng.Calls().Detach(s.ctx, calls[0].Key, "user")
	t.Log("first:", first, "second:", second)
	close(release)
	ctx, cancel := context.WithTimeout(s.ctx, 3*time.Second)
	defer cancel()
	idle := s.eng.Sessions().WaitIdle(ctx, s.id)
	tasks, _ := s.eng.Tasks().List(s.ctx, s.id)
	fold := perdure.NewSession(s.id)
	events, _ := s.eng.Events(s.ctx, s.id, 0, 0)
	for _, e := range events {
		if err := fold.Apply(e); err != nil {
			t.Errorf("the journal cannot be folded any more: %v", err)
			break
		}
	}
	if idle != nil || len(tasks) != 1 || !tasks[0].State.Terminal() {
		t.Errorf("%v; tasks %v; %s", idle, tasks[0].State, s.story())
	}
}

// Regression: as above, but the call ends in the foreground, and its task has no runner.
func TestLaneFaultDetachOnce(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	entered := make(chan struct{}, 1)
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		entered <- struct{}{}
		<-release
		return answer{"did": "it"}, nil
	})
	s := openShop(t, callX, local.Config{}, x)
	var blind atomic.Bool
	judge, _ := once(forgets, func(f []perdure.Fact) bool {
		return has(f, func(perdure.ToolDetached) bool { blind.Store(true); return true })
	})
	s.st.set(judge)
	s.st.setView(func() bool { return blind.CompareAndSwap(true, false) })
	s.run()
	s.session()
	s.say("go")
	<-entered
	calls, _ := s.eng.Calls().List(s.ctx, s.id)
	_, first := s.eng.Calls().Detach(s.ctx, calls[0].Key, "user")
	t.Log("first:", first)
	close(release)
	tasks, _ := s.eng.Tasks().List(s.ctx, s.id)
	if len(tasks) != 1 {
		t.Fatalf("%d tasks", len(tasks))
	}
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	if task, err := s.eng.Tasks().Wait(ctx, tasks[0].ID); err != nil {
		t.Errorf("the task does not end: %v, %s", err, task.State)
	}
}

// Regression: a task whose start was committed, although both its commit and the read-back returned
// an error.
func TestLaneFaultStartReadBackFails(t *testing.T) {
	t.Parallel()
	ran := make(chan struct{}, 9)
	note := tool.NewBackground(tool.Spec{Name: "bg_note", Description: "x", Class: perdure.Idempotent}, func(context.Context, words, tool.Env) (answer, error) {
		ran <- struct{}{}
		return answer{"did": "it"}, nil
	})
	s := openShop(t, spawnOne, local.Config{}, note)
	var blind atomic.Bool
	judge, hit := once(forgets, func(f []perdure.Fact) bool {
		return has(f, func(c perdure.TaskCreated) bool {
			if c.Task.State == perdure.TaskRunning {
				blind.Store(true)
				return true
			}
			return false
		})
	})
	s.st.set(judge)
	s.st.setView(func() bool { return blind.CompareAndSwap(true, false) })
	s.run()
	s.session()
	s.say("go")
	<-hit
	tasks, _ := s.eng.Tasks().List(s.ctx, s.id)
	for len(tasks) == 0 {
		tasks, _ = s.eng.Tasks().List(s.ctx, s.id)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 6*time.Second) // three beats
	defer cancel()
	if task, err := s.eng.Tasks().Wait(ctx, tasks[0].ID); err != nil {
		t.Errorf("the task does not run: %v, %s, ran %d; %s", err, task.State, len(ran), s.story())
	}
}

// after calls a function between a commit and its result.
type after struct {
	store.Store
	fire atomic.Pointer[func()]
}

func (a *after) InTx(ctx context.Context, fn func(store.Tx) error) error {
	err := a.Store.InTx(ctx, fn)
	if do := a.fire.Swap(nil); do != nil && err == nil {
		(*do)()
	}
	return err
}

// Regression: a message to a task that is just being started makes it run twice.
func TestLaneFaultMessageWhileStarting(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	note := tool.NewBackground(tool.Spec{Name: "bg_note", Description: "x", Class: perdure.AtMostOnce}, func(context.Context, words, tool.Env) (answer, error) {
		runs.Add(1)
		return answer{"did": "it"}, nil
	})
	st := &after{Store: memory.New(memory.Config{})}
	s := openShop(t, spawnOne, local.Config{Store: st}, note)
	send := make(chan error, 1)
	s.st.set(func(f []perdure.Fact) fate {
		for _, fact := range f {
			if c, ok := fact.(perdure.TaskCreated); ok && c.Task.State == perdure.TaskRunning {
				id := c.Task.ID
				do := func() {
					_, err := s.eng.Tasks().Send(s.ctx, id, perdure.TaskMessage{Text: "hello", By: "user"})
					send <- err
				}
				st.fire.Store(&do)
			}
		}
		return commits
	})
	s.run()
	s.session()
	s.say("go")
	t.Log("send:", <-send)
	tasks, _ := s.eng.Tasks().List(s.ctx, s.id)
	task, err := s.eng.Tasks().Wait(s.ctx, tasks[0].ID)
	s.rest()
	if err != nil || task.State != perdure.TaskSucceeded || task.Attempt != 1 {
		t.Errorf("%v: %s, attempt %d, ran %d times; %s", err, task.State, task.Attempt, runs.Load(), s.story())
	}
}

// Regression: an unknown decision of a hook lets the call through.
func TestLaneFaultUnknownDecision(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.AtMostOnce}, func(context.Context, words, tool.Env) (answer, error) {
		runs.Add(1)
		return answer{}, nil
	})
	s := openShop(t, callX, local.Config{Policies: local.Policies{Permit: func(context.Context, tool.Call, perdure.Permission) (perdure.Decision, string, error) {
		return "denied", "no", nil
	}}}, x)
	s.run()
	s.session()
	s.say("go")
	s.rest()
	if runs.Load() != 0 {
		t.Errorf("the policy said %q, and the call ran", "denied")
	}
}

// Regression: an answer given to an engine that does not run starts work.
func TestLaneFaultAnswerWithoutRun(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		runs.Add(1)
		r, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "which?"})
		return answer{"heard": r.Text}, err
	})
	st := memory.New(memory.Config{})
	a := openShop(t, callX, local.Config{Store: st}, x)
	a.run()
	a.session()
	a.say("go")
	var task perdure.Task
	for task.InputRequest == nil {
		if tasks, _ := a.eng.Tasks().List(a.ctx, a.id); len(tasks) == 1 {
			task = tasks[0]
		}
	}
	a.stop()
	<-a.done
	b := openShop(t, callX, local.Config{Store: st}, x)
	_, err := b.eng.Tasks().Send(b.ctx, task.ID, perdure.TaskMessage{Text: "a", InReplyTo: task.InputRequest.ID, By: "user"})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 100 && runs.Load() < 2; i++ {
		<-time.After(10 * time.Millisecond)
	}
	if runs.Load() != 1 {
		t.Errorf("Run was never called, and the tool ran %d times", runs.Load())
	}
}

// Regression: an answer given after Run has returned uses up an attempt.
func TestLaneFaultAnswerAfterStop(t *testing.T) {
	t.Parallel()
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.AtMostOnce}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		r, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "which?"})
		return answer{"heard": r.Text}, err
	})
	y := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		r, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "which?"})
		return answer{"heard": r.Text}, err
	})
	_ = x
	st := memory.New(memory.Config{})
	a := openShop(t, callX, local.Config{Store: st, Limits: local.Limits{MaxExecutions: 2}}, y)
	a.run()
	a.session()
	a.say("go")
	var task perdure.Task
	for task.InputRequest == nil {
		if tasks, _ := a.eng.Tasks().List(a.ctx, a.id); len(tasks) == 1 {
			task = tasks[0]
		}
	}
	a.stop()
	<-a.done
	if _, err := a.eng.Tasks().Send(a.ctx, task.ID, perdure.TaskMessage{Text: "a", InReplyTo: task.InputRequest.ID, By: "user"}); err != nil {
		t.Fatal(err)
	}
	b := openShop(t, callX, local.Config{Store: st, Limits: local.Limits{MaxExecutions: 2}}, y)
	b.run()
	got, err := b.eng.Tasks().Wait(b.ctx, task.ID)
	if err != nil || got.State != perdure.TaskSucceeded {
		t.Errorf("%v: %s %+v after %d executions", err, got.State, got.Error, got.Executions)
	}
}

// Regression: a task that has ended leaves its approval open.
func TestLaneFaultApprovalStaysOpen(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		_, _ = env.Dialog.Ask(until(ctx, seen), tool.Question{Prompt: "list?", Permissions: perm("command", "ls")})
		return answer{"went": "without"}, nil
	})
	s := openShop(t, callX, local.Config{}, x)
	s.run()
	s.session()
	s.say("go")
	s.openApprovals(1)
	close(seen)
	tasks, _ := s.eng.Tasks().List(s.ctx, s.id)
	for !tasks[0].State.Terminal() { // a task that awaits input counts as waited for
		<-time.After(5 * time.Millisecond)
		tasks, _ = s.eng.Tasks().List(s.ctx, s.id)
	}
	list, _ := s.eng.Approvals().List(s.ctx, engine.ApprovalFilter{Session: s.id, State: perdure.ApprovalOpen})
	session, _ := s.eng.Sessions().Get(s.ctx, s.id)
	if len(list) != 0 || session.NeedsYou != 0 {
		t.Errorf("the task is %s, %d approvals are open, %d things wait for a person", tasks[0].State, len(list), session.NeedsYou)
	}
}

// hanging is a hook that returns when its context ends.
type hanging struct{}

func (hanging) BeforeTool(context.Context, tool.Call) (tool.Before, error) { return tool.Before{}, nil }
func (hanging) AfterTool(ctx context.Context, _ tool.Call, _ tool.Result) (tool.After, error) {
	<-ctx.Done()
	return tool.After{}, context.Cause(ctx)
}

// Regression: a hook that waits for its context blocks the turn for ever, and no interrupt ends it.
func TestLaneFaultHangingHook(t *testing.T) {
	t.Parallel()
	ran := make(chan struct{}, 1)
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Pure}, func(context.Context, words, tool.Env) (answer, error) {
		ran <- struct{}{}
		return answer{}, nil
	})
	s := openShop(t, callX, local.Config{Timing: local.Timing{Grace: 50 * time.Millisecond}, Policies: local.Policies{Hooks: []tool.Hook{hanging{}}}}, x)
	s.run()
	s.session()
	s.say("go")
	<-ran
	if err := s.eng.Sessions().Interrupt(s.ctx, s.id, "user", "enough"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 4*time.Second) // grace, and kill wait
	defer cancel()
	if err := s.eng.Sessions().WaitIdle(ctx, s.id); err != nil {
		t.Errorf("the interrupt does not end the turn: %v; %s", err, s.story())
	}
}

// Regression: a spawn that was queued or needs an approval, and whose commit was in doubt, is
// reported as failed.
func TestLaneFaultSpawnAnswerLost(t *testing.T) {
	t.Parallel()
	note := tool.NewBackground(tool.Spec{Name: "bg_note", Description: "x", Class: perdure.Idempotent, Policy: tool.PolicyRequiresApproval}, func(context.Context, words, tool.Env) (answer, error) {
		return answer{"did": "it"}, nil
	})
	s := openShop(t, spawnOne, local.Config{}, note)
	judge, _ := once(forgets, func(f []perdure.Fact) bool { return has(f, any1[perdure.TaskCreated]) })
	s.st.set(judge)
	s.run()
	s.session()
	s.say("go")
	events := []perdure.Event{}
	for i := 0; i < 100; i++ {
		events, _ = s.eng.Events(s.ctx, s.id, 0, 0)
		<-time.After(10 * time.Millisecond)
	}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.ToolCompleted); ok && f.Result.IsError() {
			t.Errorf("the model received %q, and %d approvals are open", f.Result.Error, len(s.openApprovals(1)))
		}
	}
}

// Regression: a dry run asks for an approval and leaves a task behind.
func TestLaneFaultDryRunAsks(t *testing.T) {
	t.Parallel()
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Pure}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := env.Dialog.Ask(short, tool.Question{Prompt: "list?", Permissions: perm("command", "ls")})
		return answer{"heard": errors.Unwrap(err).Error()}, nil
	})
	s := openShop(t, callX, local.Config{}, x)
	s.run()
	session, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	s.id = session.ID
	s.say("go")
	s.rest()
	tasks, _ := s.eng.Tasks().List(s.ctx, s.id)
	list, _ := s.eng.Approvals().List(s.ctx, engine.ApprovalFilter{Session: s.id})
	if len(tasks) != 0 || len(list) != 0 {
		t.Errorf("a dry run made %d tasks and %d approvals", len(tasks), len(list))
	}
}

// Regression: ten concurrent questions are each answered once.
func TestLaneFaultTenAtOnce(t *testing.T) {
	t.Parallel()
	x := tool.New(tool.Spec{Name: "x", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, env tool.Env) (answer, error) {
		errs := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := env.Dialog.Ask(ctx, tool.Question{Prompt: "which?"})
				errs <- err
			}()
		}
		var all error
		for range 10 {
			all = errors.Join(all, <-errs)
		}
		return answer{}, all
	})
	s := openShop(t, callX, local.Config{}, x)
	s.run()
	s.session()
	s.say("go")
	ctx, cancel := context.WithTimeout(s.ctx, 8*time.Second)
	defer cancel()
	var task perdure.Task
	answered := 0
	for ctx.Err() == nil && !task.State.Terminal() {
		tasks, _ := s.eng.Tasks().List(s.ctx, s.id)
		if len(tasks) == 0 {
			continue
		}
		task = tasks[0]
		if task.InputRequest != nil {
			if _, err := s.eng.Tasks().Send(s.ctx, task.ID, perdure.TaskMessage{Text: "a", InReplyTo: task.InputRequest.ID, By: "user"}); err == nil {
				answered++
			}
		}
		<-time.After(5 * time.Millisecond)
	}
	if task.State != perdure.TaskSucceeded || answered != 10 {
		t.Errorf("the task is %s after %d answers", task.State, answered)
	}
}
