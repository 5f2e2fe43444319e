package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// Handle gives a host access to the tasks of a dispatcher. The handle of an Inline has no tasks. It
// is a value and safe for concurrent use.
type Handle struct {
	a       *Async            // nil: an Inline
	session perdure.SessionID // empty: all sessions
	events  *Subscription
}

// Of restricts the handle to one session. It reads events from the oldest stored one.
func (h Handle) Of(session perdure.SessionID) Handle {
	return Handle{a: h.a, session: session, events: &Subscription{a: h.a, session: session}}
}

// NextEvent returns the next event that was not read through this handle yet; see
// [Subscription.Next].
func (h Handle) NextEvent(ctx context.Context) (Event, bool) { return h.events.Next(ctx) }

// Subscribe reads the events after a sequence number; 0: from the oldest stored one. There is
// nothing to close.
func (h Handle) Subscribe(after int64) *Subscription {
	return &Subscription{a: h.a, session: h.session, seq: max(after, 0)}
}

// CancelResult is the outcome of a cancel.
type CancelResult struct {
	Receipt perdure.CancelReceipt // zero: the task had already ended
	Result  *perdure.ToolResult   // set: the task has ended with this result
}

// Cancel cancels a task. For a task that has ended it returns the real result and does nothing.
// Canceling again gives the same answer. perdure.NotFound: the task does not exist or belongs to
// another session. Any other error is the journal's, and then nothing is canceled.
func (h Handle) Cancel(id perdure.TaskID, by, why string) (CancelResult, error) {
	if h.a == nil {
		return CancelResult{}, &TaskNotFound{Task: id}
	}
	a := h.a
	a.mu.Lock()
	defer a.mu.Unlock()
	t, err := a.find(id, h.session)
	if err != nil || t.state.Terminal() || t.canceled != nil {
		return t.cancelAnswer(), err
	}
	s := t.snapshot()
	a.mu.Unlock()
	ctx, done := context.WithTimeout(context.Background(), journalTimeout)
	err = a.cfg.Journal.Canceling(ctx, s, CancelRequest{By: by, Why: why})
	done()
	a.mu.Lock()
	switch {
	case t.state.Terminal() || t.canceled != nil:
		return t.cancelAnswer(), nil // another call was faster
	case err != nil:
		return CancelResult{}, fmt.Errorf("cancel task %s: task manager internal error: %w", id, err)
	}
	a.cancel(t)
	return t.cancelAnswer(), nil
}

// cancel records the cancel and passes it on. The caller holds mu, which is released meanwhile.
func (a *Async) cancel(t *task) {
	now := time.Now()
	receipt := &perdure.CancelReceipt{RequestedAt: now}
	t.canceled = receipt
	switch {
	case t.settling: // its end or its approval request is being recorded
	case t.state == perdure.TaskRunning:
		if a.runner.Cancel(t.run, perdure.CauseCanceled) {
			receipt.SignalledAt = now
		}
	default: // it has not started and never will
		receipt.SignalledAt, receipt.DeadAt = now, now
		a.settleNotStarted(t, End{Result: stoppedBeforeStart(perdure.CauseCanceled)})
	}
}

// cancelAnswer returns the present state of a cancel. The caller holds mu.
func (t *task) cancelAnswer() (answer CancelResult) {
	if t == nil {
		return answer
	}
	if t.canceled != nil {
		answer.Receipt = *t.canceled
	}
	answer.Result = t.result
	return answer
}

// CancelAll cancels the live background tasks of a session and returns their number.
func (h Handle) CancelAll(session perdure.SessionID, by, why string) int {
	if h.a == nil || h.session != "" && h.session != session {
		return 0
	}
	n := 0
	for _, s := range h.Of(session).list(func(t *task) bool { return !t.state.Terminal() && t.lane == perdure.Background }) {
		if _, err := h.Cancel(s.Task, by, why); err == nil {
			n++
		}
	}
	if n > 0 {
		h.a.log.Info("background tasks canceled", "session", session, "count", n, "by", by, "reason", why)
	}
	return n
}

// Detach detaches a foreground call now, before its budget is used up, and reports whether it runs
// in the background. It returns false if the call has ended, is waiting, or cannot detach now;
// EventDetachFailed has the reason. perdure.NotFound: as for Cancel.
func (h Handle) Detach(id perdure.TaskID) (bool, error) {
	if h.a == nil {
		return false, &TaskNotFound{Task: id}
	}
	h.a.mu.Lock()
	t, err := h.a.find(id, h.session)
	if err != nil {
		h.a.mu.Unlock()
		return false, err
	}
	run := t.run
	h.a.mu.Unlock()
	return h.a.runner.Detach(run), nil
}

