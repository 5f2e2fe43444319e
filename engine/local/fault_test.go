package local_test

import (
	"context"
	"testing"

	"github.com/perdure/perdure"
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

// A spawn whose commit's answer was lost: the task must run all the same.
func TestFaultSpawnAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: spawnOne})
	judge, _ := once(forgets, func(f []perdure.Fact) bool { return has(f, any1[perdure.TaskCreated]) })
	r.st.set(judge)
	r.say("go")
	r.rest()
}

// The start of a queued run whose commit's answer was lost.
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

// The start of a queued run fails once: it must be tried again.
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
			calls, _ := r.eng.Calls(context.Background(), r.id)
			for _, c := range calls {
				if c.State != perdure.CallSettled || c.Executions != 1 {
					t.Errorf("call %s %s: %s, %d executions", c.Key, c.Tool, c.State, c.Executions)
				}
			}
		})
	}
}

// The driver's commit after an interrupt fails once: the call must be stopped all the same.
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
	if err := r.eng.Interrupt(r.ctx, r.id, "user", ""); err != nil {
		t.Fatal(err)
	}
	r.rest()
}

// A message whose commit's answer was lost is in the journal: somebody must look at it.
func TestFaultSendAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, enginetest.Setup{Script: "steps: [{text: hi, repeat: true}]"})
	r.say("first")
	r.rest()
	judge, _ := once(forgets, func(f []perdure.Fact) bool { return has(f, any1[perdure.MessageReceived]) })
	r.st.set(judge)
	if err := r.eng.Send(r.ctx, r.id, perdure.Text("go")); err == nil {
		t.Fatal("no error")
	}
	r.rest()
}

// A cancel between the commit of a spawn and its start must reach the work. The commit's answer is lost, so that the
// spawn reads back whether it was made, and waits there for the cancel.
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
	tasks, _ := r.eng.Tasks(r.ctx, r.id)
	if _, err := r.eng.CancelTask(r.ctx, tasks[0].ID, "user", ""); err != nil {
		t.Fatal(err)
	}
	close(block)
	r.rest()
}
