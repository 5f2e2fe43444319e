package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli/settings"
	"github.com/perdure/perdure/internal/redact"
)

// AccessMode says how a command uses the data directory.
type AccessMode int

// The kinds of access. The zero value needs no data directory.
const (
	ToolsOnly    AccessMode = iota // the tools only, over a temporary store
	Reading                        // read-only, beside a process that holds the directory; nothing is recovered
	ServerOrRead                   // like Reading, but a server of the directory is asked as long as one answers
	// holds the directory. perdure.Conflict: another process holds it, or a newer version wrote it
	Writing
)

// OpenOptions says which engine a command needs.
type OpenOptions struct {
	Access      AccessMode
	Dir         string  // the data directory
	Database    string  // URL of a Postgres database with the sessions; empty: they are in the data directory
	SharedFiles bool    // with Database: every process reaches the files of all sessions
	Server      string  // URL of the server to use; empty: the server of the data directory, if one runs
	AllowShell  bool    // bash is required: Open fails if it cannot run
	Sandbox     Sandbox // of the commands that are started here
	// runs as a server: the requirements of a server are checked, and calls get longer to settle
	Serve        bool
	MCP          []string         // tools offered to MCP clients; nil: there is no MCP server
	Ask, Deny    []string         // tools whose calls need an approval, and tools whose calls never run; Deny wins
	AskUntrusted bool             // after untrusted content, calls that reach beyond the session need approval
	Secrets      SecretRules      // which secrets the model may read, and commands may use
	Disclosure   string           // how much detail webhooks receive; empty: standard
	Retention    Retention        // of ended tasks; 0: no task is removed
	Model        string           // of sessions that name none, before the stored defaults; empty: those
	Utility      settings.Utility // the small model of the work done here
	AskModels    bool             // turns continue; false: no model is called, and running work is only brought to its end
	ModelOptions []string         // how models are asked, NAME=VALUE or PROVIDER.NAME=VALUE
	Limits       Limits           // of the engine; of its work only, so they count with access Writing
	TypedLimit   string           // a limit that was typed for this command; empty: none was
	StopTime     time.Duration    // limit of the stop, in which calls settle and connections end; 0: 10 s
	Log          *slog.Logger
	Known        *redact.Set // receives the secrets that Log must mask; nil: none
	// Waiting receives what a command waits for while a server does not respond; nil: nobody does.
	Waiting func(server string, failure error)
}

// Sandbox says how the commands of bash are confined. The zero value is the default: to the
// workspace, or not at all.
type Sandbox struct {
	Profile  string        // none, workspace or isolated; empty: workspace
	Unsafe   bool          // if the machine cannot enforce the profile, commands run anyway
	Reads    []string      // folders and files that commands may read besides the workspace and the system
	Deadline time.Duration // of a command whose call sets none; 0: 2 h
	Grace    time.Duration // from SIGTERM to SIGKILL at a command's timeout, and for what it leaves behind; 0: 2 s
}

// SecretRules says which secrets of a session its agent may use; * is every secret. The zero value
// leaves it to the permissions of the agent. A secret that is sent to its own hosts needs no rule.
type SecretRules struct {
	Use   []string // commands may have them in their environment
	Allow []string // likewise, and the model may read them
	Ask   []string // both need an approval each time
}

// IsZero reports whether there are no rules.
func (r SecretRules) IsZero() bool { return len(r.Use)+len(r.Allow)+len(r.Ask) == 0 }

// secretFlags are the flags for secrets of the commands that run tools.
type secretFlags struct {
	UseSecret   []string `name:"use-secret" help:"Name of a secret that commands of its session may have in their environment; * is every secret. Repeatable." placeholder:"NAME"`
	AllowSecret []string `name:"allow-secret" help:"Name of a secret that the model may read, and commands may use; * is every secret. What was read is part of the conversation. Repeatable." placeholder:"NAME"`
	AskSecret   []string `name:"ask-secret" help:"Name of a secret that needs an approval each time that the model wants to read it, or to use it in a command; * is every secret. Repeatable." placeholder:"NAME"`
}

// secrets returns the rules that the flags describe.
func (f secretFlags) secrets() SecretRules {
	return SecretRules{Use: f.UseSecret, Allow: f.AllowSecret, Ask: f.AskSecret}
}

// sandboxFlags are the sandbox flags of the commands that run tools.
type sandboxFlags struct {
	Sandbox string   `help:"Confine commands: workspace (to the folder of their session), isolated (also without network and other processes) or none. If this machine cannot enforce it, no command runs. Default: workspace, or PERDURE_SANDBOX." placeholder:"PROFILE" enum:",none,workspace,isolated" default:""`
	Read    []string `name:"sandbox-read" help:"Let confined commands also read this folder or file, for instance a toolchain outside /usr. Repeatable." placeholder:"PATH" type:"path"`
	Unsafe  bool     `name:"unsafe-sandbox" help:"If this machine cannot fully enforce the sandbox, run commands with what it can enforce."`

	Deadline time.Duration `name:"shell-deadline" help:"Default deadline of commands, for instance 8h. Default: 2h, or PERDURE_SHELL_DEADLINE." placeholder:"DURATION"`
	Grace    time.Duration `name:"shell-grace" help:"Time that a command has to stop by itself at its timeout, before it is killed; also what it leaves behind. Default: 2s." placeholder:"DURATION"`
}

