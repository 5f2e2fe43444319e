package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cli/raw"
)

// TestC04Commands checks that a command returns each exit code of help exit-codes, except the one
// that only a server causes.
func TestC04Commands(t *testing.T) {
	t.Parallel()
	one := []engine.Session{{ID: "session_1", Title: "same"}, {ID: "session_2", Title: "same"}}
	running := &scene{views: [][]perdure.Task{{{ID: "task_1", State: perdure.TaskRunning}}}}
	failed := &scene{views: [][]perdure.Task{{{ID: "task_1", State: perdure.TaskFailed}}}}
	asking := &scene{approvals: []perdure.Approval{{ID: "appr_1", State: perdure.ApprovalOpen}, {ID: "appr_2", State: perdure.ApprovalExpired}}}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeout(t.Context(), 0)
	defer stop()
	given := map[int]bool{exitDenied: true} // tested by TestC04API
	for _, test := range []struct {
		code    int
		command command
		ctx     context.Context
	}{
		{exitOK, command{args: "version"}, nil},
		{exitOK, command{args: "session list", scene: &scene{}}, nil},
		{exitError, command{args: "session list", scene: &scene{err: errors.New("anything")}}, nil},
		{exitError, command{args: "doctor", checks: []Check{{Name: "disk", Health: HealthError}}}, nil},
		{exitUsage, command{args: "session lst"}, nil},
		{exitOK, command{args: "session list --jq .", scene: &scene{}}, nil},
		{exitUsage, command{args: "session list --jq .["}, nil},
		{exitUsage, command{args: "run hello", scene: &scene{}}, nil},
		{exitNotFound, command{args: "session show x", scene: &scene{}}, nil},
		{exitNotFound, command{args: "session list", opening: perdure.NotFound}, nil},
		{exitConflict, command{args: "session show same", scene: &scene{sessions: one}}, nil},
		{exitConflict, command{args: "session send last hello", opening: perdure.Conflict}, nil},
		{exitUnreachable, command{args: "tool list --allow-shell", opening: perdure.Unavailable}, nil},
		{exitTimeout, command{args: "task watch task_1", scene: running}, late},
		{exitFailed, command{args: "task watch task_1 --exit-status", scene: failed}, nil},
		{exitConflict, command{args: "approval deny appr_2", scene: asking}, nil},
		{exitConflict, command{args: "task input task_1", scene: running}, nil},
		{exitConflict, command{args: "task message task_1 hello", scene: failed}, nil},
		{exitUsage, command{args: "task cancel --all", scene: running}, nil},
		{exitApproval, command{args: "--no-input task cancel task_1", scene: running, terminal: Terminal{Stdin: true}}, nil},
		{exitApproval, command{args: "--no-input task cancel task_1", scene: running}, nil},
		{exitStorage, command{args: "session list", scene: &scene{err: perdure.Storage}}, nil},
		{exitInterrupted, command{args: "task watch task_1", scene: running}, canceled},
	} {
		t.Run(fmt.Sprintf("%d %s", test.code, test.command.args), func(t *testing.T) {
			if test.command.scene == nil {
				test.command.scene = &scene{}
			}
			if test.ctx == nil {
				test.ctx = t.Context()
			}
			code, _, talk := test.command.run(test.ctx)
			if code != test.code {
				t.Errorf("exit code %d, want %d: %s", code, test.code, talk)
			}
			if code != exitOK && code != exitInterrupted {
				wantAdvice(t, talk)
			}
		})
		given[test.code] = true
	}
	for _, m := range meanings() {
		if !given[m.code] {
			t.Errorf("no command gives %d", m.code)
		}
		delete(given, m.code)
	}
	if len(given) > 0 {
		t.Errorf("help exit-codes does not tell of %v", given)
	}
}

// wantAdvice checks for what happened, then what to do, and no stack trace (C14).
func wantAdvice(t *testing.T, talk string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(talk), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "perdure: ") || !strings.HasPrefix(lines[1], "  ") {
		t.Errorf("does not say what happened, then what to do: %q", talk)
	}
	if strings.Contains(talk, "  page    ") && !regexp.MustCompile(`(?m)^  page    (http\S+|perdure help [a-z_]+)$`).MatchString(talk) {
		t.Errorf("names a page that says no more: %q", talk)
	}
	if found := regexp.MustCompile(`goroutine|panic|\.go:`).FindString(talk); found != "" {
		t.Errorf("has %q: %s", found, talk)
	}
}

