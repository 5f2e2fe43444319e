package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// TestR04WaysToDie lets commands die in every way we know. Each time the exit is right, all output
// is there, and no process is left when Follow returns.
func TestR04WaysToDie(t *testing.T) {
	t.Parallel()
	const short = 100 * time.Millisecond
	for _, way := range []struct {
		name   string
		script string
		change func(c *supervise.Command)
		out    string
		code   int
		signal syscall.Signal
	}{
		{name: "exit 0 without output", script: `exit 0`},
		{name: "exit 3", script: `echo so; exit 3`, out: "so\n", code: 3},
		{name: "status 137 without a signal", script: `exit 137`, code: 137},
		{name: "SIGSEGV", script: `echo a; kill -SEGV $$`, out: "a\n", code: 139, signal: syscall.SIGSEGV},
		{name: "SIGKILL", script: `kill -KILL $$`, code: 137, signal: syscall.SIGKILL},
		{name: "SIGABRT", script: `kill -ABRT $$`, code: 134, signal: syscall.SIGABRT},
		{name: "SIGTERM of its own", script: `kill -TERM $$`, code: 143, signal: syscall.SIGTERM},
		{name: "its whole group killed by itself", script: `sleep 60 & sleep 60 & kill -KILL 0`, code: 137, signal: syscall.SIGKILL},
		{name: "no such program in a shell", script: `there-is-no-such-program 2>/dev/null`, code: 127},
		{name: "closed stdout, then an error", script: `exec >&-; echo b >&2; exit 4`, out: "b\n", code: 4},
		{name: "closed streams, then work", script: `exec >&- 2>&-; sleep 0.05; exit 5`, code: 5},
		{name: "a broken pipe inside", script: `yes | head -n 1; exit 6`, out: "y\n", code: 6},
		{name: "a background process holds the output", script: `sleep 60 & echo a; exit 7`, out: "a\n", code: 7,
			change: func(c *supervise.Command) { c.Drain = short }},
		{name: "a background process writes the end", script: `(sleep 0.1; echo b) & echo a; exit 8`, out: "a\nb\n", code: 8},
		{name: "a background process without output", script: `sleep 60 >&- 2>&- & exit 9`, code: 9},
		{name: "a background process that ignores signals", script: `(trap "" TERM HUP INT; sleep 60) & exit 10`, code: 10,
			change: func(c *supervise.Command) { c.Drain, c.Grace = short, short }},
		{name: "a stopped background process", script: `sleep 60 >&- 2>&- & kill -STOP $!; exit 11`, code: 11,
			change: func(c *supervise.Command) { c.Drain = short }},
		{name: "a stopped command", script: `kill -STOP $$`, code: 143, signal: syscall.SIGTERM,
			change: func(c *supervise.Command) { c.Timeout = short }},
		{name: "fifty children", script: `for i in 1 2 3 4 5 6 7 8 9 0; do (for j in 1 2 3 4 5; do sleep 60 & done; wait) & done; exit 12`,
			code: 12, change: func(c *supervise.Command) { c.Drain = short }},
		{name: "exec of another program", script: `exec sh -c "echo a; exit 13"`, out: "a\n", code: 13},
		{name: "a daemon by double fork in sessions of its own", script: self() + " " + treeMode + " 2", out: "ready\nready\nready\n",
			change: func(c *supervise.Command) { c.Drain, c.Grace = short, short }},
		{name: "its supervisor is asked to end", script: `kill -TERM $PPID; sleep 60; exit 14`, code: 143, signal: syscall.SIGTERM},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			c := s.shell(way.script)
			if way.change != nil {
				way.change(&c)
			}

			run := s.start(c)
			out, e := s.follow(run)

			s.wantNobody(run)
			if out != way.out {
				t.Errorf("got output %q, want %q", out, way.out)
			}
			if e.Code != way.code || e.Signal != int(way.signal) {
				t.Errorf("got exit %+v, want code %d, signal %d", e, way.code, way.signal)
			}
		})
	}
}