// sandbox returns the sandbox that the flags describe.
func (f sandboxFlags) sandbox() Sandbox {
	return Sandbox{Profile: f.Sandbox, Unsafe: f.Unsafe, Reads: f.Read, Deadline: f.Deadline, Grace: f.Grace}
}

// sandbox fills in an empty profile and deadline from the environment. It also serves commands
// without sandbox flags, since every command that holds the data directory may start a stored task.
func (a *app) sandbox(s Sandbox) (Sandbox, error) {
	if s.Profile == "" {
		s.Profile = a.Env("PERDURE_SANDBOX")
	}
	if !slices.Contains([]string{"", "none", "workspace", "isolated"}, s.Profile) {
		return s, usageError("there is no sandbox "+strconv.Quote(s.Profile),
			"set PERDURE_SANDBOX to none, workspace or isolated")
	}
	if text := a.Env("PERDURE_SHELL_DEADLINE"); s.Deadline == 0 && text != "" {
		var err error
		if s.Deadline, err = time.ParseDuration(text); err != nil || s.Deadline <= 0 {
			return s, usageError("PERDURE_SHELL_DEADLINE is "+strconv.Quote(text),
				"set a duration greater than 0, for instance 8h, or unset it for 2h")
		}
	}
	if s.Deadline < 0 {
		return s, usageError("--shell-deadline is "+s.Deadline.String(),
			"give a duration greater than 0, for instance 8h, or omit the flag for 2h")
	}
	if s.Grace < 0 {
		return s, usageError("--shell-grace is "+s.Grace.String(),
			"give a duration greater than 0, for instance 5s, or omit the flag for 2s")
	}
	return s, nil
}

// Retention is how long a task is kept after it has ended and its result was delivered. The zero
// value: this command removes no tasks.
type Retention time.Duration

// defaultRetention applies when no retention is set, or an invalid one.
const defaultRetention = Retention(engine.DefaultRetention)

// parseRetention reads a Go duration, or a number of days as in 30d; 0 keeps tasks forever. An
// invalid or negative value yields the default and a warning, because removing too much cannot be
// undone.
func parseRetention(text string) (keep Retention, warning string) {
	if text == "" {
		return defaultRetention, ""
	}
	var d time.Duration
	var err error
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	} else {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d < 0 {
		return defaultRetention,
			fmt.Sprintf("invalid retention %q (want a duration such as 30d or 720h, or 0 to keep tasks forever): ended tasks are kept for 30 days", text)
	}
	return Retention(d), ""
}

// retention is parseRetention, and prints the warning. Without a text the limit counts.
func (a *app) retention(text string) Retention {
	if limit := a.flags.Limits.Tasks.Retention; text == "" && limit != 0 {
		return Retention(max(limit, 0)) // none is for ever
	}
	keep, warning := parseRetention(text)
	if warning != "" {
		a.message("%s %s", a.colors.stderr.mark(dim, "note:"), warning)
	}
	return keep
}

// Engine is an engine that was opened for one command.
type Engine interface {
	engine.Engine
	// Run does the work until ctx ends. It returns when all of it has stopped.
	Run(ctx context.Context) error
	// CheckModel checks whether a model can be called, and returns its name in a form that is valid
	// everywhere. Invalid: the name matches no model of this build, or its script cannot be read.
	CheckModel(name string) (string, error)
	// UseModel calls another model than the one that the session was started with, as long as the
	// engine is open.
	UseModel(id perdure.SessionID, name string)
	// Close releases the data directory. Call it after Run has returned.
	Close() error
}

// unattended reports whether no process does the work that an engine shows. An engine without the
// method Attended counts as attended.
func unattended(ctx context.Context, eng Engine) bool {
	attendee, ok := eng.(interface{ Attended(context.Context) bool })
	return ok && !attendee.Attended(ctx)
}

// printNoServer tells the user that work is waiting for a server, and how to continue it.
func (a *app) printNoServer() {
	a.message("no server is running: unfinished work waits for one, while commands that already run continue")
	a.message("  continue it with: %s serve %s", program, strings.TrimSpace(a.storeFlags()))
}

// unfinishedSessions reports whether a session has unfinished work.
func unfinishedSessions(s engine.Session) bool {
	return s.Status == perdure.SessionActive || s.OpenTasks > 0
}

// Keys of Agent.Metadata that the command line writes and main reads.
const (
	// WorkspaceKey names the host folder with the session's files; without it they are in the
	// store.
	WorkspaceKey = "workspace"
)

// ShellTool is the tool that runs commands, and ShellCapability the capability that contains it
// (--allow-shell).
const (
	ShellTool       = "bash"
	ShellCapability = "bashkit_shell"
)

// turnIsRunning runs fn while the engine works, and stops the engine when fn returns. When the
// engine stops first, the context of fn ends with the engine's error.
func turnIsRunning(ctx context.Context, eng Engine, fn func(context.Context) error) error {
	work, end := context.WithCancelCause(ctx)
	defer end(nil)
	var group sync.WaitGroup
	var failed error
	group.Go(func() {
		if failed = eng.Run(work); failed != nil {
			end(failed)
		}
	})
	err := fn(work)
	end(nil)
	group.Wait()
	switch interrupted := errors.Is(context.Cause(ctx), errInterrupted); {
	case failed != nil && !(interrupted && errors.Is(failed, context.Canceled)):
		return fmt.Errorf("the engine stopped: %w", failed)
	case interrupted && (err != nil || failed != nil):
		return errInterrupted
	}
	return err
}
