package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// detach decides whether a call detaches. The runner calls it, never at the same time as returned.
//
// The journal records the decision while mu is not held. leaving is set meanwhile, so that the
// limits already count the call.
func (a *Async) detach(t *task) bool {
	a.mu.Lock()
	if a.closed || t.settling {
		a.mu.Unlock()
		return false
	}
	if err := a.checkDetach(t.call.Session); err != nil {
		a.reportDetachFailure(t, err)
		a.mu.Unlock()
		return false
	}
	t.detaching = true
	d := DetachedCall{Snapshot: t.snapshot(), Placeholder: a.placeholder(t)}
	d.Lane = perdure.Background
	a.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	err := a.cfg.Journal.Detached(ctx, d)
	cancel()

	a.mu.Lock()
	defer a.mu.Unlock()
	t.detaching = false
	if err != nil {
		a.reportDetachFailure(t, err)
		return false
	}
	a.log.Info("call detached", "task", t.id, "tool", t.call.Tool, "budget", t.current.Soft, "session", t.call.Session,
		"call", t.call.ID, "args_bytes", len(t.call.Args))
	t.interrupted = false
	a.leaveTurn(t)
	t.lane, t.backgroundSince = perdure.Background, a.nextNumber()
	turn := a.turnOf(t.call.Turn)
	turn.updates = append(turn.updates, Update{Detached: &d})
	a.publish(Event{Kind: EventDetached, Task: d.Snapshot, Result: &d.Placeholder})
	a.notify(t)
	if !a.closed {
		a.group.Go(func() { a.evict(t.call.Session) }) // evict must not run here: the runner waits for this function
	}
	return true
}

// reportDetachFailure reports why a call stays in the foreground for now. Each reason is reported
// once, although the call tries again every second. The caller holds mu.
func (a *Async) reportDetachFailure(t *task, why error) {
	if t.detachError == why.Error() {
		return
	}
	t.detachError = why.Error()
	a.publish(Event{Kind: EventDetachFailed, Task: t.snapshot(), Why: t.detachError})
	a.log.Warn("detach failed, call stays in the foreground", "task", t.id, "tool", t.call.Tool,
		"session", t.call.Session, "call", t.call.ID, "error", why)
}

// placeholder returns the result of a call that detaches now. The caller holds mu.
func (a *Async) placeholder(t *task) perdure.ToolResult {
	if t.current.Soft > 0 && time.Since(t.startedAt) >= t.current.Soft {
		return BudgetPlaceholder(t.call.Tool, t.id, t.current.Soft, t.deadline).ForTools(a.cfg.Offers).Result(t.call.ID)
	}
	return RoutedPlaceholder(t.call.Tool, t.id, t.deadline).ForTools(a.cfg.Offers).Result(t.call.ID)
}

// executionEnded is called by the runner when an execution has ended.
func (a *Async) executionEnded(t *task, end End) {
	a.mu.Lock()
	if receipt := t.canceled; receipt != nil {
		receipt.DeadAt, receipt.DidNotStop = end.ReturnedAt, end.DidNotStop
	}
	request := t.outcome
	if end.DidNotStop {
		request = nil
	}
	switch {
	case end.Cause == perdure.CauseShutdown && (end.DidNotStop || request != nil || !end.Result.IsSuccess()):
		a.abandon(t) // stopping the dispatcher fails no task
		a.mu.Unlock()
		return
	case request != nil && end.Cause != "":
		end.Result, request = stoppedBeforeStart(end.Cause), nil
	}
	t.settling = true
	a.mu.Unlock()
	if request != nil {
		if request.Args != nil { // a hook replaced them, and the person must see the new ones
			t.call.Args = request.Args
		}
		a.awaitApproval(t, bindApproval(*request.Approval, a.snapshot(t), t.call))
		return
	}
	a.settle(t, verdictOf(t.call.ID, t.startedAt, end))
}

