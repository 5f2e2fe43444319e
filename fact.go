package perdure

import (
	"encoding/json"
	"time"
)

// SessionCreated opens a journal.
type SessionCreated struct {
	Agent   Agent    `json:"agent"`
	Lineage *Lineage `json:"lineage,omitempty"` // of a subagent; nil: the session is nobody's
}

// SessionUpdated changes what of a session may change.
type SessionUpdated struct {
	Title  string       `json:"title,omitempty"`
	Labels LabelChanges `json:"labels,omitempty"` // null removes one
}

// SessionForked begins a session with what was said in another one (SA1: lineage only, no nesting). It stands right after
// session.created and holds all that is taken over, so that neither session needs the other's journal.
type SessionForked struct {
	From       SessionID  `json:"from"`
	Seq        int64      `json:"seq"`                  // up to which the other journal was folded
	Effects    string     `json:"effects"`              // what becomes of new effects: ForkAsks or ForkDryRun
	Transcript []Message  `json:"transcript,omitempty"` // every call in it has its result
	UsedCalls  []CallID   `json:"used_calls,omitempty"` // of the other session, so that none comes again (N7)
	Compaction Compaction `json:"compaction,omitzero"`
}

// What becomes of new effects in a fork.
const (
	ForkAsks   = "ask"     // a person is asked before each
	ForkDryRun = "dry_run" // none happens (AP13)
)

// SessionActivated says that a session left its rest.
type SessionActivated struct {
	TurnID TurnID `json:"turn_id"`
}

// SessionAwaits says that a turn waits for answers of the client.
type SessionAwaits struct {
	TurnID  TurnID   `json:"turn_id"`
	CallIDs []CallID `json:"call_ids"`
}

// SessionIdled says that a session came to rest.
type SessionIdled struct {
	TurnID     TurnID `json:"turn_id"`
	Iterations int    `json:"iterations"`
	Usage      Usage  `json:"usage"` // cumulative, of the session
}

// MessageReceived is an input, acknowledged once this is committed.
type MessageReceived struct {
	Message Message `json:"message"`
	Mode    Mode    `json:"mode"`
	Source  string  `json:"source,omitempty"` // user, api, schedule, parent
	Key     string  `json:"key,omitempty"`    // the sender's idempotency key (DL12)
}

// TurnCause says what started a turn.
type TurnCause string

// The causes of a turn.
const (
	CauseMessage  TurnCause = "message"
	CauseDelivery TurnCause = "delivery"
	CauseResume   TurnCause = "resume" // a turn that a budget cut short goes on
)

// TurnStarted opens a turn.
type TurnStarted struct {
	TurnID    TurnID    `json:"turn_id"`
	Cause     TurnCause `json:"cause"`
	MessageID MessageID `json:"message_id,omitempty"` // the input, when a message is the cause
	Model     string    `json:"model,omitempty"`
}

// InterruptRequested is the durable wish to end the turn that runs (RC8).
type InterruptRequested struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Seal   string `json:"seal,omitempty"` // set: the runtime stops the turn, which ends sealed with this reason (TN1)
	Code   string `json:"code,omitempty"` // set: the runtime stops the turn, which ends failed with this code, retryable (TN15)
}

// StopReason says why a turn completed.
type StopReason string

// The reasons.
const (
	StopEnd           StopReason = "end"
	StopMaxIterations StopReason = "max_iterations"
	StopRefusal       StopReason = "refusal"
)

// TurnCompleted closes a turn that came to its end.
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

// TurnFailed closes a turn that could not go on.
type TurnFailed struct {
	Error     string `json:"error"`
	Code      string `json:"code"`
	Retryable bool   `json:"retryable"`
	Usage     Usage  `json:"usage"`
}

// TurnCanceled closes a turn that was interrupted.
type TurnCanceled struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Usage  Usage  `json:"usage"`
}

// TurnSealed closes a turn that the runtime stopped.
type TurnSealed struct {
	Reason string `json:"reason"` // no_progress, budget
	Detail string `json:"detail,omitempty"`
	Usage  Usage  `json:"usage"`
}

// ReasonStarted is the intent to ask the model. What is queued enters the transcript here, in the order
// of Inputs, before the model is asked.
type ReasonStarted struct {
	ExecID    ExecID      `json:"exec_id"`
	MessageID MessageID   `json:"message_id"` // of the answer
	Iteration int         `json:"iteration"`
	Attempt   int         `json:"attempt"` // of the model call, from 1 (TN21)
	Model     string      `json:"model,omitempty"`
	NotBefore time.Time   `json:"not_before,omitzero"` // the journaled wait of a retry
	Inputs    []MessageID `json:"inputs,omitempty"`
}

