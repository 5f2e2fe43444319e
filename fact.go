package perdure

import (
	"encoding/json"
	"time"
)

// SessionCreated is the first event of every journal.
type SessionCreated struct {
	Agent   Agent    `json:"agent"`
	Lineage *Lineage `json:"lineage,omitempty"` // of a subagent; nil: the session has no parent
}

// SessionUpdated changes the title or the labels. An empty title keeps the old one.
type SessionUpdated struct {
	Title  string       `json:"title,omitempty"`
	Labels LabelChanges `json:"labels,omitempty"` // null removes a label
}

// SessionForked starts a session with the conversation of another one. It directly follows
// session.created and contains everything that is copied, so that neither session needs the other's
// journal. A fork is not a subagent of the other session.
type SessionForked struct {
	From       SessionID  `json:"from"`
	Seq        int64      `json:"seq"`                  // of the other journal, up to which it was folded
	Effects    string     `json:"effects"`              // ForkAsks or ForkDryRun: what happens to new effects
	Transcript []Message  `json:"transcript,omitempty"` // every call in it has its result
	UsedCalls  []CallID   `json:"used_calls,omitempty"` // call ids of the other session, which must not be used again
	Compaction Compaction `json:"compaction,omitzero"`
}

// What happens to new effects in a fork.
const (
	ForkAsks   = "ask"     // each needs an approval
	ForkDryRun = "dry_run" // none happens
)

// SessionActivated says that an idle session starts a turn.
type SessionActivated struct {
	TurnID TurnID `json:"turn_id"`
}

// SessionAwaits says that the turn waits for answers of the client.
type SessionAwaits struct {
	TurnID  TurnID   `json:"turn_id"`
	CallIDs []CallID `json:"call_ids"`
}

// SessionIdled says that the session is idle again.
type SessionIdled struct {
	TurnID     TurnID `json:"turn_id"`
	Iterations int    `json:"iterations"`
	Usage      Usage  `json:"usage"` // of the whole session
}

// MessageReceived is an input. It is acknowledged to the sender after the commit.
type MessageReceived struct {
	Message Message `json:"message"`
	Mode    Mode    `json:"mode"`
	Source  string  `json:"source,omitempty"` // user, api, schedule, parent
	Key     string  `json:"key,omitempty"`    // the sender's idempotency key
}

// TurnCause says what started a turn.
type TurnCause string

// The causes of a turn.
const (
	CauseMessage  TurnCause = "message"
	CauseDelivery TurnCause = "delivery"
	CauseResume   TurnCause = "resume" // a budget cut the previous turn short, and allows it again
)

// TurnStarted starts a turn.
type TurnStarted struct {
	TurnID    TurnID    `json:"turn_id"`
	Cause     TurnCause `json:"cause"`
	MessageID MessageID `json:"message_id,omitempty"` // the input, if a message is the cause
	Model     string    `json:"model,omitempty"`
}

// InterruptRequested is the durable intent to end the running turn.
type InterruptRequested struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	// Seal is set if the runtime ends the turn: the turn ends sealed, with this reason.
	Seal string `json:"seal,omitempty"`
	// Code is set if the runtime ends the turn: the turn ends failed with this code, retryable.
	Code string `json:"code,omitempty"`
}

// StopReason says why a turn completed.
type StopReason string

// The reasons why a turn completed.
const (
	StopEnd           StopReason = "end"
	StopMaxIterations StopReason = "max_iterations"
	StopRefusal       StopReason = "refusal"
)

// TurnCompleted ends a turn that reached its end.
type TurnCompleted struct {
	Iterations     int        `json:"iterations"`
	DurationMS     int64      `json:"duration_ms"`
	Usage          Usage      `json:"usage"` // of the turn
	FinalMessageID MessageID  `json:"final_message_id,omitempty"`
	FinalPreview   string     `json:"final_answer_preview,omitempty"` // at most 2,000 characters
	ToolCallCount  int        `json:"tool_call_count"`
	LLMCallCount   int        `json:"llm_call_count"`
	StopReason     StopReason `json:"stop_reason"`
}

// TurnFailed ends a turn that cannot continue.
type TurnFailed struct {
	Error     string `json:"error"`
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
	Usage     Usage  `json:"usage"`
}

// TurnCanceled ends a turn that was interrupted.
type TurnCanceled struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Usage  Usage  `json:"usage"`
}

// TurnSealed ends a turn that the runtime stopped.
type TurnSealed struct {
	Reason string `json:"reason"` // no_progress, budget
	Detail string `json:"detail,omitempty"`
	Usage  Usage  `json:"usage"`
}

// ReasonStarted is the intent to call the model. Queued inputs enter the transcript here, in the
// order of Inputs, before the model is called.
type ReasonStarted struct {
	ExecID    ExecID      `json:"exec_id"`
	MessageID MessageID   `json:"message_id"` // of the answer
	Iteration int         `json:"iteration"`
	Attempt   int         `json:"attempt"` // of the model call, from 1
	Model     string      `json:"model,omitempty"`
	NotBefore time.Time   `json:"not_before,omitzero"` // the journaled wait of a retry
	Inputs    []MessageID `json:"inputs,omitempty"`
}

