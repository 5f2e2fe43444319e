package cli

import (
	"context"
	"fmt"
	"time"
)

// Supervised is what the command line can do about the commands that a runtime has left on this machine.
type Supervised interface {
	// Processes lists them, with the calls and tasks of the store that they belong to.
	Processes(ctx context.Context, o Opening) ([]Process, error)
	// EndProcess ends one, with all that it started, and returns when none of it is left.
	EndProcess(ctx context.Context, p Process) error
}

// Process is a command that was run under a supervisor.
type Process struct {
	Dir        string    `json:"dir"`
	State      string    `json:"state"`                // of the run directory, or "damaged"
	PID        int       `json:"pid,omitempty"`        // of the command; 0: it was not up
	Supervisor int       `json:"supervisor,omitempty"` // its pid
	Program    string    `json:"program,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	Owner      string    `json:"owner,omitempty"` // the task or call in the journal that it belongs to; empty: none is known
	Error      string    `json:"error,omitempty"`
}

// alive reports whether it runs.
func (p Process) alive() bool { return p.State == "alive" && p.PID != 0 }

func (c *doctorCommand) processes(ctx context.Context, a *app) error {
	if a.flags.Server != "" {
		return misuse("this looks at the processes of this machine, and --server or PERDURE_SERVER names a server", "run it where the data directory is, with --data")
	}
	all, err := a.Supervised.Processes(ctx, Opening{Access: Reading, Dir: a.flags.Data, Database: a.flags.Database})
	if err != nil {
		return err
	}
	if c.Kill != 0 {
		return c.kill(ctx, a, all)
	}
	now := a.now()
	list := listing[Process]{
		noun: "supervised commands",
		head: []string{"STATE", "PID", "STARTED", "OWNER", "PROGRAM"},
		name: func(p Process) string { return p.Dir },
		row: func(p Process) []cell {
			owner := cell{text: p.Owner}
			if p.Owner == "" {
				owner = cell{"not known", yellow}
			}
			return []cell{{text: p.State}, {text: pid(p.PID)}, {text: ago(p.StartedAt, now)}, owner, {text: p.Program + p.Error}}
		},
	}
	if err := list.print(ctx, a, c.output, all); err != nil || !c.choice().ForPeople() {
		return err
	}
	for _, p := range all {
		if p.alive() && p.Owner == "" {
			a.say("%d is nobody's as far as this store knows (another one is named with --database):  %s doctor %s--processes --kill %d  ends it", p.PID, program, a.place(), p.PID)
		}
	}
	return nil
}

// kill ends a command that nobody waits for. One that belongs to a call is left to its runtime, which takes it up when it
// starts and records how it ends.
func (c *doctorCommand) kill(ctx context.Context, a *app, all []Process) error {
	for _, p := range all {
		switch {
		case p.PID != c.Kill || !p.alive():
			continue
		case p.Owner != "":
			return &fault{
				code: exitConflict, what: fmt.Sprintf("%d belongs to %s: nothing was ended", p.PID, p.Owner),
				todo: "a runtime takes it up when it starts: " + program + " serve; " + program + " task cancel ends a task with its command",
			}
		case c.DryRun:
			a.say("would end %d (%s) and all that it started", p.PID, a.line(p.Program, 200))
			return nil
		}
		if err := a.confirm(ctx, c.Yes, fmt.Sprintf("end %d (%s) and all that it started?", p.PID, a.line(p.Program, 200))); err != nil {
			return err
		}
		if err := a.EndProcess(ctx, p); err != nil {
			return err
		}
		a.say("ended %d and all that it started", p.PID)
		return nil
	}
	return &fault{code: exitNotFound, what: fmt.Sprintf("no supervised command of PID %d runs", c.Kill), todo: program + " doctor " + a.place() + "--processes lists them"}
}

func pid(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
