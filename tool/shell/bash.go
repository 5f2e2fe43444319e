// Package shell is the tool bash. It runs a command of the model under a supervisor process, so
// that the command survives this process and the next process finds it again.
//
// It may import the root, tool and internal/supervise. The one thing to know: an execution of a
// call is a run directory, named by session, call and execution. Any process with access to the
// directory can find the command, its output and its exit code. So adoption after a crash is
// [Bash.Run] without the start.
package shell

import (
	"context"
	_ "embed" // the text that the model reads
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// maxCommandBytes is the maximum length of one argument of a program on Linux, without the
// terminating zero.
const maxCommandBytes = 128<<10 - 1

//go:embed bash.md
var description string

// Bash is the tool bash (TL36). Safe for concurrent use; it keeps no files open.
type Bash struct {
	spec   tool.Spec
	runner supervise.Runner
	runs   string // directory of the run directories
	dir    string // working directory of commands
	env    []string
	homes  string // directory of the homes of sessions; empty: each run has one of its own
	// What an operator can do about a refusal of the sandbox, with {path} for the path.
	advice string
	// What an operator can do about a secret that nobody has allowed, with {name} for its name.
	secretAdvice string
	grace        time.Duration
	endGrace     time.Duration
}

var (
	_ tool.Background = (*Bash)(nil)
	_ tool.Adoptable  = (*Bash)(nil)
	_ tool.Cleaner    = (*Bash)(nil)
	_ tool.Forcer     = (*Bash)(nil)
	_ tool.Supervised = (*Bash)(nil)
	_ tool.Timed      = (*Bash)(nil)
	_ tool.Guarded    = (*Bash)(nil)
)

// arguments are the arguments of a call.
type arguments struct {
	Command        string   `json:"command" minLength:"1" jsonschema:"The command, as given to bash -c. Standard input is empty"`
	TimeoutSeconds int      `json:"timeout_seconds,omitempty" min:"1" max:"2592000" jsonschema:"Stop the command after this many seconds and set timed_out. Absent: the command is stopped after {deadline}, as a timeout"`
	Cwd            string   `json:"cwd,omitempty" jsonschema:"Directory to run in, inside the working directory. Absent: the working directory"`
	Secrets        []string `json:"secrets,omitempty" maxItems:"20" jsonschema:"Names of secrets of the session, each of which the command has in the environment variable of that name"`
}

// answer is the result for the model of a command that ran.
type answer struct {
	ExitCode  int    `json:"exit_code"` // 128 + n for signal n
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	TimedOut  bool   `json:"timed_out"`
	Truncated bool   `json:"truncated"`
	// Remarks of the runtime: the processes that the command left, and what the sandbox refused.
	Note string `json:"note,omitempty"`
}

// Spec implements tool.Tool.
func (b *Bash) Spec() tool.Spec { return b.spec }

// Deadline implements tool.Timed. A command is stopped at the time named by its call; the deadline
// adds the time that the stop takes.
func (b *Bash) Deadline(args json.RawMessage) time.Duration {
	named, err := tool.Decode[arguments](tool.Call{Args: args})
	if err != nil || named.TimeoutSeconds <= 0 {
		return 0
	}
	return time.Duration(named.TimeoutSeconds)*time.Second + max(b.grace, b.endGrace) + cleanupWait
}

// describe returns the spec, with schemas derived from the two types above. deadline applies to
// commands without a timeout.
func describe(deadline time.Duration) tool.Spec {
	yes, no := true, false
	spec := tool.Spec{
		Name:          "bash",
		DisplayName:   "Bash",
		Description:   withDeadline(description, deadline),
		Deadline:      deadline,
		Class:         perdure.AtMostOnce,
		NeedsEnv:      true,
		HandlesDryRun: true,
		Hints: tool.Hints{
			ReadOnly: &no, Destructive: &yes, Idempotent: &no, OpenWorld: &yes, LongRunning: &yes,
			CapabilityID: "bashkit_shell",
		},
	}
	spec = tool.New(spec, func(context.Context, arguments, tool.Env) (answer, error) {
		return answer{}, errors.ErrUnsupported
	}).Spec()
	spec.Parameters = json.RawMessage(withDeadline(string(spec.Parameters), deadline))
	return spec
}

// withDeadline inserts the deadline of commands without a timeout into a text for the model.
func withDeadline(text string, deadline time.Duration) string {
	shown := fmt.Sprintf("%g seconds", deadline.Seconds())
	if hours := deadline / time.Hour; hours > 0 && deadline%time.Hour == 0 {
		shown = fmt.Sprintf("%d hours", hours)
	}
	return strings.ReplaceAll(strings.TrimSpace(text), "{deadline}", strings.Replace(shown, "1 hours", "1 hour", 1))
}

// Run implements tool.Tool.
func (b *Bash) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	return b.RunBackground(ctx, call, env, env.Report())
}

