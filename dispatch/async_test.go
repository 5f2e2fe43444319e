package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

func TestFailedIsNotCompleted(t *testing.T) {
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("bad", "turn-1", "call-1"))

		r.next(t, dispatch.EventStarted)
		if e := r.next(t, dispatch.EventFailed); e.Result.Error != "boom" || e.Task.State != perdure.TaskFailed {
			t.Errorf("got %+v", e)
		}
		if i := r.item(t, "turn-1"); !i.Result.IsError() || i.Call != "call-1" {
			t.Errorf("got %+v, want an error as the call's result", i)
		}
		r.none(t, "turn-1")
	})
}

func TestPanicSettles(t *testing.T) { // LN16
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("panic", "turn-1", "call-1"))

		i := r.item(t, "turn-1")

		if i.Result.ErrorKind != perdure.ErrorPanic || i.Result.Error != perdure.GenericToolError || i.State != perdure.TaskFailed {
			t.Errorf("got %+v, want failed, of kind panic, with the generic text", i)
		}
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCancelForegroundHasResult(t *testing.T) { // RC7
	t.Parallel()
	for _, how := range []string{"cancel", "interrupt"} {
		inRig(t, nil, nil, func(t *testing.T, r *rig) {
			out := r.launch(t, call("block", "turn-1", "call-1"))
			<-r.entered
			want := perdure.ErrorInterrupted
			if how == "cancel" {
				want = perdure.ErrorCanceled
				if _, err := r.h.Cancel(out.Task, "user", ""); err != nil {
					t.Fatal(err)
				}
			} else {
				r.InterruptTurn("turn-1")
			}

			i := r.item(t, "turn-1")

			if i.Call != "call-1" || i.Result.ErrorKind != want || i.Result.NeverStarted || i.State != perdure.TaskCanceled {
				t.Errorf("%s: got %+v", how, i)
			}
			r.none(t, "turn-1")
		})
	}
}

func TestCancelTwice(t *testing.T) {
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		out := r.launch(t, call("block", "turn-1", "call-1"))
		r.launch(t, call("block", "turn-1", "sibling"))
		<-r.entered
		<-r.entered

		first, err := r.h.Cancel(out.Task, "user", "")
		second, again := r.h.Cancel(out.Task, "another", "")

		if err != nil || again != nil || !first.Receipt.RequestedAt.Equal(second.Receipt.RequestedAt) {
			t.Errorf("got %+v, %v and %+v, %v, want the same answer", first, err, second, again)
		}
		if i := r.item(t, "turn-1"); i.Call != "call-1" {
			t.Errorf("got %+v", i)
		}
		waited := make(chan dispatch.Item, 1)
		go func() { waited <- r.item(t, "turn-1") }()
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatal("the turn does not wait for the sibling")
		}
		r.release <- "sibling-done"
		if i := <-waited; i.Call != "sibling" {
			t.Errorf("got %+v", i)
		}
		for _, kind := range []dispatch.EventKind{dispatch.EventStarted, dispatch.EventStarted, dispatch.EventCanceled, dispatch.EventCompleted} {
			r.next(t, kind)
		}
	})
}

func TestCancelFinishedNoRelease(t *testing.T) { // RC1
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		out := r.launch(t, call("fast", "turn-1", "call-1"))
		r.launch(t, call("block", "turn-1", "sibling"))
		r.item(t, "turn-1")

		said, err := r.h.Cancel(out.Task, "user", "")

		if err != nil || said.Result == nil || string(said.Result.Result) != `"fast-done"` || !said.Receipt.RequestedAt.IsZero() {
			t.Errorf("got %+v, %v, want the real result and nothing requested", said, err)
		}
		waited := make(chan dispatch.Item, 1)
		go func() { waited <- r.item(t, "turn-1") }()
		synctest.Wait()
		if len(waited) != 0 {
			t.Fatal("the turn does not wait for the sibling")
		}
		r.release <- nil
		<-waited
		for range 4 {
			if e, _ := r.nextWithin(time.Second); e.Kind == dispatch.EventCanceled {
				t.Error("a finished task was reported as canceled")
			}
		}
	})
}

