package dispatch

import (
	"context"
	"slices"

	"github.com/perdure/perdure"
)

// snapshot is the task as it stands.
func (a *Async) snapshot(t *task) Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := t.snapshot()
	if t.state == "" || t.begins { // what it is about to be
		s.State, s.Lane = perdure.TaskRunning, t.next.Lane
	}
	return s
}

// find returns a task that has been told of. The empty session may see all. mu is held.
func (a *Async) find(id perdure.TaskID, session perdure.SessionID) (*task, error) {
	t := a.tasks[id]
	if t == nil || t.state == "" || session != "" && t.call.Session != session {
		return nil, &TaskNotFound{Task: id}
	}
	return t, nil
}

// join makes a task one that lives. mu is held.
func (a *Async) join(t *task) {
	a.live[t.id] = t
	if t.lane == perdure.Foreground {
		turn := a.turnOf(t.call.Turn)
		turn.calls = append(turn.calls, t)
	}
}

// turnOf returns what is known of a turn. mu is held.
func (a *Async) turnOf(id perdure.TurnID) *turn {
	t := a.turns[id]
	if t == nil {
		t = &turn{}
		a.turns[id] = t
	}
	return t
}

// leaveTurn lets the turn of a task wait for it no longer. mu is held.
func (a *Async) leaveTurn(t *task) {
	a.unlink(t)
	if turn := a.turns[t.call.Turn]; turn != nil {
		turn.calls = slices.DeleteFunc(turn.calls, func(other *task) bool { return other == t })
		a.wake(&turn.changed)
		a.pruneTurn(t.call.Turn)
	}
}

// pruneTurn forgets a turn that has nothing more to say. mu is held.
func (a *Async) pruneTurn(id perdure.TurnID) {
	if t := a.turns[id]; t != nil && len(t.calls) == 0 && len(t.updates) == 0 {
		a.wake(&t.changed)
		delete(a.turns, id)
	}
}

// unlink cuts a task from the context of who started it (LN9). mu is held.
func (a *Async) unlink(t *task) {
	if t.unlink != nil {
		t.unlink()
		t.unlink = nil
	}
}

// publish tells the subscribers. mu is held.
func (a *Async) publish(e Event) {
	a.events.add(e)
	a.wake(&a.changed)
}

// notify wakes who waits for a task, its turn, or anything. mu is held.
func (a *Async) notify(t *task) {
	if turn := a.turns[t.call.Turn]; turn != nil {
		a.wake(&turn.changed)
	}
	a.wake(&a.changed)
}

// wake lets go who waits on a channel. mu is held.
func (a *Async) wake(changed *chan struct{}) {
	if *changed != nil {
		close(*changed)
		*changed = nil
	}
}

// await waits for a change or the end of ctx. The channel is taken under mu, which is held before and after, so that no
// change in between is missed (LN12).
func (a *Async) await(ctx context.Context, changed *chan struct{}) {
	if *changed == nil {
		*changed = make(chan struct{})
	}
	wait := *changed
	a.mu.Unlock()
	select {
	case <-wait:
	case <-ctx.Done():
	}
	a.mu.Lock()
}
