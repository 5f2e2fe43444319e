package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure"
)

// sampleArguments returns arguments with which a command is parsed.
func sampleArguments(node *kong.Node) (words string) {
	for _, arg := range node.Positional {
		if !arg.Required {
			continue
		}
		if words += " last"; arg.Enum != "" {
			words = " " + strings.Split(arg.Enum, ",")[0]
		}
	}
	for _, flag := range node.Flags {
		if flag.Required {
			words += " --" + flag.Name + "=last"
		}
	}
	return words
}

// TestEveryErrorHasCauseAndFix: whatever fails, each command says what happened and what to do
// next, and nothing else.
func TestEveryErrorHasCauseAndFix(t *testing.T) {
	t.Parallel()
	kinds := []error{
		perdure.NotFound, perdure.Conflict, perdure.Lost, perdure.Limit, perdure.Unavailable, perdure.UnknownOutcome,
		perdure.Storage, perdure.Invalid, perdure.Denied, context.DeadlineExceeded, errors.New("anything"),
	}
	stored := []string{"approval", "approve", "agent", "budget", "call", "cost", "event", "file", "harness", "payment", "ps",
		"resource", "schedule", "session", "task", "token", "value", "webhook"}
	opened, all := 0, leaves(t)
	for n, name := range slices.Sorted(maps.Keys(all)) {
		node := all[name]
		if node.Hidden || slices.ContainsFunc(node.Positional, func(arg *kong.Positional) bool { return arg.Passthrough }) {
			continue
		}
		code, _, talk := command{args: name + " --no-such-flag", scene: &scene{}}.run(t.Context())
		if code != exitUsage || !strings.Contains(talk, "--no-such-flag") {
			t.Errorf("%s: exit code %d: %s", name, code, talk)
		}
		wantAdvice(t, talk)
		if noun, _, _ := strings.Cut(name, " "); !slices.Contains(stored, noun) {
			continue
		}
		for i := range 3 { // each command gets some of them
			kind := kinds[(n+4*i)%len(kinds)]
			code, _, talk := command{args: "--no-input " + name + sampleArguments(node), opening: fmt.Errorf("open: %w", kind)}.run(t.Context())
			if code == exitOK || strings.Contains(talk, "internal error") {
				t.Errorf("%s after %v: exit code %d: %s", name, kind, code, talk)
			}
			if strings.Contains(talk, "open: ") {
				opened++
			}
			wantAdvice(t, talk)
		}
	}
	if opened < 120 {
		t.Errorf("only %d errors of an engine were seen", opened)
	}
}

// TestEveryErrorIsWritten reads the source: an error of the command line has a fix in words.
func TestEveryErrorIsWritten(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		empty := func(e ast.Expr) bool {
			text, ok := e.(*ast.BasicLit)
			return ok && len(strings.Trim(text.Value, "\"` ")) == 0
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.Ident); ok && called.Name == "usageError" {
					seen++
					if len(n.Args) != 2 || empty(n.Args[0]) || empty(n.Args[1]) {
						t.Errorf("%s: an error without a cause or a fix", set.Position(n.Pos()))
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "hint" || key.Name == "message") && empty(n.Value) {
					t.Errorf("%s: an empty %s", set.Position(n.Pos()), key.Name)
				}
			}
			return true
		})
	}
	if seen < 80 {
		t.Errorf("only %d errors were found", seen)
	}
}

// TestMeanings: each suggested command exists.
func TestMeanings(t *testing.T) {
	t.Parallel()
	known, nouns, verbs := leaves(t), map[string]bool{}, map[string]bool{}
	for name := range known {
		noun, verb, _ := strings.Cut(name, " ")
		nouns[noun], verbs[verb] = true, true
	}
	for word, command := range commandsMeant() {
		topic, isHelp := strings.CutPrefix(command, "help ")
		if _, ok := topics()[topic]; isHelp && ok {
			continue
		}
		if known[command] == nil && !nouns[command] {
			t.Errorf("%s means %q, which is no command", word, command)
		}
	}
	for word, all := range verbsMeant() {
		for _, verb := range all {
			if !verbs[verb] {
				t.Errorf("%s means %q, which no noun has", word, verb)
			}
		}
	}
}

// TestDataDirectories: what is no data directory is named, with the fix.
func TestDataDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.md")
	if err := os.WriteFile(file, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		dir, says, todo string
		opening         error
		code            int
	}{
		{file, file + " is a file, not a data directory", "name a folder with --data", nil, exitUsage},
		{dir, dir + " is not a data directory", "name the data directory with --data, or begin one in this folder: perdure run", perdure.NotFound, exitNotFound},
		{t.TempDir(), "not found", "start a session with: perdure run --data ", perdure.NotFound, exitNotFound},
		{dir, "no database", "move /data/perdure.db away", notDatabase{}, exitStorage},
		{dir, "denied", "make it writable", fmt.Errorf("%w: %w: denied", perdure.Storage, os.ErrPermission), exitStorage},
	} {
		code, _, talk := command{args: "session list --data " + test.dir, scene: &scene{}, opening: test.opening}.run(t.Context())
		if code != test.code || !strings.Contains(talk, test.says) || !strings.Contains(talk, test.todo) || strings.Contains(talk, "free some space") {
			t.Errorf("exit code %d, want %d, %q and %q: %s", code, test.code, test.says, test.todo, talk)
		}
		wantAdvice(t, talk)
	}
}

