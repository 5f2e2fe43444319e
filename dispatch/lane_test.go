package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// budget gives every tool a soft budget.
func budget(d time.Duration) func(*dispatch.LoopConfig) {
	return func(c *dispatch.LoopConfig) {
		c.Spec = func(string) tool.Spec { return tool.Spec{SoftBudget: d} }
	}
}

func TestSoftBudgetDetaches(t *testing.T) { // LN3, LN6
	t.Parallel()
	inRig(t, nil, budget(1500*time.Millisecond), func(t *testing.T, r *rig) {
		begun := time.Now()
		out := r.launch(t, call("slow", "turn-1", "call-1"))

		u, ok := r.WaitTurn(t.Context(), "turn-1")

		if !ok || u.Detached == nil || u.Detached.Task != out.Task || u.Detached.Lane != perdure.Background || u.Detached.Placeholder.IsError() {
			t.Fatalf("got %+v, %t", u, ok)
		}
		var got dispatch.Placeholder
		if err := json.Unmarshal(u.Detached.Placeholder.Result, &got); err != nil {
			t.Fatal(err)
		}
		want := dispatch.Placeholder{
			Type: "background", Tool: "slow", TimeoutSeconds: 1.5, BackgroundID: out.Task, TaskID: out.Task,
			Message:    "Still running after 1.5s — use check_background_tool to wait longer or cancel.",
			DeadlineAt: begun.Add(tool.DefaultDeadline).UTC(),
		}
		if got != want || time.Since(begun) != 1500*time.Millisecond || u.Detached.Placeholder.CallID != "call-1" {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		r.none(t, "turn-1")
		if running := r.h.ListRunning(); len(running) != 1 || running[0].State != perdure.TaskRunning {
			t.Errorf("running: %+v", running)
		}
		r.next(t, dispatch.EventStarted)
		if e := r.next(t, dispatch.EventDetached); e.Task.Lane != perdure.Background || string(e.Result.Result) != string(u.Detached.Placeholder.Result) {
			t.Errorf("got %+v", e)
		}
		r.release <- "slow-done"
		r.next(t, dispatch.EventCompleted)
		r.next(t, dispatch.EventContinueRequested) // DL6
		if p := r.TakePending("session-1"); len(p) != 1 || p[0].Item.Call != "call-1" {
			t.Errorf("the loop got %+v", p)
		}
	})
}

func TestDetachDoesNotCancel(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"slow": dispatch.DetachAfter(time.Second)}, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("slow", "turn-1", "call-1"))
		r.WaitTurn(t.Context(), "turn-1")
		<-time.After(time.Hour)

		if running := r.h.ListRunning(); len(running) != 1 {
			t.Fatalf("running: %+v", running)
		}
		r.release <- "by itself"
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := r.TakePending("session-1")
		if len(p) != 1 || string(p[0].Item.Result.Result) != `"by itself"` {
			t.Errorf("the loop got %+v", p)
		}
	})
}

func TestSoftBudget(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		soft  time.Duration
		lasts time.Duration
	}{{"off", tool.Never, time.Hour}, {"fast", time.Minute, time.Second}, {"default", 0, 599 * time.Second}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inRig(t, nil, budget(row.soft), func(t *testing.T, r *rig) {
				r.launch(t, call("slow", "turn-1", "call-1"))
				go func() { <-time.After(row.lasts); r.release <- "done" }()

				if i := r.item(t, "turn-1"); string(i.Result.Result) != `"done"` {
					t.Errorf("got %+v", i)
				}
				r.none(t, "turn-1")
				if p := r.TakePending(""); len(p) != 0 {
					t.Errorf("the loop got %+v too", p)
				}
			})
		})
	}
}

func TestCallerGoneBeforeDetach(t *testing.T) { // LN18
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"block": dispatch.DetachAfter(time.Minute)}, nil, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := r.Start(ctx, call("block", "turn-1", "child")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Start(ctx, call("stubborn", "turn-1", "stubborn")); err != nil {
			t.Fatal(err)
		}
		<-r.entered
		<-r.entered
		begun := time.Now()

		cancel()

		if i := r.item(t, "turn-1"); i.Call != "child" || i.Result.ErrorKind != perdure.ErrorInterrupted || time.Since(begun) != 0 {
			t.Errorf("got %+v after %s", i, time.Since(begun))
		}
		if i := r.item(t, "turn-1"); i.Call != "stubborn" || !i.Result.IsError() || time.Since(begun) != dispatch.DefaultGrace+dispatch.DefaultKillWait {
			t.Errorf("got %+v after %s, want it settled after the grace", i, time.Since(begun))
		}
		r.release <- nil
	})
}

// TestCallerGoneAfterDetach cuts the link with the lane.
func TestCallerGoneAfterDetach(t *testing.T) { // LN9
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"block": dispatch.DetachAfter(time.Minute)}, nil, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := r.Start(ctx, call("block", "turn-1", "child")); err != nil {
			t.Fatal(err)
		}
		r.WaitTurn(t.Context(), "turn-1")
		cancel()
		synctest.Wait()
		if running := r.h.ListRunning(); len(running) != 1 {
			t.Errorf("running: %+v", running)
		}
		r.release <- 1
	})
}

