package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// detach decides whether a call leaves the foreground. The runner asks it, never at the same time as it tells the end.
func (a *Async) detach(t *task) bool {
	a.mu.Lock()
	if a.closed || t.settling {
		a.mu.Unlock()
		return false
	}
	if err := a.mayLeave(t.call.Session); err != nil {
		a.stay(t, err)
		a.mu.Unlock()
		return false
	}
	t.leaving = true
	d := Detached{Snapshot: t.snapshot(), Placeholder: a.placeholder(t)}
	d.Lane = perdure.Background
	a.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	err := a.cfg.Journal.Detached(ctx, d)
	cancel()

	a.mu.Lock()
	defer a.mu.Unlock()
	t.leaving = false
	if err != nil {
		a.stay(t, err)
		return false
	}
	a.log.Warn("a call left the foreground", "task", t.id, "tool", t.call.Tool, "budget", t.next.Soft, "session", t.call.Session, "call", t.call.ID,
		"args_bytes", len(t.call.Args))
	t.interrupted = false
	a.leaveTurn(t)
	t.lane, t.since = perdure.Background, a.order()
	turn := a.turnOf(t.call.Turn)
	turn.updates = append(turn.updates, Update{Detached: &d})
	a.publish(Event{Kind: EventDetached, Task: d.Snapshot, Result: &d.Placeholder})
	a.notify(t)
	if !a.closed {
		a.group.Go(func() { a.evict(t.call.Session) }) // the runner waits for the answer
	}
	return true
}

// stay tells why a call stays in the foreground for now: once for each reason, since it is asked again every second. mu is held.
func (a *Async) stay(t *task, why error) {
	if t.stays == why.Error() {
		return
	}
	t.stays = why.Error()
	a.publish(Event{Kind: EventDetachFailed, Task: t.snapshot(), Why: t.stays})
	a.log.Warn("a call stays in the foreground for now", "task", t.id, "tool", t.call.Tool, "session", t.call.Session, "call", t.call.ID, "error", why)
}

// placeholder is the result of a call that leaves the foreground now. mu is held.
func (a *Async) placeholder(t *task) perdure.ToolResult {
	if t.next.Soft > 0 && time.Since(t.begun) >= t.next.Soft {
		return BudgetPlaceholder(t.call.Tool, t.id, t.next.Soft, t.deadline).Offering(a.cfg.Offers).Result(t.call.ID)
	}
	return RoutedPlaceholder(t.call.Tool, t.id, t.deadline).Offering(a.cfg.Offers).Result(t.call.ID)
}

// returned is told by the runner how an execution ended.
func (a *Async) returned(t *task, end End) {
	a.mu.Lock()
	if receipt := t.canceled; receipt != nil {
		receipt.DeadAt, receipt.DidNotStop = end.ReturnedAt, end.DidNotStop
	}
	asked := t.outcome
	if end.DidNotStop {
		asked = nil
	}
	switch {
	case end.Cause == perdure.CauseShutdown && (end.DidNotStop || asked != nil || !end.Result.IsSuccess()):
		a.abandon(t) // nothing fails because the dispatcher stops (RC11)
		a.mu.Unlock()
		return
	case asked != nil && end.Cause != "":
		end.Result, asked = notEntered(end.Cause), nil
	}
	t.settling = true
	a.mu.Unlock()
	if asked != nil {
		if asked.Args != nil { // a hook replaced them: a person is asked about these
			t.call.Args = asked.Args
		}
		a.ask(t, bound(*asked.Approval, a.snapshot(t), t.call))
		return
	}
	a.settle(t, judge(t.call.ID, t.begun, end))
}

