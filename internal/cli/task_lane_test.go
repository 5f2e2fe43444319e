package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// asking is a task with a question.
func asking(kind, expected string) perdure.Task {
	return perdure.Task{ID: "task_1", Tool: "ship", State: perdure.TaskAwaitingInput, InputRequest: &perdure.InputRequest{
		ID: "req_1", Kind: kind, Prompt: "Where to?", Expected: json.RawMessage(expected),
	}}
}

// TestTaskInput checks that a question is shown, and that the answer is sent with the expected
// schema.
func TestTaskInput(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "answer")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(text string) []perdure.TaskMessage {
		return []perdure.TaskMessage{{Text: text, InReplyTo: "req_1", By: operator}}
	}
	data := func(text string) []perdure.TaskMessage {
		return []perdure.TaskMessage{{Data: json.RawMessage(text), InReplyTo: "req_1", By: operator}}
	}
	for _, test := range []struct {
		name string
		task perdure.Task
		args string
		code int
		want []perdure.TaskMessage
		says string // on stdout or stderr
	}{
		{"it is shown", asking("question", `{"type":"string"}`), "task input task_1", exitOK, nil, "question    Where to?"},
		{"with what to type", asking("question", ""), "task input task_1", exitOK, nil, "perdure task input task_1 ANSWER"},
		{"as JSON", asking("question", ""), "task input task_1 --jq .prompt", exitOK, nil, "Where to?\n"},
		{"a text", asking("question", ""), "task input task_1 Zurich", exitOK, text("Zurich"), "answered task_1 ship, which asked: Where to?"},
		{"a text that looks like JSON", asking("question", ""), "task input task_1 42", exitOK, text("42"), "tmsg_1"},
		{"a file", asking("question", ""), "task input task_1 @" + file, exitOK, text("from a file"), ""},
		{"stdin", asking("question", ""), "task input task_1 -", exitOK, text("typed"), ""},
		{"JSON where it is expected", asking("question", `{"type":"number"}`), "task input task_1 42", exitOK, data("42"), ""},
		{"a text where JSON is expected", asking("question", `{"type":"string"}`), "task input task_1 Zurich", exitOK, data(`"Zurich"`), ""},
		{"only to see", asking("question", ""), "task input task_1 Zurich --dry-run", exitOK, nil, "would answer task_1 ship, which asks: Where to?"},
		{"an approval is none", asking("approval", ""), "task input task_1 yes", exitConflict, nil, "perdure approval list"},
		{"nothing is asked", perdure.Task{ID: "task_1", State: perdure.TaskRunning}, "task input task_1 yes", exitConflict, nil, "has no open question: it is running"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &scene{views: [][]perdure.Task{{test.task}}}

			code, out, talk := command{args: test.args, scene: s, stdin: "typed"}.run(t.Context())

			if diff := cmp.Diff(s.sent, test.want); diff != "" || code != test.code || !strings.Contains(out+talk, test.says) {
				t.Errorf("exit code %d, sent %s, %s%s", code, diff, out, talk)
			}
		})
	}
	t.Run("an answer that does not fit", func(t *testing.T) {
		t.Parallel()
		s := &scene{views: [][]perdure.Task{{asking("question", `{"type":"number"}`)}}, unfit: fmt.Errorf("%w answer: want a number", perdure.Invalid)}

		code, _, talk := command{args: "task input task_1 many", scene: s}.run(t.Context())

		if code != exitUsage || !strings.Contains(talk, `still waits for an answer of this schema: {"type":"number"}`) {
			t.Errorf("exit code %d: %s", code, talk)
		}
	})
}

// TestTaskCancelAll checks that all open tasks are canceled after confirmation.
func TestTaskCancelAll(t *testing.T) {
	t.Parallel()
	live := []perdure.Task{{ID: "task_1", State: perdure.TaskRunning}, {ID: "task_2", State: perdure.TaskSucceeded}}
	for _, test := range []struct {
		args, stdin string
		code        int
		want        []perdure.SessionID
		says        string
	}{
		{"task cancel --all --session last", "n\n", exitError, nil, "cancel 1 task of session_1, including all child processes?"},
		{"task cancel --all --session last --dry-run", "", exitOK, nil, "would cancel 1 task"},
		{"--no-input task cancel --all --session last", "y\n", exitApproval, nil, "confirm with --yes"},
	} {
		s := &scene{sessions: []engine.Session{{ID: "session_1"}}, views: [][]perdure.Task{live}}
		code, _, talk := command{args: test.args, scene: s, stdin: test.stdin, terminal: Terminal{Stdin: true}}.run(t.Context())
		if diff := cmp.Diff(s.canceled, test.want); diff != "" || code != test.code || !strings.Contains(talk, test.says) {
			t.Errorf("%s: exit code %d, %s: %s", test.args, code, diff, talk)
		}
	}
}

// TestTaskDrain checks that results are printed once, with the tasks that they belong to.
func TestTaskDrain(t *testing.T) {
	t.Parallel()
	s := &scene{sessions: []engine.Session{{ID: "session_1"}}, ready: []perdure.Task{
		{ID: "task_1", Call: "call_1", Tool: "ship", State: perdure.TaskSucceeded, Result: `{"sent":true}`},
		{ID: "task_2", Tool: "pack", State: perdure.TaskFailed, Error: &perdure.TaskError{Kind: "error", Message: "no box\x1b[2J"}},
	}}

	_, out, _ := command{args: "task drain --session last", scene: s}.run(t.Context())
	_, again, talk := command{args: "task drain --session last", scene: s}.run(t.Context())

	for _, want := range []string{"task    task_1\n", "call    call_1\n", `result  {"sent":true}` + "\n", "\n\ntask   task_2\n", "error  error: no box[2J\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("has no %q in\n%s", want, out)
		}
	}
	if again != "" || !strings.Contains(talk, "no results to drain") {
		t.Errorf("again: %q, %q", again, talk)
	}
}