func TestDeadlineSettles(t *testing.T) { // LN4
	t.Parallel()
	inRig(t, nil, func(c *dispatch.LoopConfig) {
		c.Spec = func(string) tool.Spec { return tool.Spec{SoftBudget: time.Minute, Deadline: time.Hour} }
	}, func(t *testing.T, r *rig) {
		begun := time.Now()
		r.launch(t, call("block", "turn-1", "call-1"))
		r.WaitTurn(t.Context(), "turn-1")
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := r.TakePending("")
		if len(p) != 1 || p[0].Item.Result.ErrorKind != perdure.ErrorTimeout || p[0].Item.Result.Error != "Timed out after 1h0m0s" || time.Since(begun) != time.Hour {
			t.Errorf("got %+v after %s", p, time.Since(begun))
		}
	})
}

func TestQueuedStartsLater(t *testing.T) { // BG16, BG17
	t.Parallel()
	routes := map[string]dispatch.Route{"back": dispatch.InBackground(), "front": dispatch.InForeground()}
	inRig(t, routes, func(c *dispatch.LoopConfig) { c.Caps = dispatch.Caps{PerSession: 1, Queued: 2} }, func(t *testing.T, r *rig) {
		r.launch(t, call("back", "turn-1", "first"))
		second := r.launch(t, call("back", "turn-1", "second"))
		third := r.launch(t, call("back", "turn-1", "third"))
		_, err := r.Start(t.Context(), call("back", "turn-1", "fourth"))
		if !errors.Is(err, perdure.Limit) {
			t.Errorf("the fourth: got %v, want Limit", err)
		}
		r.next(t, dispatch.EventStarted)
		r.next(t, dispatch.EventQueued)
		r.next(t, dispatch.EventQueued)
		r.next(t, dispatch.EventRejected)
		if second.Placeholder == nil || third.Placeholder == nil {
			t.Error("a queued call has no placeholder")
		}
		said, err := r.h.Cancel(second.Task, "user", "")
		if err != nil || said.Result == nil || !said.Result.NeverStarted {
			t.Errorf("cancel of a queued task: %+v, %v, want it ended at once", said, err)
		}
		r.next(t, dispatch.EventCanceled)
		r.release <- 1
		r.next(t, dispatch.EventCompleted)
		if e := r.next(t, dispatch.EventStarted); e.Task.Task != third.Task {
			t.Errorf("started %+v, want the third", e.Task)
		}
		r.release <- 3
		r.next(t, dispatch.EventCompleted)
		if p := r.TakePending(""); len(p) != 3 {
			t.Errorf("the loop got %+v, want three ends", p)
		}
	})
}

// TestDetachedCap keeps a call in the foreground until one of the detached has ended.
func TestDetachedCap(t *testing.T) {
	t.Parallel()
	inRig(t, nil, func(c *dispatch.LoopConfig) {
		budget(time.Second)(c)
		c.Caps.Detached = 1
	}, func(t *testing.T, r *rig) {
		r.launch(t, call("block", "turn-1", "first"))
		if u, ok := r.WaitTurn(t.Context(), "turn-1"); !ok || u.Detached == nil {
			t.Fatalf("got %+v", u)
		}
		r.launch(t, call("block", "turn-1", "second"))
		<-time.After(10500 * time.Millisecond)
		if running := r.h.ListRunning(); len(running) != 2 || running[1].Lane != perdure.Foreground {
			t.Errorf("running: %+v, want the second in the foreground", running)
		}
		r.release <- 1
		r.release <- 2
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSlowSubscriberGap(t *testing.T) {
	t.Parallel()
	inRig(t, nil, func(c *dispatch.LoopConfig) { c.MaxEvents = 8 }, func(t *testing.T, r *rig) {
		slow, other := r.h.Subscribe(0), r.h.Of("session-2")
		for range 10 { // 20 events
			r.launch(t, call("fast", "turn-1", "call-1"))
			r.item(t, "turn-1")
		}

		gap, ok := slow.Next(t.Context())
		if !ok || gap.Kind != dispatch.EventGap || gap.Missed != 12 || gap.Seq != 12 {
			t.Fatalf("got %+v, want a gap of 12", gap)
		}
		for want := int64(13); want <= 20; want++ {
			if e, ok := slow.Next(t.Context()); !ok || e.Seq != want || e.Kind == dispatch.EventGap {
				t.Fatalf("got %+v, want event %d", e, want)
			}
		}
		again := r.h.Subscribe(18)
		if e, ok := again.Next(t.Context()); !ok || e.Seq != 19 {
			t.Errorf("got %+v, want event 19 again", e)
		}
		if e, ok := other.NextEvent(t.Context()); !ok || e.Kind != dispatch.EventGap {
			t.Errorf("got %+v", e)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if e, ok := other.NextEvent(ended); ok {
			t.Errorf("another session read %+v", e)
		}
	})
}
