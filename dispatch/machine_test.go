package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// steps is how many steps one history has. A hundred histories are the default; -rapid.checks makes
// them more.
const steps = 200

// step is one thing that somebody does, to a call or a turn chosen by number.
type step struct{ Do, Which, Arg int }

// world is an Async under random operations, with their outcomes.
type world struct {
	*dispatch.Async
	h dispatch.Handle

	mu       sync.Mutex // guards all below
	orders   map[perdure.CallID]chan string
	calls    []perdure.CallID
	tasks    []perdure.TaskID
	refused  map[perdure.CallID]bool
	answered map[perdure.CallID]int // results and placeholders that the turn got
	stands   map[perdure.CallID]int // placeholders among them
	late     map[perdure.CallID]int // results from the background
	faults   int                    // times that the journal fails
	problems []string
}

func (w *world) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// execute does what it is ordered to, once: a tool may ask a person, end in every way, or ignore
// that it is to stop.
func (w *world) execute(ctx context.Context, call tool.Call, approved *perdure.Approval) dispatch.Outcome {
	if call.Tool == "asks" && approved == nil {
		return dispatch.Outcome{Approval: &perdure.Approval{}}
	}
	w.mu.Lock()
	orders := w.orders[call.ID]
	w.mu.Unlock()
	stop := ctx.Done()
	if call.Tool == "stubborn" {
		stop = nil
	}
	select {
	case order := <-orders:
		switch order {
		case "panic":
			panic("ordered")
		case "fail":
			return dispatch.Outcome{Result: tool.Error("ordered")}
		}
		return dispatch.Outcome{Result: tool.Success(order)}
	case <-stop:
		return dispatch.Outcome{Result: tool.Internal(context.Cause(ctx))}
	}
}

func (w *world) fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == 0 {
		return nil
	}
	w.faults--
	return errFull
}

func (w *world) Begin(context.Context, dispatch.Snapshot, dispatch.Launch) error { return w.fault() }
func (w *world) Detached(context.Context, dispatch.DetachedCall) error           { return w.fault() }
func (w *world) Canceling(context.Context, dispatch.Snapshot, dispatch.CancelRequest) error {
	return w.fault()
}
func (w *world) Ended(context.Context, dispatch.Snapshot, dispatch.Resolution) error {
	return w.fault()
}

func turnNo(n int) perdure.TurnID { return perdure.TurnID(fmt.Sprint("turn-", n%3)) }

// start launches a call of one of a few tools.
func (w *world) start(s step) {
	w.mu.Lock()
	id := perdure.CallID(fmt.Sprint(len(w.calls)))
	w.calls = append(w.calls, id)
	w.orders[id] = make(chan string, 1)
	w.mu.Unlock()
	name := []string{"plain", "asks", "stubborn", "back", "slow"}[s.Arg%5]
	l := dispatch.Launch{Call: tool.Call{Session: "session-1", Turn: turnNo(s.Which), ID: id, Tool: name}, Spawned: s.Arg%7 == 0}
	l.Delivery = []perdure.Delivery{"", perdure.ToLoop, perdure.Manual}[s.Arg%3]
	out, err := w.Start(context.Background(), l)
	w.started(id, out, err)
}

func (w *world) started(id perdure.CallID, out dispatch.StartResult, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, perdure.Limit) || errors.Is(err, errFull):
		w.refused[id] = true
	case err != nil:
		w.problem("start %s: %v", id, err)
	default:
		w.tasks = append(w.tasks, out.Task)
		w.placed(id, out.Placeholder)
	}
}

func (w *world) placed(id perdure.CallID, placeholder *perdure.ToolResult) {
	if placeholder != nil {
		w.answered[id]++
		w.stands[id]++
	}
}

// decide answers one of the open questions.
func (w *world) decide(s step, state perdure.ApprovalState) {
	asked := w.h.ListPendingApprovals()
	if len(asked) == 0 {
		return
	}
	q := asked[s.Which%len(asked)]
	out, err := w.Start(context.Background(), answer(q, state))
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.placed(q.Call.ID, out.Placeholder)
	} else if !errors.Is(err, perdure.Conflict) && !errors.Is(err, perdure.Limit) && !errors.Is(err, errFull) {
		w.problem("answer %s: %v", q.Call.ID, err)
	}
}

func (w *world) order(s step, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 {
		return
	}
	select {
	case w.orders[w.calls[s.Which%len(w.calls)]] <- what:
	default: // it has one
	}
}

func (w *world) task(s step) perdure.TaskID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tasks) == 0 {
		return "task_none"
	}
	return w.tasks[s.Which%len(w.tasks)]
}

// read takes what is there for a turn; a context that has ended does not hide it.
func (w *world) read(turn perdure.TurnID) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		u, ok := w.WaitTurn(ctx, turn)
		if !ok {
			return
		}
		w.mu.Lock()
		switch {
		case u.Detached != nil:
			w.placed(u.Detached.Call, &u.Detached.Placeholder)
		case u.Resolution.Item != nil:
			w.answered[u.Resolution.Item.Call]++
		}
		w.mu.Unlock()
	}
}

func (w *world) take() {
	pending, ready := w.TakePending("session-1"), w.h.DrainReady()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range pending {
		if p.Item != nil {
			w.late[p.Item.Call]++
		}
	}
	for _, item := range ready {
		w.late[item.Call]++
	}
}