type notDatabase struct{}

func (notDatabase) Error() string       { return "storage: no database" }
func (notDatabase) Unwrap() error       { return perdure.Storage }
func (notDatabase) NotDatabase() string { return "/data/perdure.db" }

// TestServerURL: a text that is no URL of a server is refused before anything is sent, and a
// password in it is not printed.
func TestServerURL(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"localhost:7373", "ftp://host", "http://", "unix://relative", "ftp://me:hidden@host"} {
		code, _, talk := command{args: "session list --server " + typed, scene: &scene{}}.run(t.Context())
		if code != exitUsage || !strings.Contains(talk, "not a server URL: ") || !strings.Contains(talk, "use http://HOST:PORT") || strings.Contains(talk, "hidden") {
			t.Errorf("%s: exit code %d: %s", typed, code, talk)
		}
	}
}

// TestWebhookRefusal: an address that is not public is refused with the command that allows it.
func TestWebhookRefusal(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("create webhook: %w url: localhost resolves to 127.0.0.1, a loopback address, and is refused. If this is intended, an operator can list localhost:9 for this purpose", perdure.Invalid)
	for server, want := range map[string]string{"": "perdure egress allow --webhook localhost:9  allows it", "http://host": "on the machine of the server"} {
		a := &app{flags: flags{Server: server}}
		err := webhookText{a}.refusal(refused)
		if strings.Contains(err.Error(), "list") || !strings.Contains(err.Error(), "loopback") || !strings.Contains(a.hint(err), want) {
			t.Errorf("got %v, %q", err, a.hint(err))
		}
	}
	if err := (webhookText{&app{}}).refusal(perdure.Conflict); err != error(perdure.Conflict) {
		t.Errorf("got %v", err)
	}
}

// TestNoteWait: a silent wait says what it waits for, after five seconds and once.
func TestNoteWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		a := &app{Dependencies: Dependencies{Stderr: &said}}
		a.noteWait("a quick answer")()
		ended := a.noteWait("the tool \x1bslow")
		<-time.After(silentTime - time.Second)
		if said.Len() > 0 {
			t.Errorf("too early: %s", said.String())
		}
		<-time.After(time.Hour)
		ended()
		synctest.Wait()
		if said.String() != "waiting for the tool slow; Ctrl-C stops\n" {
			t.Errorf("got %q", said.String())
		}
	})
}

// TestVoiceFailures: a failure of the model is shown once, and a retry says how many there may be.
func TestVoiceFailures(t *testing.T) {
	t.Parallel()
	failed := perdure.ReasonCompleted{Code: "provider_unavailable", Error: "refused", Retryable: true}
	for name, test := range map[string]struct {
		ends  bool
		facts []perdure.Fact
		want  string
	}{
		"a retry": {true, []perdure.Fact{perdure.ReasonStarted{Attempt: 1}, failed, perdure.ReasonStarted{Attempt: 2, Attempts: 5, NotBefore: time.Time{}.Add(time.Second)}},
			"✗ model call failed: provider_unavailable: refused\n↻ retrying the model (2 of 5) in 1.0 s\n"},
		"a retry of an older server":               {true, []perdure.Fact{perdure.ReasonStarted{Attempt: 3}}, "↻ retrying the model (3)\n"},
		"the command ends with it":                 {true, []perdure.Fact{failed, perdure.TurnFailed{Code: failed.Code, Error: failed.Error}}, ""},
		"the conversation continues":               {false, []perdure.Fact{failed, perdure.TurnFailed{Code: failed.Code, Error: failed.Error}}, "✗ turn failed: provider_unavailable: refused\n"},
		"results wait for a message of the person": {true, []perdure.Fact{perdure.DeliveryHeld{Why: "continuations"}}, "! results wait for your next message: the agent has continued by itself as often as it may\n"},
		"a budget": {true, []perdure.Fact{perdure.BudgetExhausted{BudgetNotice: perdure.BudgetNotice{BudgetID: "budget_1", Scope: "session", Subject: "session_1", Currency: "USD", Limit: "1", Balance: "-0.02"}}},
			"! session paused by budget budget_1 of session session_1 (spent 1.02 of 1 USD)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeard(t)
			h.endsWithTurn = test.ends
			h.happens(test.facts...)
			if h.stderr.String() != test.want {
				t.Errorf("got %q, want %q", h.stderr.String(), test.want)
			}
		})
	}
}

// TestVoiceSilence: a model that is silent for a while is named, once.
func TestVoiceSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeard(t)
		h.happens(perdure.ReasonStarted{Attempt: 1})
		h.working(nil)
		<-time.After(silentTime + time.Second)
		h.working(nil)
		h.working(nil)
		if h.stderr.String() != "… waiting for the model\n" {
			t.Errorf("got %q", h.stderr.String())
		}
	})
}

// TestRunningTaskDetail: a task that runs is not shown as one that starts.
func TestRunningTaskDetail(t *testing.T) {
	t.Parallel()
	for detail, shown := range map[string]bool{"Starting": false, "compiling": true} {
		world := &scene{views: [][]perdure.Task{{{ID: "task_1", State: perdure.TaskRunning, StateDetail: detail}}}}
		_, out, talk := command{args: "task show task_1", scene: world}.run(t.Context())
		if strings.Contains(out, detail) != shown || !strings.Contains(out, "running") {
			t.Errorf("%s: %s %s", detail, out, talk)
		}
	}
}
