// Package shell is the tool bash: a command of the model's, run under a supervisor of its own, so that it
// outlives this process and the next one finds it again.
//
// It may import the root, tool and internal/supervise. The one thing to know: an execution of a call is a run
// directory, named by session, call and execution. Whoever has the directory has the command, its output and
// its exit code, in whichever process; so adoption after a crash is [Bash.Run] without the start.
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

// maxCommandBytes is what Linux lets one argument of a program be long, its closing zero left out.
const maxCommandBytes = 128<<10 - 1

//go:embed bash.md
var description string

// Bash is the tool bash (TL36). Safe for concurrent use; it holds nothing open.
type Bash struct {
	spec   tool.Spec
	runner supervise.Runner
	runs   string // where run directories are kept
	dir    string // working directory of commands
	env    []string
	grace  time.Duration
}

var (
	_ tool.Background = (*Bash)(nil)
	_ tool.Survivor   = (*Bash)(nil)
	_ tool.Cleaner    = (*Bash)(nil)
	_ tool.Timed      = (*Bash)(nil)
)

// arguments are what the model may say.
type arguments struct {
	Command        string `json:"command" minLength:"1" jsonschema:"The command, as given to bash -c. Standard input is empty"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty" min:"1" max:"2592000" jsonschema:"Stop the command after this many seconds and set timed_out. Absent: it is ended after {deadline}, as a timeout"`
	Cwd            string `json:"cwd,omitempty" jsonschema:"Directory to run in, inside the working directory. Absent: the working directory"`
}

// answer is what the model reads of a command that ran.
type answer struct {
	ExitCode  int    `json:"exit_code"` // 128 + n for signal n
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	TimedOut  bool   `json:"timed_out"`
	Truncated bool   `json:"truncated"`
}

// Spec implements tool.Tool.
func (b *Bash) Spec() tool.Spec { return b.spec }

// Deadline implements tool.Timed. A command is stopped at the time that its call names, and the call ends once that is done.
func (b *Bash) Deadline(args json.RawMessage) time.Duration {
	named, err := tool.Decode[arguments](tool.Call{Args: args})
	if err != nil || named.TimeoutSeconds <= 0 {
		return 0
	}
	return time.Duration(named.TimeoutSeconds)*time.Second + b.grace + cleanupWait
}

// describe makes the spec, with the schemas of the two types above. deadline is that of commands that name none.
func describe(deadline time.Duration) tool.Spec {
	yes, no := true, false
	spec := tool.Spec{
		Name:        "bash",
		DisplayName: "Bash",
		Description: withDeadline(description, deadline),
		Deadline:    deadline,
		Class:       perdure.AtMostOnce,
		NeedsEnv:    true,
		DryAware:    true,
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

// withDeadline puts the deadline of commands that name none into a text for the model.
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

// RunBackground implements tool.Background. Every lane is the same to a command.
func (b *Bash) RunBackground(ctx context.Context, call tool.Call, env tool.Env, sink tool.Sink) tool.Result {
	command, err := b.command(call)
	if err != nil {
		return refused(tool.FromError(err))
	}
	if env.DryRun {
		return tool.Success(map[string]string{"message": "[dry-run] Would run a command in " + command.Dir + "."})
	}
	run, ended := b.start(ctx, start{dir: b.runDir(call), command: command, logged: env.LogBytes})
	if run == nil {
		return ended
	}
	return b.follow(ctx, b.runDir(call), run, &output{sink: sink, secret: env.Known})
}

// command makes what is run from what the model said. Its words are one argument of bash, behind a --, so
// that they are never an option and never part of another line (S10).
func (b *Bash) command(call tool.Call) (supervise.Command, error) {
	args, err := tool.Decode[arguments](call)
	if err != nil {
		return supervise.Command{}, err
	}
	if strings.ContainsRune(args.Command, 0) {
		return supervise.Command{}, tool.Errorf("the command contains a zero byte")
	}
	if len(args.Command) > maxCommandBytes {
		return supervise.Command{}, tool.Errorf("the command has %d bytes, at most %d can be run: write it to a file and run that",
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
		Timeout:   time.Duration(args.TimeoutSeconds) * time.Second,
		Grace:     b.grace,
	}, nil
}

// workDir returns the directory that cwd names below the working directory. One that leaves it, also by a
// symbolic link, is refused.
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
		return "", tool.Errorf("cwd leaves the working directory: %s", cwd)
	}
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		return "", fmt.Errorf("open the working directory: %w", err)
	}
	defer root.Close()
	if st, err := root.Stat(rel); err != nil || !st.IsDir() {
		return "", tool.Errorf("cwd is no directory of the working directory: %s", cwd)
	}
	return filepath.Join(b.dir, rel), nil
}

// refused marks a result of a call whose command was never started.
func refused(r tool.Result) tool.Result {
	r.Refused = true
	return r
}
