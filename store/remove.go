package store

import (
	"fmt"

	"github.com/perdure/perdure"
)

// SessionRemover removes sessions for good.
type SessionRemover interface {
	// RemoveSession removes a session with all that belongs to it: its journal and snapshot, its calls, approvals, tasks
	// with their messages, output and deliveries, its files, its checkpoints, its schedules with their fires, what is queued of it for webhooks, the handles of its subagents, and whatever
	// else is stored under its id. Other sessions stay as they are, so a fork goes on saying what it was forked from, and
	// answers to requests with an idempotency key stay until they are pruned. What is kept outside the store is the caller's
	// to remove, after the commit.
	//
	// NotFound: no such session, so removing it again says so. Conflict: it is at work or has subagents, as Removable says,
	// whose sessions are to be removed first.
	RemoveSession(id perdure.SessionID) error
}

// Ties is what may keep a session from being removed, counted in the transaction that removes it.
type Ties struct {
	Calls    int // that run
	Tasks    int // that live, but for monitors, which only stand for their schedules
	Children int // sessions of its subagents
}

// Removable reports why a session may not be removed, the same in every store: nil, or Conflict with what to do.
func Removable(s Session, t Ties) error {
	switch {
	case s.Worker != "":
		return fmt.Errorf("%w: worker %s drives it; wait until it rests, or interrupt its turn", perdure.Conflict, s.Worker)
	case t.Calls > 0:
		return fmt.Errorf("%w: %d of its calls run; wait for them, or interrupt the turn", perdure.Conflict, t.Calls)
	case t.Tasks > 0:
		return fmt.Errorf("%w: %d of its tasks live; wait for them, or cancel them", perdure.Conflict, t.Tasks)
	case t.Children > 0:
		return fmt.Errorf("%w: it has %d subagents; remove their sessions first", perdure.Conflict, t.Children)
	}
	return nil
}
