package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
)

// ResultKind is the kind of a result.
type ResultKind int

// The kinds. The zero value of Result is a success with null.
const (
	KindSuccess ResultKind = iota
	KindToolError
	KindInternal
	KindConnection
)

// Result is what a tool returns. Make one with Success, Error, Failf, Internal or Connect.
type Result struct {
	Kind      ResultKind
	Value     any               // success: encoded as JSON
	Summary   string            // success: one line for people and notifications; empty: the runtime makes one
	Images    []perdure.Image   // success and tool error
	Text      string            // tool error: a text for the model; connection: the provider
	Err       error             // internal: only for the log
	Raw       *string           // raw output, apart from the JSON; nil: absent
	ErrorKind perdure.ErrorKind // empty: tool_error or internal, by kind
	ReadTasks []perdure.TaskID  // tasks whose end the model learns from this result
	ExitCode  *int              // of a command, for the record
	Refused   bool              // the tool was not entered
	Untrusted bool              // it contains outside content; the runtime sets it for tools that are not Trusted
	// Metadata is for programs that read the event, the record of the call or the API. The model
	// does not read it. It encodes as JSON, of at most [perdure.MaxResultMetadataBytes].
	Metadata map[string]any
	// it shows a secret intentionally and is not masked; only with a granted [ReadSecret]
	RevealsSecret bool
}

// Success returns a result with a value that encodes as JSON; nil is null.
func Success(v any) Result { return Result{Value: v} }

// WithRaw adds raw output.
func (r Result) WithRaw(raw string) Result { r.Raw = &raw; return r }

// WithImages adds images: in base64, or by the id of an image that the tool stored with [Images].
// The runtime stores those in base64 with the session, each content once, and keeps their ids.
func (r Result) WithImages(images ...perdure.Image) Result { r.Images = images; return r }

// WithSummary adds the one-line summary for the task's record, its notification and lists. White
// space becomes single spaces, and the line is cut at [perdure.MaxSummaryChars].
func (r Result) WithSummary(text string) Result { r.Summary = text; return r }

// WithMetadata adds metadata for programs.
func (r Result) WithMetadata(metadata map[string]any) Result { r.Metadata = metadata; return r }

// Error returns a tool error: a text that the model can read and act on.
func Error(text string) Result { return Result{Kind: KindToolError, Text: text} }

// Failf is Error with a format.
func Failf(format string, args ...any) Result { return Error(fmt.Sprintf(format, args...)) }

// Internal returns an internal error. Its text only goes to the log.
func Internal(err error) Result { return Result{Kind: KindInternal, Err: err} }

// Connect returns a result that asks for a connection to a provider.
func Connect(provider string) Result { return Result{Kind: KindConnection, Text: provider} }

// IsSuccess reports whether the tool succeeded. A required connection is neither success nor error.
func (r Result) IsSuccess() bool { return r.Kind == KindSuccess }

// IsError reports whether the result is a tool error or an internal error.
func (r Result) IsError() bool { return r.Kind == KindToolError || r.Kind == KindInternal }

// Record converts the result to the record of a call. The error is for the log: that of an internal
// error, or the reason why a value cannot be encoded as JSON, which makes the record an internal
// error, or why the metadata was left out.
func (r Result) Record(id perdure.CallID) (perdure.ToolResult, error) {
	record, err := r.record(id)
	if len(r.Metadata) == 0 {
		return record, err
	}
	metadata, fault := encode(r.Metadata)
	if fault == nil && len(metadata) > perdure.MaxResultMetadataBytes {
		fault = fmt.Errorf("%d bytes, at most %d are allowed", len(metadata), perdure.MaxResultMetadataBytes)
	}
	if fault != nil {
		return record, errors.Join(err, fmt.Errorf("metadata of the result left out: %w", fault))
	}
	record.Metadata = metadata
	return record, err
}

func (r Result) record(id perdure.CallID) (perdure.ToolResult, error) {
	switch r.Kind {
	case KindToolError:
		return r.failed(id, perdure.ErrorTool, r.Text), nil
	case KindInternal:
		return r.failed(id, perdure.ErrorInternal, perdure.GenericToolError), r.Err
	case KindConnection:
		body, err := json.Marshal(map[string]string{"connection_required": r.Text})
		return perdure.ToolResult{CallID: id, Result: body, ConnectionRequired: r.Text}, err
	}
	body, err := encode(r.Value)
	if err != nil {
		return r.failed(id, perdure.ErrorInternal, perdure.GenericToolError), fmt.Errorf("encode result: %w", err)
	}
	return perdure.ToolResult{
		CallID: id, Result: body, Summary: perdure.SummaryLine(r.Summary), Images: r.Images, RawOutput: r.Raw, ReadTasks: r.ReadTasks, Untrusted: r.Untrusted,
	}, nil
}

func (r Result) failed(id perdure.CallID, kind perdure.ErrorKind, text string) perdure.ToolResult {
	if r.ErrorKind != "" {
		kind = r.ErrorKind
	}
	record := perdure.Failed(id, kind, text)
	record.NeverStarted = r.Refused
	record.RawOutput = r.Raw
	if r.Kind == KindToolError {
		record.Images = r.Images
	}
	record.ReadTasks = r.ReadTasks
	record.Untrusted = r.Untrusted && !r.Refused
	return record
}

// encode encodes a value as JSON without HTML escapes. A panic of the value's encoder is an error.
func encode(v any) (text json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if raw, ok := v.(json.RawMessage); ok && json.Valid(raw) {
		return raw, nil
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return json.RawMessage(strings.TrimSuffix(out.String(), "\n")), nil
}

// ToolError is a Go error whose text the model may read. Any other error of a typed tool is
// internal.
type ToolError struct{ Text string }

// Error returns the text.
func (e *ToolError) Error() string { return e.Text }

// Errorf returns a ToolError, for typed tools: return out, tool.Errorf("no such repository: %s",
// name).
func Errorf(format string, args ...any) error { return &ToolError{Text: fmt.Sprintf(format, args...)} }

// NotConnected is the error of work that needs a connection which the session's user does not have,
// or which has expired. It becomes the result of [Connect].
type NotConnected struct{ Provider string }

// Error names the provider.
func (e *NotConnected) Error() string { return fmt.Sprintf("no connection to %.40q", e.Provider) }

// Is reports whether target is NotFound.
func (e *NotConnected) Is(target error) bool { return target == perdure.NotFound }

// FromError converts the error of a typed tool into a result. A ToolError or FileError keeps its
// text; any other error is internal.
func FromError(err error) Result {
	var toolErr *ToolError
	if errors.As(err, &toolErr) {
		return Error(toolErr.Text)
	}
	var fileErr *FileError
	if errors.As(err, &fileErr) {
		return Error(fileErr.Text)
	}
	var connection *NotConnected
	if errors.As(err, &connection) {
		return Connect(connection.Provider)
	}
	return Internal(err)
}

// Chain returns an error with its causes, joined with ": ", without consecutive repetitions. Only
// for the log.
func Chain(err error) string {
	if err == nil {
		return ""
	}
	var texts []string
	for _, text := range strings.Split(err.Error(), ": ") {
		if len(texts) == 0 || texts[len(texts)-1] != text {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ": ")
}
