package store

import "github.com/perdure/perdure"

// CallFilter narrows a list of calls. The zero value lists all of them.
type CallFilter struct {
	Session perdure.SessionID // empty: every session
	State   perdure.CallState // empty: every state
	// InDoubt selects the calls of Session that have no outcome of their own: running ones, unknown
	// ones, and those that an operator resolved. It requires Session and excludes State.
	InDoubt bool
}

// CallReader reads the effect ledger.
type CallReader interface {
	// Get returns a row. NotFound: it was never claimed.
	Get(key perdure.CallKey) (perdure.Call, error)
	// List lists rows in the order of their first claim.
	List(filter CallFilter) ([]perdure.Call, error)
}

// CallWriter writes the effect ledger.
type CallWriter interface {
	// Claim inserts a row, or reads the existing one, in one atomic step. The caller fills in Key,
	// Tool, Args, Fingerprint, Class, Token and Worker and, if they apply, Turn, Task, Attempt,
	// Home and Epoch; the store sets state running, Executions 1 and ClaimedAt. It returns what it
	// found and the row as stored. Only Claimed allows the call to run. Claiming again with the
	// stored token is Claimed: the answer of the first commit was lost. A running claim is a
	// conflict while ownerLive reports that its worker is alive. Invalid: there is no token.
	Claim(call perdure.Call, ownerLive func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error)
	// TakeOver gives a running row to a new owner, by a compare-and-set on old.Token and state
	// running. Of next it stores Token, Worker, Home, Epoch, Attempt, Task and Executions, and
	// nothing else. Lost: another owner was faster, or there is no such row. Invalid: next has no
	// token.
	TakeOver(old perdure.Call, next perdure.Call) error
	// Bind assigns a running row to a task. It stores task and attempt and nothing else, so the
	// call continues under the same token. Binding again with the same values does nothing; other
	// values replace the earlier ones. Lost: the row is not running, another token owns it, or it
	// does not exist.
	Bind(key perdure.CallKey, token perdure.Token, task perdure.TaskID, attempt int) error
	// Settle records the one outcome, by a compare-and-set on token and state running. A row
	// becomes unknown by Settle with that state. Settling again with the same token and result does
	// nothing. While the call is in the foreground, the caller fences the epoch with Sessions.Lock.
	// RawOutput of the result is not stored. Lost: token does not own a running row; write nothing
	// more. NotFound: the call was never claimed. Invalid: state is neither settled nor unknown, or
	// the result cannot be encoded as JSON.
	Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState, result perdure.ToolResult) error
	// Resolve changes an unknown row: to settled with a result or, for a rerun, to running
	// without a result under next's Token, Worker, Home and Executions. by is who resolved it.
	// Conflict: the row is not unknown. NotFound: it was never claimed. Invalid: another state,
	// settled without a result, or running without a token.
	Resolve(next perdure.Call, by string) error
}
