package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
)

// These laws are those of prior art, with its literals (6.4).

func TestInlineAssignsIDs(t *testing.T) {
	t.Parallel()
	r := &rig{}
	d, err := dispatch.NewInline(dispatch.LoopConfig{Execute: r.execute})
	if err != nil {
		t.Fatal(err)
	}

	out, err := d.Start(t.Context(), call("needs-approval", "turn-1", "call-1"))

	if err != nil || out.Ready == nil || out.Ready.Approval == nil {
		t.Fatalf("got %+v, %v, want a question at once", out, err)
	}
	asked := out.Ready.Approval
	if asked.Task == "" || asked.Approval.Task != asked.Task || asked.Call.ID != "call-1" || asked.Approval.Call != "call-1" {
		t.Errorf("got %+v: the approval must carry the task's id and the call's", asked)
	}
	if _, err := perdure.ParseID[perdure.TaskID](string(asked.Task)); err != nil {
		t.Errorf("the id is not one of ours: %v", err)
	}
	if running := d.Handle().ListRunning(); len(running) != 0 {
		t.Errorf("%v are listed as running", running)
	}
}

func TestInterruptForegroundOnly(t *testing.T) {
	t.Parallel()
	routes := map[string]dispatch.Route{"foreground": dispatch.InForeground(), "background": dispatch.InBackground()}
	inRig(t, routes, nil, func(t *testing.T, r *rig) {
		front := r.launch(t, call("foreground", "turn-1", "call-fg"))
		back := r.launch(t, call("background", "turn-1", "call-bg"))
		if front.Lane != perdure.Foreground || back.Lane != perdure.Background {
			t.Fatalf("lanes %s and %s", front.Lane, back.Lane)
		}
		r.next(t, dispatch.EventStarted)
		r.next(t, dispatch.EventStarted)
		<-r.entered
		<-r.entered

		r.InterruptTurn("turn-1")

		if e := r.next(t, dispatch.EventCanceled); e.Task.Tool != "foreground" {
			t.Errorf("canceled %+v", e.Task)
		}
		running := r.h.ListRunning()
		if len(running) != 1 || running[0].Task != back.Task || running[0].Tool != "background" {
			t.Errorf("running: %+v, want the background task only", running)
		}
		r.release <- "background-done"
		if e := r.next(t, dispatch.EventCompleted); e.Task.Task != back.Task || string(e.Result.Result) != `"background-done"` {
			t.Errorf("completed %+v with %s", e.Task, e.Result.Result)
		}
	})
}

func TestCancelByID(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"background": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		out := r.launch(t, call("background", "turn-1", "call-1"))
		r.next(t, dispatch.EventStarted)
		<-r.entered

		said, err := r.h.Cancel(out.Task, "user", "enough")

		if err != nil || said.Receipt.RequestedAt.IsZero() || said.Receipt.SignalledAt.IsZero() || said.Result != nil {
			t.Errorf("got %+v, %v", said, err)
		}
		if e := r.next(t, dispatch.EventCanceled); e.Task.Task != out.Task {
			t.Errorf("canceled %+v", e.Task)
		}
		if running := r.h.ListRunning(); len(running) != 0 {
			t.Errorf("%v are listed as running", running)
		}
	})
}

func TestManualDelivery(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"background": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		out := r.launch(t, call("background", "turn-1", "call-1"))
		r.next(t, dispatch.EventStarted)
		<-r.entered
		if err := r.h.SetWake(out.Task, perdure.WakeContinue); err != nil {
			t.Fatal(err)
		}
		if err := r.h.SetDelivery(out.Task, perdure.Manual); err != nil {
			t.Fatal(err)
		}
		r.release <- "manual-done"

		if e := r.next(t, dispatch.EventCompleted); string(e.Result.Result) != `"manual-done"` {
			t.Errorf("completed with %s", e.Result.Result)
		}
		if e, ok := r.nextWithin(50 * time.Millisecond); ok {
			t.Errorf("then %+v, want silence", e)
		}
		if pending := r.TakePending("session-1"); len(pending) != 0 {
			t.Errorf("the loop got %+v", pending)
		}
		ready := r.h.DrainReady()
		if len(ready) != 1 || string(ready[0].Result.Result) != `"manual-done"` || ready[0].Task != out.Task || ready[0].Call != "call-1" {
			t.Errorf("ready: %+v", ready)
		}
		if again := r.h.DrainReady(); len(again) != 0 {
			t.Errorf("handed over twice: %+v", again)
		}
	})
}

func TestToLoopContinue(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"background": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, err := r.Start(ctx, call("background", "turn-1", "call-1"))
		if err != nil {
			t.Fatal(err)
		}
		r.next(t, dispatch.EventStarted)
		<-r.entered
		if err := r.h.SetWake(out.Task, perdure.WakeContinue); err != nil {
			t.Fatal(err)
		}
		r.release <- "loop-done"

		if e := r.next(t, dispatch.EventCompleted); string(e.Result.Result) != `"loop-done"` {
			t.Errorf("completed with %s", e.Result.Result)
		}
		r.next(t, dispatch.EventContinueRequested)
		if pending := r.TakePending("session-1"); len(pending) != 1 {
			t.Errorf("the loop got %+v, want one", pending)
		}
		if ready := r.h.DrainReady(); len(ready) != 0 {
			t.Errorf("ready: %+v", ready)
		}
	})
}

func TestWaitIdleAfterQueued(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"background": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("background", "turn-1", "call-1"))
		r.next(t, dispatch.EventStarted)
		<-r.entered
		idle := make(chan error, 1)
		go func() { idle <- r.h.WaitIdle(t.Context()) }()
		synctest.Wait()
		if len(idle) != 0 {
			t.Fatal("idle while a task runs")
		}
		r.release <- "idle-done"

		if err := <-idle; err != nil {
			t.Fatal(err)
		}
		pending := r.TakePending("session-1")
		if len(pending) != 1 || pending[0].Item.Call != "call-1" || string(pending[0].Item.Result.Result) != `"idle-done"` {
			t.Errorf("the loop got %+v", pending)
		}
	})
}
