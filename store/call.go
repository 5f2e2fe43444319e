package store

import "github.com/perdure/perdure"

// CallFilter narrows a list of calls. The zero value lists all of them.
type CallFilter struct {
	Session perdure.SessionID // empty: every session
	State   perdure.CallState // empty: every state
	// InDoubt narrows the list to calls of Session without an outcome of their own: those that run, that are unknown, and those
	// whose outcome is an operator's word. It needs Session, and goes with no State.
	InDoubt bool
}

// CallReader reads the effect ledger.
type CallReader interface {
	// Call returns a row. NotFound: it was never claimed.
	Call(key perdure.CallKey) (perdure.Call, error)
	// Calls lists rows in the order of their first claim.
	Calls(filter CallFilter) ([]perdure.Call, error)
}

// CallWriter writes the effect ledger (chapter 5).
type CallWriter interface {
	// Claim inserts the row or reads the one that is there, in one atomic step (LG2). The caller fills
	// Key, Tool, Args, Fingerprint, Class, Token, Worker and, as they apply, Turn, Task, Attempt, Epoch;
	// the store sets state running, Executions 1 and ClaimedAt. It returns what it found and the row as
	// stored. Only Claimed lets the call run. Claiming again with the stored token is Claimed (LG5). Invalid: without a token.
	// A claim found running is a conflict while ownerLive says that its worker lives.
	Claim(call perdure.Call, ownerLive func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error)
	// TakeCall gives a running row to a new owner: a compare-and-set on old.Token and state running.
	// The new row is next, whose Token, Worker, Epoch, Attempt, Task and Executions are stored and nothing else.
	// Lost: somebody was faster, or there is no such row. Invalid: next has no token.
	TakeCall(old perdure.Call, next perdure.Call) error
	// BindCall gives a running row to a task: it stores task and attempt and nothing else, so the row runs on
	// under the same token (LN7). Binding again the same way does nothing, and another way replaces what was
	// bound. Lost: the row is settled or unknown, another token owns it, or there is no such row.
	BindCall(key perdure.CallKey, token perdure.Token, task perdure.TaskID, attempt int) error
	// Settle records the one outcome: a compare-and-set on token and state running (LG7). Unknown rows
	// are made by Settle with state unknown. Lost: token no longer owns a running row; write nothing more.
	// Settling again with the same token and the same result does nothing. The caller fences the epoch
	// with LockSession while the lane is foreground. NotFound: it was never claimed. Invalid: state is neither
	// settled nor unknown, or the result cannot be written as JSON. RawOutput of the result is not stored.
	Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState, result perdure.ToolResult) error
	// ResolveCall leaves the state unknown: to settled with a result, or, for a rerun, to running under
	// next's Token, Worker and Executions, without its result. by is who said so. Conflict: the row is not
	// unknown. NotFound: it was never claimed. Invalid: another state, settled without a result, or running without a token.
	ResolveCall(next perdure.Call, by string) error
}
