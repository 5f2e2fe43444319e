package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// rig is an Async with tools that the test releases, and its host.
type rig struct {
	*dispatch.Async
	h       dispatch.Handle
	entered chan perdure.TaskID // capacity 64; one for each execution of "block" and "stubborn"
	release chan any            // what "block" returns; an error is a tool error
}

// inRig runs a law with virtual time. routes says where tools run; change may set more.
func inRig(t *testing.T, routes map[string]dispatch.Route, change func(*dispatch.LoopConfig), law func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, routes, change)
		law(t, r)
		r.Shutdown(context.Background())
	})
}

func newRig(t *testing.T, routes map[string]dispatch.Route, change func(*dispatch.LoopConfig)) *rig {
	t.Helper()
	r := &rig{entered: make(chan perdure.TaskID, 64), release: make(chan any)}
	cfg := dispatch.LoopConfig{
		Execute: r.execute,
		Route:   func(call tool.Call) dispatch.Route { return routes[call.Tool] },
		Offers:  func(name string) bool { return name == "check_background_tool" },
	}
	if change != nil {
		change(&cfg)
	}
	a, err := dispatch.NewAsync(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Async, r.h = a, a.Handle()
	return r
}

// execute is the tools of a rig. A tool with another name does as "block" does.
func (r *rig) execute(ctx context.Context, call tool.Call, approved *perdure.Approval) dispatch.Outcome {
	switch call.Tool {
	case "fast":
		return dispatch.Outcome{Result: tool.Success("fast-done")}
	case "bad":
		return dispatch.Outcome{Result: tool.Error("boom")}
	case "panic":
		panic("boom")
	case "unknown-tool":
		return dispatch.Outcome{Result: tool.Result{Kind: tool.KindToolError, Text: "Tool not found: unknown-tool", Refused: true}}
	case "needs-approval":
		if approved == nil {
			return dispatch.Outcome{Approval: &perdure.Approval{ID: "approval:test", Kind: "tool.test", Reason: "sensitive path", Summary: "requires approval"}}
		}
	}
	r.entered <- call.Task
	if call.Tool == "stubborn" {
		<-r.release
		return dispatch.Outcome{Result: tool.Success("too late")}
	}
	select {
	case out := <-r.release:
		if err, ok := out.(error); ok {
			return dispatch.Outcome{Result: tool.Error(err.Error())}
		}
		return dispatch.Outcome{Result: tool.Success(out)}
	case <-ctx.Done():
		return dispatch.Outcome{Result: tool.Internal(context.Cause(ctx))}
	}
}

// call is a launch of session-1.
func call(name string, turn perdure.TurnID, id perdure.CallID) dispatch.Launch {
	return dispatch.Launch{Call: tool.Call{Session: "session-1", Turn: turn, ID: id, Tool: name, Args: []byte("{}")}}
}

// launch starts a call and wants it pending.
func (r *rig) launch(t *testing.T, l dispatch.Launch) dispatch.StartResult {
	t.Helper()
	out, err := r.Start(t.Context(), l)
	if err != nil || out.Ready != nil || out.Task == "" {
		t.Fatalf("Start(%s) = %+v, %v, want it pending", l.Call.Tool, out, err)
	}
	return out
}

// next wants an event within a second.
func (r *rig) next(t *testing.T, want dispatch.EventKind) dispatch.Event {
	t.Helper()
	e, ok := r.nextWithin(time.Second)
	if !ok || e.Kind != want {
		t.Fatalf("got event %+v, %t, want %s", e, ok, want)
	}
	return e
}

func (r *rig) nextWithin(d time.Duration) (dispatch.Event, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return r.h.NextEvent(ctx)
}

// item wants the turn's next update to be the result of a call.
func (r *rig) item(t *testing.T, turn perdure.TurnID) dispatch.Item {
	t.Helper()
	u, ok := r.WaitTurn(t.Context(), turn)
	if !ok || u.Resolution == nil || u.Resolution.Item == nil {
		t.Fatalf("WaitTurn = %+v, %t, want a result", u, ok)
	}
	return *u.Resolution.Item
}

// asked wants the turn's next update to be a question.
func (r *rig) asked(t *testing.T, turn perdure.TurnID) dispatch.PendingApproval {
	t.Helper()
	u, ok := r.WaitTurn(t.Context(), turn)
	if !ok || u.Resolution == nil || u.Resolution.Approval == nil {
		t.Fatalf("WaitTurn = %+v, %t, want a question", u, ok)
	}
	return *u.Resolution.Approval
}

// none wants nothing to wait for in a turn.
func (r *rig) none(t *testing.T, turn perdure.TurnID) {
	t.Helper()
	if u, ok := r.WaitTurn(t.Context(), turn); ok {
		t.Errorf("WaitTurn = %+v, want none", u)
	}
}

// answer is a person's yes or no to a question.
func answer(q dispatch.PendingApproval, state perdure.ApprovalState) dispatch.Launch {
	a := q.Approval
	a.State = state
	return dispatch.Launch{Task: q.Task, Approval: &a}
}

// diary is a Journal that remembers its entries and fails on request.
type diary struct {
	mu    sync.Mutex
	lines []string       // guarded by mu
	fail  map[string]int // guarded by mu; how often each word fails
	hold  chan struct{}  // not nil: Begin waits for it
}

var errFull = errors.New("disk full")

func (d *diary) write(word string, s dispatch.Snapshot) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%s %s %s", word, s.Call, s.State))
	if d.fail[word] > 0 {
		d.fail[word]--
		return errFull
	}
	return nil
}

func (d *diary) Begin(_ context.Context, s dispatch.Snapshot, _ dispatch.Launch) error {
	if d.hold != nil {
		<-d.hold
	}
	return d.write("begin", s)
}
func (d *diary) Detached(_ context.Context, e dispatch.DetachedCall) error {
	return d.write("detached", e.Snapshot)
}
func (d *diary) Canceling(_ context.Context, s dispatch.Snapshot, _ dispatch.CancelRequest) error {
	return d.write("canceling", s)
}
func (d *diary) Ended(_ context.Context, s dispatch.Snapshot, _ dispatch.Resolution) error {
	return d.write("ended", s)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}
