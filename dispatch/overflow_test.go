package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// inOverflow runs a law with caps, whose tools "back" begin in the background, and a log.
func inOverflow(t *testing.T, caps dispatch.Caps, law func(t *testing.T, r *rig, log *bytes.Buffer)) {
	t.Helper()
	var log bytes.Buffer // the handler of slog writes one line at a time
	inRig(t, map[string]dispatch.Route{"back": dispatch.InBackground(), "slow": dispatch.DetachAfter(time.Second)}, func(c *dispatch.LoopConfig) {
		c.Caps, c.Runner.Log = caps, slog.New(slog.NewTextHandler(&log, nil))
	}, func(t *testing.T, r *rig) { law(t, r, &log) })
}

// TestRejectedStartIsReported refuses the second of one: nothing is queued, and there is an error,
// an event and a line in the log (BG17).
func TestRejectedStartIsReported(t *testing.T) {
	t.Parallel()
	inOverflow(t, dispatch.Caps{PerSession: 1, Overflow: perdure.OverflowReject}, func(t *testing.T, r *rig, log *bytes.Buffer) {
		r.launch(t, call("back", "turn-1", "first"))
		_, err := r.Start(t.Context(), call("back", "turn-1", "second"))

		const why = "Maximum 1 active background runs per session."
		if !errors.Is(err, perdure.Limit) || !strings.Contains(err.Error(), why) || len(r.h.ListRunning()) != 1 {
			t.Errorf("got %v, want Limit", err)
		}
		r.next(t, dispatch.EventStarted)
		if e := r.next(t, dispatch.EventRejected); e.Task.Call != "second" || e.Task.Task == "" || e.Task.Tool != "back" || !strings.HasPrefix(e.Why, why) {
			t.Errorf("got %+v", e)
		}
		if !strings.Contains(log.String(), "start refused: no free slot") {
			t.Errorf("the log says %q", log)
		}
		r.release <- 1
		if err := r.h.WaitIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.launch(t, call("back", "turn-1", "third")) // the slot is free again
		r.release <- 3
	})
}

// TestRejectHoldsTheSlot starts two calls at once where there is one slot: while the journal is
// asked about the first, the slot is its own.
func TestRejectHoldsTheSlot(t *testing.T) {
	t.Parallel()
	d := &diary{}
	inRig(t, map[string]dispatch.Route{"back": dispatch.InBackground()}, func(c *dispatch.LoopConfig) {
		c.Journal, c.Caps = d, dispatch.Caps{PerSession: 1, Overflow: perdure.OverflowReject}
	}, func(t *testing.T, r *rig) {
		d.hold = make(chan struct{}) // of the bubble
		started := make(chan error, 1)
		go func() { _, err := r.Start(t.Context(), call("back", "turn-1", "first")); started <- err }()
		synctest.Wait()
		_, second := r.Start(t.Context(), call("back", "turn-1", "second"))
		close(d.hold)

		if err := <-started; err != nil || !errors.Is(second, perdure.Limit) {
			t.Errorf("got %v and %v, want the first to start and the second refused", err, second)
		}
		r.release <- 1
	})
}

// TestQueuedStartIsLogged leaves a line in the log, beside the event.
func TestQueuedStartIsLogged(t *testing.T) {
	t.Parallel()
	inOverflow(t, dispatch.Caps{PerSession: 1}, func(t *testing.T, r *rig, log *bytes.Buffer) {
		r.launch(t, call("back", "turn-1", "first"))
		r.launch(t, call("back", "turn-1", "second"))
		r.next(t, dispatch.EventStarted)
		r.next(t, dispatch.EventQueued)
		if !strings.Contains(log.String(), "call waiting for a slot") {
			t.Errorf("the log says %q", log)
		}
		r.release <- 1
		r.release <- 2
	})
}

// TestEvictOldest cancels the task that has been in the background for longest, also for a call
// that leaves its turn (BG17, BG18).
func TestEvictOldest(t *testing.T) {
	t.Parallel()
	inOverflow(t, dispatch.Caps{PerSession: 1, Detached: 1, Live: 2, Overflow: perdure.OverflowEvict}, func(t *testing.T, r *rig, log *bytes.Buffer) {
		slow := r.launch(t, call("slow", "turn-1", "slow")) // it begins first, and comes to the background last
		first := r.launch(t, call("back", "turn-1", "first"))
		second := r.launch(t, call("back", "turn-1", "second")) // no cap of running tasks is asked
		<-time.After(2 * time.Second)
		synctest.Wait()

		item, err := r.Wait(t.Context(), first.Task)
		if err != nil || item.State != perdure.TaskCanceled {
			t.Errorf("the first: got %+v, %v, want it canceled", item, err)
		}
		running := r.h.ListRunning()
		if len(running) != 2 || running[0].Task != slow.Task || running[0].Lane != perdure.Background || running[1].Task != second.Task {
			t.Errorf("running: %+v, want the slow one in the background and the second", running)
		}
		if !strings.Contains(log.String(), "background task evicted") {
			t.Errorf("the log says %q", log)
		}
		r.release <- 1
		r.release <- 2
	})
}

