package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
)

// ResultKind is one of the five kinds of result (2.2).
type ResultKind int

// The kinds. The zero value of a Result is a success with null.
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
	Summary   string            // success: what came of it in one line, for people and the notification; empty: the runtime makes one
	Images    []perdure.Image   // success
	Text      string            // tool error: fit for the model to read; connection: the provider
	Err       error             // internal: for the log only (TL12)
	Raw       *string           // the raw output, a typed field beside the JSON (TL14); nil: absent
	ErrorAs   perdure.ErrorKind // empty: tool_error or internal, by kind
	Read      []perdure.TaskID  // tasks whose end this result tells the model (DL5)
	ExitCode  *int              // of a command, for the record
	Refused   bool              // the tool was not entered
	Untrusted bool              // it holds what came from outside; the runtime sets it for tools that are not Trusted (S3)
	Reveals   bool              // it shows a secret on purpose, and is not masked; counts only where [ReadSecret] was granted
}

// Success makes a result of a value that encodes as JSON; nil is null.
func Success(v any) Result { return Result{Value: v} }

// WithRaw adds raw output.
func (r Result) WithRaw(raw string) Result { r.Raw = &raw; return r }

// WithImages adds images; none stays absent.
func (r Result) WithImages(images ...perdure.Image) Result { r.Images = images; return r }

// WithSummary adds the line that stands for the result in the task's record, its notification and lists. White space is folded,
// and what is longer than [perdure.MaxSummaryChars] is cut.
func (r Result) WithSummary(text string) Result { r.Summary = text; return r }

// Error makes a tool error: a text that the model may read and act on.
func Error(text string) Result { return Result{Kind: KindToolError, Text: text} }

// Failf is Error with a format.
func Failf(format string, args ...any) Result { return Error(fmt.Sprintf(format, args...)) }

// Internal makes an internal error. Its text goes to the log and nowhere else (TL12).
func Internal(err error) Result { return Result{Kind: KindInternal, Err: err} }

// Connect asks for a connection to a provider.
func Connect(provider string) Result { return Result{Kind: KindConnection, Text: provider} }

// IsSuccess reports whether the tool did what it was asked. A connection that is required is neither
// success nor error (TL13).
func (r Result) IsSuccess() bool { return r.Kind == KindSuccess }

// IsError reports a tool error or an internal error.
func (r Result) IsError() bool { return r.Kind == KindToolError || r.Kind == KindInternal }

// Record converts the result to the record of a call, exactly by TL11. A value that is no JSON becomes an
// internal error, which the second result returns for the log (TL18); it is r.Err for an internal error.
func (r Result) Record(id perdure.CallID) (perdure.ToolResult, error) {
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
		CallID: id, Result: body, Summary: perdure.SummaryLine(r.Summary), Images: r.Images, RawOutput: r.Raw, Read: r.Read, Untrusted: r.Untrusted,
	}, nil
}

func (r Result) failed(id perdure.CallID, kind perdure.ErrorKind, text string) perdure.ToolResult {
	if r.ErrorAs != "" {
		kind = r.ErrorAs
	}
	record := perdure.Failed(id, kind, text)
	record.NeverStarted = r.Refused
	record.RawOutput = r.Raw
	record.Read = r.Read
	record.Untrusted = r.Untrusted && !r.Refused
	return record
}

// encode writes a value as JSON without escaping what only HTML minds. A value that panics while it is written
// is one that cannot be.
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

// ToolError is a Go error whose text the model may read. Any other error that a typed tool returns is internal (TL13).
type ToolError struct{ Text string }

// Error returns the text.
func (e *ToolError) Error() string { return e.Text }

// Errorf makes a ToolError, for typed tools: return out, tool.Errorf("no such repository: %s", name).
func Errorf(format string, args ...any) error { return &ToolError{Text: fmt.Sprintf(format, args...)} }

// FromError turns the error of a typed tool into a result: a ToolError or FileError keeps its text, all else is internal.
func FromError(err error) Result {
	var toolErr *ToolError
	if errors.As(err, &toolErr) {
		return Error(toolErr.Text)
	}
	var fileErr *FileError
	if errors.As(err, &fileErr) {
		return Error(fileErr.Text)
	}
	return Internal(err)
}

// Chain writes an error and its causes, joined with ": ", consecutive repeats dropped (TL12). For the log only.
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
