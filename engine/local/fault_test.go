package local_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
)

const spawnOne = `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_note, args: {}}}]
  - when: {notifications: 1}
    text: home
  - when: {called: spawn_background}
    text: waiting
`

// A spawn whose commit is in doubt: the task must run anyway.
func TestFaultSpawnAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: spawnOne})
	judge, _ := once(forgets, func(f []perdure.Fact) bool { return has(f, any1[perdure.TaskCreated]) })
	r.st.set(judge)
	r.say("go")
	r.rest()
}

// The commit that detaches a call fails or is in doubt: the call stays in the foreground and is
// detached a second later, or it is a task (LN7).
func TestFaultDetach(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]fate{"fails": aborts, "answer_lost": forgets} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, enginetest.Setup{Script: "steps: [{calls: [{name: hold_note, args: {}}]}, {text: on, repeat: true}]", SoftBudget: time.Millisecond})
			judge, hit := once(what, func(f []perdure.Fact) bool { return has(f, any1[perdure.ToolDetached]) })
			r.st.set(judge)
			r.say("go")
			<-hit
			r.until(func(f perdure.Fact) bool { _, left := f.(perdure.ToolDetached); return left })
			r.Release("hold_note")
			r.rest()
			if tasks, err := r.eng.Tasks().List(r.ctx, r.id); err != nil || len(tasks) != 1 || tasks[0].State != perdure.TaskSucceeded || tasks[0].Executions != 1 || len(r.Effects("hold_note")) != 1 {
				t.Errorf("got %+v, %v; journal: %s", tasks, err, r.story())
			}
		})
	}
}

// External input whose commit is in doubt: the work that waits for it continues anyway.
func TestFaultAnswersLost(t *testing.T) {
	t.Parallel()
	for tool, answered := range map[string]func(perdure.Fact) bool{
		"needs":  func(f perdure.Fact) bool { _, ok := f.(perdure.ApprovalResolved); return ok },
		"permit": func(f perdure.Fact) bool { _, ok := f.(perdure.ApprovalResolved); return ok },
		"ask":    func(f perdure.Fact) bool { _, ok := f.(perdure.TaskMessageReceived); return ok },
		"client": func(f perdure.Fact) bool { c, ok := f.(perdure.ToolCompleted); return ok && c.Name == "client" },
	} {
		for name, dies := range map[string]bool{"live": false, "dead": true} {
			t.Run(tool+"_"+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, enginetest.Setup{
					Agent: perdure.Agent{ClientTools: true}, Script: `
rules: [{when: {user_contains: hold, not_called: hold}, calls: [{name: hold, args: {}}]}]
steps: [{calls: [{name: ` + tool + `, args: {}}]}, {text: on, repeat: true}]`,
				})
				r.Release("ask_after")
				r.say("go")
				asked := r.until(func(f perdure.Fact) bool {
					u, task := f.(perdure.TaskUpdated)
					a, approval := f.(perdure.ApprovalRequested)
					_, client := f.(perdure.ToolCallRequested)
					return client || approval && a.Approval.Task == "" || task && u.Task.InputRequest != nil
				})
				if dies {
					r.dieAndRecover()
				}
				judge, hit := once(forgets, func(f []perdure.Fact) bool { return slices.ContainsFunc(f, answered) })
				r.st.set(judge)
				if err := r.answer(asked); err == nil {
					t.Error("the answer of the commit was not lost")
				}
				<-hit
				r.rest()
			})
		}
	}
}

// dieAndRecover kills the engine, and returns when another one has taken over everything that was
// left: sessions last.
func (r *rig) dieAndRecover() {
	r.t.Helper()
	other, err := r.eng.Sessions().Create(r.ctx, perdure.Agent{})
	if err == nil {
		_, err = r.eng.Send(r.ctx, other.ID, perdure.Text("hold"))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.Entered(r.t, "hold", 1)
	r.Kill(r.t)
	r.eng = r.Start(r.t)
	r.Entered(r.t, "hold", 2)
}

// until waits for a fact.
func (r *rig) until(match func(perdure.Fact) bool) (found perdure.Fact) {
	r.t.Helper()
	done := errors.New("found")
	err := r.eng.Follow(r.ctx, r.id, 0, func(f engine.Frame) error {
		if f.Event != nil && match(f.Event.Fact) {
			found = f.Event.Fact
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		r.t.Fatalf("%v; journal: %s", err, r.story())
	}
	return found
}

// answer approves whatever is asked.
func (r *rig) answer(asked perdure.Fact) error {
	yes := perdure.Verdict{Approve: true, By: "user"}
	switch f := asked.(type) {
	case perdure.ApprovalRequested:
		_, err := r.eng.Approvals().Decide(r.ctx, f.Approval.ID, yes)
		return err
	case perdure.ToolCallRequested:
		return r.eng.Calls().Answer(r.ctx, perdure.CallKey{Session: r.id, Call: f.CallID}, "user", perdure.ToolResult{Result: []byte("1")})
	case perdure.TaskUpdated:
		if f.Task.InputRequest.Kind == "question" {
			_, err := r.eng.Tasks().Send(r.ctx, f.Task.ID, perdure.TaskMessage{Text: "yes", InReplyTo: f.Task.InputRequest.ID, By: "user"})
			return err
		}
	}
	open, err := r.eng.Approvals().List(r.ctx, engine.ApprovalFilter{Session: r.id, State: perdure.ApprovalOpen})
	if err != nil || len(open) != 1 {
		return nil
	}
	_, err = r.eng.Approvals().Decide(r.ctx, open[0].ID, yes)
	return err
}

// The start of a queued run whose commit is in doubt.
func TestFaultQueuedStartAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{PerSession: 1, Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}, {name: spawn_background, args: {tool: bg_note, args: {}}}]
  - when: {last_role: notification}
    text: home
  - when: {called: spawn_background}
    text: waiting
`})
	judge, _ := once(forgets, func(f []perdure.Fact) bool {
		return has(f, func(u perdure.TaskUpdated) bool {
			return u.Task.State == perdure.TaskRunning && u.Task.Tool == "bg_note"
		})
	})
	r.st.set(judge)
	r.say("go")
	r.Entered(t, "bg_hold", 1)
	r.Release("bg_hold")
	r.rest()
}

// The start of a queued run fails once: it must be retried.
func TestFaultQueuedStartFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{PerSession: 1, Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}, {name: spawn_background, args: {tool: bg_note, args: {}}}]
  - when: {last_role: notification}
    text: home
  - when: {called: spawn_background}
    text: waiting
`})
	n := 0
	r.st.set(func(f []perdure.Fact) fate {
		if has(f, func(u perdure.TaskUpdated) bool {
			return u.Task.State == perdure.TaskRunning && u.Task.Tool == "bg_note"
		}) {
			if n++; n <= 2 {
				return aborts
			}
		}
		return commits
	})
	r.say("go")
	r.Entered(t, "bg_hold", 1)
	r.Release("bg_hold")
	r.rest()
}

