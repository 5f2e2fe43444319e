package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// ServerProcesses manages the servers of data directories on this machine.
type ServerProcesses interface {
	// Detach starts a server in a process of its own, and returns when requests are answered. The
	// process survives this one. A *DetachError: it ended before.
	Detach(ctx context.Context, o DetachOptions) (ServerInfo, ServerProcess, error)
	// Find returns the server of a data directory. NotFound: there is none. Conflict: another
	// process holds the directory.
	Find(ctx context.Context, dir string) (ServerProcess, error)
	// Stop asks a server to stop and returns when it has ended, or with the cause of ctx.
	Stop(ctx context.Context, p ServerProcess) error
}

// ServerProcess is a running server of a data directory.
type ServerProcess struct {
	Dir       string    `json:"data"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at,omitzero"` // zero: not known
	Log       string    `json:"-"`                   // file with its messages, of a detached server
}

// DetachOptions configures a detached server.
type DetachOptions struct {
	Dir  string   // the data directory
	Args []string // of the command that serves, without the name of the program
}

// DetachError is the end of a detached server before it answered requests.
type DetachError struct {
	Code int    // its exit code
	Said string // its output
}

// Error returns what the server printed.
func (e *DetachError) Error() string { return strings.TrimSpace(e.Said) }

// detach starts the server in the background and prints how it is reached.
func (c *serveCommand) detach(ctx context.Context, a *app) error {
	if a.Servers == nil {
		return fmt.Errorf("%w: this build cannot run a server in the background", perdure.Unavailable)
	}
	info, process, err := a.Servers.Detach(ctx, DetachOptions{Dir: a.flags.Data, Args: attachedArgs(a.Args)})
	var ended *DetachError
	if errors.As(err, &ended) { // it has printed its own error
		a.message("%s", ended.Error())
		return exit(ended.Code)
	}
	if err != nil {
		return err
	}
	a.printServer(info)
	a.message("process   %d, messages in %s", process.PID, a.oneLine(process.Log, 300))
	a.message("%s", strings.TrimSpace("stop it with: "+program+" stop "+a.storeFlags()))
	return nil
}

// attachedArgs returns the arguments of the command that serves in the foreground.
func attachedArgs(args []string) (kept []string) {
	for _, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); name != "--detach" && name != "-d" {
			kept = append(kept, arg)
		}
	}
	return kept
}

// printServer prints how a server is reached.
func (a *app) printServer(s ServerInfo) {
	fmt.Fprintln(a.out, s.URL)
	a.message("data      %s", a.oneLine(a.flags.Data, 300))
	a.message("token     in %s", a.oneLine(s.TokenFile, 300))
	if s.Socket != "" {
		a.message("socket    %s", a.oneLine(s.Socket, 300))
	}
	a.message("web UI    %s", a.uiAddress(s))
	a.message("%s %s", a.colors.stderr.mark(dim, "try:"),
		`curl -H "Authorization: Bearer $(cat `+quote(s.TokenFile)+`)" `+s.URL+"/v1/sessions")
}

// stopGrace is how much longer than the stop timeout a stop may take: the server also closes its
// store.
const stopGrace = 5 * time.Second

type stopCommand struct{ actFlags }

// stoppedServer is the result of a stop, for -o json.
type stoppedServer struct {
	ServerProcess
	Stopped bool `json:"stopped"`
}

// Run stops the server of the data directory. Its running calls settle first.
func (c *stopCommand) Run(ctx context.Context, a *app) error {
	if a.flags.Data == "" {
		return usageError("there is no default data directory, because this user has no home directory",
			"set one with --data or PERDURE_DATA")
	}
	if err := errors.Join(a.checkLocal("stop", "server"), c.checkFields(stoppedServer{})); err != nil {
		return err
	}
	if a.Servers == nil {
		return fmt.Errorf("%w: this build cannot find servers", perdure.Unavailable)
	}
	p, err := a.Servers.Find(ctx, a.flags.Data)
	if errors.Is(err, perdure.NotFound) {
		return &userError{err: err, message: "no server is running on the data directory " + a.flags.Data,
			hint: "nothing needs to be stopped; " + program + " stop --data DIR stops the server of another directory"}
	}
	if err != nil {
		return err
	}
	if c.DryRun {
		a.message("would stop process %d, the server of %s", p.PID, a.oneLine(p.Dir, 300))
		return c.showForPrograms(ctx, a, fmt.Sprint(p.PID), stoppedServer{p, false})
	}
	a.message("stopping process %d, the server of %s, since running calls settle first this can take up to %s", p.PID,
		a.oneLine(p.Dir, 300), span(a.flags.StopTimeout))
	limit := a.flags.StopTimeout + stopGrace
	wait, cancel := context.WithTimeoutCause(ctx, limit, &userError{code: exitTimeout,
		message: fmt.Sprintf("process %d has not ended within %s; it is still stopping", p.PID, span(limit)),
		hint:    fmt.Sprintf("wait and run %s stop again, or end it at once with: kill %d", program, p.PID)})
	defer cancel()
	if err := a.Servers.Stop(wait, p); err != nil {
		return err
	}
	a.message("stopped; unfinished work continues with the next start")
	return c.showForPrograms(ctx, a, fmt.Sprint(p.PID), stoppedServer{p, true})
}