// TestR24StopTree stops a tree in which all ignore SIGTERM, all but the first have a session of
// their own, and some are orphans.
func TestR24StopTree(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const depth = 3
	c := s.shell("")
	c.Argv = []string{self(), treeMode, fmt.Sprint(depth)}
	run := s.start(c)
	s.awaitOutput(run, "ready\n", depth+1)
	s.eventually("one of them has left and made an orphan", func() bool { return len(s.marked()) == depth })

	if err := run.Stop(s.soon(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}

	s.wantNobody(run)
	if _, e := s.follow(run); e.Signal != int(syscall.SIGKILL) || !e.Cancelled {
		t.Errorf("got exit %+v", e)
	}
}

// TestStopKeepsGraceForTheGroup has a shell that dies of SIGTERM at once, while its child needs
// time to stop.
func TestStopKeepsGraceForTheGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := s.shell(`(trap "sleep 0.3; echo saved; exit" TERM; echo ready; while :; do sleep 0.02; done) & wait`)
	c.Drain = time.Millisecond
	run := s.start(c)
	s.awaitOutput(run, "ready", 1)

	if err := run.Stop(s.soon(), 10*time.Second); err != nil {
		t.Fatal(err)
	}

	out, e := s.follow(run)
	if !strings.HasSuffix(out, "saved\n") || e.Signal != int(syscall.SIGTERM) {
		t.Errorf("got output %q, exit %+v", out, e)
	}
	s.wantNobody(run)
}

// TestStopFileWithoutSignal loses the signal: the file alone ends the run.
func TestStopFileWithoutSignal(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a request":        `{"grace_ms":0,"requested_at":"2026-01-02T03:04:05Z"}`,
		"a broken request": `{"grace_ms":`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			c := s.shell(`sleep 60`)
			c.Grace = 50 * time.Millisecond
			run := s.start(c)

			s.replace("stop", text)

			if _, e := s.follow(run); !e.Cancelled || e.Signal == 0 {
				t.Errorf("got exit %+v", e)
			}
			s.wantNobody(run)
		})
	}
}

// TestStopFileCannotLengthen replaces a request by a longer one, as another runtime could.
func TestStopFileCannotLengthen(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.start(s.shell(`trap "echo asked" TERM; echo ready; while :; do sleep 0.01; done`))
	s.awaitOutput(run, "ready", 1)

	for i, text := range []string{
		`{"grace_ms":500,"requested_at":"2026-01-02T03:04:05Z"}`,
		`{"grace_ms":3600000,"requested_at":"2026-01-02T03:04:06Z"}`,
	} {
		s.replace("stop", text)
		s.awaitOutput(run, "asked", i+1)
	}

	if _, e := s.follow(run); !e.Cancelled || e.Signal != int(syscall.SIGKILL) {
		t.Errorf("got exit %+v", e)
	}
}

// TestKilledSupervisor kills the supervisor itself: how the command ended is then unknown, but it
// has ended.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	run := s.start(s.shell(`sleep 60 & (set -m; sleep 60 & sleep 60); wait`))
	s.eventually("shell and all background processes run", func() bool { return len(s.marked()) >= 4 })
	s.eventually("the record names the command", func() bool { return s.find(supervise.Alive).Record().CommandPID != 0 })

	command := s.find(supervise.Alive).Record().CommandPID
	if err := syscall.Kill(run.Record().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	s.eventually("the command has died with its supervisor", func() bool { return !slices.Contains(s.marked(), command) })
	if _, err := run.Follow(s.soon(), 0, func(supervise.Chunk) error { return nil }); !isKind(err, supervise.Vanished) {
		t.Errorf("Follow ends with %v", err)
	}
	s.find(supervise.Gone)
	s.wantNobody(nil)
	s.find(supervise.Gone)
	if err := run.Stop(s.soon(), 0); !isKind(err, supervise.Vanished) {
		t.Errorf("Stop ends with %v", err)
	}
}

// TestToldBeforeOutput reads from commands that write output at once. A reader of any output finds
// the command in the record, and can thus prove what is left of it if its supervisor dies now.
func TestToldBeforeOutput(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := newScene(t)
		run := s.start(s.shell("echo a"))
		heard := errors.New("heard")
		if _, err := run.Follow(s.soon(), 0, func(supervise.Chunk) error { return heard }); !errors.Is(err, heard) {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "record"))
		if err != nil || strings.Contains(string(text), `"command_pid":0,`) {
			t.Fatalf("output came, and the record names no command: %s, %v", text, err)
		}
	}
}