// RunBackground implements tool.Background. A command runs the same way in every lane.
func (b *Bash) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	command, err := b.command(call)
	if err != nil {
		return refused(tool.FromError(err))
	}
	if env.DryRun {
		return tool.Success(map[string]string{"message": "[dry-run] Would run a command in " + command.Dir + "."})
	}
	if command.Secrets, err = b.secrets(ctx, call, env); err != nil {
		return refused(tool.FromError(err))
	}
	run, ended := b.start(ctx, start{dir: b.runDir(call), command: command, logged: env.LogBytes})
	if run == nil {
		return ended
	}
	return b.follow(ctx, b.runDir(call), run, b.newOutput(call, env, sink))
}

// command converts the arguments. The command text is one argument of bash after a --, so that it
// can never be an option or part of another command line (S10).
func (b *Bash) command(call tool.Call) (supervise.Command, error) {
	args, err := tool.Decode[arguments](call)
	if err != nil {
		return supervise.Command{}, err
	}
	if strings.ContainsRune(args.Command, 0) {
		return supervise.Command{}, tool.Errorf("the command contains a zero byte")
	}
	if len(args.Command) > maxCommandBytes {
		return supervise.Command{}, tool.Errorf("the command has %d bytes, but at most %d are possible: write it to a file and run the file",
			len(args.Command), maxCommandBytes)
	}
	dir, err := b.workDir(args.Cwd)
	if err != nil {
		return supervise.Command{}, err
	}
	return supervise.Command{
		Argv:      []string{"/bin/bash", "-c", "--", args.Command},
		Env:       b.env,
		Dir:       dir,
		Workspace: b.dir,
		Home:      b.home(call.Session),
		Timeout:   time.Duration(args.TimeoutSeconds) * time.Second,
		Grace:     b.endGrace,
	}, nil
}

// workDir returns the directory that cwd names within the working directory. A path that leaves it,
// also through a symbolic link, is refused.
func (b *Bash) workDir(cwd string) (string, error) {
	rel := cwd
	if filepath.IsAbs(cwd) {
		var err error
		if rel, err = filepath.Rel(b.dir, cwd); err != nil {
			return "", fmt.Errorf("compare cwd with the working directory: %w", err)
		}
	}
	if rel == "" {
		return b.dir, nil
	}
	if !filepath.IsLocal(rel) {
		return "", tool.Errorf("cwd is outside the working directory: %s", cwd)
	}
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		return "", fmt.Errorf("open the working directory: %w", err)
	}
	defer root.Close()
	if st, err := root.Stat(rel); err != nil || !st.IsDir() {
		return "", tool.Errorf("cwd is not a directory inside the working directory: %s", cwd)
	}
	return filepath.Join(b.dir, rel), nil
}

// refused marks the result of a call whose command never started.
func refused(r tool.Result) tool.Result {
	r.Refused = true
	return r
}
