package perdure

import "time"

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
	Attempt   int         `json:"attempt"`            // of the model call, from 1
	Attempts  int         `json:"attempts,omitempty"` // how many there may be; set where the call is retried after a failure
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