// ReasonCompleted ends a reason step.
type ReasonCompleted struct {
	ExecID        ExecID        `json:"exec_id"`
	Success       bool          `json:"success"`
	TextPreview   string        `json:"text_preview,omitempty"` // at most 200 characters
	ToolCallCount int           `json:"tool_call_count"`
	Refusal       bool          `json:"refusal,omitempty"`
	Code          string        `json:"code,omitempty"` // why it failed: a Code… constant or a code of the adapter
	Error         string        `json:"error,omitempty"`
	Retryable     bool          `json:"retryable,omitempty"`
	RetryAfter    time.Duration `json:"retry_after_ns,omitempty"`  // the wait that the provider asked for
	Discarded     int           `json:"discarded_calls,omitempty"` // calls that were incomplete when the stream broke
	DurationMS    int64         `json:"duration_ms"`
}

// RecoveryMode says what happens to an answer that broke off.
type RecoveryMode string

// The modes. In no mode is a call executed that a broken message asked for.
const (
	RecoverFinalize RecoveryMode = "finalize" // the text so far is the answer, marked as interrupted
	RecoverContinue RecoveryMode = "continue" // the model continues the text; the message holds both parts
	RecoverRestart  RecoveryMode = "restart"  // the model is called again for the same message; shown text is replaced
)

// ReasonRecovered says how an answer that broke off was recovered.
type ReasonRecovered struct {
	MessageID MessageID    `json:"message_id"`
	Mode      RecoveryMode `json:"mode"`
	TextBytes int          `json:"kept_len"` // bytes of the text so far
	// Message is the notification that tells the model. It enters the transcript with the next
	// step. Only RecoverFinalize has one.
	Message Message `json:"message"`
}

// OutputStarted says that a message of the model starts.
type OutputStarted struct {
	MessageID MessageID `json:"message_id"`
	Model     string    `json:"model,omitempty"`
}

// OutputCompleted is the complete message. Its calls do not exist before this event.
type OutputCompleted struct {
	Message      Message `json:"message"`
	Usage        Usage   `json:"usage"`
	Interrupted  bool    `json:"interrupted,omitempty"`
	FinishReason string  `json:"finish_reason,omitempty"`
}

// Why the text of a message was replaced.
const (
	ReplacedByGuard   = "guard"     // a guardrail of the host refused it
	ReplacedByRestart = "restarted" // the message starts again
)

// OutputReplaced withdraws the text so far of an open message. The withdrawn text is stored
// nowhere.
type OutputReplaced struct {
	MessageID   MessageID `json:"message_id"`
	Guardrail   string    `json:"guardrail,omitempty"` // the guardrail that refused the text
	ReasonCode  string    `json:"reason_code"`
	Replacement string    `json:"replacement"` // takes its place; empty: nothing
}

// LoopDetected says that the model repeats a call and gets the same result each time. It stops
// nothing.
type LoopDetected struct {
	Name        string  `json:"name"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	Count       int     `json:"count"`
	Message     Message `json:"message"` // the notification for the model; without parts: none
}

// Generation is one model call, for billing and tracing.
type Generation struct {
	Model              string `json:"model,omitempty"`
	Provider           string `json:"provider,omitempty"`
	Usage              Usage  `json:"usage"`
	DurationMS         int64  `json:"duration_ms"`
	TimeToFirstTokenMS int64  `json:"time_to_first_token_ms,omitempty"`
	FinishReason       string `json:"finish_reason,omitempty"`
	Error              string `json:"error,omitempty"`
	Tool               string `json:"tool,omitempty"` // the tool that called the model; empty: the turn did
}

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

// What a repair of the transcript does.
const (
	RepairReplay      = "replay"
	RepairPlaceholder = "placeholder"
	RepairUnknown     = "unknown"
	RepairInterrupted = "interrupted"
	RepairNotExecuted = "not_executed"
	RepairDropped     = "dropped" // a superfluous result was removed
)

// TranscriptRepaired gives a call the result that it lacked, or removes a superfluous result.
type TranscriptRepaired struct {
	CallID CallID      `json:"call_id"`
	Tool   string      `json:"tool"`
	Action string      `json:"action"`
	TurnID TurnID      `json:"turn_id"`          // of the turn that made the call; empty: not known
	Result *ToolResult `json:"result,omitempty"` // nil: a result was removed
}

// ResourceUpdated says that an entry of the resource registry was written or removed.
type ResourceUpdated struct {
	Entry   Resource `json:"entry"`
	Removed bool     `json:"removed,omitempty"`
}

// LeaseExpired says that the cleanup of a leased resource starts.
type LeaseExpired struct {
	Lease Lease `json:"lease"`
}

// LeaseCleanupFailed says that the cleanup of a leased resource is not tried again; a person has to
// do it.
type LeaseCleanupFailed struct {
	Lease Lease `json:"lease"`
}

// FileWritten says that a file of the session was written or removed, or that a directory was
// created.
type FileWritten struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"size_bytes"`          // of the content; 0 after a removal
	Directory bool   `json:"directory,omitempty"` // a directory was created, or moved here with everything below it
	Removed   bool   `json:"removed,omitempty"`   // the path and everything below it
}

// AuditRead is the action of reading a secret.
const AuditRead = "secret.read"

// AuditRecorded says that somebody used a protected thing. It never contains a secret itself.
type AuditRecorded struct {
	Action  string `json:"action"`
	Subject string `json:"subject"`           // the name of the thing
	Hash    string `json:"hash,omitempty"`    // sha256 of its stored form, which is encrypted for a secret
	Purpose string `json:"purpose,omitempty"` // the tool that used it
}