// TestCancelAtStarted cancels each task at the moment its start is reported: each is canceled
// (LN15).
func TestCancelAtStarted(t *testing.T) {
	t.Parallel()
	const races = 20_000
	r := newRig(t, nil, func(c *dispatch.LoopConfig) {
		c.MaxEvents, c.Caps = 4*races, dispatch.Caps{PerSession: -1, PerProcess: -1}
		c.Route = func(tool.Call) dispatch.Route { return dispatch.InBackground() }
		c.Execute = func(ctx context.Context, _ tool.Call, _ *perdure.Approval) dispatch.Outcome {
			<-ctx.Done()
			return dispatch.Outcome{Result: tool.Internal(context.Cause(ctx))}
		}
	})
	go func() {
		for i := range races {
			r.launch(t, call("block", "turn-1", perdure.CallID(fmt.Sprint(i))))
		}
	}()
	for ended := 0; ended < races; {
		e, ok := r.h.NextEvent(t.Context())
		switch {
		case !ok:
			t.Fatal("the events ended")
		case e.Kind == dispatch.EventStarted:
			if _, err := r.h.Cancel(e.Task.Task, "user", ""); err != nil {
				t.Fatal(err)
			}
		case e.Kind == dispatch.EventCanceled:
			ended++
		case e.Kind != dispatch.EventContinueRequested:
			t.Fatalf("got %+v", e)
		}
	}
	for _, p := range r.TakePending("") {
		if p.Item.State != perdure.TaskCanceled {
			t.Fatalf("delivered %+v", p.Item)
		}
	}
	if left := r.Shutdown(t.Context()); left != 0 {
		t.Errorf("%d left", left)
	}
}

// TestPolicyAtLaunch checks that a task that ends at once is delivered as its launch says (LN10).
func TestPolicyAtLaunch(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"fast": dispatch.InBackground()}, nil, func(t *testing.T, r *rig) {
		manual := call("fast", "turn-1", "manual")
		manual.Delivery = perdure.Manual
		r.launch(t, manual)
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if pending, ready := r.TakePending(""), r.h.DrainReady(); len(pending) != 0 || len(ready) != 1 || ready[0].Call != "manual" {
			t.Errorf("pending %v, ready %v", pending, ready)
		}
		r.next(t, dispatch.EventStarted)
		r.next(t, dispatch.EventCompleted)

		eager := call("fast", "turn-1", "eager")
		eager.Wake = perdure.WakeContinue
		r.launch(t, eager)
		r.next(t, dispatch.EventStarted)
		r.next(t, dispatch.EventCompleted)
		r.next(t, dispatch.EventContinueRequested)

		r.launch(t, call("fast", "turn-1", "late")) // its wake is notify (DL6)
		r.next(t, dispatch.EventStarted)
		r.next(t, dispatch.EventCompleted)
		if e, ok := r.nextWithin(time.Second); ok {
			t.Errorf("got %+v", e)
		}
	})
}

func TestBackgroundPlaceholder(t *testing.T) { // LN6
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"routed": dispatch.InBackground(), "zero": dispatch.DetachAfter(0)}, nil, func(t *testing.T, r *rig) {
		spawned := call("spawned", "turn-1", "call-1")
		spawned.Spawned = true
		for _, l := range []dispatch.Launch{spawned, call("routed", "turn-1", "call-2"), call("zero", "turn-1", "call-3")} {
			out := r.launch(t, l)
			if out.Placeholder == nil || out.Lane != perdure.Background {
				t.Fatalf("%s: got %+v, want a placeholder at once", l.Call.Tool, out)
			}
			var got map[string]any
			if err := json.Unmarshal(out.Placeholder.Result, &got); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"type": "background", "tool": l.Call.Tool, "reason": "routed", "background_id": string(out.Task), "task_id": string(out.Task),
				"message":     "Running in the background — use check_background_tool to wait or cancel.",
				"deadline_at": time.Now().Add(tool.DefaultDeadline).UTC().Format(time.RFC3339Nano),
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || out.Placeholder.IsError() || out.Placeholder.CallID != l.Call.ID {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		}
		r.none(t, "turn-1") // the turn has nothing to wait for
	})
}

