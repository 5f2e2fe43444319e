package shell

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// looked returns what is known of the processes of a call.
func looked(t *testing.T, b *Bash, c tool.Call) perdure.TaskProcesses {
	t.Helper()
	p, err := b.Processes(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// lookedUntil looks until the processes are as a test needs them.
func lookedUntil(t *testing.T, b *Bash, c tool.Call, ok func(perdure.TaskProcesses) bool) perdure.TaskProcesses {
	t.Helper()
	tick, timeout := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		p := looked(t, b, c)
		if ok(p) {
			return p
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("after %v: %+v", patience, p)
		}
	}
}

// TestProcesses looks at a command with a child before its start, while it runs, and after its end
// (TK17).
func TestProcesses(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSink()
	c := command("sleep 600 & echo $!; wait")
	if err := b.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if p := looked(t, b.Bash, c); p.State != perdure.ProcessNotStarted || p.Supervisor != nil || len(p.Processes) > 0 {
		t.Fatalf("before the start: %+v", p)
	}

	results := begin(t.Context(), b.Bash, c, s) // looking has not revoked the ticket
	s.await(t, "stdout", "\n")
	p := lookedUntil(t, b.reborn(t), c, func(p perdure.TaskProcesses) bool {
		return len(p.Processes) == 2 && p.Processes[0].State == "sleeping" && p.Processes[1].State == "sleeping" && p.Processes[1].Command == "sleep 600"
	})
	if p.State != perdure.ProcessRunning || p.Supervisor == nil || !p.Supervisor.IsAlive || p.Count != 2 || len(p.Processes) != 2 || p.End != nil {
		t.Fatalf("while it runs: %+v", p)
	}
	shell, child := p.Processes[0], p.Processes[1]
	if shell.PID != p.Supervisor.CommandPID || shell.ParentPID != p.Supervisor.PID || !strings.HasPrefix(shell.Command, "/bin/bash -c") ||
		child.ParentPID != shell.PID || child.Group != shell.PID {
		t.Errorf("got %+v and %+v under %+v, want a shell and its child", shell, child, p.Supervisor)
	}
	for _, one := range p.Processes {
		if one.Directory != b.config.Dir || one.Memory == 0 || one.Peak < one.Memory || one.Threads != 1 {
			t.Errorf("got %+v", one)
		}
		if off := one.StartedAt.Sub(p.Supervisor.StartedAt); off < -time.Minute || off > time.Hour {
			t.Errorf("%d started %v after its supervisor", one.PID, off)
		}
	}
	if len(p.Files) != 1 || filepath.Base(p.Files[0].Path) != "output" || p.Files[0].Bytes == 0 {
		t.Errorf("got the files %+v", p.Files)
	}

	if err := b.Stop(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wait(t, results)
	p = looked(t, b.reborn(t), c)
	if p.State != perdure.ProcessEnded || p.End == nil || p.End.Signal != int(syscall.SIGTERM) || !p.End.Stopped || p.End.EndedAt.IsZero() ||
		p.Count != 0 || p.Supervisor == nil || p.Supervisor.IsAlive {
		t.Errorf("after the end: %+v, %+v", p, p.End)
	}
}

// TestProcessesUsage: what a command has used is known with that of its children that have ended,
// while it runs and after its end.
func TestProcessesUsage(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSink()
	c := command(`head -c 100000000 /dev/zero | tail -c 100000000 | wc -c; read < pipe; true`)
	pipe := filepath.Join(b.config.Dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	results := begin(t.Context(), b.Bash, c, s)
	s.await(t, "stdout", "100000000\n")

	p := lookedUntil(t, b.Bash, c, func(p perdure.TaskProcesses) bool { return len(p.Processes) == 1 })
	if p.Processes[0].CPUMS >= p.CPUMS {
		t.Errorf("got %d ms in all, and %+v, want its own time without that of its children", p.CPUMS, p.Processes)
	}

	if err := os.WriteFile(pipe, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	wait(t, results)
	if p = looked(t, b.Bash, c); p.CPUMS <= 0 || p.End == nil || p.End.Peak < 90<<20 {
		t.Errorf("got %d ms and %+v, want the processor time, and a process with 100 MB", p.CPUMS, p.End)
	}
}

// TestProcessesWithLongCommandLines: a command line that is too long to be read whole is replaced
// by the name of the program, and not cut.
func TestProcessesWithLongCommandLines(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSink()
	c := command(`long=$(printf '0%.0s' {1..40000}); bash -c 'echo ready; sleep 600; :' $long & wait`)
	results := begin(t.Context(), b.Bash, c, s)
	s.await(t, "stdout", "ready\n")

	p := lookedUntil(t, b.Bash, c, func(p perdure.TaskProcesses) bool { return len(p.Processes) == 3 })

	if p.Processes[1].Command != "bash" {
		t.Errorf("got %+v, want only the name of the second", p.Processes)
	}
	if err := b.Stop(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wait(t, results)
}

// TestProcessesOfADeadSupervisor: nobody holds the command any more, and how it ended is not known.
func TestProcessesOfADeadSupervisor(t *testing.T) {
	t.Parallel()
	b, s, c := newBench(t), newSink(), command("echo $$; sleep 600")
	results := begin(t.Context(), b.Bash, c, s)
	s.await(t, "stdout", "\n")
	running := looked(t, b.Bash, c)

	if err := syscall.Kill(running.Supervisor.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, results)

	p := looked(t, b.Bash, c)
	if p.State != perdure.ProcessLost || p.Supervisor == nil || p.Supervisor.IsAlive || p.Supervisor.PID != running.Supervisor.PID || p.End != nil || p.Count != 0 {
		t.Errorf("got %+v, %+v", p, p.Supervisor)
	}
}

// TestProcessesOfDamagedFiles: a damaged record is an error that names the file.
func TestProcessesOfDamagedFiles(t *testing.T) {
	t.Parallel()
	b, c := newBench(t), command("true")
	b.Run(t.Context(), c, tool.Env{})
	path := filepath.Join(b.runDir(c), "exit")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := b.Processes(t.Context(), c); err == nil || errors.Is(err, perdure.NotFound) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want the path of the damaged file", err)
	}
}
