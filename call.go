package perdure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure/internal/strictjson"
)

// EffectClass says what crash recovery may do with a call that was claimed and never settled. The
// zero value is not a class; [EffectClass.Valid] refuses it.
type EffectClass string

// The effect classes.
const (
	Pure       EffectClass = "pure"         // changes nothing; recovery runs it again
	Idempotent EffectClass = "idempotent"   // one key has one effect; recovery runs it again
	AtMostOnce EffectClass = "at_most_once" // recovery never runs it again; its outcome is unknown
)

// Valid reports whether c is one of the three classes.
func (c EffectClass) Valid() bool { return c == Pure || c == Idempotent || c == AtMostOnce }

// Repeatable reports whether crash recovery may run a call of this class again.
func (c EffectClass) Repeatable() bool { return c == Pure || c == Idempotent }

// Stricter returns the stricter of two classes. An unset class counts as at_most_once, so that a
// missing declaration never loosens a claim.
func (c EffectClass) Stricter(other EffectClass) EffectClass {
	if c == Pure && other == Pure {
		return Pure
	}
	if c.Repeatable() && other.Repeatable() {
		return Idempotent
	}
	return AtMostOnce
}

// Lane says whether the turn waits for a call. It changes at most once, from foreground to
// background.
type Lane string

// The lanes.
const (
	Foreground Lane = "foreground" // the turn waits for the call
	Background Lane = "background" // the turn does not wait
)

// Token proves the ownership of one claim: 128 random bits in hex, made by the worker that claims.
type Token string

// CallState is the state of a call's row in the effect ledger.
type CallState string

// The states of a ledger row.
const (
	CallRunning CallState = "running" // claimed and not settled
	CallSettled CallState = "settled" // has its result
	CallUnknown CallState = "unknown" // the effect may or may not have happened; an operator resolves it
)

// Call is the row of a call in the effect ledger. A background run that the model spawned has a row
// of its own, with its run id as the call id.
type Call struct {
	Key         CallKey         `json:"key"`
	Turn        TurnID          `json:"turn_id,omitempty"`
	Task        TaskID          `json:"task_id,omitempty"` // set if a task carries the call
	Attempt     int             `json:"attempt,omitempty"` // the task's attempt, if a task carries the call
	Tool        string          `json:"tool"`
	Args        json.RawMessage `json:"args"` // as executed, after hooks and approvals changed them
	Fingerprint string          `json:"fingerprint"`
	Class       EffectClass     `json:"effect_class"` // fixed by the claim, even if the tool's class changes later
	State       CallState       `json:"state"`
	Token       Token           `json:"-"`
	Worker      WorkerID        `json:"worker_id"`
	Home        HomeID          `json:"home_id,omitempty"` // where the remains of its last execution are; empty: it leaves none
	Epoch       int64           `json:"epoch"`             // of the driver at the claim; 0 for a task
	Executions  int             `json:"executions"`        // starts so far, from 1; adopting a process does not count
	Result      *ToolResult     `json:"result,omitempty"`
	ResolvedBy  string          `json:"resolved_by,omitempty"`
	ClaimedAt   time.Time       `json:"claimed_at"`
	SettledAt   time.Time       `json:"settled_at,omitzero"`
}

// ClaimOutcome is the result of a claim.
type ClaimOutcome string

// The outcomes of a claim. A call may run only after Claimed, or after the caller took it over.
const (
	Claimed              ClaimOutcome = "claimed"
	AlreadySettled       ClaimOutcome = "already_settled"       // use the stored result; run nothing
	AlreadyUnknown       ClaimOutcome = "already_unknown"       // use the unknown result; run nothing
	ClaimConflict        ClaimOutcome = "conflict"              // a live worker owns it
	ClaimAbandoned       ClaimOutcome = "abandoned"             // its worker is dead; it can be taken over
	DeterminismViolation ClaimOutcome = "determinism_violation" // the row has the same call id but other content
)

// DecideClaim returns the outcome of a claim that found the given row; nil means no row. ownerLive
// says whether the row's worker is alive. A row with the token of this claim is the caller's own:
// the answer of its first commit was lost.
func DecideClaim(found *Call, wanted Call, ownerLive bool) ClaimOutcome {
	switch {
	case found == nil:
		return Claimed
	case found.Fingerprint != wanted.Fingerprint:
		return DeterminismViolation
	case found.State == CallSettled:
		return AlreadySettled
	case found.State == CallUnknown:
		return AlreadyUnknown
	case found.Token != "" && found.Token == wanted.Token:
		return Claimed
	case ownerLive:
		return ClaimConflict
	default:
		return ClaimAbandoned
	}
}

