package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// Handle is what a host may do with the tasks of a dispatcher (6.3). That of an Inline knows of none. It is a value, and
// safe for concurrent use.
type Handle struct {
	a       *Async            // nil: of an Inline
	session perdure.SessionID // empty: every one
	events  *Subscription
}

// Of narrows the handle to one session: the tasks of others are not found. It reads events from the oldest that is kept.
func (h Handle) Of(session perdure.SessionID) Handle {
	return Handle{a: h.a, session: session, events: &Subscription{a: h.a, session: session}}
}

// NextEvent returns the next event that nobody has read through this handle; see [Subscription.Next].
func (h Handle) NextEvent(ctx context.Context) (Event, bool) { return h.events.Next(ctx) }

// Subscribe reads the events after a place; 0: from the oldest that is kept. There is nothing to close.
func (h Handle) Subscribe(after int64) *Subscription {
	return &Subscription{a: h.a, session: h.session, seq: max(after, 0)}
}

// Canceled is the answer to a cancel.
type Canceled struct {
	Receipt perdure.CancelReceipt // zero: nobody had to be told
	Result  *perdure.ToolResult   // set: the task has ended, like this
}

// Cancel asks for the end of a task (RC1). One that has ended answers with its real result, and nothing happens; asking
// again is answered the same. perdure.NotFound: no such task, or it is another session's. After another error, which is the
// journal's, nothing is cancelled.
func (h Handle) Cancel(id perdure.TaskID, by, why string) (Canceled, error) {
	if h.a == nil {
		return Canceled{}, &TaskNotFound{Task: id}
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
	err = a.cfg.Journal.Canceling(ctx, s, CancelWish{By: by, Why: why})
	done()
	a.mu.Lock()
	switch {
	case t.state.Terminal() || t.canceled != nil:
		return t.cancelAnswer(), nil // by somebody else
	case err != nil:
		return Canceled{}, fmt.Errorf("cancel task %s: task manager internal error: %w", id, err)
	}
	a.cancel(t)
	return t.cancelAnswer(), nil
}

// cancel notes the wish and passes it on. mu is held, and is let go meanwhile.
func (a *Async) cancel(t *task) {
	now := time.Now()
	receipt := &perdure.CancelReceipt{RequestedAt: now}
	t.canceled = receipt
	switch {
	case t.settling: // its end, or its question, is on its way
	case t.state == perdure.TaskRunning:
		if a.runner.Cancel(t.run, perdure.CauseCanceled) {
			receipt.SignalledAt = now
		}
	default: // it never starts
		receipt.SignalledAt, receipt.DeadAt = now, now
		a.settleSoon(t, End{Result: notEntered(perdure.CauseCanceled)})
	}
}

// cancelAnswer says what is known of a cancel. mu is held.
func (t *task) cancelAnswer() (answer Canceled) {
	if t == nil {
		return answer
	}
	if t.canceled != nil {
		answer.Receipt = *t.canceled
	}
	answer.Result = t.result
	return answer
}

// CancelAll cancels the live background tasks of a session and says how many those were.
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
		h.a.log.Info("background tasks are cancelled", "session", session, "count", n, "by", by, "reason", why)
	}
	return n
}

// Detach lets a foreground call leave now, whatever its budget, and reports whether it runs in the background. False: it
// has ended, waits, or cannot leave now, of which EventDetachFailed says why. perdure.NotFound: as for Cancel.
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

// Result returns how a task ended, whether or not its result was taken: as long as it is kept (LoopConfig.Keep) and its session is
// not forgotten. perdure.NotFound: as for Cancel, or it is not kept any more. perdure.Conflict: it has not ended.
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

// ListRunning returns the tasks that live: queued, running, being stopped, or waiting for a person; the oldest first.
func (h Handle) ListRunning() []Snapshot {
	return h.list(func(t *task) bool { return !t.state.Terminal() })
}

// ListCompleted returns the tasks that have ended, cancelled ones included, as far as they are kept; the oldest first.
func (h Handle) ListCompleted() []Snapshot {
	return h.list(func(t *task) bool { return t.state.Terminal() })
}

// ListAsked returns what waits for a person, in every lane and delivery (AP7); the oldest first.
func (h Handle) ListAsked() []Asked {
	var list []Asked
	h.each(func(t *task) {
		if t.open() {
			list = append(list, t.question())
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

// each calls do for the tasks that the handle may see, the oldest first, under the dispatcher's mu.
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

// DrainReady takes the results of tasks with manual delivery, in the order in which they ended. Put into a transcript,
// one is a notification, never a second tool result (LN8): see [Item.Notification].
func (h Handle) DrainReady() []Item {
	if h.a == nil {
		return nil
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	var taken []Item
	var left []lateItem
	for _, item := range h.a.ready {
		if h.session == "" || item.session == h.session {
			taken = append(taken, item.Item)
			continue
		}
		left = append(left, item)
	}
	h.a.ready = left
	h.a.wake(&h.a.changed)
	return taken
}

// SetDelivery says how the result of a live task comes home. perdure.NotFound: as for Cancel; perdure.Conflict: it is already
// settled; perdure.Invalid: no such delivery.
func (h Handle) SetDelivery(id perdure.TaskID, d perdure.Delivery) error {
	if d != perdure.ToLoop && d != perdure.Manual {
		return fmt.Errorf("set delivery of task %s: %w: %q is neither to_loop nor manual", id, perdure.Invalid, d)
	}
	return h.change(id, "delivery", func(t *task) { t.delivery = d })
}

// SetWake says what the end of a live task does. Its errors are those of SetDelivery.
func (h Handle) SetWake(id perdure.TaskID, w perdure.Wake) error {
	if w != perdure.WakeNone && w != perdure.WakeNotify && w != perdure.WakeContinue {
		return fmt.Errorf("set wake of task %s: %w: %q is none of none, notify and continue", id, perdure.Invalid, w)
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