// ask lets a task wait for a person. A cancel or an interrupt that came meanwhile ends it.
func (a *Async) ask(t *task, approval perdure.Approval) {
	s := a.snapshot(t)
	s.State = perdure.TaskAwaitingInput
	r := Resolution{Task: t.id, Asked: &Asked{Task: t.id, Call: t.call, Approval: approval}}
	recorded := a.record(s, r)

	a.mu.Lock()
	defer a.mu.Unlock()
	t.settling = false
	if !recorded {
		a.abandon(t)
		return
	}
	t.state, t.approval, t.wasAsked = perdure.TaskAwaitingInput, &approval, true
	a.unlink(t)
	switch {
	case t.canceled != nil:
		a.settleSoon(t, End{Result: notEntered(perdure.CauseCanceled)})
		return
	case t.interrupted:
		a.settleSoon(t, End{Result: notEntered(perdure.CauseInterrupt)})
		return
	case t.lane == perdure.Foreground:
		turn := a.turnOf(t.call.Turn)
		turn.updates = append(turn.updates, Update{Resolution: &r})
	case t.delivery == perdure.ToLoop:
		a.pending = append(a.pending, late{r, t.call.Session})
	}
	a.publish(Event{Kind: EventApprovalRequired, Task: t.snapshot(), Approval: &approval})
	a.notify(t)
}

// settleSoon ends a task that does not run, here if the journal agrees at once, else in a goroutine. mu is held, and is let
// go meanwhile.
func (a *Async) settleSoon(t *task, end End) {
	t.settling = true
	a.queue = slices.DeleteFunc(a.queue, func(q *task) bool { return q == t })
	v := judge(t.call.ID, time.Now(), end)
	s := t.snapshot()
	s.State = v.state
	a.mu.Unlock()
	recorded := a.recordOnce(s, newItem(s, v.result))
	a.mu.Lock()
	switch {
	case recorded:
		a.commit(t, v)
	case a.closed:
		a.abandon(t)
	default:
		a.group.Go(func() { a.settle(t, v) })
	}
}

// settle ends a task: journal first, then everybody.
func (a *Async) settle(t *task, v verdict) {
	if v.err != nil {
		a.log.Error("a tool failed internally", "task", t.id, "tool", t.call.Tool, "session", t.call.Session, "call", t.call.ID, "error", tool.Chain(v.err))
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
	a.commit(t, v)
}

// commit is the end of a task: state, result, event and who is to get it, under one lock. mu is held.
func (a *Async) commit(t *task, v verdict) {
	lane := t.lane
	t.state, t.result, t.approval = v.state, &v.result, nil
	a.unlink(t)
	delete(a.live, t.id)
	s := t.snapshot()
	r := newItem(s, v.result)
	a.withdraw(t)
	a.publish(Event{Kind: v.kind(), Task: s, Result: &v.result})
	switch {
	case t.forgotten:
	case lane == perdure.Foreground:
		turn := a.turnOf(t.call.Turn)
		turn.updates = append(turn.updates, Update{Resolution: &r})
	case t.delivery == perdure.Manual:
		a.ready = append(a.ready, lateItem{*r.Item, t.call.Session})
	default:
		a.pending = append(a.pending, late{r, t.call.Session})
		if t.wake == perdure.WakeContinue && !a.asksFor[t.call.Session] { // several are one
			a.asksFor[t.call.Session] = true
			a.publish(Event{Kind: EventContinueRequested, Task: s})
		}
	}
	a.retire(t)
	a.notify(t)
}

// retire keeps a task that has ended for look-ups, and lets the oldest go. mu is held.
func (a *Async) retire(t *task) {
	a.leaveTurn(t)
	if t.forgotten {
		delete(a.tasks, t.id)
		return
	}
	a.ended = append(a.ended, t.id)
	for len(a.ended) > a.cfg.Keep {
		delete(a.tasks, a.ended[0])
		a.ended = a.ended[1:]
	}
}

// withdraw takes back a question that nobody has read, since it is closed. mu is held.
func (a *Async) withdraw(t *task) {
	if !t.wasAsked {
		return // so that an end does not cost more the more is pending
	}
	if turn := a.turns[t.call.Turn]; turn != nil {
		turn.updates = slices.DeleteFunc(turn.updates, func(u Update) bool {
			return u.Resolution != nil && u.Resolution.Asked != nil && u.Resolution.Task == t.id
		})
	}
	a.pending = slices.DeleteFunc(a.pending, func(p late) bool { return p.Asked != nil && p.Task == t.id })
}

// abandon leaves a task as it is: nobody waits for it any more. mu is held.
func (a *Async) abandon(t *task) {
	a.unlink(t)
	delete(a.live, t.id)
	a.leaveTurn(t)
	a.notify(t)
}
