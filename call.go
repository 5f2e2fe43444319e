package perdure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// EffectClass says what recovery may do with a call that was claimed and never settled.
// The zero value is no class; [EffectClass.Valid] refuses it.
type EffectClass string

// The effect classes.
const (
	Pure       EffectClass = "pure"         // changes nothing: run it again
	Idempotent EffectClass = "idempotent"   // twice has the effect of once, under the same key: run it again
	AtMostOnce EffectClass = "at_most_once" // never run again on our own: the outcome is unknown
)

// Valid reports whether c is one of the three classes.
func (c EffectClass) Valid() bool { return c == Pure || c == Idempotent || c == AtMostOnce }

// Repeatable reports whether recovery may run a call of this class again.
func (c EffectClass) Repeatable() bool { return c == Pure || c == Idempotent }

// Stricter returns the more careful of two classes. An unset class counts as at_most_once, so that
// doubt never loosens a claim (BG10, LG15).
func (c EffectClass) Stricter(other EffectClass) EffectClass {
	if c == Pure && other == Pure {
		return Pure
	}
	if c.Repeatable() && other.Repeatable() {
		return Idempotent
	}
	return AtMostOnce
}

// Lane says who waits for a call (LN1). A lane changes at most once, from foreground to background.
type Lane string

// The lanes.
const (
	Foreground Lane = "foreground" // the turn waits
	Background Lane = "background" // it does not
)

// Token proves the ownership of one claim: 128 random bits in hex, minted by the claimer.
type Token string

// CallState is the state of a call's row in the effect ledger.
type CallState string

// The states of a ledger row.
const (
	CallRunning CallState = "running" // claimed and not settled
	CallSettled CallState = "settled" // has its result
	CallUnknown CallState = "unknown" // it may or may not have happened; only an operator resolves it (LG11)
)

// Call is the row of a call in the effect ledger (chapter 5.1). A background run has a row of its own,
// with its run id as the call id.
type Call struct {
	Key         CallKey         `json:"key"`
	Turn        TurnID          `json:"turn_id,omitempty"`
	Task        TaskID          `json:"task_id,omitempty"` // set when a task carries the call
	Attempt     int             `json:"attempt,omitempty"` // the task's attempt, when a task carries it
	Tool        string          `json:"tool"`
	Args        json.RawMessage `json:"args"` // as executed
	Fingerprint string          `json:"fingerprint"`
	Class       EffectClass     `json:"effect_class"` // fixed at the claim (LG15)
	State       CallState       `json:"state"`
	Token       Token           `json:"-"`
	Worker      WorkerID        `json:"worker_id"`
	Epoch       int64           `json:"epoch"`      // the driver's at the claim; 0 for a task
	Executions  int             `json:"executions"` // runs begun, from 1; adopting a process adds none
	Result      *ToolResult     `json:"result,omitempty"`
	ResolvedBy  string          `json:"resolved_by,omitempty"`
	ClaimedAt   time.Time       `json:"claimed_at"`
	SettledAt   time.Time       `json:"settled_at,omitzero"`
}

// ClaimOutcome is what a claim found (LG2).
type ClaimOutcome string

// The outcomes of a claim. Only Claimed and a take-over by the caller let a call run.
const (
	Claimed              ClaimOutcome = "claimed"
	AlreadySettled       ClaimOutcome = "already_settled"       // replay the stored result; run nothing
	AlreadyUnknown       ClaimOutcome = "already_unknown"       // give the unknown result; run nothing
	ClaimConflict        ClaimOutcome = "conflict"              // a live worker has it
	ClaimAbandoned       ClaimOutcome = "abandoned"             // its worker is dead: take it over (LG8)
	DeterminismViolation ClaimOutcome = "determinism_violation" // the same call id came with other content (LG14)
)

// JudgeClaim says what a claim means against the row that it found; nil is no row. ownerLive is whether
// the row's worker still lives. The same token is a claim whose answer was lost (LG5).
func JudgeClaim(found *Call, wanted Call, ownerLive bool) ClaimOutcome {
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

// Withholds reports whether the row keeps another call of the same content and session from being made, unless its caller says that it
// means a new effect: nobody knows whether this one happened, or an operator lets it run again, or its worker is dead and nobody has
// looked yet what became of it. ownerLive is whether the row's worker still lives.
func (c Call) Withholds(ownerLive bool) bool {
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

// Fingerprint is the identity of a call's content: sha256 over the canonical JSON of [tool, arguments] (LG13).
// Arguments that are no JSON are Invalid.
func Fingerprint(tool string, args json.RawMessage) (string, error) {
	canonical, err := CanonicalJSON(args)
	if err != nil {
		return "", fmt.Errorf("fingerprint %s: %w", tool, err)
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

// Remains is what is left of an execution whose runtime died.
type Remains string

// What recovery may find. The zero value is a tool that leaves nothing to look at.
const (
	RemainsNone      Remains = ""          // nothing is known: the effect class decides
	RemainsUnstarted Remains = "unstarted" // its ticket was revoked: it never started, and never will
	RemainsAlive     Remains = "alive"     // a supervised process goes on: adopt it
	RemainsEnded     Remains = "ended"     // it has an exit record: settle from it
)

// Found is all that the take-over of a running row depends on (LG8, RC13).
type Found struct {
	StopRequested bool        // cancel or interrupt
	Remains       Remains     //
	PastDeadline  bool        // its hard deadline has passed
	Reattach      bool        // the tool can find the work again by itself; tasks only
	Class         EffectClass // the stored class, for a task the stricter of stored and live
	Reconcile     bool        // the tool can say whether it happened
	Executions    int         // runs begun
	MaxExecutions int         // 0 = no cap
}

// TakeOver is what is done with a row whose worker is dead.
type TakeOver string

// The ways to take over, in the order in which they are considered.
const (
	StopIt      TakeOver = "stop"      // stop what is left, settle canceled or interrupted; run nothing again
	StopLate    TakeOver = "stop_late" // stop what is left, settle as timeout
	Adopt       TakeOver = "adopt"     // follow the living process, or take its exit record
	RunFirst    TakeOver = "run_first" // it never started: run it, whatever the class
	Reattach    TakeOver = "reattach"  // the tool finds its work again
	RunAgain    TakeOver = "run_again" // same idempotency key, one more execution
	GiveUp      TakeOver = "give_up"   // executions are used up (LG9)
	AskTool     TakeOver = "reconcile" // ask the tool whether it happened
	MakeUnknown TakeOver = "unknown"   // nobody can know
)

// Judge says how a row is taken over; the first finding that holds decides (LG8, RC13).
func (f Found) Judge() TakeOver {
	spent := f.MaxExecutions > 0 && f.Executions >= f.MaxExecutions
	switch {
	case f.StopRequested:
		return StopIt
	case f.Remains == RemainsAlive && f.PastDeadline:
		return StopLate
	case f.Remains == RemainsAlive, f.Remains == RemainsEnded:
		return Adopt
	case f.Remains == RemainsUnstarted:
		return RunFirst
	case f.Reattach:
		return Reattach
	case f.Class.Repeatable() && spent:
		return GiveUp
	case f.Class.Repeatable():
		return RunAgain
	case f.Reconcile:
		return AskTool
	default:
		return MakeUnknown
	}
}
