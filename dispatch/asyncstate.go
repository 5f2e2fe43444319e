package dispatch

import (
	"context"
	"slices"

	"github.com/perdure/perdure"
)

// snapshot returns the present state of a task, or the one that it is about to have.
func (a *Async) snapshot(t *task) Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := t.snapshot()
	if t.state == "" || t.starting { // it is about to start
		s.State, s.Lane = perdure.TaskRunning, t.current.Lane
	}
	return s
}

// find returns a task that was already published. The empty session finds all tasks. The caller
// holds mu.
func (a *Async) find(id perdure.TaskID, session perdure.SessionID) (*task, error) {
	t := a.tasks[id]
	if t == nil || t.state == "" || session != "" && t.call.Session != session {
		return nil, &TaskNotFound{Task: id}
	}
	return t, nil
}

// addLive adds a task to the live ones and to its turn. The caller holds mu.
func (a *Async) addLive(t *task) {
	a.live[t.id] = t
	if t.lane == perdure.Foreground {
		turn := a.turnOf(t.call.Turn)
		turn.calls = append(turn.calls, t)
	}
}

// turnOf returns the state of a turn and creates it if needed. The caller holds mu.
func (a *Async) turnOf(id perdure.TurnID) *turn {
	t := a.turns[id]
	if t == nil {
		t = &turn{}
		a.turns[id] = t
	}
	return t
}

// leaveTurn makes the turn of a task stop waiting for it. The caller holds mu.
func (a *Async) leaveTurn(t *task) {
	a.detachContext(t)
	if turn := a.turns[t.call.Turn]; turn != nil {
		turn.calls = slices.DeleteFunc(turn.calls, func(other *task) bool { return other == t })
		a.wake(&turn.changed)
		a.pruneTurn(t.call.Turn)
	}
}

// pruneTurn removes a turn without calls and updates. The caller holds mu.
func (a *Async) pruneTurn(id perdure.TurnID) {
	if t := a.turns[id]; t != nil && len(t.calls) == 0 && len(t.updates) == 0 {
		a.wake(&t.changed)
		delete(a.turns, id)
	}
}

// detachContext separates a task from the context of its caller. The caller holds mu.
func (a *Async) detachContext(t *task) {
	if t.stopLink != nil {
		t.stopLink()
		t.stopLink = nil
	}
}

// publish adds an event for the subscribers. The caller holds mu.
func (a *Async) publish(e Event) {
	a.events.add(e)
	a.wake(&a.changed)
}

// notify wakes the waiters for a task, its turn, or any change. The caller holds mu.
func (a *Async) notify(t *task) {
	if turn := a.turns[t.call.Turn]; turn != nil {
		a.wake(&turn.changed)
	}
	a.wake(&a.changed)
}

// wake wakes the goroutines that wait on a channel. The caller holds mu.
func (a *Async) wake(changed *chan struct{}) {
	if *changed != nil {
		close(*changed)
		*changed = nil
	}
}

// await waits for a change or for the end of ctx. The caller holds mu before and after, but not
// during the wait. The channel is read under mu, so that no change is missed between reading and
// waiting.
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
