package store

import "github.com/perdure/perdure"

// ApprovalFilter narrows a list of approvals. The zero value lists all of them.
type ApprovalFilter struct {
	Session perdure.SessionID     // empty: every session
	State   perdure.ApprovalState // empty: every state
	Call    perdure.CallID        // empty: every call
	Limit   int                   // 0: no limit
}

// ApprovalReader reads the questions to a person whether a call may run.
type ApprovalReader interface {
	// Approval returns the record. NotFound: no such approval, in whatever session.
	Approval(id perdure.ApprovalID) (perdure.Approval, error)
	// Approvals lists records in the order in which they were requested, which is that of their first
	// PutApproval. Invalid: the filter names a state that is none.
	Approvals(filter ApprovalFilter) ([]perdure.Approval, error)
}

// ApprovalWriter writes approvals (AP3).
type ApprovalWriter interface {
	// PutApproval adds a record, or overwrites the one that has its id, which keeps its place. It judges no
	// step from state to state: who closes an approval reads it first in the same transaction, so that the
	// first answer wins (AP8, AP9). Moments are cut to microseconds. Invalid: its state is none, or it cannot
	// be written as JSON. Conflict: its id belongs to another session or call, and was left as it is.
	PutApproval(a perdure.Approval) error
}
