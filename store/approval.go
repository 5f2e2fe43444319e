package store

import "github.com/perdure/perdure"

// ApprovalFilter narrows a list of approvals. The zero value lists all of them.
type ApprovalFilter struct {
	Session perdure.SessionID     // empty: every session
	State   perdure.ApprovalState // empty: every state
	Call    perdure.CallID        // empty: every call
	Limit   int                   // 0: no limit
}

// ApprovalReader reads approvals.
type ApprovalReader interface {
	// Get returns the record. NotFound: no such approval, in any session.
	Get(id perdure.ApprovalID) (perdure.Approval, error)
	// List lists records in the order in which they were requested, which is that of their
	// first Approvals.Put. Invalid: the filter names an unknown state.
	List(filter ApprovalFilter) ([]perdure.Approval, error)
}

// ApprovalWriter writes approvals.
type ApprovalWriter interface {
	// Put adds a record, or overwrites the one with its id, which keeps its position. It
	// does not check transitions between states: a caller that closes an approval reads it first in
	// the same transaction, so that the first decision wins. Times are truncated to microseconds.
	// Invalid: its state is unknown, or it cannot be encoded as JSON. Conflict: its id belongs to
	// another session or call; nothing is changed.
	Put(a perdure.Approval) error
}