// do carries out one step.
func (w *world) do(s step) {
	switch s.Do {
	case 1, 2, 3:
		w.start(s)
	case 4:
		_, _ = w.h.Detach(w.task(s))
	case 5:
		w.decide(s, perdure.ApprovalApproved)
	case 6:
		w.decide(s, perdure.ApprovalDenied)
	case 7:
		_, _ = w.h.Cancel(w.task(s), "user", "")
	case 8:
		w.InterruptTurn(turnNo(s.Which))
	case 9, 10:
		w.order(s, "done")
	case 11:
		w.order(s, []string{"fail", "panic"}[s.Arg%2])
	case 12:
		w.read(turnNo(s.Which))
	case 13:
		w.take()
	case 14:
		_ = w.h.SetDelivery(w.task(s), []perdure.Delivery{perdure.ToLoop, perdure.Manual}[s.Arg%2])
	case 15:
		w.h.CancelAll("session-1", "user", "")
	case 16:
		w.mu.Lock()
		w.faults += s.Arg % 3
		w.mu.Unlock()
	}
}

// finish lets everything come to its end.
func (w *world) finish() {
	w.mu.Lock()
	w.faults = 0
	calls := len(w.calls)
	w.mu.Unlock()
	for {
		for i := range calls {
			w.order(step{Which: i}, "done")
		}
		if err := w.h.WaitIdle(context.Background()); err != nil {
			w.problem("wait: %v", err)
		}
		if len(w.h.ListPendingApprovals()) == 0 {
			break
		}
		w.decide(step{}, perdure.ApprovalDenied)
	}
	for turn := range 3 {
		w.read(turnNo(turn))
	}
	w.take()
	if err := w.h.WaitQuiet(context.Background()); err != nil {
		w.problem("wait: %v", err)
	}
	synctest.Wait()
	if left := w.Leftovers(); left != "" {
		w.problem("left: %s", left)
	}
	w.Shutdown(context.Background())
}

// check holds the world against its laws (PR1).
func (w *world) check() {
	ends := map[perdure.TaskID]int{}
	for events := w.h.Subscribe(0); ; {
		e, ok := events.Next(context.Background())
		if !ok {
			break
		}
		switch e.Kind {
		case dispatch.EventCompleted, dispatch.EventFailed, dispatch.EventCanceled, dispatch.EventUnknown:
			ends[e.Task.Task]++
		case dispatch.EventGap:
			w.problem("the events are not all there")
		}
	}
	for _, id := range w.tasks {
		if ends[id] != 1 {
			w.problem("task %s ended %d times", id, ends[id])
		}
	}
	for _, id := range w.calls {
		want := 1
		if w.refused[id] {
			want = 0
		}
		if w.answered[id] != want {
			w.problem("call %s has %d results in its turn, want %d", id, w.answered[id], want)
		}
		if w.late[id] != w.stands[id] {
			w.problem("call %s has %d placeholders and was delivered %d times", id, w.stands[id], w.late[id])
		}
	}
}

// TestMachine does anything to anything, at once or one after another, with a journal that fails
// now and then: every task has one end, every call one result in its turn, every late result is
// delivered once, and nothing is left (PR1).
func TestMachine(t *testing.T) {
	t.Parallel()
	one := rapid.Custom(func(t *rapid.T) step {
		return step{Do: rapid.IntRange(0, 18).Draw(t, "do"), Which: rapid.IntRange(0, 40).Draw(t, "which"), Arg: rapid.IntRange(0, 20).Draw(t, "arg")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(one, steps, steps).Draw(rt, "history")
		policy := rapid.SampledFrom([]perdure.Overflow{perdure.OverflowQueue, perdure.OverflowReject, perdure.OverflowEvict}).Draw(rt, "overflow")
		var problems []string
		synctest.Test(t, func(*testing.T) { problems = live(history, policy) })
		if len(problems) > 0 {
			rt.Fatalf("%q", problems)
		}
	})
}

// live carries out a history and says what was wrong with it.
func live(history []step, policy perdure.Overflow) []string {
	w := &world{
		orders: map[perdure.CallID]chan string{}, refused: map[perdure.CallID]bool{}, answered: map[perdure.CallID]int{},
		stands: map[perdure.CallID]int{}, late: map[perdure.CallID]int{},
	}
	a, err := dispatch.NewAsync(context.Background(), dispatch.LoopConfig{
		Execute: w.execute, Journal: w, MaxEvents: 10 * steps, Caps: dispatch.Caps{PerSession: 3, Detached: 4, Queued: 3, Live: 6, Overflow: policy},
		Spec: func(name string) tool.Spec {
			return tool.Spec{SoftBudget: map[string]time.Duration{"slow": 2 * time.Second}[name], Deadline: time.Hour}
		},
		Route: func(call tool.Call) dispatch.Route {
			if call.Tool == "back" {
				return dispatch.InBackground()
			}
			return dispatch.Route{}
		},
	})
	if err != nil {
		return []string{err.Error()}
	}
	w.Async, w.h = a, a.Handle()
	for _, s := range history {
		switch s.Do {
		case 0: // nothing: what a history shrinks to
		case 17:
			synctest.Wait()
		case 18:
			<-time.After(time.Duration(s.Arg) * time.Second)
		default:
			if s.Arg%4 == 0 {
				w.do(s)
			} else {
				go w.do(s)
			}
		}
	}
	synctest.Wait()
	w.finish()
	w.check()
	return w.problems
}