// Result returns how a task ended, even if its result was already taken. It works for as long as
// the task is stored (LoopConfig.Keep) and its session is not forgotten. perdure.NotFound: as for
// Cancel, or the task is no longer stored. perdure.Conflict: it has not ended.
func (h Handle) Result(id perdure.TaskID) (Item, error) {
	if h.a == nil {
		return Item{}, &TaskNotFound{Task: id}
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	t, err := h.a.find(id, h.session)
	if err != nil {
		return Item{}, err
	}
	if t.result == nil {
		return Item{}, fmt.Errorf("result of task %s: %w: it has not ended: %s", id, perdure.Conflict, t.state)
	}
	return t.item(), nil
}

// ListRunning returns the live tasks: queued, running, being stopped, or waiting for a person; the
// oldest first.
func (h Handle) ListRunning() []Snapshot {
	return h.list(func(t *task) bool { return !t.state.Terminal() })
}

// ListCompleted returns the ended tasks that are stored, canceled ones included; the oldest first.
func (h Handle) ListCompleted() []Snapshot {
	return h.list(func(t *task) bool { return t.state.Terminal() })
}

// ListPendingApprovals returns the calls that wait for an approval, in every lane and delivery; the
// oldest first.
func (h Handle) ListPendingApprovals() []PendingApproval {
	var list []PendingApproval
	h.each(func(t *task) {
		if t.awaitsApproval() {
			list = append(list, t.pendingApproval())
		}
	})
	return list
}

func (h Handle) list(which func(*task) bool) []Snapshot {
	var list []Snapshot
	h.each(func(t *task) {
		if which(t) {
			list = append(list, t.snapshot())
		}
	})
	return list
}

// each calls do for the tasks of the handle, the oldest first, while it holds the dispatcher's mu.
func (h Handle) each(do func(*task)) {
	if h.a == nil {
		return
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	var tasks []*task
	for id := range h.a.tasks {
		if t, err := h.a.find(id, h.session); err == nil {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(x, y *task) int { return cmp.Compare(x.number, y.number) })
	for _, t := range tasks {
		do(t)
	}
}

// DrainReady removes and returns the results of tasks with manual delivery, in the order in which
// they ended. In a transcript such a result is a notification, never a second tool result: see
// [Item.Notification].
func (h Handle) DrainReady() []Item {
	if h.a == nil {
		return nil
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	var drained []Item
	var left []readyItem
	for _, item := range h.a.ready {
		if h.session == "" || item.session == h.session {
			drained = append(drained, item.Item)
			continue
		}
		left = append(left, item)
	}
	h.a.ready = left
	h.a.wake(&h.a.changed)
	return drained
}

// SetDelivery sets how the result of a live task is delivered. perdure.NotFound: as for Cancel.
// perdure.Conflict: the task has ended. perdure.Invalid: d is not a delivery.
func (h Handle) SetDelivery(id perdure.TaskID, d perdure.Delivery) error {
	if d != perdure.ToLoop && d != perdure.Manual {
		return fmt.Errorf("set delivery of task %s: %w: %q is neither to_loop nor manual", id, perdure.Invalid, d)
	}
	return h.change(id, "delivery", func(t *task) { t.delivery = d })
}

// SetWake sets what the delivery of a live task does. Its errors are those of SetDelivery.
func (h Handle) SetWake(id perdure.TaskID, w perdure.Wake) error {
	if w != perdure.WakeNone && w != perdure.WakeNotify && w != perdure.WakeContinue {
		return fmt.Errorf("set wake of task %s: %w: %q is not none, notify or continue", id, perdure.Invalid, w)
	}
	return h.change(id, "wake", func(t *task) { t.wake = w })
}

func (h Handle) change(id perdure.TaskID, what string, to func(*task)) error {
	if h.a == nil {
		return &TaskNotFound{Task: id}
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	t, err := h.a.find(id, h.session)
	if err != nil {
		return err
	}
	if t.state.Terminal() {
		return fmt.Errorf("set %s of task %s: %w: already settled", what, id, perdure.Conflict)
	}
	to(t)
	return nil
}
