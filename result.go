package perdure

import "encoding/json"

// GenericToolError is what anybody outside the log reads of an internal error (TL12, ER3).
const GenericToolError = "An internal error occurred while executing the tool"

// ErrorKind says in which way a call or task failed (TK2). The zero value is no error.
type ErrorKind string

// The kinds of failure.
const (
	ErrorTimeout     ErrorKind = "timeout"
	ErrorDenied      ErrorKind = "denied"
	ErrorOrphaned    ErrorKind = "orphaned"
	ErrorRejected    ErrorKind = "rejected" // refused before it ran
	ErrorPanic       ErrorKind = "panic"
	ErrorTool        ErrorKind = "tool_error"
	ErrorInternal    ErrorKind = "internal"
	ErrorNoResult    ErrorKind = "no_result"
	ErrorSchema      ErrorKind = "schema_mismatch"       // of a subagent's answer (SA12)
	ErrorInterrupted ErrorKind = "interrupted"           // calls only
	ErrorCanceled    ErrorKind = "canceled"              // calls only
	ErrorUnknown     ErrorKind = "unknown"               // calls only
	ErrorDeterminism ErrorKind = "determinism_violation" // calls only: the same id came with other content (LG14)
)

// ToolResult is the record of how a call ended: what the transcript, the ledger and the journal hold.
type ToolResult struct {
	CallID             CallID          `json:"tool_call_id"`
	Result             json.RawMessage `json:"result,omitempty"`  // what the model reads
	Summary            string          `json:"summary,omitempty"` // the tool's own line on it, for people and notifications; empty: it gave none
	Images             []Image         `json:"images,omitempty"`
	Error              string          `json:"error,omitempty"` // set exactly for a tool error and an internal error
	ConnectionRequired string          `json:"connection_required,omitempty"`
	RawOutput          *string         `json:"-"` // nil: absent; never serialised to a model or client
	ErrorKind          ErrorKind       `json:"error_kind,omitempty"`
	Untrusted          bool            `json:"untrusted,omitempty"`     // it came from outside: a page, a file, the output of a command (S3)
	NeverStarted       bool            `json:"never_started,omitempty"` // the tool was not entered
	Read               []TaskID        `json:"read,omitempty"`          // tasks whose end this result told the model (DL5)
}

// Failed makes the result of a call that ends with an error text and its kind.
func Failed(call CallID, kind ErrorKind, text string) ToolResult {
	body, err := json.Marshal(map[string]string{"error": text})
	if err != nil {
		body = []byte(`{"error":"` + GenericToolError + `"}`)
	}
	return ToolResult{CallID: call, Result: body, Error: text, ErrorKind: kind}
}

// Refused is Failed for a call whose tool was never entered.
func Refused(call CallID, kind ErrorKind, text string) ToolResult {
	r := Failed(call, kind, text)
	r.NeverStarted = true
	return r
}

// IsError reports whether the call ended with an error.
func (r ToolResult) IsError() bool { return r.Error != "" || r.ErrorKind != "" }

// CompletionStatus is the status of a tool.completed event.
type CompletionStatus string

// The statuses of tool.completed.
const (
	StatusSuccess     CompletionStatus = "success"
	StatusError       CompletionStatus = "error"
	StatusTimeout     CompletionStatus = "timeout"
	StatusCanceled    CompletionStatus = "canceled"
	StatusInterrupted CompletionStatus = "interrupted"
	StatusUnknown     CompletionStatus = "unknown"
)

// Status says how the call ended, for tool.completed.
func (r ToolResult) Status() CompletionStatus {
	switch r.ErrorKind {
	case ErrorTimeout:
		return StatusTimeout
	case ErrorCanceled:
		return StatusCanceled
	case ErrorInterrupted:
		return StatusInterrupted
	case ErrorUnknown:
		return StatusUnknown
	}
	if r.IsError() {
		return StatusError
	}
	return StatusSuccess
}

// The results that repair and recovery give (TN17).
const (
	TextUnknown     = "The outcome of this call is unknown: it was interrupted while running. Do not retry it without checking."
	TextInterrupted = "The call was interrupted before it reported a result."
	TextNotExecuted = "The call was not executed. It is safe to retry."
	TextIterations  = "not executed: iteration limit reached"
	TextTooMany     = "not executed: more than 64 calls in one step"
)
