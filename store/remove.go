package store

import (
	"fmt"

	"github.com/perdure/perdure"
)

// SessionRemover removes sessions for good.
type SessionRemover interface {
	// Remove removes a session with everything that belongs to it: its journal and snapshot,
	// its calls and approvals, its tasks with their messages, output and deliveries, its files, its
	// checkpoints, its schedules with their fires, its queued webhook deliveries, the handles of
	// its subagents, and whatever else is stored under its id. Other sessions are not changed, so a
	// fork still names the session it was forked from. Answers to requests with an idempotency key
	// stay until they are pruned. The caller removes what is outside of the store, after the
	// commit.
	//
	// NotFound: no such session; removing it again gives the same. Conflict: it is in use or has
	// subagents, as Removable says. Remove the sessions of the subagents first.
	Remove(id perdure.SessionID) error
}

// Ties counts what prevents the removal of a session, in the transaction that removes it.
type Ties struct {
	Calls    int // running
	Tasks    int // live, except monitors, which only represent their schedules
	Children int // sessions of its subagents
}

// Removable checks that a session may be removed, with the same result in every store: nil, or
// Conflict with what to do.
func Removable(s Session, t Ties) error {
	switch {
	case s.Worker != "":
		return fmt.Errorf("%w: worker %s drives it; wait until it is idle, or interrupt its turn", perdure.Conflict,
			s.Worker)
	case t.Calls > 0:
		return fmt.Errorf("%w: %d of its calls are running; wait for them, or interrupt the turn", perdure.Conflict,
			t.Calls)
	case t.Tasks > 0:
		return fmt.Errorf("%w: %d of its tasks have not ended; wait for them, or cancel them", perdure.Conflict,
			t.Tasks)
	case t.Children > 0:
		return fmt.Errorf("%w: it has %d subagents; remove their sessions first", perdure.Conflict, t.Children)
	}
	return nil
}
