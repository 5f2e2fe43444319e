package perdure_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// TestResultStatus says for each kind of failure how tool.completed reports it (16.2).
func TestResultStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind perdure.ErrorKind
		want perdure.CompletionStatus
	}{
		{"", perdure.StatusSuccess},
		{perdure.ErrorTimeout, perdure.StatusTimeout},
		{perdure.ErrorCanceled, perdure.StatusCanceled},
		{perdure.ErrorInterrupted, perdure.StatusInterrupted},
		{perdure.ErrorUnknown, perdure.StatusUnknown},
		{perdure.ErrorDenied, perdure.StatusError},
		{perdure.ErrorOrphaned, perdure.StatusError},
		{perdure.ErrorRejected, perdure.StatusError},
		{perdure.ErrorPanic, perdure.StatusError},
		{perdure.ErrorTool, perdure.StatusError},
		{perdure.ErrorInternal, perdure.StatusError},
		{perdure.ErrorNoResult, perdure.StatusError},
		{perdure.ErrorDeterminism, perdure.StatusError},
	} {
		result := perdure.ToolResult{CallID: "a", Result: json.RawMessage(`1`)}
		if c.kind != "" {
			result = perdure.Failed("a", c.kind, "text")
		}
		if got := result.Status(); got != c.want {
			t.Errorf("status of %q: got %s, want %s", c.kind, got, c.want)
		}
		if got, want := result.IsError(), c.kind != ""; got != want {
			t.Errorf("%q is an error: got %t, want %t", c.kind, got, want)
		}
	}
}

// TestFailed is the row of TL11 for errors: body, text and kind agree.
func TestFailed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"boom", `"quoted" <&> \ ü`, "two\nlines", perdure.GenericToolError} {
		got := perdure.Failed("a", perdure.ErrorTool, text)

		var body map[string]string
		if err := json.Unmarshal(got.Result, &body); err != nil {
			t.Fatalf("%s is no JSON: %v", got.Result, err)
		}
		if diff := cmp.Diff(body, map[string]string{"error": text}); diff != "" {
			t.Errorf("body (-got +want):\n%s", diff)
		}
		got.Result = nil
		want := perdure.ToolResult{CallID: "a", Error: text, ErrorKind: perdure.ErrorTool}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("result (-got +want):\n%s", diff)
		}
		refused := perdure.Refused("a", perdure.ErrorTool, text)
		refused.Result, want.NeverStarted = nil, true
		if diff := cmp.Diff(refused, want); diff != "" {
			t.Errorf("refusal (-got +want):\n%s", diff)
		}
	}
}

// TestResultKeepsRawOutputIn is TL11 and EV10: raw output is never serialised, absent images stay
// absent.
func TestResultKeepsRawOutputIn(t *testing.T) {
	t.Parallel()
	raw := "raw-canary"
	text, err := json.Marshal(perdure.ToolResult{CallID: "a", Result: json.RawMessage(`{"_raw_output":"mine"}`), RawOutput: &raw})
	if err != nil {
		t.Fatal(err)
	}

	if got, want := string(text), `{"tool_call_id":"a","result":{"_raw_output":"mine"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRuleTexts pins the texts that the semantics fix to the letter.
func TestRuleTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, got, want string }{
		{"TL12", perdure.GenericToolError, "An internal error occurred while executing the tool"},
		{"TN17 unknown", perdure.TextUnknown, "The outcome of this call is unknown: it was interrupted while running. Do not retry it without checking."},
		{"TN17 interrupted", perdure.TextInterrupted, "The call was interrupted before it reported a result."},
		{"TN17 not executed", perdure.TextNotExecuted, "The call was not executed. It is safe to retry."},
		{"TN1", perdure.TextIterations, "not executed: iteration limit reached"},
		{"TN9", perdure.TextTooMany, "not executed: more than 64 calls in one step"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.rule, c.got, c.want)
		}
	}
}

// TestFinalPreview is the cut of O5's turn field: 2,000 characters, on a rune boundary.
func TestFinalPreview(t *testing.T) {
	t.Parallel()
	w := asking(t, perdure.Agent{})

	w.settle(w.answer(strings.Repeat("é", 2001))...)

	if got, want := last[perdure.TurnCompleted](t, w).FinalPreview, strings.Repeat("é", 2000); got != want {
		t.Errorf("preview: got %d bytes, want %d", len(got), len(want))
	}
}

// TestBriefIsTheToolsOwn has the tool's own summary stand for a result, in one line.
func TestBriefIsTheToolsOwn(t *testing.T) {
	t.Parallel()
	r := perdure.ToolResult{Result: json.RawMessage(`{"n":1}`)}
	if got := r.Brief(); got != "n: 1" {
		t.Errorf("without one: %q", got)
	}
	r.Summary = " 3 services\n deployed"
	if got := r.Brief(); got != "3 services deployed" {
		t.Errorf("with one: %q", got)
	}
}
