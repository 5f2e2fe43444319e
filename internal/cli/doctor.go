package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/internal/cli/mcp"
)

// Check is one thing that the doctor looked at.
type Check struct {
	Name   string `json:"name"`
	Health Health `json:"health"`
	Says   string `json:"says"`          // what was found
	Fix    string `json:"fix,omitempty"` // what to do; empty when it is fine
}

// Health is how a check came out.
type Health string

// The healths. Bad makes doctor fail.
const (
	Fine Health = "fine"
	Warn Health = "warn"
	Bad  Health = "bad"
)

type doctorCommand struct {
	Processes bool `help:"List the commands that were run under a supervisor."`
	Kill      int  `help:"With --processes: end the one of this PID, and all that it started. It must be nobody's: a task's ends with perdure task cancel." placeholder:"PID"`
	DryRun    bool `help:"With --kill: only say what would be ended."`
	Yes       bool `short:"y" help:"With --kill: do not ask, also on a terminal."`
	output
}

// Run prints what was found.
func (c *doctorCommand) Run(ctx context.Context, a *app) error {
	if c.Processes {
		return c.processes(ctx, a)
	}
	if c.Kill != 0 || c.DryRun || c.Yes {
		return misuse("--kill, --dry-run and --yes are of --processes", "add --processes")
	}
	checks := a.Diagnose(ctx, a.flags.Data)
	if a.flags.Server != "" {
		checks = append([]Check{a.checkServer(ctx)}, checks...)
	}
	bad := 0
	for _, check := range checks {
		if check.Health == Bad {
			bad++
		}
	}
	list := listing[Check]{noun: "checks", name: func(k Check) string { return k.Name }, tell: func(checks []Check) {
		for _, check := range checks {
			c.tell(a, check)
		}
	}}
	if err := list.print(ctx, a, c.output, checks); err != nil {
		return err
	}
	if bad > 0 {
		return &fault{code: exitError, what: count(bad, "thing") + " to mend", todo: "each ✗ has its fix; -o json has them, too"}
	}
	return nil
}

// serverTime is how long a server may take to answer the doctor.
const serverTime = 5 * time.Second

// checkServer asks the server that was named. What else the doctor looks at is of this machine.
func (a *app) checkServer(ctx context.Context) Check {
	check := Check{Name: "server", Health: Fine, Says: a.flags.Server + " answers, and takes the token"}
	if u, err := url.Parse(a.flags.Server); err == nil {
		check.Says = u.Redacted() + " answers, and takes the token"
	}
	ctx, stop := context.WithTimeout(ctx, serverTime)
	defer stop()
	err := a.read(ctx, func(eng Engine) error {
		_, err := eng.Sessions(ctx, 1)
		return err
	})
	if err != nil {
		check.Health, check.Says = Bad, err.Error()
		check.Fix = "look whether it runs and listens there: where it runs, " + program + " doctor and its log say more"
		if errors.Is(err, context.DeadlineExceeded) {
			check.Says = fmt.Sprintf("it does not answer within %s", serverTime)
		}
		if exitCode(err) == exitDenied {
			check.Fix = "PERDURE_TOKEN holds the token; the server keeps its own in the file token of its data directory"
		}
	}
	return check
}

// tell prints a check: a line, and a line with its fix.
func (c *doctorCommand) tell(a *app, check Check) {
	mark := map[Health]string{Fine: a.paint.data.in(green, "✓"), Warn: a.paint.data.in(yellow, "!"), Bad: a.paint.data.in(red, "✗")}[check.Health]
	fmt.Fprintf(a.out, "%s %-17s  %s\n", mark, check.Name, a.line(check.Says, 500))
	if check.Fix != "" {
		fmt.Fprintf(a.out, "  %-17s  fix: %s\n", "", a.line(check.Fix, 500))
	}
}

// desk is what the commands of admin use of the command line.
type desk struct{ *app }

var _ admin.Desk = desk{}

// Dir implements admin.Desk.
func (d desk) Dir() (string, error) {
	if d.flags.Server != "" {
		return "", misuse("this works on the files of a data directory, and --server or PERDURE_SERVER names a server", "run it where the data directory is, with --data")
	}
	if d.flags.Database != "" {
		return "", misuse("this works on the files of a data directory, and --database or PERDURE_DATABASE names a Postgres database", "pg_dump backs up the database, and pg_restore restores it; for a data directory with its own database, leave the database away")
	}
	if d.flags.Data == "" {
		return "", misuse("there is no data directory: this system names no home", "name one with --data or PERDURE_DATA")
	}
	return d.flags.Data, nil
}

// Program implements admin.Desk.
func (d desk) Program() string { return d.Version.Version }

// Hands implements admin.Desk.
func (d desk) Hands() admin.Hands { return d.Admin }

// Out implements admin.Desk.
func (d desk) Out() io.Writer { return d.out }

// Say implements admin.Desk.
func (d desk) Say(format string, args ...any) { d.say(format, args...) }

// Safe implements admin.Desk.
func (d desk) Safe(text string) string { return d.line(text, 1000) }

// Store implements mcp.Desk.
func (d desk) Store() (dir, database, server string) {
	return d.store()
}

// Folder implements mcp.Desk.
func (d desk) Folder() string { return d.flags.Data }

// Local implements mcp.Desk.
func (d desk) Local(what string) error { return d.local(what, "server", "database") }

// MCP implements mcp.Desk.
func (d desk) MCP() mcp.Hands { return d.World.MCP }

// Streams implements mcp.Desk.
func (d desk) Streams() (io.Reader, io.Writer) { return d.stdin, d.Stdout }

// StopTime implements mcp.Desk.
func (d desk) StopTime() time.Duration { return d.flags.StopTimeout }