// TestInterruptSparesBackground interrupts a turn whose background work would obey at once (LN9).
func TestInterruptSparesBackground(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"back": dispatch.InBackground(), "slow": dispatch.DetachAfter(time.Second)}, nil, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		for _, name := range []string{"back", "slow"} {
			if _, err := r.Start(ctx, call(name, "turn-1", perdure.CallID(name))); err != nil {
				t.Fatal(err)
			}
		}
		if u, ok := r.WaitTurn(ctx, "turn-1"); !ok || u.Detached == nil || u.Detached.Call != "slow" {
			t.Fatalf("got %+v, %t", u, ok)
		}

		r.InterruptTurn("turn-1")
		cancel()
		synctest.Wait()

		if running := r.h.ListRunning(); len(running) != 2 {
			t.Errorf("running: %+v, want both", running)
		}
		r.release <- 1
		r.release <- 2
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.TakePending("session-1") {
			if p.Item.State != perdure.TaskSucceeded {
				t.Errorf("got %+v", p.Item)
			}
		}
	})
}

// TestNoLostWake lets calls end while their turn begins to wait, again and again.
func TestNoLostWake(t *testing.T) {
	t.Parallel()
	const rounds = 2000
	r := newRig(t, nil, nil)
	defer r.Shutdown(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range rounds {
		turn := perdure.TurnID(fmt.Sprint(i))
		for n := range 3 {
			r.launch(t, call("fast", turn, perdure.CallID(fmt.Sprint(n))))
		}
		got := 0
		for {
			if _, ok := r.WaitTurn(ctx, turn); !ok {
				break
			}
			got++
		}
		if got != 3 {
			t.Fatalf("round %d: got %d results of 3", i, got)
		}
	}
}

// TestEventsInCommitOrder runs calls of every fate at once: numbers have no holes, each task starts
// before it ends, and ends once.
func TestEventsInCommitOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]dispatch.Route{"fast": dispatch.InBackground()}, nil)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for j, name := range []string{"fast", "bad", "panic", "unknown-tool", "needs-approval"} {
				turn := perdure.TurnID(fmt.Sprint(i))
				_, err := r.Start(t.Context(), call(name, turn, perdure.CallID(fmt.Sprint(j))))
				if err != nil && !errors.Is(err, perdure.Limit) {
					t.Error(err)
				}
			}
			r.InterruptTurn(perdure.TurnID(fmt.Sprint(i)))
		})
	}
	group.Wait()
	if err := r.h.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Shutdown(context.Background())

	started, ended := map[perdure.TaskID]bool{}, map[perdure.TaskID]bool{}
	last := int64(0)
	for all := r.h.Subscribe(0); ; last++ {
		e, ok := all.Next(t.Context())
		if !ok {
			break
		}
		if e.Seq != last+1 || e.At.IsZero() {
			t.Fatalf("event %d comes after %d", e.Seq, last)
		}
		id := e.Task.Task
		switch e.Kind {
		case dispatch.EventStarted:
			if started[id] || ended[id] {
				t.Errorf("%s started twice, or after its end", id)
			}
			started[id] = true
		case dispatch.EventCompleted, dispatch.EventFailed, dispatch.EventCanceled:
			if ended[id] || e.Result == nil || e.Result.NeverStarted != (e.Task.Tool == "unknown-tool" || e.Task.Tool == "needs-approval") && e.Kind != dispatch.EventCanceled {
				t.Errorf("%s ended wrongly: %+v", id, e)
			}
			ended[id] = true
		}
	}
	if len(ended) == 0 || len(ended) < len(started)-20 {
		t.Errorf("%d started, %d ended", len(started), len(ended))
	}
}

func TestFinishedBeforeInterruptKept(t *testing.T) { // RC8
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("fast", "turn-1", "done"))
		r.launch(t, call("block", "turn-1", "open"))
		synctest.Wait()

		r.InterruptTurn("turn-1")

		first, second := r.item(t, "turn-1"), r.item(t, "turn-1")
		if first.Call != "done" || first.Result.IsError() {
			t.Errorf("got %+v, want the result that was there", first)
		}
		if second.Call != "open" || second.Result.ErrorKind != perdure.ErrorInterrupted {
			t.Errorf("got %+v", second)
		}
	})
}

func TestNeverStartedFlag(t *testing.T) { // LN11
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		r.launch(t, call("unknown-tool", "turn-1", "lookup"))
		if i := r.item(t, "turn-1"); !i.Result.NeverStarted || !i.Result.IsError() {
			t.Errorf("lookup: got %+v", i)
		}
		r.launch(t, call("bad", "turn-1", "entered"))
		if i := r.item(t, "turn-1"); i.Result.NeverStarted {
			t.Errorf("a tool that was entered: got %+v", i)
		}
		asking := call("needs-approval", "turn-1", "denied")
		asking.Metadata = map[string]string{"k": "v"}
		r.launch(t, asking)
		no := answer(r.asked(t, "turn-1"), perdure.ApprovalDenied)
		r.launch(t, no)
		if i := r.item(t, "turn-1"); !i.Result.NeverStarted || i.Result.ErrorKind != perdure.ErrorDenied || i.Result.Error != "approval denied" || i.Metadata["k"] != "v" {
			t.Errorf("denied: got %+v", i)
		}
	})
}