// A call ends while its driver pauses after a failed commit.
func TestFaultCallEndsInPause(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hold_charge", "hold_note"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, enginetest.Setup{Script: `
rules:
  - when: {not_called: ` + name + `}
    calls: [{name: ` + name + `, args: {}}, {name: hold, args: {}}]
  - when: {called: hold}
    text: done
`})
			r.say("go")
			r.Entered(t, name, 1)
			r.Entered(t, "hold", 1)
			judge, hit := once(aborts, func(f []perdure.Fact) bool { return has(f, any1[perdure.ToolCompleted]) })
			r.st.set(judge)
			r.Release("hold")
			<-hit
			r.Release(name) // in the pause
			r.rest()
			if n := len(r.Effects(name)); n != 1 {
				t.Errorf("%s had %d effects", name, n)
			}
			calls, _ := r.eng.Calls().List(context.Background(), r.id)
			for _, c := range calls {
				if c.State != perdure.CallSettled || c.Executions != 1 {
					t.Errorf("call %s %s: %s, %d executions", c.Key, c.Tool, c.State, c.Executions)
				}
			}
		})
	}
}

// The driver's commit after an interrupt fails once: the call must be stopped anyway.
func TestFaultInterruptCommitFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: `
rules:
  - when: {not_called: hold}
    calls: [{name: hold, args: {}}]
  - when: {called: hold}
    text: done
`})
	r.say("go")
	r.Entered(t, "hold", 1)
	seen := false
	n := 0
	r.st.set(func(f []perdure.Fact) fate {
		if has(f, any1[perdure.InterruptRequested]) {
			seen = true
			return commits
		}
		if seen && len(f) == 0 {
			if n++; n == 1 {
				return aborts
			}
		}
		return commits
	})
	if err := r.eng.Sessions().Interrupt(r.ctx, r.id, "user", ""); err != nil {
		t.Fatal(err)
	}
	r.rest()
}

// A message whose commit is in doubt is in the journal: a driver must read it.
func TestFaultSendAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: "steps: [{text: hi, repeat: true}]"})
	r.say("first")
	r.rest()
	judge, _ := once(forgets, func(f []perdure.Fact) bool { return has(f, any1[perdure.MessageReceived]) })
	r.st.set(judge)
	if _, err := r.eng.Send(r.ctx, r.id, perdure.Text("go")); err == nil {
		t.Fatal("no error")
	}
	r.rest()
}

// A cancel between the commit of a spawn and its start must reach the work. The commit is in doubt,
// so the spawn reads back whether the task was created, and waits there for the cancel.
func TestFaultCancelBeforeStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}]
  - when: {notifications: 1}
    text: home
  - when: {called: spawn_background}
    text: waiting
`})
	created := make(chan struct{}, 1)
	looked, block := make(chan struct{}), make(chan struct{})
	r.st.set(func(f []perdure.Fact) fate {
		if has(f, any1[perdure.TaskCreated]) {
			created <- struct{}{}
			return forgets
		}
		return commits
	})
	r.st.setView(func() bool {
		select {
		case <-created:
			close(looked)
			<-block
		default:
		}
		return false
	})
	r.say("go")
	select {
	case <-looked:
	case <-r.ctx.Done():
		t.Fatal("the spawn did not read its commit back")
	}
	tasks, _ := r.eng.Tasks().List(r.ctx, r.id)
	if _, err := r.eng.Tasks().Cancel(r.ctx, tasks[0].ID, "user", ""); err != nil {
		t.Fatal(err)
	}
	close(block)
	r.rest()
}
