package shell

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// Processes implements tool.Supervised.
func (b *Bash) Processes(ctx context.Context, call tool.Call) (perdure.TaskProcesses, error) {
	found, err := b.runner.Inspect(ctx, b.runDir(call))
	if err != nil {
		return perdure.TaskProcesses{}, fmt.Errorf("look at the processes of a command: %w", err)
	}
	shown := perdure.TaskProcesses{State: stateOf(found.Remains), Count: found.Count, CPUMS: found.CPU.Milliseconds()}
	if rec := found.Record; rec.PID != 0 {
		shown.Supervisor = &perdure.Supervisor{PID: rec.PID, IsAlive: found.Remains == supervise.Alive, CommandPID: rec.CommandPID,
			StartedAt: rec.StartedAt}
		if rec.Profile != "" {
			shown.Sandbox = &perdure.Sandbox{Profile: rec.Profile, Enforced: append([]string{}, rec.Enforced...),
				HasNetwork: supervise.Profile(rec.Profile) != supervise.ProfileIsolated}
		}
	}
	for _, p := range found.Tree {
		shown.Processes = append(shown.Processes, perdure.Process{
			PID: p.PID, ParentPID: p.Parent, Group: p.Group, State: stateWord(p.State), Threads: p.Threads, StartedAt: p.StartedAt,
			Command: p.CommandLine, Directory: p.Dir, CPUMS: p.CPU.Milliseconds(), Memory: p.MemoryBytes, Peak: p.PeakBytes,
		})
	}
	if e := found.Exit; e != nil {
		shown.CPUMS = e.CPUMS
		shown.End = &perdure.ProcessEnd{Code: e.Code, Signal: e.Signal, Error: e.Error, Limit: e.Limit, TimedOut: e.TimedOut,
			Stopped: e.Cancelled, StartedAt: e.StartedAt, EndedAt: e.EndedAt, Left: e.LeftCount, Peak: e.PeakBytes}
	}
	for _, f := range found.Files {
		shown.Files = append(shown.Files, perdure.OutputFile(f))
	}
	return shown, nil
}

func stateOf(r supervise.Remains) perdure.ProcessState {
	switch r {
	case supervise.Alive:
		return perdure.ProcessRunning
	case supervise.Ended:
		return perdure.ProcessEnded
	case supervise.Gone:
		return perdure.ProcessLost
	}
	return perdure.ProcessNotStarted
}

// stateWord returns the state of a process for people.
func stateWord(letter byte) string {
	switch letter {
	case 'R':
		return "running"
	case 'S', 'I':
		return "sleeping"
	case 'D':
		return "waiting"
	case 'T', 't':
		return "stopped"
	}
	return string(rune(letter))
}