// BlocksRepeat reports whether the row prevents another call with the same content in the session,
// unless the caller declares that it wants a new effect. That is so while it is undecided whether
// this call took effect: its outcome is unknown, an operator lets it run again, or its worker is
// dead and crash recovery has not handled it yet. ownerLive says whether the row's worker is alive.
func (c Call) BlocksRepeat(ownerLive bool) bool {
	switch {
	case c.Class == Pure:
		return false
	case c.State == CallUnknown:
		return true
	case c.State == CallRunning && c.ResolvedBy != "":
		return true
	}
	return c.State == CallRunning && !c.Class.Repeatable() && !ownerLive
}

// Fingerprint identifies the content of a call: sha256 over the canonical JSON of [tool,
// arguments]. Arguments that are not valid JSON are Invalid.
func Fingerprint(tool string, args json.RawMessage) (string, error) {
	canonical, err := strictjson.Canonical(args)
	if err != nil {
		return "", fmt.Errorf("fingerprint %s: %w", tool, invalidJSON(err))
	}
	name, err := json.Marshal(tool)
	if err != nil {
		return "", fmt.Errorf("fingerprint %s: %w", tool, err)
	}
	text := append([]byte{'['}, name...)
	text = append(append(append(text, ','), canonical...), ']')
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// ExecutionRemains is what crash recovery finds of an execution whose engine has died.
type ExecutionRemains string

// The possible findings. The zero value is for tools that leave nothing to inspect.
const (
	RemainsNone      ExecutionRemains = ""          // nothing is known; the effect class decides
	RemainsUnstarted ExecutionRemains = "unstarted" // its start ticket was revoked: it has not started and never will
	RemainsAlive     ExecutionRemains = "alive"     // a supervised process is still running; adopt it
	RemainsEnded     ExecutionRemains = "ended"     // it has an exit record; settle from it
	RemainsElsewhere ExecutionRemains = "elsewhere" // they are at another home, which may come back: only it can judge them
	RemainsUnseen    ExecutionRemains = "unseen"    // they are at another home, which did not come back in time
)

// OrphanedCall is everything that the take-over of a running ledger row depends on.
type OrphanedCall struct {
	StopRequested bool // by a cancel or an interrupt
	Remains       ExecutionRemains
	PastDeadline  bool        // the deadline has passed
	Reattach      bool        // the tool can find the work again; tasks only
	Class         EffectClass // the stored class; for a task the stricter of the stored and the tool's present one
	Reconcile     bool        // the tool can tell whether the call took effect
	Executions    int         // starts so far
	MaxExecutions int         // 0: no limit
}

// TakeOver is what happens to a row whose worker is dead.
type TakeOver string

// The ways to take over, in the order in which OrphanedCall.TakeOver considers them.
const (
	TakeOverWait      TakeOver = "wait"      // its home takes it over; change nothing until then. Never recorded
	TakeOverStop      TakeOver = "stop"      // stop what is left; settle as canceled or interrupted; run nothing again
	TakeOverTimeout   TakeOver = "stop_late" // stop what is left; settle as timeout
	TakeOverAdopt     TakeOver = "adopt"     // follow the running process, or use its exit record
	TakeOverFirstRun  TakeOver = "run_first" // it never started; run it, whatever its class
	TakeOverReattach  TakeOver = "reattach"  // the tool finds its work again
	TakeOverRunAgain  TakeOver = "run_again" // one more execution under the same idempotency key
	TakeOverGiveUp    TakeOver = "give_up"   // no executions are left
	TakeOverReconcile TakeOver = "reconcile" // ask the tool whether the call took effect
	TakeOverUnknown   TakeOver = "unknown"   // nothing can tell whether the call took effect
)

// TakeOver decides how a row is taken over. The first condition that holds decides, so their order
// is part of the rule: remains of another home are not judged, a stop request comes before
// adoption, and adoption before any new execution. With RemainsUnseen, a stop finds
// nothing to stop, so it says nothing about the process.
func (f OrphanedCall) TakeOver() TakeOver {
	spent := f.MaxExecutions > 0 && f.Executions >= f.MaxExecutions
	switch {
	case f.Remains == RemainsElsewhere:
		return TakeOverWait
	case f.StopRequested:
		return TakeOverStop
	case f.Remains == RemainsAlive && f.PastDeadline:
		return TakeOverTimeout
	case f.Remains == RemainsAlive, f.Remains == RemainsEnded:
		return TakeOverAdopt
	case f.Remains == RemainsUnstarted:
		return TakeOverFirstRun
	case f.Reattach:
		return TakeOverReattach
	case f.Class.Repeatable() && spent:
		return TakeOverGiveUp
	case f.Class.Repeatable():
		return TakeOverRunAgain
	case f.Reconcile:
		return TakeOverReconcile
	default:
		return TakeOverUnknown
	}
}