// ReasonCompleted closes a reason step.
type ReasonCompleted struct {
	ExecID        ExecID        `json:"exec_id"`
	Success       bool          `json:"success"`
	TextPreview   string        `json:"text_preview,omitempty"` // at most 200 characters
	ToolCallCount int           `json:"tool_call_count"`
	Refusal       bool          `json:"refusal,omitempty"`
	Code          string        `json:"code,omitempty"` // of 4.6, when it did not succeed
	Error         string        `json:"error,omitempty"`
	Retryable     bool          `json:"retryable,omitempty"`
	RetryAfter    time.Duration `json:"retry_after_ns,omitempty"`  // what the provider asked for
	Discarded     int           `json:"discarded_calls,omitempty"` // unfinished calls of a broken stream (TN7)
	DurationMS    int64         `json:"duration_ms"`
}

// RecoveryMode says what becomes of an answer that broke off (TN20).
type RecoveryMode string

// The modes. A call that was to be made by a message that broke off is never made, whatever the mode.
const (
	RecoverFinalize RecoveryMode = "finalize" // the text that came is the answer, marked as interrupted
	RecoverContinue RecoveryMode = "continue" // the model goes on from the text that came; the message holds both
	RecoverRestart  RecoveryMode = "restart"  // the model is asked anew for the same message; text that was seen is replaced
)

// ReasonRecovered says what became of an answer that broke off (TN20).
type ReasonRecovered struct {
	MessageID MessageID    `json:"message_id"`
	Mode      RecoveryMode `json:"mode"`
	KeptLen   int          `json:"kept_len"` // bytes of text
	Message   Message      `json:"message"`  // the notification that tells the model; enters the transcript with the next step. Finalize only
}

// OutputStarted says that an answer begins.
type OutputStarted struct {
	MessageID MessageID `json:"message_id"`
	Model     string    `json:"model,omitempty"`
}

// OutputCompleted is the whole answer. Only now do its calls exist (TN5).
type OutputCompleted struct {
	Message      Message `json:"message"`
	Usage        Usage   `json:"usage"`
	Interrupted  bool    `json:"interrupted,omitempty"`
	FinishReason string  `json:"finish_reason,omitempty"`
}

// Why the text of a message was replaced.
const (
	ReplacedByGuard   = "guard"     // a guard of the host tripped (TN9)
	ReplacedByRestart = "restarted" // the message begins again (TN20)
)

// OutputReplaced says that the text so far of an open message does not count any more. What it was stands nowhere (TN9).
type OutputReplaced struct {
	MessageID   MessageID `json:"message_id"`
	Guardrail   string    `json:"guardrail,omitempty"` // the name of the guard that tripped
	ReasonCode  string    `json:"reason_code"`
	Replacement string    `json:"replacement"` // stands in its place; empty: nothing does
}