// TestOverflowPolicyIsChecked refuses a word that is no policy.
func TestOverflowPolicyIsChecked(t *testing.T) {
	t.Parallel()
	_, err := dispatch.NewAsync(t.Context(), dispatch.LoopConfig{Execute: new(rig).execute, Caps: dispatch.Caps{Overflow: "drop"}})
	if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), `"drop"`) {
		t.Errorf("got %v, want Invalid", err)
	}
}

// TestFailedDetachIsReported keeps a call in the foreground, for want of a slot and for a journal
// that fails: one event and one line in the log for each reason, however often it is asked (LN7).
func TestFailedDetachIsReported(t *testing.T) {
	t.Parallel()
	inOverflow(t, dispatch.Caps{Detached: 1}, func(t *testing.T, r *rig, log *bytes.Buffer) {
		r.launch(t, call("slow", "turn-1", "first"))
		if u, ok := r.WaitTurn(t.Context(), "turn-1"); !ok || u.Detached == nil {
			t.Fatalf("got %+v", u)
		}
		r.launch(t, call("slow", "turn-1", "second"))
		<-time.After(10 * time.Second)

		for _, kind := range []dispatch.EventKind{dispatch.EventStarted, dispatch.EventDetached, dispatch.EventStarted} {
			r.next(t, kind)
		}
		if e := r.next(t, dispatch.EventDetachFailed); e.Task.Call != "second" || !strings.HasPrefix(e.Why, "No background slot is free") {
			t.Errorf("got %+v", e)
		}
		if e, again := r.nextWithin(time.Second); again {
			t.Errorf("reported again: %+v", e)
		}
		if n := strings.Count(log.String(), "detach failed, call stays in the foreground"); n != 1 {
			t.Errorf("the log says so %d times", n)
		}
		r.release <- 1
		r.release <- 2
	})
	d := &diary{fail: map[string]int{"detached": 3}}
	inDiary(t, map[string]dispatch.Route{"slow": dispatch.DetachAfter(time.Second)}, d, func(t *testing.T, r *rig) {
		r.launch(t, call("slow", "turn-1", "call-1"))
		<-time.After(10 * time.Second)
		r.next(t, dispatch.EventStarted)
		if e := r.next(t, dispatch.EventDetachFailed); e.Why != errFull.Error() {
			t.Errorf("got %+v, want the error of the journal", e)
		}
		r.next(t, dispatch.EventDetached)
		r.release <- 1
	})
}

// TestSignsOfLife stalls a tool that is silent, and no tool that reports (LN4).
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	const stall = 10 * time.Second
	for name, sign := range map[string]func(tool.Sink){
		"silent":    func(tool.Sink) {},
		"output":    func(s tool.Sink) { s.Output("stdout", []byte("x")) },
		"progress":  func(s tool.Sink) { s.Progress(1, 2, "") },
		"status":    func(s tool.Sink) { s.Status("on it") },
		"heartbeat": func(s tool.Sink) { s.Heartbeat() },
		"skip":      func(s tool.Sink) { s.(tool.Skipper).Skip(1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				busy := tool.New(tool.Spec{Name: "busy", Description: "Works.", Class: perdure.Pure, Stall: stall, SoftBudget: 15 * time.Second},
					func(ctx context.Context, _ struct{}, env tool.Env) (string, error) {
						for range 8 {
							select {
							case <-time.After(stall - time.Second):
								sign(env.Report())
							case <-ctx.Done():
								return "", context.Cause(ctx)
							}
						}
						return "done", nil
					})
				a, err := dispatch.NewAsync(context.Background(), dispatch.ForRegistry(tool.NewRegistry(busy), nil))
				if err != nil {
					t.Fatal(err)
				}
				defer a.Shutdown(context.Background())
				out, err := a.Start(t.Context(), dispatch.Launch{Call: tool.Call{Session: "s", Turn: "t", ID: "c", Tool: "busy", Args: []byte("{}")}})
				if err != nil {
					t.Fatal(err)
				}
				item, err := a.Wait(t.Context(), out.Task)
				if stalls := name == "silent"; err != nil || (item.Result.ErrorKind == perdure.ErrorTimeout) != stalls || (item.State == perdure.TaskSucceeded) == stalls {
					t.Errorf("got %+v, %v, want it to stall: %t", item, err, stalls)
				}
			})
		})
	}
}

// TestSinkSaysWhyToEnd answers a tool that reports after its call was cancelled, and hands on what
// it reports.
func TestSinkSaysWhyToEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	s := dispatch.Sink(ctx, nil)
	before := s.Heartbeat()
	cancel(perdure.CauseCanceled)
	if after := s.Output("stdout", nil); before != "" || after != perdure.CauseCanceled {
		t.Errorf("got %q, then %q", before, after)
	}
}

