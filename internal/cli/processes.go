package cli

import (
	"context"
	"fmt"
	"time"
)

// Supervised manages the commands that engines have started on this machine.
type Supervised interface {
	// Processes lists them, with the calls and tasks that own them.
	Processes(ctx context.Context, o OpenOptions) ([]Process, error)
	// EndProcess ends one and everything it started. It returns when all of it is gone.
	EndProcess(ctx context.Context, p Process) error
}

// Process is a command that runs, or ran, under a supervisor.
type Process struct {
	Dir        string    `json:"dir"`
	State      string    `json:"state"`                // of the run directory, or "damaged"
	PID        int       `json:"pid,omitempty"`        // of the command; 0: it is not running
	Supervisor int       `json:"supervisor,omitempty"` // PID of the supervisor
	Program    string    `json:"program,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	Owner      string    `json:"owner,omitempty"` // the task or call that it belongs to; empty: unknown
	Error      string    `json:"error,omitempty"`
}

// alive reports whether it is running.
func (p Process) alive() bool { return p.State == "alive" && p.PID != 0 }

func (c *doctorCommand) processes(ctx context.Context, a *app) error {
	if a.flags.Server != "" {
		return usageError("--processes inspects this machine, but --server or PERDURE_SERVER names a server",
			"run it on the machine of the data directory, with --data")
	}
	all, err := a.Supervised.Processes(ctx, OpenOptions{Access: Reading, Dir: a.flags.Data, Database: a.flags.Database})
	if err != nil {
		return err
	}
	if c.Kill != 0 {
		return c.kill(ctx, a, all)
	}
	now := a.now()
	list := outputList[Process]{
		noun: "supervised commands",
		head: []string{"STATE", "PID", "STARTED", "OWNER", "PROGRAM"},
		name: func(p Process) string { return p.Dir },
		row: func(p Process) []cell {
			owner := cell{text: p.Owner}
			if p.Owner == "" {
				owner = cell{"unknown", yellow}
			}
			return []cell{{text: p.State}, {text: pid(p.PID)}, {text: ago(p.StartedAt, now)}, owner,
				{text: p.Program + p.Error}}
		},
	}
	if err := list.print(ctx, a, c.outputFlags, all); err != nil || !c.choice().IsTable() {
		return err
	}
	for _, p := range all {
		if p.alive() && p.Owner == "" {
			a.message("%d has no owner in this store (use --database for another store); end it with: %s doctor %s--processes --kill %d", p.PID, program, a.storeFlags(), p.PID)
		}
	}
	return nil
}

// kill ends a command without an owner. A command that belongs to a call is left to its engine,
// which adopts it at its next start and records how it ends.
func (c *doctorCommand) kill(ctx context.Context, a *app, all []Process) error {
	for _, p := range all {
		switch {
		case p.PID != c.Kill || !p.alive():
			continue
		case p.Owner != "":
			return &userError{
				code: exitConflict, message: fmt.Sprintf("%d belongs to %s and was not ended", p.PID, p.Owner),
				hint: "the next " + program + " serve adopts it; " + program +
					" task cancel ends a task together with its command",
			}
		case c.DryRun:
			a.message("would end %d (%s) and everything it started", p.PID, a.oneLine(p.Program, 200))
			return nil
		}
		if err := a.confirm(ctx, c.Yes,
			fmt.Sprintf("end %d (%s) and everything it started?", p.PID, a.oneLine(p.Program, 200))); err != nil {
			return err
		}
		if err := a.EndProcess(ctx, p); err != nil {
			return err
		}
		a.message("ended %d and everything it started", p.PID)
		return nil
	}
	return &userError{code: exitNotFound, message: fmt.Sprintf("no supervised command is running with PID %d", c.Kill),
		hint: program + " doctor " + a.storeFlags() + "--processes lists them"}
}

func pid(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
