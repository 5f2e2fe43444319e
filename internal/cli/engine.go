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
	"github.com/perdure/perdure/internal/redact"
)

// Access says what a command does with the data directory.
type Access int

// The kinds of access. The zero value needs no data directory at all.
const (
	ToolsOnly Access = iota // the tools, over a store that is thrown away
	Reading                 // beside whoever holds the directory; nothing is recovered and nothing written
	Asking                  // likewise, but whoever holds the directory is asked, as long as somebody answers
	Writing                 // holds the directory. perdure.Conflict: another process does, or a newer version wrote it
)

// Opening says which engine a command needs.
type Opening struct {
	Access       Access
	Dir          string        // the data directory
	Database     string        // of Postgres, where the sessions are kept; empty: in the data directory
	Server       string        // asked instead of the data directory; empty: whoever holds that, or nobody
	AllowShell   bool          // bash must be there: an error says why it cannot
	Sandbox      Sandbox       // of the commands that begin here
	Serve        bool          // for others, until it is stopped: what cannot be done here fails, and calls have longer to settle
	MCP          []string      // tools that MCP clients see; nil: nobody serves them
	Ask, Deny    []string      // tools whose calls a person is asked about, and those that never run; a denial comes first (AP1)
	AskUntrusted bool          // a person is asked before calls that reach further than a session which read what came from outside (S3)
	Disclosure   string        // how much webhooks are told; empty: standard
	Retention    Retention     // of tasks that have ended; 0: none are forgotten here
	AskModels    bool          // turns go on; false: the models are not asked, whatever runs is only brought to its end
	StopTime     time.Duration // of the whole stop, in which calls settle and connections end; 0: 10 s
	Log          *slog.Logger
	Known        *redact.Set // is told secrets, so that Log shows none; nil: nobody is
}

// Sandbox says how the commands of bash are confined. The zero value is the default: to the workspace, or not at all.
type Sandbox struct {
	Profile  string        // none, workspace or isolated; empty: workspace
	Unsafe   bool          // where the machine cannot keep the profile, commands run with what it can; false: they do not run
	Reads    []string      // folders and files that commands may read besides the workspace and those of the system
	Deadline time.Duration // after which a command is ended whose call names no time; 0: 2 h
}

// sandboxFlags are those of commands that let others run.
type sandboxFlags struct {
	Sandbox string   `help:"What commands may do: workspace keeps them to the folder of their session, isolated takes the network and other processes away as well, none confines nothing. A machine that cannot keep it runs none. Default: workspace, or PERDURE_SANDBOX." placeholder:"PROFILE" enum:",none,workspace,isolated" default:""`
	Read    []string `name:"sandbox-read" help:"A folder or file that confined commands may read besides, for instance a tool chain outside /usr. Can be given several times." placeholder:"PATH" type:"path"`
	Unsafe  bool     `name:"unsafe-sandbox" help:"Where this machine cannot keep the sandbox, run commands with what it can keep."`

	Deadline time.Duration `name:"shell-deadline" help:"After how long a command is ended whose call names no time itself, for instance 8h. Default: 2h, or PERDURE_SHELL_DEADLINE." placeholder:"DURATION"`
}

// sandbox is what the flags say.
func (f sandboxFlags) sandbox() Sandbox {
	return Sandbox{Profile: f.Sandbox, Unsafe: f.Unsafe, Reads: f.Read, Deadline: f.Deadline}
}

// sandbox fills in what the environment says of a sandbox without a profile, and without a deadline: also for commands without these
// flags, since a task of before may begin in any that holds the data directory.
func (a *app) sandbox(s Sandbox) (Sandbox, error) {
	if s.Profile == "" {
		s.Profile = a.Env("PERDURE_SANDBOX")
	}
	if !slices.Contains([]string{"", "none", "workspace", "isolated"}, s.Profile) {
		return s, misuse("there is no sandbox "+strconv.Quote(s.Profile), "PERDURE_SANDBOX is none, workspace or isolated")
	}
	if text := a.Env("PERDURE_SHELL_DEADLINE"); s.Deadline == 0 && text != "" {
		var err error
		if s.Deadline, err = time.ParseDuration(text); err != nil || s.Deadline <= 0 {
			return s, misuse("PERDURE_SHELL_DEADLINE is "+strconv.Quote(text), "give a duration above 0, for instance 8h, or nothing for 2h")
		}
	}
	if s.Deadline < 0 {
		return s, misuse("--shell-deadline is "+s.Deadline.String(), "give a duration above 0, for instance 8h, or nothing for 2h")
	}
	return s, nil
}

// Retention is how long a task is kept that has ended and came home (TK16). The zero value: nothing is forgotten by this
// command.
type Retention time.Duration

// defaultRetention is what no word means, and one that says nothing.
const defaultRetention = Retention(30 * 24 * time.Hour)

// parseRetention reads a duration as of Go, or a number of days as in 30d; 0 is for ever. What cannot be read or is negative
// is the default, with a warning for people: to forget too much cannot be undone.
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
		return defaultRetention, fmt.Sprintf("the retention %q is no duration such as 30d or 720h, nor 0 for ever: ended tasks are kept for 30 days", text)
	}
	return Retention(d), ""
}

// retention is parseRetention, with the warning said.
func (a *app) retention(text string) Retention {
	keep, warning := parseRetention(text)
	if warning != "" {
		a.say("%s %s", a.paint.talk.mark(dim, "note:"), warning)
	}
	return keep
}

// Engine is an engine that was opened for one command.
type Engine interface {
	engine.Engine
	// Run does the work until ctx ends, and returns when all of it has stopped.
	Run(ctx context.Context) error
	// CheckModel looks whether a model can be asked and returns the name that means it from everywhere.
	// Invalid: the name says no model of this build, or its script cannot be read.
	CheckModel(name string) (string, error)
	// UseModel asks another model than the one that a session was started with, as long as the engine is open.
	UseModel(id perdure.SessionID, name string)
	// Close gives the data directory back. Run has returned.
	Close() error
}

// unattended reports whether nobody does the work that an engine shows, so that it stands still. An engine that does not say it
// has somebody.
func unattended(ctx context.Context, eng Engine) bool {
	asked, ok := eng.(interface{ Attended(context.Context) bool })
	return ok && !asked.Attended(ctx)
}

// sayWaits says that what is under way stands still, and how it goes on.
func (a *app) sayWaits() {
	a.say("no server runs here: what is under way waits for one, and commands that run already go on by themselves")
	a.say("  %s serve %s takes it up", program, a.place())
}

// atWork reports whether something of a session has begun and not ended.
func atWork(s engine.Session) bool { return s.Status == perdure.SessionActive || s.OpenTasks > 0 }

// The keys of Agent.Metadata that the command line writes and main reads.
const (
	// WorkspaceKey names the folder of the host that holds the session's files; without it the store holds them.
	WorkspaceKey = "workspace"
)

// ShellTool is the tool that runs commands, and ShellCapability what brings it into a session (TL30). --allow-shell chooses it.
const (
	ShellTool       = "bash"
	ShellCapability = "bashkit_shell"
)

// turning runs fn while the engine works, and stops the engine when fn returns. When the engine stops first,
// the context of fn ends with its error.
func turning(ctx context.Context, eng Engine, fn func(context.Context) error) error {
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