// TestC14Advice checks that every kind of error has a hint, and the right suggestion.
func TestC14Advice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, meant string }{
		{"hepl", `did you mean "help"?`},
		{"reject appr_1", `there is no command "reject", did you mean "approval deny"?`},
		{"kill task_1", `did you mean "cancel"?`},
		{"Status", `did you mean "ps"?`},
		{"daemon --addr 127.0.0.1:0", `did you mean "serve"?`},
		{"task kill task_1", `there is no command "task kill", did you mean "task cancel"?`},
		{"session destroy last", `did you mean "session delete"?`},
		{"webhook modify whk_1", `did you mean "webhook change"?`},
		{"sesion list", `did you mean one of "session"`},
		{"session shwo last", `did you mean "show"?`},
		{"task list --stat running", `did you mean "--state"?`},
		{"session list -o xml", "must be one of"},
		{"session list --limit many", "--limit"},
		{"tool call ecoh", "did you mean echo?"},
		{"tool show eho", "did you mean echo?"},
		{"task show", "<task>"},
		{"task list --state happy", "queued, running"},
		{"task list --kind happy", "background_tool, monitor"},
		{"task log", "<task>"},
		{"task cancel", "<task>"},
		{"task cancel --all", "--session"},
		{"task cancel --all --session last task_1", "cannot be used together"},
		{"task detach call_1", "SESSION/CALL"},
		{"task input task_1 @nowhere", "begins with @"},
		{"approval list --state happy", "open, approved"},
		{"approval list --state open --all", "can't be used together"},
		{"approve appr_1 --args {", "--args"},
		{"aprove appr_1", `did you mean "approve"?`},
		{"run --bg --ask bash hello", "perdure serve"},
		{"task resolve task_1", "--happened"},
		{"task resolve task_1 --happened --did-not-happen", "can't be used together"},
		{"help nonsense", "the topics are"},
		{"demo crash --kills=-1", "give 0 or more"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			code, out, talk := command{args: test.args, scene: &scene{}}.run(t.Context())
			if code == exitOK || out != "" || !strings.Contains(talk, test.meant) {
				t.Errorf("exit code %d, %q, %q", code, out, talk)
			}
			wantAdvice(t, talk)
		})
	}
	for _, kind := range []error{
		perdure.NotFound, perdure.Conflict, perdure.Lost, perdure.Limit, perdure.Unavailable, perdure.UnknownOutcome, perdure.Storage,
		perdure.Invalid, context.DeadlineExceeded, errors.New("anything"),
	} {
		_, _, talk := command{args: "session list", scene: &scene{err: kind}}.run(t.Context())
		wantAdvice(t, talk)
	}
}

// TestC14Pages checks that the code of every problem of a server has a page, and that the error
// says where to open it.
func TestC14Pages(t *testing.T) {
	t.Parallel()
	for _, code := range api.Codes() {
		status, out, talk := command{args: "help " + code, scene: &scene{}}.run(t.Context())
		if status != exitOK || talk != "" || !strings.HasPrefix(out, code+"\n\n") {
			t.Errorf("%s: exit code %d, %q, %q", code, status, out, talk)
		}
		for _, part := range []string{"\n- What: ", "\n- Why: ", "\n- What to do: "} {
			if strings.Count(out, part) != 1 {
				t.Errorf("%s: %q has no %q of its own", code, out, part)
			}
		}
		for _, test := range []struct{ base, kind, page string }{
			{"http://127.0.0.1:1/below", "/docs/p#" + code, "http://127.0.0.1:1/below/docs/p#" + code},
			{"http://127.0.0.1:1", "https://example.com/p#" + code, "https://example.com/p#" + code},
			{"", "/docs/p#" + code, "perdure help " + code},
			{"http://127.0.0.1:1", "about:blank", "perdure help " + code},
			{"http://127.0.0.1:1", "", "perdure help " + code},
		} {
			err := fmt.Errorf("step: %w", &raw.Problem{Status: 409, Detail: "no", Code: code, Type: test.kind, Base: test.base})
			_, _, talk := command{args: "session list", scene: &scene{err: err}}.run(t.Context())
			if !strings.HasSuffix(talk, "\n  page    "+test.page+"\n") {
				t.Errorf("%s from %q with %q: %q", code, test.base, test.kind, talk)
			}
		}
	}
	for _, strange := range []string{"", ".*", "conflict\n", "no_such_code"} {
		if _, ok := hasPage(strange); ok {
			t.Errorf("%q is explained", strange)
		}
	}
}

// TestC10Asks is the table of when task cancel asks for confirmation, and the result.
func TestC10Asks(t *testing.T) {
	t.Parallel()
	terminal, pipe := Terminal{Stdin: true, Stderr: true}, Terminal{}
	for _, test := range []struct {
		name   string
		at     Terminal
		flags  flags
		yes    bool
		typed  string
		asks   bool
		refuse int // exit code; zero: accepted
	}{
		{"a terminal is asked, and says yes", terminal, flags{}, false, "y\n", true, 0},
		{"or in another way", terminal, flags{}, false, " YES \n", true, 0},
		{"it says no", terminal, flags{}, false, "n\n", true, exitError},
		{"it says nothing", terminal, flags{}, false, "\n", true, exitError},
		{"it ends", terminal, flags{}, false, "", true, exitError},
		{"yes was said before", terminal, flags{}, true, "", false, 0},
		{"nobody may ask", terminal, flags{NoInput: true}, false, "y\n", false, exitApproval},
		{"nobody may ask, and yes was said", terminal, flags{NoInput: true}, true, "", false, 0},
		{"a pipe cannot be asked", pipe, flags{}, false, "y\n", false, exitApproval},
		{"nor with --no-input", pipe, flags{NoInput: true}, false, "", false, exitApproval},
		{"and a yes stays a yes", pipe, flags{NoInput: true}, true, "", false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var talk strings.Builder
			a := &app{Dependencies: Dependencies{Terminal: test.at, Stderr: &talk}, flags: test.flags, stdin: strings.NewReader(test.typed)}

			err := a.confirm(t.Context(), test.yes, "end it?")

			if exitCode(err) != test.refuse || strings.Contains(talk.String(), "end it?") != test.asks {
				t.Errorf("%v, %q", err, talk.String())
			}
			if err := a.confirmName(t.Context(), test.yes, "end it?", "it"); (test.flags.NoInput || !test.at.Stdin) && exitCode(err) != test.refuse {
				t.Errorf("of what nobody can undo: %v", err)
			}
		})
	}
}
