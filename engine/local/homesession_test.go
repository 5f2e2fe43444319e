package local_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// holdsOnce spawns bg_hold, once.
var holdsOnce = enginetest.Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}]
steps: [{text: x}, {text: it runs, repeat: true}]
`}

// filesAt is a data directory in which every session has files.
func filesAt(home perdure.HomeID) local.Storage {
	return local.Storage{Home: home, HasFiles: func(perdure.Agent) bool { return true }}
}

// TestTaskOfBoundSession: the idempotent task of a session with files is repeated at the home of
// the files only, however long the home is away. A cancel ends it without its home (RC25, RC26).
func TestTaskOfBoundSession(t *testing.T) {
	t.Parallel()
	for _, cancel := range []bool{false, true} {
		t.Run(fmt.Sprint("cancel ", cancel), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { taskOfBoundSession(t, cancel) })
		})
	}
}

func taskOfBoundSession(t *testing.T, cancel bool) {
	ctx, st := t.Context(), memory.New(memory.Config{})
	w := newSharedWorld(t, holdsOnce, func(*testing.T) store.Store { return st }, func(store.Store) {})
	one := w.joinAt(t, filesAt("home_1"))
	two := w.joinAt(t, filesAt("home_2"))
	session, err := one.Sessions().Create(ctx, perdure.Agent{})
	if err != nil || session.Home == nil || session.Home.ID != "home_1" || !session.Home.Here {
		t.Fatalf("new session: %+v, %v", session, err)
	}
	if _, err := one.Send(ctx, session.ID, perdure.Text("go")); err != nil {
		t.Fatal(err)
	}
	w.Entered(t, "bg_hold", 1)
	task := func() perdure.Task {
		t.Helper()
		all, err := two.Tasks().List(ctx, session.ID)
		if err != nil || len(all) != 1 {
			t.Fatalf("tasks: %+v, %v", all, err)
		}
		return all[0]
	}

	w.KillEngine(t, one)
	pass(10 * time.Minute) // more than any home is waited for

	got := task()
	if got.State != perdure.TaskRunning || got.Executions != 1 || got.WaitsForHome != "home_1" {
		t.Fatalf("the task is %s (%s) after %d executions, and waits for %q", got.State, got.StateDetail, got.Executions, got.WaitsForHome)
	}
	if cancel {
		if _, err := two.Tasks().Cancel(ctx, got.ID, "operator", ""); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if got = task(); got.State != perdure.TaskCanceled || got.Executions != 1 {
			t.Errorf("the canceled task is %s after %d executions", got.State, got.Executions)
		}
		return
	}
	w.joinAt(t, filesAt("home_1"))
	w.Entered(t, "bg_hold", 2)
	w.Release("bg_hold")
	if _, err := two.Tasks().Wait(ctx, got.ID); err != nil {
		t.Fatal(err)
	}
	if got = task(); got.State != perdure.TaskSucceeded || got.Executions != 2 {
		t.Errorf("the task is %s after %d executions", got.State, got.Executions)
	}
}