// TestResultAfterItWasTaken reads a result by its task, for each way of delivery.
func TestResultAfterItWasTaken(t *testing.T) {
	t.Parallel()
	inRig(t, map[string]dispatch.Route{"back": dispatch.InBackground()}, func(c *dispatch.LoopConfig) { c.MaxEnded = 3 }, func(t *testing.T, r *rig) {
		front := r.launch(t, call("fast", "turn-1", "front"))
		r.item(t, "turn-1")
		loop := r.launch(t, call("back", "turn-1", "loop"))
		if _, err := r.h.Result(loop.Task); !errors.Is(err, perdure.Conflict) {
			t.Errorf("of a task that runs: got %v, want Conflict", err)
		}
		r.release <- "looped"
		manual := call("back", "turn-1", "manual")
		manual.Delivery, manual.Metadata = perdure.Manual, map[string]string{"k": "v"}
		hand := r.launch(t, manual)
		r.release <- "drained"
		if err := r.h.WaitIdle(t.Context()); err != nil || len(r.TakePending("")) != 1 || len(r.h.DrainReady()) != 1 {
			t.Fatalf("%v, or not all was there to be taken", err)
		}

		for id, want := range map[perdure.TaskID]string{front.Task: `"fast-done"`, loop.Task: `"looped"`, hand.Task: `"drained"`} {
			item, err := r.h.Result(id)
			again, waited := r.Wait(t.Context(), id)
			if err != nil || waited != nil || string(item.Result.Result) != want || string(again.Result.Result) != want || item.State != perdure.TaskSucceeded {
				t.Errorf("got %+v, %v and %+v, %v, want %s", item, err, again, waited, want)
			}
		}
		if item, _ := r.h.Result(hand.Task); item.Metadata["k"] != "v" || item.Call != "manual" || item.Tool != "back" {
			t.Errorf("got %+v", item)
		}
		if _, err := r.h.Of("session-2").Result(front.Task); !errors.Is(err, perdure.NotFound) {
			t.Errorf("another session: got %v, want NotFound", err)
		}
		r.launch(t, call("fast", "turn-2", "more"))
		r.item(t, "turn-2")
		if _, err := r.h.Result(front.Task); !errors.Is(err, perdure.NotFound) {
			t.Errorf("what is not kept: got %v, want NotFound", err)
		}
	})
}

// TestWaitForOne returns with the end of a task, or with what keeps it from coming.
func TestWaitForOne(t *testing.T) {
	t.Parallel()
	inRig(t, nil, nil, func(t *testing.T, r *rig) {
		out := r.launch(t, call("block", "turn-1", "call-1"))
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Wait(short, out.Task); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of ctx", err)
		}
		waited := make(chan dispatch.Item, 1)
		go func() { item, _ := r.Wait(t.Context(), out.Task); waited <- item }()
		synctest.Wait()
		r.release <- "done"
		if item := <-waited; string(item.Result.Result) != `"done"` || item.State != perdure.TaskSucceeded {
			t.Errorf("got %+v", item)
		}
		if i := r.item(t, "turn-1"); i.Task != out.Task { // it was not taken by the wait
			t.Errorf("got %+v", i)
		}
		asks := r.launch(t, call("needs-approval", "turn-1", "call-2"))
		item, err := r.Wait(t.Context(), asks.Task)
		if !errors.Is(err, perdure.Conflict) || !strings.Contains(err.Error(), "approval:test") || item.State != perdure.TaskAwaitingInput || item.Call != "call-2" {
			t.Errorf("got %+v, %v, want Conflict and the question", item, err)
		}
		if _, err := r.Wait(t.Context(), "task_none"); !errors.Is(err, perdure.NotFound) {
			t.Errorf("got %v, want NotFound", err)
		}
		r.InterruptTurn("turn-1")
	})
}

// TestPlaceholderNamesOfferedTools names the tool that waits only where the loop offers it.
func TestPlaceholderNamesOfferedTools(t *testing.T) {
	t.Parallel()
	for name, offers := range map[string]func(string) bool{
		"nothing": nil, "another": func(name string) bool { return name == "web_fetch" }, "the_tool": func(name string) bool { return name == "check_background_tool" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRig(t, map[string]dispatch.Route{"back": dispatch.InBackground(), "slow": dispatch.DetachAfter(time.Second)}, func(c *dispatch.LoopConfig) { c.Offers = offers }, func(t *testing.T, r *rig) {
				out := r.launch(t, call("back", "turn-1", "call-1"))
				r.launch(t, call("slow", "turn-1", "call-2"))
				u, _ := r.WaitTurn(t.Context(), "turn-1")

				for _, placeholder := range []perdure.ToolResult{*out.Placeholder, u.Detached.Placeholder} {
					text := string(placeholder.Result)
					if strings.Contains(text, "check_background_tool") != (name == "the_tool") || strings.Contains(text, "Do not repeat the call.") != (name != "the_tool") {
						t.Errorf("got %s", text)
					}
				}
				r.release <- 1
				r.release <- 2
			})
		})
	}
}
