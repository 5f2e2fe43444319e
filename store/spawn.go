package store

import (
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// SpawnState is the state of a spawn handle.
type SpawnState string

// The states of a spawn handle, in the order in which it passes through them.
const (
	SpawnPending SpawnState = "pending" // claimed; no child is registered
	SpawnRunning SpawnState = "running" // its child runs
	SpawnSettled SpawnState = "settled" // the child's outcome is recorded
)

// Valid reports whether s is a state of a handle.
func (s SpawnState) Valid() bool { return s.Live() || s == SpawnSettled }

// Live reports whether the handle counts against the live limit of its tree.
func (s SpawnState) Live() bool { return s == SpawnPending || s == SpawnRunning }

// Spawn is the handle of one subagent, unique for the call that requests it. It exists as long as
// the parent's journal, even after its task is pruned.
type Spawn struct {
	Key       perdure.CallKey   // of the call in the parent
	Root      perdure.SessionID // of the tree; limits count over it
	Depth     int               // of the child; a root has 0
	Task      perdure.TaskID    // the task in the parent session
	Child     perdure.SessionID // registered once; empty: not yet
	Name      string
	Prompt    string          // first message of the child
	Schema    json.RawMessage // of the result; empty: any
	Token     perdure.Token   // of the claim: every later step is a compare-and-set on it
	State     SpawnState
	Repairs   int               // answers that did not match the schema
	Status    perdure.TaskState // how the child ended; empty before
	Result    json.RawMessage   // of the child; nil and empty are the same, and read back as nil
	CreatedAt time.Time         // of the claim
	SettledAt time.Time         // zero: not yet
}

// SpawnOutcome is the result of a claim.
type SpawnOutcome string

// The outcomes of a claim.
const (
	SpawnClaimed SpawnOutcome = "claimed" // the caller owns it: register the child
	// SpawnClaimedPending: another driver claimed it and registered no child. Continue with the
	// stored token.
	SpawnClaimedPending SpawnOutcome = "claimed_pending_child"
	SpawnAlreadyRunning SpawnOutcome = "already_running" // a child is registered
	SpawnAlreadySettled SpawnOutcome = "already_settled" // an outcome is recorded
)

// Judge returns the result of a claim with a token on an existing handle, the same in every store.
// A pending handle with the caller's own token belongs to the caller: the answer of its first
// commit was lost.
func (s Spawn) Judge(token perdure.Token) SpawnOutcome {
	switch {
	case s.State == SpawnSettled:
		return SpawnAlreadySettled
	case s.State == SpawnRunning:
		return SpawnAlreadyRunning
	case s.Token == token:
		return SpawnClaimed
	}
	return SpawnClaimedPending
}

// SpawnCount counts the subagents of a tree.
type SpawnCount struct {
	Live  int // pending or running
	Total int // including settled ones
}

// SpawnReader reads spawn handles.
type SpawnReader interface {
	// Get returns the handle of a call. NotFound: there is none.
	Get(key perdure.CallKey) (Spawn, error)
	// OfChild returns the handle of a child. NotFound: the session is not the child of any handle.
	OfChild(child perdure.SessionID) (Spawn, error)
	// List lists the handles of a tree in the order of their claims. An empty root lists all.
	List(root perdure.SessionID) ([]Spawn, error)
	// Count counts the handles of a tree, without reading them. An empty root counts all. The
	// count includes the claims of the transaction itself, so that limits can be checked against
	// it.
	Count(root perdure.SessionID) (SpawnCount, error)
}

// SpawnWriter writes spawn handles. Every step after the claim is a compare-and-set on the token. A
// step that misses is Lost, never a silent success, and has changed nothing.
type SpawnWriter interface {
	// Claim adds the handle of a call, or reads the existing one, in one step. The caller
	// fills in Key, Root, Depth, Task, Name, Prompt, Schema and Token; the store sets state pending
	// and the time, and the other fields start at zero. It returns what it found, by Spawn.Judge,
	// and the handle as stored. A caller that continues with a pending handle uses the stored
	// token. Invalid: there is no token.
	Claim(s Spawn) (SpawnOutcome, Spawn, error)
	// RegisterChild makes the handle running with a child. The same child again does nothing while
	// it runs. Lost: the handle has another token or another child, is settled, or does not exist.
	// Conflict: the child belongs to another handle. Invalid: there is no child.
	RegisterChild(key perdure.CallKey, token perdure.Token, child perdure.SessionID) error
	// Repair counts an answer of the child that did not match the schema, and returns the
	// count. Every call counts: call it in the transaction that records why. Lost: the handle has
	// another token, is not running, or does not exist.
	Repair(key perdure.CallKey, token perdure.Token) (repairs int, err error)
	// Settle records how the child ended, or that it never started. The same status and result
	// again do nothing. Lost: the handle has another token or another outcome, or does not exist.
	// Invalid: status is not terminal.
	Settle(key perdure.CallKey, token perdure.Token, status perdure.TaskState, result json.RawMessage) error
}
