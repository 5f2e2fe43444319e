package store

import (
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// SpawnState is how far a spawn handle has come.
type SpawnState string

// The states of a spawn handle. It never goes back.
const (
	SpawnPending SpawnState = "pending" // claimed; no child is registered
	SpawnRunning SpawnState = "running" // its child works
	SpawnSettled SpawnState = "settled" // the child's outcome is recorded
)

// Valid reports whether s is a state of a handle.
func (s SpawnState) Valid() bool { return s.Live() || s == SpawnSettled }

// Live reports whether the handle takes one of its tree's places (SA5).
func (s SpawnState) Live() bool { return s == SpawnPending || s == SpawnRunning }

// Spawn is the handle of one subagent, unique by the call that asks for it (SA2). It lives as long as the parent's
// journal: a task that is pruned leaves it behind.
type Spawn struct {
	Key       perdure.CallKey   // of the call in the parent
	Root      perdure.SessionID // of the tree; limits count over it (SA5)
	Depth     int               // of the child; a root has 0
	Task      perdure.TaskID    // the parent's record of the child
	Child     perdure.SessionID // registered once; empty: not yet
	Name      string
	Prompt    string          // what the child is asked
	Schema    json.RawMessage // of the result; empty: any
	Token     perdure.Token   // of the claim: every later step is a compare-and-set on it (SA3)
	State     SpawnState
	Repairs   int               // answers that did not match the schema (SA12)
	Status    perdure.TaskState // of the child's end; empty before
	Result    json.RawMessage   // likewise; one of no bytes is none, and read back as nil
	CreatedAt time.Time         // of the claim
	SettledAt time.Time         // zero before the end
}

// SpawnOutcome is what a claim of a handle found.
type SpawnOutcome string

// The outcomes of a claim.
const (
	SpawnClaimed        SpawnOutcome = "claimed"               // it is the caller's: go on and register the child
	SpawnClaimedPending SpawnOutcome = "claimed_pending_child" // another driver claimed it and has registered no child: go on with the stored token
	SpawnAlreadyRunning SpawnOutcome = "already_running"       // there is a child
	SpawnAlreadySettled SpawnOutcome = "already_settled"       // there is an outcome
)

// Judge is what a claim under a token finds in a handle that is there, the same in every store. One that waits for
// its child under the caller's own token is the caller's: the answer of its first commit was lost (LG5).
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

// SpawnCount is how many subagents a tree has.
type SpawnCount struct {
	Live  int // pending or running
	Total int // these and the settled ones
}

// SpawnReader reads spawn handles.
type SpawnReader interface {
	// Spawn returns the handle of a call. NotFound: there is none.
	Spawn(key perdure.CallKey) (Spawn, error)
	// SpawnOf returns the handle under which a child is registered. NotFound: the session is nobody's child by a
	// handle.
	SpawnOf(child perdure.SessionID) (Spawn, error)
	// Spawns lists the handles of a tree in the order of their claims. An empty root lists those of all.
	Spawns(root perdure.SessionID) ([]Spawn, error)
	// CountSpawns counts the handles of a tree, without reading them. An empty root counts those of all. In a
	// transaction the count has what it claimed itself, so limits are decided there (SA4).
	CountSpawns(root perdure.SessionID) (SpawnCount, error)
}

// SpawnWriter writes spawn handles. Every step after the claim is a compare-and-set on the token: one that misses is
// Lost, never a silent success (SA3). A Lost step has changed nothing.
type SpawnWriter interface {
	// ClaimSpawn adds the handle of a call, or reads the one that is there, as one step. The caller fills in Key,
	// Root, Depth, Task, Name, Prompt, Schema and Token; the store sets pending and the moment, and the other fields
	// begin at zero, whatever s says. It returns what it found, by Spawn.Judge, with the handle as it is stored:
	// whoever goes on with a pending one uses the token of that. Invalid: there is no token.
	ClaimSpawn(s Spawn) (SpawnOutcome, Spawn, error)
	// RegisterChild makes the handle running with a child. The same child again does nothing while it runs. Lost: the
	// handle has another token or another child, is settled, or is not there. Conflict: the child is that of another
	// handle. Invalid: there is no child.
	RegisterChild(key perdure.CallKey, token perdure.Token, child perdure.SessionID) error
	// RepairSpawn counts an answer of the child that did not match the schema, and returns how many there are now
	// (SA12). It counts each time: call it in the transaction that records why. Lost: the handle has another token,
	// does not run, or is not there.
	RepairSpawn(key perdure.CallKey, token perdure.Token) (repairs int, err error)
	// SettleSpawn records how the child ended, or that it never began. The same status and the same bytes again do
	// nothing. Lost: the handle has another token or another outcome, or is not there. Invalid: status is no end.
	SettleSpawn(key perdure.CallKey, token perdure.Token, status perdure.TaskState, result json.RawMessage) error
}