// awaitApproval makes a task wait for an approval. A cancel or an interrupt that came meanwhile
// ends the task.
func (a *Async) awaitApproval(t *task, approval perdure.Approval) {
	s := a.snapshot(t)
	s.State = perdure.TaskAwaitingInput
	r := Resolution{Task: t.id, Approval: &PendingApproval{Task: t.id, Call: t.call, Approval: approval}}
	recorded := a.record(s, r)

	a.mu.Lock()
	defer a.mu.Unlock()
	t.settling = false
	if !recorded {
		a.abandon(t)
		return
	}
	t.state, t.approval, t.approvalRequested = perdure.TaskAwaitingInput, &approval, true
	a.detachContext(t)
	switch {
	case t.canceled != nil:
		a.settleNotStarted(t, End{Result: stoppedBeforeStart(perdure.CauseCanceled)})
		return
	case t.interrupted:
		a.settleNotStarted(t, End{Result: stoppedBeforeStart(perdure.CauseInterrupt)})
		return
	case t.lane == perdure.Foreground:
		turn := a.turnOf(t.call.Turn)
		turn.updates = append(turn.updates, Update{Resolution: &r})
	case t.delivery == perdure.ToLoop:
		a.pending = append(a.pending, pendingResolution{r, t.call.Session})
	}
	a.publish(Event{Kind: EventApprovalRequired, Task: t.snapshot(), Approval: &approval})
	a.notify(t)
}

// settleNotStarted ends a task that is not running. If the journal accepts the end at once it
// happens here, otherwise in a goroutine that retries. The caller holds mu, which is released
// meanwhile.
func (a *Async) settleNotStarted(t *task, end End) {
	t.settling = true
	a.queue = slices.DeleteFunc(a.queue, func(q *task) bool { return q == t })
	v := verdictOf(t.call.ID, time.Now(), end)
	s := t.snapshot()
	s.State = v.state
	a.mu.Unlock()
	recorded := a.recordOnce(s, newItem(s, v.result))
	a.mu.Lock()
	switch {
	case recorded:
		a.finish(t, v)
	case a.closed:
		a.abandon(t)
	default:
		a.group.Go(func() { a.settle(t, v) })
	}
}

// settle ends a task: first in the journal, then for all waiters.
func (a *Async) settle(t *task, v verdict) {
	if v.err != nil {
		a.log.Error("internal tool error", "task", t.id, "tool", t.call.Tool, "session", t.call.Session,
			"call", t.call.ID, "error", tool.Chain(v.err))
	}
	s := a.snapshot(t)
	s.State = v.state
	recorded := a.record(s, newItem(s, v.result))
	a.mu.Lock()
	defer a.mu.Unlock()
	if !recorded {
		a.abandon(t)
		return
	}
	a.finish(t, v)
}

// finish ends a task: state, result, event and the receiver of the result change under one lock.
// The caller holds mu.
func (a *Async) finish(t *task, v verdict) {
	lane := t.lane
	t.state, t.result, t.approval = v.state, &v.result, nil
	a.detachContext(t)
	delete(a.live, t.id)
	s := t.snapshot()
	r := newItem(s, v.result)
	a.withdrawQuestion(t)
	a.publish(Event{Kind: v.kind(), Task: s, Result: &v.result})
	switch {
	case t.forgotten:
	case lane == perdure.Foreground:
		turn := a.turnOf(t.call.Turn)
		turn.updates = append(turn.updates, Update{Resolution: &r})
	case t.delivery == perdure.Manual:
		a.ready = append(a.ready, readyItem{*r.Item, t.call.Session})
	default:
		a.pending = append(a.pending, pendingResolution{r, t.call.Session})
		if t.wake == perdure.WakeContinue && !a.continueRequested[t.call.Session] { // one request for several results
			a.continueRequested[t.call.Session] = true
			a.publish(Event{Kind: EventContinueRequested, Task: s})
		}
	}
	a.retire(t)
	a.notify(t)
}

// retire keeps an ended task for look-ups and removes the oldest ones. The caller holds mu.
func (a *Async) retire(t *task) {
	a.leaveTurn(t)
	if t.forgotten {
		delete(a.tasks, t.id)
		return
	}
	a.ended = append(a.ended, t.id)
	for len(a.ended) > a.cfg.MaxEnded {
		delete(a.tasks, a.ended[0])
		a.ended = a.ended[1:]
	}
}

// withdrawQuestion removes a question that nobody has read yet, because it is closed. The caller
// holds mu.
func (a *Async) withdrawQuestion(t *task) {
	if !t.approvalRequested {
		return // usually there is nothing to search for
	}
	if turn := a.turns[t.call.Turn]; turn != nil {
		turn.updates = slices.DeleteFunc(turn.updates, func(u Update) bool {
			return u.Resolution != nil && u.Resolution.Approval != nil && u.Resolution.Task == t.id
		})
	}
	a.pending = slices.DeleteFunc(a.pending, func(p pendingResolution) bool { return p.Approval != nil && p.Task == t.id })
}

// abandon leaves a task as it is; nothing waits for it any more. The caller holds mu.
func (a *Async) abandon(t *task) {
	a.detachContext(t)
	delete(a.live, t.id)
	a.leaveTurn(t)
	a.notify(t)
}
