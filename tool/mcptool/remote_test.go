package mcptool_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// TestRemoteTask: the handle of a remote task is stored before it is used, so that a client after a
// crash resumes it: one effect, one result.
func TestRemoteTask(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	n := newNear(t, f, nil)
	var early atomic.Int64
	n.kept = func(h mcptool.Handle) {
		if h.TaskID == "" {
			t.Error("a handle without a task")
		}
		early.Store(int64(f.asked("tasks/get")) + 1)
	}
	key := n.begin("hold_charge", `{"text":"a"}`)
	f.Entered(t, "hold_charge", 1)
	for range 3 {
		n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > 0 })
		n.restart()
	}
	f.Release("hold_charge")
	done := n.until(key, over)
	if text := string(done.Result.Result); !strings.Contains(text, `held`) || done.Result.IsError() {
		t.Errorf("got %s %s", text, done.Result.Error)
	}
	if early.Load() != 1 {
		t.Errorf("the task was polled %d times before its handle was kept", early.Load()-1)
	}
	if made, effects := f.asked("tools/call"), len(f.Effects("hold_charge")); made != 1 || effects != 1 {
		t.Errorf("%d calls, %d effects, want one", made, effects)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range f.methods {
		if m == "tasks/get" && !strings.HasPrefix(f.headers[i].Get("Mcp-Name"), "task_") { // M7
			t.Errorf("the header does not name the task: %v", f.headers[i])
		}
	}
}

func TestRemoteTaskCancel(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	n := newNear(t, f, nil)
	for name, restarts := range map[string]bool{"hold_note": false, "hold_charge": true} {
		polls := f.asked("tasks/get")
		key := n.begin(name, `{"text":"a"}`)
		f.Entered(t, name, 1)
		now := n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > polls })
		if restarts {
			n.restart()
		}
		if _, err := n.eng.Tasks().Cancel(t.Context(), now.Task.ID, "test", "enough"); err != nil {
			t.Fatal(err)
		}
		n.until(key, over)
	}
	if got := f.asked("tasks/cancel"); got != 2 {
		t.Errorf("%d cancels went through, want 2", got)
	}
	tasks, err := f.eng.Tasks().List(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if !task.CancelRequested() {
			t.Errorf("%s of the server is %s", task.Tool, task.State)
		}
	}
}

// TestRemoteTaskCancelComesFirst: a cancel that arrives while the call is resumed, before the first
// request, reaches the server.
func TestRemoteTaskCancelComesFirst(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	n := newNear(t, f, nil)
	key := n.begin("hold_charge", `{"text":"a"}`)
	f.Entered(t, "hold_charge", 1)
	now := n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > 0 })
	n.kill()
	found, ok := n.tools().Get("hold_charge")
	if !ok {
		t.Fatal("there is no hold_charge")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(perdure.CauseCanceled)
	call := tool.Call{Session: n.session, ID: key.Call, Task: now.Task.ID, Tool: "hold_charge"}
	env := tool.Env{Call: call}
	found.(tool.Adoptable).Adopt(ctx, call, env, env.Report())
	if got := f.asked("tasks/cancel"); got != 1 {
		t.Errorf("%d cancels went through, want 1", got)
	}
}

// TestRemoteTaskAsks: a question of the remote task is one of ours, also after the client has died,
// and is put once.
func TestRemoteTaskAsks(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	n := newNear(t, f, nil)
	key := n.begin("ask", `{}`)
	waits := func(c engine.HostCall) bool { return c.Task != nil && c.Task.AwaitsInput() }
	asked := n.until(key, waits)
	n.restart()
	if again := n.until(key, waits); again.Task.InputRequest.ID != asked.Task.InputRequest.ID {
		t.Error("the question was put twice")
	}
	if _, err := n.eng.Tasks().Send(t.Context(), asked.Task.ID, perdure.TaskMessage{InReplyTo: asked.Task.InputRequest.ID, By: "test", Text: "blue", Data: []byte(`{"answer":"blue"}`)}); err != nil {
		t.Fatal(err)
	}
	f.Release("ask_after")
	if done := n.until(key, over); !strings.Contains(string(done.Result.Result), "blue") {
		t.Errorf("got %s %s", done.Result.Result, done.Result.Error)
	}
}

// TestRemoteTaskServerAway: a server that is away is asked again, and no more often than it wants.
func TestRemoteTaskServerAway(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	f.after = "1"
	n := newNear(t, f, nil)
	key := n.begin("hold_note", `{"text":"a"}`)
	f.Entered(t, "hold_note", 1)
	n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > 0 })
	f.goAway(true)
	seen := f.asked("tasks/get")
	n.until(key, func(engine.HostCall) bool { return f.asked("tasks/get") > seen })
	f.goAway(false)
	f.Release("hold_note")
	if done := n.until(key, over); done.Result.IsError() {
		t.Errorf("got %s", done.Result.Error)
	}
}

// TestHintsLowerNothing: a server's own word on its tools chooses no class (TL10).
func TestHintsLowerNothing(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	n := newNear(t, f, map[string]perdure.EffectClass{"charge": perdure.Idempotent})
	tools, err := n.eng.Tools().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tools {
		want := perdure.AtMostOnce // echo says of itself that it only reads
		if one.Name == "charge" {
			want = perdure.Idempotent
		}
		if one.Class != want {
			t.Errorf("%s is %s, want %s", one.Name, one.Class, want)
		}
	}
}

func TestEraIsLearnt(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	var learnt []string
	open := func(era string) {
		t.Helper()
		c, err := mcptool.Open(t.Context(), mcptool.Config{URL: f.web.URL + "/mcp", HTTP: f.web.Client(), Era: era, OnVersion: func(era string) { learnt = append(learnt, era) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(false); err != nil {
			t.Error(err)
		}
	}
	open("")
	if len(learnt) != 1 || learnt[0] != "2026-07-28" {
		t.Fatalf("learnt %v", learnt)
	}
	open(learnt[0])
	if len(learnt) != 1 {
		t.Errorf("learnt %v, want nothing new", learnt)
	}
	probes := f.asked("server/discover")
	open("2025-11-25") // a server known to be older is not offered the newest version first
	if f.asked("server/discover") != probes || f.asked("initialize") != 1 {
		t.Errorf("%d probes more, %d handshakes", f.asked("server/discover")-probes, f.asked("initialize"))
	}
}
