package perdure

import (
	"encoding/json"

	"github.com/perdure/perdure/internal/shorten"
)

// GenericToolError is the text that everyone but the log reads for an internal error.
const GenericToolError = "An internal error occurred while executing the tool"

// ErrorKind says in which way a call or task failed. The zero value means that it did not fail.
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
	ErrorSchema      ErrorKind = "schema_mismatch"       // of a subagent's answer
	ErrorInterrupted ErrorKind = "interrupted"           // calls only
	ErrorCanceled    ErrorKind = "canceled"              // calls only
	ErrorUnknown     ErrorKind = "unknown"               // calls only
	ErrorDeterminism ErrorKind = "determinism_violation" // calls only: the call id was reused with different content
)

// ToolResult records how a call ended, in the transcript, the effect ledger and the journal.
type ToolResult struct {
	CallID CallID          `json:"tool_call_id"`
	Result json.RawMessage `json:"result,omitempty"` // what the model reads
	// Summary is the tool's own one-line summary for people and notifications. Empty: the tool gave
	// none.
	Summary string  `json:"summary,omitempty"`
	Images  []Image `json:"images,omitempty"` // stored with the session, or in base64
	// Error is set for tool errors and internal errors only.
	Error              string    `json:"error,omitempty"`
	ConnectionRequired string    `json:"connection_required,omitempty"`
	RawOutput          *string   `json:"-"` // nil: absent; a model or client never sees it
	ErrorKind          ErrorKind `json:"error_kind,omitempty"`
	Untrusted          bool      `json:"untrusted,omitempty"`     // from outside: a page, a file, output of a command
	NeverStarted       bool      `json:"never_started,omitempty"` // the tool's function was not entered
	ReadTasks          []TaskID  `json:"read,omitempty"`          // tasks whose end the model learned from this result
	// Metadata is what the tool says about the result to programs: a JSON object. The model does
	// not read it. Empty: the tool gave none.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// MaxResultMetadataBytes is the size of the metadata of a result.
const MaxResultMetadataBytes = 16 << 10

// Failed returns the result of a call that ended with an error.
func Failed(call CallID, kind ErrorKind, text string) ToolResult {
	body, err := json.Marshal(map[string]string{"error": text})
	if err != nil {
		body = []byte(`{"error":"` + GenericToolError + `"}`)
	}
	return ToolResult{CallID: call, Result: body, Error: text, ErrorKind: kind}
}

// Refused is Failed for a call that never started.
func Refused(call CallID, kind ErrorKind, text string) ToolResult {
	r := Failed(call, kind, text)
	r.NeverStarted = true
	return r
}

// IsError reports whether the call ended with an error.
func (r ToolResult) IsError() bool { return r.Error != "" || r.ErrorKind != "" }

// MaxSummaryChars is the length of a summary in characters.
const MaxSummaryChars = 1000

// Brief returns a summary of the result: the tool's own, or else what Summarise returns.
func (r ToolResult) Brief() string {
	if own := SummaryLine(r.Summary); own != "" {
		return own
	}
	return Summarise(r.Result)
}

// SummaryLine makes a text a summary: one line of at most MaxSummaryChars.
func SummaryLine(text string) string { return shorten.Line(text, MaxSummaryChars) }

// Summarise returns a summary of a result: a text, or the fields or items with their values. It is
// empty if result is not valid JSON.
func Summarise(result json.RawMessage) string { return shorten.JSON(result, MaxSummaryChars) }

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

// Status returns the status for tool.completed.
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

// The results of calls that transcript repair and crash recovery could not complete.
const (
	TextUnknown     = "The outcome of this call is unknown: it was interrupted while running. Do not retry it without checking."
	TextInterrupted = "The call was interrupted before it reported a result."
	TextNotExecuted = "The call was not executed. It is safe to retry."
	TextIterations  = "not executed: iteration limit reached"
	TextTooMany     = "not executed: more than 64 calls in one step"
)
