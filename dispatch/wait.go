package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// WaitOptions says which tasks to wait for.
type WaitOptions struct {
	Tasks   []perdure.TaskID
	All     bool          // wait for all of them; false: for the first one
	Timeout time.Duration // 0: until ctx ends
}

// WaitResult is the state of the tasks at the end of a wait.
type WaitResult struct {
	Tasks []Snapshot       // in the order of WaitOptions
	Ready []perdure.TaskID // tasks that have ended or wait for a person; empty: the wait timed out
}

// Wait returns when tasks have ended or wait for a person, or when the time is over, which is not
// an error. perdure.NotFound: one of the tasks does not exist. A waiter holds no slot and no lock.
func (h Handle) Wait(ctx context.Context, w WaitOptions) (WaitResult, error) {
	if h.a == nil {
		for _, id := range w.Tasks {
			return WaitResult{}, &TaskNotFound{Task: id}
		}
		return WaitResult{}, nil
	}
	if w.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Timeout)
		defer cancel()
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	tasks := make([]*task, len(w.Tasks)) // the tasks themselves, because ended ones can be forgotten meanwhile
	for i, id := range w.Tasks {
		t, err := h.a.find(id, h.session)
		if err != nil {
			return WaitResult{}, err
		}
		tasks[i] = t
	}
	for {
		var result WaitResult
		for _, t := range tasks {
			result.Tasks = append(result.Tasks, t.snapshot())
			if t.state.Terminal() || t.awaitsApproval() {
				result.Ready = append(result.Ready, t.id)
			}
		}
		if len(result.Ready) == len(tasks) || !w.All && len(result.Ready) > 0 || h.a.closed || ctx.Err() != nil {
			return result, nil
		}
		h.a.await(ctx, &h.a.changed)
	}
}

// Wait returns how a task ended, as soon as it has, even if its result was already taken. The
// updates and pending results for the task stay available. A waiter holds no slot and no lock. Safe
// for concurrent use.
//
// NotFound: the task does not exist or is no longer stored. Conflict: it waits for a person, and
// the item says for which call. If ctx ends first, the error is its cause; if the dispatcher is
// shut down first, it is Unavailable.
func (a *Async) Wait(ctx context.Context, id perdure.TaskID) (Item, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, err := a.find(id, "") // the pointer stays valid if the task is forgotten
	if err != nil {
		return Item{}, err
	}
	for {
		switch {
		case t.result != nil:
			return t.item(), nil
		case t.awaitsApproval():
			return t.item(), fmt.Errorf("wait for task %s: %w: it waits for a decision about approval %s",
				id, perdure.Conflict, t.approval.ID)
		case a.closed:
			return t.item(), fmt.Errorf("wait for task %s: %w: shut down", id, perdure.Unavailable)
		case ctx.Err() != nil:
			return t.item(), context.Cause(ctx)
		}
		a.await(ctx, &a.changed)
	}
}

// WaitIdle returns when no task is queued, running or being stopped. By then every result is
// available. The error is the cause of ctx, or perdure.Unavailable after a shutdown.
func (h Handle) WaitIdle(ctx context.Context) error {
	return h.waitUntil(ctx, func() bool { return !h.any((*task).busy) })
}

// WaitQuiet is WaitIdle, and also waits until no approval is open and every late result was taken.
func (h Handle) WaitQuiet(ctx context.Context) error {
	return h.waitUntil(ctx, func() bool {
		visible := func(session perdure.SessionID) bool { return h.session == "" || session == h.session }
		return !h.any(func(t *task) bool { return t.busy() || t.awaitsApproval() }) &&
			!slices.ContainsFunc(h.a.pending, func(p pendingResolution) bool { return visible(p.session) }) &&
			!slices.ContainsFunc(h.a.ready, func(i readyItem) bool { return visible(i.session) })
	})
}

// any reports whether which is true for a live task of the handle. The caller holds the
// dispatcher's mu.
func (h Handle) any(which func(*task) bool) bool {
	for _, t := range h.a.live {
		if (h.session == "" || t.call.Session == h.session) && which(t) {
			return true
		}
	}
	return false
}

func (h Handle) waitUntil(ctx context.Context, reached func() bool) error {
	if h.a == nil {
		return nil
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	for {
		switch {
		case reached():
			return nil
		case h.a.closed:
			return fmt.Errorf("wait: %w: shut down", perdure.Unavailable)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		h.a.await(ctx, &h.a.changed)
	}
}

// Forget removes a session: its live tasks are canceled in every lane, and its results can no
// longer be looked up or taken. Work that is still stopping reports its end only as an event.
func (h Handle) Forget(session perdure.SessionID, by, why string) {
	if h.a == nil || h.session != "" && h.session != session {
		return
	}
	for _, s := range h.Of(session).ListRunning() {
		if _, err := h.Cancel(s.Task, by, why); err != nil {
			h.a.log.Warn("task of a forgotten session not canceled", "task", s.Task, "session", session, "error", err)
		}
	}
	a := h.a
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range a.tasks {
		if t.call.Session != session {
			continue
		}
		t.forgotten = true
		if turn := a.turns[t.call.Turn]; turn != nil {
			turn.updates = nil
			a.pruneTurn(t.call.Turn)
		}
		if t.state.Terminal() {
			delete(a.tasks, id)
		}
	}
	a.ended = slices.DeleteFunc(a.ended, func(id perdure.TaskID) bool { return a.tasks[id] == nil })
	a.pending = slices.DeleteFunc(a.pending, func(p pendingResolution) bool { return p.session == session })
	a.ready = slices.DeleteFunc(a.ready, func(i readyItem) bool { return i.session == session })
	delete(a.continueRequested, session)
	a.wake(&a.changed)
}