// TestTwoDriversOneSession lets two loops of one session wait and take at once: nothing is lost,
// nothing comes twice.
func TestTwoDriversOneSession(t *testing.T) {
	t.Parallel()
	const calls = 200
	r := newRig(t, map[string]dispatch.Route{"bad": dispatch.InBackground()}, func(c *dispatch.LoopConfig) { c.Caps = dispatch.Caps{PerSession: -1, PerProcess: -1} })
	defer r.Shutdown(context.Background())
	var mu sync.Mutex
	seen := map[perdure.CallID]int{}
	count := func(id perdure.CallID) {
		mu.Lock()
		defer mu.Unlock()
		seen[id]++
	}
	var group sync.WaitGroup
	for driver := range 2 {
		turn := perdure.TurnID(fmt.Sprint("turn-", driver))
		group.Go(func() {
			for i := range calls {
				r.launch(t, call("fast", turn, perdure.CallID(fmt.Sprintf("%s fast %d", turn, i))))
				r.launch(t, call("bad", turn, perdure.CallID(fmt.Sprintf("%s bad %d", turn, i))))
				if i := r.item(t, turn); i.Tool != "fast" {
					t.Errorf("got %+v", i)
				} else {
					count(i.Call)
				}
				for _, p := range r.TakePending("session-1") {
					count(p.Item.Call)
				}
			}
		})
	}
	group.Wait()
	if err := r.h.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.TakePending("session-1") {
		count(p.Item.Call)
	}
	if len(seen) != 4*calls {
		t.Errorf("%d of %d calls were delivered", len(seen), 4*calls)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
}

// TestDetachStopsTimer checks that nothing of a turn is left after its last update was read: no
// timer and no record.
func TestDetachStopsTimer(t *testing.T) {
	t.Parallel()
	held := new([1 << 16]byte)
	was := weak.Make(held)
	r := newRig(t, nil, func(c *dispatch.LoopConfig) { c.MaxEnded = 1 })
	defer r.Shutdown(context.Background())
	first := call("block", "turn-1", "call-1")
	first.Metadata = map[string]string{"k": string(held[:])}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), heldKey{}, held))
	out, err := r.Start(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := r.h.Detach(out.Task); !left || err != nil {
		t.Fatalf("Detach = %t, %v", left, err)
	}
	r.release <- 1
	cancel()
	ctx, cancel, held, first = nil, nil, nil, dispatch.Launch{}
	r.WaitTurn(t.Context(), "turn-1")
	if err := r.h.WaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.launch(t, call("fast", "turn-2", "call-2")) // takes the one slot for ended tasks
	r.item(t, "turn-2")
	if got := r.h.ListCompleted(); len(got) != 1 || got[0].Call != "call-2" {
		t.Errorf("kept %+v, want the newest", got)
	}

	for begun := time.Now(); was.Value() != nil; runtime.GC() {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("something holds the call that has ended")
		}
	}
}

type heldKey struct{}

// TestLookupNeverMissesLive looks a task up continuously, from its start to its end.
func TestLookupNeverMissesLive(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	defer r.Shutdown(context.Background())
	for i := range 50 {
		turn := perdure.TurnID(fmt.Sprint(i))
		out := r.launch(t, call("block", turn, "call-1"))
		stop := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			for {
				if _, err := r.h.Wait(t.Context(), dispatch.WaitOptions{Tasks: []perdure.TaskID{out.Task}, Timeout: 1}); err != nil {
					t.Error(err)
					return
				}
				if n := len(r.h.ListRunning()) + len(r.h.ListCompleted()); n < 1 {
					t.Error("the task is in no list")
				}
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
		<-r.entered
		if _, err := r.h.Detach(out.Task); err != nil {
			t.Error(err)
		}
		r.release <- i
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Error(err)
		}
		close(stop)
		group.Wait()
	}
}