// LoopDetected says that the model makes the same call again and again, and gets the same (TN24). It stops nothing.
type LoopDetected struct {
	Name        string  `json:"name"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	Count       int     `json:"count"`
	Message     Message `json:"message"` // the notification that tells the model; without parts: none
}

// Generation is one model call as it is billed and traced.
type Generation struct {
	Model              string `json:"model,omitempty"`
	Provider           string `json:"provider,omitempty"`
	Usage              Usage  `json:"usage"`
	DurationMS         int64  `json:"duration_ms"`
	TimeToFirstTokenMS int64  `json:"time_to_first_token_ms,omitempty"`
	FinishReason       string `json:"finish_reason,omitempty"`
	Error              string `json:"error,omitempty"`
	Tool               string `json:"tool,omitempty"` // that asked for its inner work; empty: it was a step of the turn
}

// PlannedCall is a call of a step with what its tool said of it when the message was committed.
type PlannedCall struct {
	ID          CallID      `json:"id"`
	Name        string      `json:"name"`
	DisplayName string      `json:"display_name,omitempty"`
	Narration   string      `json:"narration,omitempty"`
	Class       EffectClass `json:"class,omitempty"`
	Fingerprint string      `json:"fingerprint,omitempty"`
	Concurrency string      `json:"concurrency_class,omitempty"` // TN11; empty: free
	Refusal     *ToolResult `json:"refusal,omitempty"`           // set: it is answered with this and never started

	Rewritten   json.RawMessage `json:"rewritten_args,omitempty"` // by hooks, or without what is no argument of the tool: executed instead of what the model wrote (TL35)
	Repeats     string          `json:"repeats,omitempty"`        // the call or task of unknown outcome that this one repeats as a new effect; empty: none
	Permissions []Permission    `json:"permissions,omitempty"`    // a person is asked for all of them, once (AP1)
	Expires     time.Duration   `json:"expires_ns,omitempty"`     // of the approval; 0: never
	ClientSide  bool            `json:"client_side,omitempty"`    // the client answers it (AP11)
	Deadline    time.Duration   `json:"deadline_ns,omitempty"`    // of a client's answer; 0: none
	Lane        Lane            `json:"lane,omitempty"`           // Background: a task from the start; empty: foreground (LN2)
	Soft        time.Duration   `json:"soft_budget_ns,omitempty"` // of execution, then it leaves the turn; 0: never (LN3)
	Wake        Wake            `json:"wake,omitempty"`           // of the task that it becomes (DL6)
}

// ActStarted opens an act step.
type ActStarted struct {
	Calls []PlannedCall `json:"calls"`
}

// ActCompleted closes an act step: every call has a result or a placeholder (TN13).
type ActCompleted struct {
	SuccessCount int   `json:"success_count"`
	ErrorCount   int   `json:"error_count"`
	DurationMS   int64 `json:"duration_ms"`
}

// ToolStarted is the intent to run a call; its claim is in the same commit.
type ToolStarted struct {
	CallID      CallID      `json:"call_id"`
	Name        string      `json:"name"`
	Lane        Lane        `json:"lane"`
	Class       EffectClass `json:"class"`
	Fingerprint string      `json:"fingerprint"`
	DisplayName string      `json:"display_name,omitempty"`
}

// Why a call left the foreground, or was never there.
const (
	DetachedByBudget = "soft_budget"
	DetachedByPolicy = "policy" // the host's routing
	DetachedByHost   = "host"   // somebody asked for it
	DetachedByAsking = "asking" // it asked a question, and nobody is kept waiting for a person
)

// ToolDetached says that a call goes on as a task. Its placeholder and the task are in the same commit (LN7).
type ToolDetached struct {
	CallID         CallID  `json:"call_id"`
	TaskID         TaskID  `json:"task_id"`
	Reason         string  `json:"reason"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"` // the budget that it used up
}

// ToolCallRequested asks the client to answer a call, or to set up the connection that it needs (AP11, AP12).
type ToolCallRequested struct {
	CallID     CallID          `json:"call_id"`
	Name       string          `json:"name"`
	Args       json.RawMessage `json:"args"`
	Connection string          `json:"connection_required,omitempty"`
}

// ToolTakenOver says that a foreground call was taken over from a dead worker (LG8).
type ToolTakenOver struct {
	CallID     CallID   `json:"call_id"`
	Name       string   `json:"name"`
	How        TakeOver `json:"how"`
	Executions int      `json:"executions"`
}

// ToolCompleted is the one result of a call in the transcript; its settlement is in the same commit.
type ToolCompleted struct {
	CallID     CallID           `json:"call_id"`
	Name       string           `json:"name"`
	Status     CompletionStatus `json:"status"`
	Result     ToolResult       `json:"result"`
	Replayed   bool             `json:"replayed,omitempty"`
	DurationMS int64            `json:"duration_ms"`
}

// ToolUnknown says that nobody can know whether a call happened.
type ToolUnknown struct {
	CallID         CallID    `json:"call_id"`
	Name           string    `json:"name"`
	Since          time.Time `json:"since"`
	IdempotencyKey string    `json:"idempotency_key"`
}

// Answer is an operator's word on an unknown outcome (LG11).
type Answer string

// The three answers.
const (
	Happened     Answer = "happened"
	DidNotHappen Answer = "did_not_happen"
	RunItAgain   Answer = "run_again"
)

// Outcome is how the answer is recorded: succeeded, failed or rerun. It is empty for any other word.
func (a Answer) Outcome() string {
	switch a {
	case Happened:
		return "succeeded"
	case DidNotHappen:
		return "failed"
	case RunItAgain:
		return "rerun"
	}
	return ""
}

// ToolResolved is an operator's word on an unknown foreground call. The model hears of it as a notification.
type ToolResolved struct {
	CallID  CallID          `json:"call_id"`
	Answer  Answer          `json:"answer"`
	Outcome string          `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"`
	By      string          `json:"by"`
	Note    string          `json:"note,omitempty"`
	Message Message         `json:"message"` // the notification
}

// What a repair does: the rows of TN17, and TN18.
const (
	RepairReplay      = "replay"
	RepairPlaceholder = "placeholder"
	RepairUnknown     = "unknown"
	RepairInterrupted = "interrupted"
	RepairNotExecuted = "not_executed"
	RepairDropped     = "dropped" // a result that was one too many, or of no call
)

