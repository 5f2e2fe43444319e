package taskrun

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/tool"
)

// TestVerdict pins the table of BG14: state, error kind, result.json and the end of output.log.
func TestVerdict(t *testing.T) {
	t.Parallel()
	canceled := dispatch.End{Cause: perdure.CauseCanceled}
	for _, c := range []struct {
		name    string
		result  tool.Result
		end     dispatch.End
		state   perdure.TaskState
		kind    perdure.ErrorKind
		body    string
		summary string
	}{
		{name: "outcome", result: tool.Success(map[string]int{"n": 1}), state: perdure.TaskSucceeded,
			body: "{\n  \"n\": 1\n}\n", summary: `n: 1`},
		{name: "tool_error", result: tool.Error("boom"), state: perdure.TaskFailed, kind: perdure.ErrorTool,
			body: `"error": "boom"`, summary: "boom"},
		{name: "internal", result: tool.Internal(errors.New("secret")), state: perdure.TaskFailed,
			kind: perdure.ErrorInternal, body: perdure.GenericToolError, summary: perdure.GenericToolError},
		{name: "connection", result: tool.Connect("github"), state: perdure.TaskFailed, kind: perdure.ErrorTool,
			body: "requires connection setup: github", summary: "Background tool requires connection setup: github"},
		{name: "canceled", result: tool.Internal(perdure.CauseCanceled), end: canceled, state: perdure.TaskCanceled,
			body: `"status": "canceled"`, summary: "Canceled by request."},
		{name: "success_after_cancel", result: tool.Success(1), end: canceled, state: perdure.TaskSucceeded,
			body: "1\n", summary: "1"},
		{name: "deadline", result: tool.Internal(perdure.CauseDeadline),
			end: dispatch.End{Cause: perdure.CauseDeadline}, state: perdure.TaskFailed,
			kind: perdure.ErrorTimeout, body: "Timed out after"},
		{name: "unknown", result: core.UnknownResult(), state: perdure.TaskUnknown, body: `"status": "unknown"`,
			summary: "Outcome unknown."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, _ := bed(t, nil)

			v := e.Judge(Claimed{Row: perdure.Call{Tool: "x"}}, c.result, c.end)

			if v.Update.State != c.state || !strings.Contains(string(v.body.Text), c.body) ||
				strings.Contains(string(v.body.Text), "secret") {
				t.Errorf("got %s with %s", v.Update.State, v.body.Text)
			}
			if (c.kind == "") != (v.Update.Error == nil) || c.kind != "" && v.Update.Error.Kind != c.kind {
				t.Errorf("got error %+v, want kind %q", v.Update.Error, c.kind)
			}
			if c.summary != "" && v.Update.Summary != c.summary {
				t.Errorf("got summary %q, want %q", v.Update.Summary, c.summary)
			}
		})
	}
}

// TestCancelCauseIsTyped pins that a cancel is recognised by its type, never by its text.
func TestCancelCauseIsTyped(t *testing.T) {
	t.Parallel()
	e, _ := bed(t, nil)
	end := dispatch.End{Cause: perdure.CauseCanceled}
	for text, r := range map[string]tool.Result{
		"tool error with the word": tool.Error("canceled"),
		"internal with the word":   tool.Internal(errors.New("canceled")),
	} {
		if v := e.Judge(Claimed{}, r, end); v.Update.State != perdure.TaskFailed {
			t.Errorf("%s: got %s, want failed", text, v.Update.State)
		}
	}
	for text, r := range map[string]tool.Result{
		"our cause":         tool.Internal(perdure.CauseCanceled),
		"our cause wrapped": tool.Internal(errors.Join(errors.New("while reading"), perdure.CauseCanceled)),
	} {
		if v := e.Judge(Claimed{}, r, end); v.Update.State != perdure.TaskCanceled {
			t.Errorf("%s: got %s, want canceled", text, v.Update.State)
		}
	}
	if v := e.Judge(Claimed{}, tool.Internal(perdure.CauseCanceled),
		dispatch.End{}); v.Update.State != perdure.TaskFailed {
		t.Errorf("nobody asked for it: got %s, want failed", v.Update.State)
	}
}

// TestOutputLogCap pins BG12: the marker, and at most 262,144 + 128 characters, cut at a character.
func TestOutputLogCap(t *testing.T) {
	t.Parallel()
	log, truncated := limitLog(strings.Repeat("ä", logLimitChars+5))

	if !truncated || !strings.HasSuffix(log, "\n[system] background output truncated at 262144 characters\n") {
		t.Errorf("truncated %t, ends with %q", truncated, log[len(log)-80:])
	}
	if n := utf8.RuneCountInString(log); n > logLimitChars+128 || !utf8.ValidString(log) {
		t.Errorf("%d characters, valid %t", n, utf8.ValidString(log))
	}
	if whole, truncated := limitLog(strings.Repeat("x", logLimitChars)); truncated || len(whole) != logLimitChars {
		t.Error("a log of exactly the limit is cut")
	}
}
