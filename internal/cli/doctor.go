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

// Check is the result of one check of doctor.
type Check struct {
	Name   string `json:"name"`
	Health Health `json:"health"`
	Detail string `json:"says"`          // the finding
	Fix    string `json:"fix,omitempty"` // what to do; empty when Health is Fine
}

// Health is the severity of a finding.
type Health string

// The severities. Bad makes doctor fail.
const (
	HealthOK      Health = "fine"
	HealthWarning Health = "warn"
	HealthError   Health = "bad"
)

type doctorCommand struct {
	Processes bool `help:"List supervised commands on this machine."`
	Kill      int  `help:"With --processes: end the command with this PID and everything it started. It must have no owner; end a task with perdure task cancel." placeholder:"PID"`
	Health    bool `help:"Only ask the server of the data directory, or of --server, whether it is ready. For health checks: exit code 0 if it is, 1 if it is not, 6 if there is no server."`
	DryRun    bool `help:"With --kill: print what would be ended, without doing it."`
	Yes       bool `short:"y" help:"With --kill: do not ask for confirmation."`
	outputFlags
}

// Run prints the findings.
func (c *doctorCommand) Run(ctx context.Context, a *app) error {
	if c.Processes {
		return c.processes(ctx, a)
	}
	if c.Kill != 0 || c.DryRun || c.Yes {
		return usageError("--kill, --dry-run and --yes require --processes", "add --processes")
	}
	if c.Health {
		return c.health(ctx, a)
	}
	checks := a.Diagnose(ctx, a.flags.Data)
	if a.flags.Server != "" {
		checks = append([]Check{a.checkServer(ctx)}, checks...)
	}
	checks = append(checks, a.checkHomes(ctx)...)
	bad := 0
	for _, check := range checks {
		if check.Health == HealthError {
			bad++
		}
	}
	list := outputList[Check]{noun: "checks", name: func(k Check) string { return k.Name }, tell: func(checks []Check) {
		for _, check := range checks {
			c.tell(a, check)
		}
	}}
	if err := list.print(ctx, a, c.outputFlags, checks); err != nil {
		return err
	}
	if bad > 0 {
		return &userError{code: exitError, message: count(bad, "problem") + " found", hint: "apply the fix below each ✗"}
	}
	return nil
}

// serverTime is how long a server may take to answer doctor.
const serverTime = 5 * time.Second

// checkServer checks the server of --server. All other checks are about this machine.
func (a *app) checkServer(ctx context.Context) Check {
	check := Check{Name: "server", Health: HealthOK, Detail: a.flags.Server + " answers and accepts the token"}
	if u, err := url.Parse(a.flags.Server); err == nil {
		check.Detail = u.Redacted() + " answers and accepts the token"
	}
	ctx, stop := context.WithTimeout(ctx, serverTime)
	defer stop()
	err := a.read(ctx, func(eng Engine) error {
		_, err := eng.Sessions().List(ctx, 1)
		return err
	})
	if err != nil {
		check.Health, check.Detail = HealthError, err.Error()
		check.Fix = "check that it runs and listens there; on its machine, run " + program + " doctor and read its log"
		if errors.Is(err, context.DeadlineExceeded) {
			check.Detail = fmt.Sprintf("no answer within %s", serverTime)
		}
		if exitCode(err) == exitDenied {
			check.Fix = "set PERDURE_TOKEN to a token of the server; its first token is in the file token of its data directory"
		}
	}
	return check
}

// tell prints a finding: a line, and a line with its fix.
func (c *doctorCommand) tell(a *app, check Check) {
	mark := map[Health]string{HealthOK: a.colors.stdout.in(green, "✓"), HealthWarning: a.colors.stdout.in(yellow, "!"),
		HealthError: a.colors.stdout.in(red, "✗")}[check.Health]
	fmt.Fprintf(a.out, "%s %-17s  %s\n", mark, check.Name, a.oneLine(check.Detail, 500))
	if check.Fix != "" {
		fmt.Fprintf(a.out, "  %-17s  fix: %s\n", "", a.oneLine(check.Fix, 500))
	}
}

// console gives the sub-packages access to the command line.
type console struct{ *app }

var _ admin.Console = console{}

func (d console) Dir() (string, error) {
	if d.flags.Server != "" {
		return "", usageError("this command works on the files of a data directory, but --server or PERDURE_SERVER names a server", "run it on the machine of the data directory, with --data")
	}
	if d.flags.Database != "" {
		return "", usageError("this command works on the files of a data directory, but --database or PERDURE_DATABASE names a Postgres database", "back up the database with pg_dump and restore it with pg_restore; for a data directory with its own database, remove --database")
	}
	if d.flags.Data == "" {
		return "", usageError("there is no default data directory, because this user has no home directory",
			"set one with --data or PERDURE_DATA")
	}
	return d.flags.Data, nil
}

func (d console) Program() string { return d.Version.Version }

func (d console) Operations() admin.Operations { return d.Admin }

func (d console) Out() io.Writer { return d.out }

func (d console) Say(format string, args ...any) { d.message(format, args...) }

func (d console) NoteWait(what string) (ended func()) { return d.noteWait(what) }

func (d console) Safe(text string) string { return d.oneLine(text, 1000) }

func (d console) Store() (dir, database, server string) {
	return d.store()
}

func (d console) Folder() string { return d.flags.Data }

func (d console) Local(what string) error { return d.checkLocal(what, "server", "database") }

func (d console) MCP() mcp.Operations { return d.Dependencies.MCP }

func (d console) Streams() (io.Reader, io.Writer) { return d.stdin, d.Stdout }

func (d console) StopTime() time.Duration { return d.flags.StopTimeout }

// Settings returns the values of --model-option and of the limits.
func (d console) Settings() mcp.EngineSettings {
	return mcp.EngineSettings{ModelOptions: d.flags.ModelOption, Limits: d.flags.Limits, TypedLimit: typedLimit(d.typed),
		SharedFiles: d.flags.SharedFiles}
}