// TranscriptRepaired says which result a call was given that had none, or that a result was dropped (TN16, TN18).
type TranscriptRepaired struct {
	CallID CallID      `json:"call_id"`
	Tool   string      `json:"tool"`
	Action string      `json:"action"`
	TurnID TurnID      `json:"turn_id"`          // that asked for the call; empty: nobody knows
	Result *ToolResult `json:"result,omitempty"` // nil: one was dropped
}

// TaskCreated is the whole record of a new task.
type TaskCreated struct {
	Task Task `json:"task"`
}

// TaskUpdated is the whole record after a change that the journal tells (EV7).
type TaskUpdated struct {
	Task    Task     `json:"task"`
	Changed []string `json:"changed,omitempty"`
}

// TaskReattached says that a task was taken over from a dead worker.
type TaskReattached struct {
	Attempt int      `json:"attempt"`
	How     TakeOver `json:"how"`
}

// TaskResolved is an operator's word on a task whose outcome is unknown.
type TaskResolved struct {
	Answer  Answer `json:"answer"`
	Outcome string `json:"outcome"`
	By      string `json:"by"`
	Note    string `json:"note,omitempty"`
}

// TaskCancelRequested is the durable wish to end a task (RC1).
type TaskCancelRequested struct {
	By  string `json:"by"`
	Why string `json:"why,omitempty"`
}

// CancelReceipt says how far a cancel has come (RC2). Zero moments have not come yet.
type CancelReceipt struct {
	RequestedAt time.Time `json:"requested_at"`
	SignalledAt time.Time `json:"signalled_at,omitzero"` // the owner has it
	DeadAt      time.Time `json:"dead_at,omitzero"`      // goroutine and process tree are gone
	DidNotStop  bool      `json:"did_not_stop,omitempty"`
}

// TaskCancelReceipt is the end of a cancel.
type TaskCancelReceipt struct {
	Receipt CancelReceipt `json:"receipt"`
}

// The metadata of a notice that puts a question: whose it is, and which. Answered, it is not told any more.
const (
	MetaTask    = "task_id"
	MetaRequest = "request_id"
)

// TaskMessageSent is a word of a task to its session; the model reads it as Notice.
type TaskMessageSent struct {
	Message TaskMessage `json:"message"`
	Notice  Message     `json:"notice"`         // enters the transcript with the next step; without parts: none
	Wake    Wake        `json:"wake,omitempty"` // continue: it starts a turn (DL7)
}

// TaskMessageReceived is a word of the session, its host or a person to a task.
type TaskMessageReceived struct {
	Message TaskMessage `json:"message"`
}

// TaskDelivered puts the notification of ended tasks into the transcript, once (DL2).
type TaskDelivered struct {
	Message Message  `json:"message"`
	TaskIDs []TaskID `json:"task_ids"`
	Wake    Wake     `json:"wake"`
}

// TaskPruned says that ended tasks were forgotten: their records, messages and output are gone, their calls stay in the
// ledger (TK16).
type TaskPruned struct {
	TaskIDs []TaskID `json:"task_ids"`
}

// DeliveryHeld says why a delivery does not start a turn (DL8).
type DeliveryHeld struct {
	Why string `json:"why"` // continuations, budget, paused
}

// ResourceUpdated says that an entry of the registry of resources was written, or removed (RS1).
type ResourceUpdated struct {
	Entry   Resource `json:"entry"`
	Removed bool     `json:"removed,omitempty"`
}

// LeaseExpired says that a leased resource is about to be cleaned up (RS5).
type LeaseExpired struct {
	Lease Lease `json:"lease"`
}

// LeaseCleanupFailed says that nobody tries to clean up a leased resource any more: a person must (RS6).
type LeaseCleanupFailed struct {
	Lease Lease `json:"lease"`
}

// FileWritten says that a file of the session was written or removed, or a directory made (FI9).
type FileWritten struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"size_bytes"`          // of the content; of what was removed: 0
	Directory bool   `json:"directory,omitempty"` // it was made, or moved here with all below it
	Removed   bool   `json:"removed,omitempty"`   // with all below it
}

// AuditRead is the action of reading a secret.
const AuditRead = "secret.read"

// AuditRecorded says that somebody did what is to be answered for (SE3). It never holds what was read.
type AuditRecorded struct {
	Action  string `json:"action"`
	Subject string `json:"subject"`           // the name of what it was done to
	Hash    string `json:"hash,omitempty"`    // sha256 of it as it is stored, sealed where it is a secret
	Purpose string `json:"purpose,omitempty"` // the tool that did it
}
