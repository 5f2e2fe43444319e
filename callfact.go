package perdure

import (
	"cmp"
	"encoding/json"
	"time"
)

// PlannedCall is a call of a step with the properties that its tool had when the message was
// committed.
type PlannedCall struct {
	ID          CallID      `json:"id"`
	Name        string      `json:"name"`
	DisplayName string      `json:"display_name,omitempty"`
	Narration   string      `json:"narration,omitempty"`
	Class       EffectClass `json:"class,omitempty"`
	Fingerprint string      `json:"fingerprint,omitempty"`
	Concurrency string      `json:"concurrency_class,omitempty"` // calls of one class run one after another
	Refusal     *ToolResult `json:"refusal,omitempty"`           // set: the call gets this result and never starts

	// Rewritten are the arguments to execute instead of the model's: hooks changed them, or
	// arguments that do not belong to the tool were removed. Empty: the model's arguments are
	// executed.
	Rewritten json.RawMessage `json:"rewritten_args,omitempty"`
	// RepeatOf is the call or task of unknown outcome that this call repeats as a new effect;
	// empty: none.
	RepeatOf        string        `json:"repeats,omitempty"`
	Permissions     []Permission  `json:"permissions,omitempty"` // one approval covers all of them
	ApprovalTimeout time.Duration `json:"expires_ns,omitempty"`  // time limit of the approval; 0: none
	ClientSide      bool          `json:"client_side,omitempty"` // the client executes it
	AnswerTimeout   time.Duration `json:"deadline_ns,omitempty"` // time limit of the client's answer; 0: none
	// Background: a task from the start; empty: foreground
	Lane       Lane          `json:"lane,omitempty"`
	SoftBudget time.Duration `json:"soft_budget_ns,omitempty"` // execution time after which it detaches; 0: never
	Wake       Wake          `json:"wake,omitempty"`           // of the task that it becomes
}

// ownNarration is the narration of a planned call; empty if it only repeats the tool's name.
func (c PlannedCall) ownNarration() string {
	if c.Narration == cmp.Or(c.DisplayName, c.Name) {
		return ""
	}
	return c.Narration
}

// ActStarted starts an act step.
type ActStarted struct {
	Calls []PlannedCall `json:"calls"`
}

// ActCompleted ends an act step: every call has a result or a placeholder.
type ActCompleted struct {
	SuccessCount int   `json:"success_count"`
	ErrorCount   int   `json:"error_count"`
	DurationMS   int64 `json:"duration_ms"`
}

// ToolStarted is the intent to run a call. The call's claim is in the same commit.
type ToolStarted struct {
	CallID      CallID      `json:"call_id"`
	Name        string      `json:"name"`
	Lane        Lane        `json:"lane"`
	Class       EffectClass `json:"class"`
	Fingerprint string      `json:"fingerprint"`
	DisplayName string      `json:"display_name,omitempty"`
	// Narration describes the call to people, such as "Reading README.md". Empty: the tool has no
	// sentence of its own.
	Narration string `json:"narration,omitempty"`
}

// Why a call left the foreground, or was never in it.
const (
	DetachedByBudget = "soft_budget"
	DetachedByPolicy = "policy" // the host's routing policy
	DetachedByHost   = "host"   // a request of the host
	DetachedByAsking = "asking" // the call asked a question, and a turn does not wait for a person
)

// ToolDetached says that a call continues as a task. Its placeholder and the task are in the same
// commit.
type ToolDetached struct {
	CallID         CallID  `json:"call_id"`
	TaskID         TaskID  `json:"task_id"`
	Reason         string  `json:"reason"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"` // the soft budget that it used up
}

// ToolDetachRequested is the intent of a caller that a running foreground call continues as a task.
// The driver carries it out. For a call that does not run in the foreground it does nothing.
type ToolDetachRequested struct {
	CallID CallID `json:"call_id"`
}

// ToolDetachRefused answers an intent to detach a call that stays in the foreground.
type ToolDetachRefused struct {
	CallID CallID `json:"call_id"`
	Reason string `json:"reason"` // for people
}

// ToolCallRequested asks the client to execute a call, or to set up the connection that it needs.
type ToolCallRequested struct {
	CallID     CallID          `json:"call_id"`
	Name       string          `json:"name"`
	Args       json.RawMessage `json:"args"`
	Connection string          `json:"connection_required,omitempty"`
}

// ToolTakenOver says that a foreground call was taken over from a dead worker.
type ToolTakenOver struct {
	CallID     CallID   `json:"call_id"`
	Name       string   `json:"name"`
	How        TakeOver `json:"how"`
	Executions int      `json:"executions"`
}

// ToolCompleted is the one result of a call in the transcript. The settlement of the call is in the
// same commit.
type ToolCompleted struct {
	CallID     CallID           `json:"call_id"`
	Name       string           `json:"name"`
	Status     CompletionStatus `json:"status"`
	Result     ToolResult       `json:"result"`
	Replayed   bool             `json:"replayed,omitempty"`
	DurationMS int64            `json:"duration_ms"`
	// Narration describes the end of the call to people, such as "Read README.md". Empty: the tool
	// has no sentence of its own.
	Narration string `json:"narration,omitempty"`
}

// ToolEventPrefix begins the type of every event that a tool reports. No other type has it.
const ToolEventPrefix = "x."

// ToolEvent is an event that a tool reports about its work, for followers and webhooks. The model
// does not read it. Its type is x.TOOL.NAME.
type ToolEvent struct {
	CallID CallID          `json:"call_id"`
	Tool   string          `json:"tool"`
	Name   string          `json:"name"` // words of a-z, 0-9, _ and -, joined with dots
	Data   json.RawMessage `json:"data"`
}

// ToolUnknown says that the outcome of a call is unknown.
type ToolUnknown struct {
	CallID         CallID    `json:"call_id"`
	Name           string    `json:"name"`
	Since          time.Time `json:"since"`
	IdempotencyKey string    `json:"idempotency_key"`
}

// ResolveAnswer is what an operator states about an unknown outcome.
type ResolveAnswer string

// The three answers.
const (
	ResolveHappened     ResolveAnswer = "happened"
	ResolveDidNotHappen ResolveAnswer = "did_not_happen"
	ResolveRunAgain     ResolveAnswer = "run_again"
)

// Outcome is how the answer is recorded: succeeded, failed or rerun; empty if a is none of the
// three.
func (a ResolveAnswer) Outcome() string {
	switch a {
	case ResolveHappened:
		return "succeeded"
	case ResolveDidNotHappen:
		return "failed"
	case ResolveRunAgain:
		return "rerun"
	}
	return ""
}

// ToolResolved is an operator's answer about a foreground call. The model receives it as a
// notification.
type ToolResolved struct {
	CallID  CallID          `json:"call_id"`
	Answer  ResolveAnswer   `json:"answer"`
	Outcome string          `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"`
	By      string          `json:"by"`
	Note    string          `json:"note,omitempty"`
	Message Message         `json:"message"` // the notification
}
