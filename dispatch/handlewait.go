package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// WaitFor names tasks to wait for.
type WaitFor struct {
	Tasks []perdure.TaskID
	All   bool          // false: for the first one
	For   time.Duration // 0: as long as ctx lives
}

// Waited is how tasks stood when a wait was over.
type Waited struct {
	Tasks []Snapshot       // in the order of WaitFor
	Due   []perdure.TaskID // those that have ended or wait for a person; empty: the time was over
}

// Wait returns when tasks have ended or wait for a person, or when the time is over, which is no error. perdure.NotFound: one
// of them is not there. It holds no place and no lock.
func (h Handle) Wait(ctx context.Context, w WaitFor) (Waited, error) {
	if h.a == nil {
		for _, id := range w.Tasks {
			return Waited{}, &TaskNotFound{Task: id}
		}
		return Waited{}, nil
	}
	if w.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.For)
		defer cancel()
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	tasks := make([]*task, len(w.Tasks)) // kept: what has ended may be forgotten meanwhile
	for i, id := range w.Tasks {
		t, err := h.a.find(id, h.session)
		if err != nil {
			return Waited{}, err
		}
		tasks[i] = t
	}
	for {
		var said Waited
		for _, t := range tasks {
			said.Tasks = append(said.Tasks, t.snapshot())
			if t.state.Terminal() || t.open() {
				said.Due = append(said.Due, t.id)
			}
		}
		if len(said.Due) == len(tasks) || !w.All && len(said.Due) > 0 || h.a.closed || ctx.Err() != nil {
			return said, nil
		}
		h.a.await(ctx, &h.a.changed)
	}
}

// Wait returns how a task ended, as soon as it has, whether or not its result was taken; what a turn or a loop is told of it stays
// to be taken. It holds no slot and no lock. Safe for concurrent use.
//
// NotFound: no such task, or it is not kept any more. Conflict: it waits for a person, and the item says which call that is. The
// error is that of ctx when ctx ends first, and Unavailable when the dispatcher is shut down first.
func (a *Async) Wait(ctx context.Context, id perdure.TaskID) (Item, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, err := a.find(id, "") // it stays in hand when it is forgotten
	if err != nil {
		return Item{}, err
	}
	for {
		switch {
		case t.result != nil:
			return t.item(), nil
		case t.open():
			return t.item(), fmt.Errorf("wait for task %s: %w: it waits for a person to answer approval %s", id, perdure.Conflict, t.approval.ID)
		case a.closed:
			return t.item(), fmt.Errorf("wait for task %s: %w: shut down", id, perdure.Unavailable)
		case ctx.Err() != nil:
			return t.item(), context.Cause(ctx)
		}
		a.await(ctx, &a.changed)
	}
}

// WaitIdle returns when no task is queued, running or being stopped; every result can be taken by then. The error is that
// of ctx, or perdure.Unavailable: it was shut down.
func (h Handle) WaitIdle(ctx context.Context) error {
	return h.waitUntil(ctx, func() bool { return !h.any((*task).busy) })
}

// WaitQuiet is WaitIdle until nothing waits for a person either, and every late result was taken.
func (h Handle) WaitQuiet(ctx context.Context) error {
	return h.waitUntil(ctx, func() bool {
		mine := func(session perdure.SessionID) bool { return h.session == "" || session == h.session }
		return !h.any(func(t *task) bool { return t.busy() || t.open() }) &&
			!slices.ContainsFunc(h.a.pending, func(p late) bool { return mine(p.session) }) &&
			!slices.ContainsFunc(h.a.ready, func(i lateItem) bool { return mine(i.session) })
	})
}

// any reports whether a live task of the handle is of this kind. The dispatcher's mu is held.
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

// Forget drops a session: its live tasks are cancelled, in every lane, and nothing of it can be looked up or taken any more.
// What still has to stop does so, and its end is told as an event only.
func (h Handle) Forget(session perdure.SessionID, by, why string) {
	if h.a == nil || h.session != "" && h.session != session {
		return
	}
	for _, s := range h.Of(session).ListRunning() {
		if _, err := h.Cancel(s.Task, by, why); err != nil {
			h.a.log.Warn("a task of a session that goes was not cancelled", "task", s.Task, "session", session, "error", err)
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
	a.pending = slices.DeleteFunc(a.pending, func(p late) bool { return p.session == session })
	a.ready = slices.DeleteFunc(a.ready, func(i lateItem) bool { return i.session == session })
	delete(a.asksFor, session)
	a.wake(&a.changed)
}
