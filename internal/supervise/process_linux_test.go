package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestParseProcess(t *testing.T) {
	t.Parallel()
	tail := " S 11 12 13 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 4 0 50315 3133440 379"
	want := process{pid: 10, parent: 11, group: 12, session: 13, state: 'S', threads: 4, start: 50315}
	for _, name := range []string{"cat", "a b", ") S 1 1 1 (", "\n"} {
		if got, ok := parseProcess(10, []byte("10 ("+name+")"+tail)); !ok || got != want {
			t.Errorf("of the name %q: got %+v, %v, want %+v", name, got, ok, want)
		}
	}
	for _, text := range []string{"", "10 (cat)", "10 (cat) S 1 2", "10 (cat) S x 12 13 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 4 0 50315 1"} {
		if got, ok := parseProcess(10, []byte(text)); ok {
			t.Errorf("of %q: got %+v", text, got)
		}
	}
	if self, ok := readProcess(os.Getpid()); !ok || self.parent != os.Getppid() || self.dead() || !processAlive(self.pid, self.start) {
		t.Errorf("this process is %+v, %v", self, ok)
	}
}

func FuzzParseProcess(f *testing.F) {
	f.Add([]byte("10 (cat) S 11 12 13 0 -1 4194304 101 0 0 0 0 0 0 0 20 0 4 0 50315 3133440 379"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, text []byte) { parseProcess(10, text) })
}

func TestDead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    process
		want bool
	}{
		{process{state: 'S', threads: 1}, false},
		{process{state: 'Z', threads: 1}, true},
		{process{state: 'Z', threads: 3}, false}, // its first thread has ended, others run
		{process{state: 'X', threads: 1}, true},
		{process{state: 'T', threads: 1}, false},
	} {
		if got := c.p.dead(); got != c.want {
			t.Errorf("%c with %d threads: got dead %v", c.p.state, c.p.threads, got)
		}
	}
}

// TestProvedOurs has a record of the supervisor 50 and the command 60, started at 100 and 101.
func TestProvedOurs(t *testing.T) {
	t.Parallel()
	rec := Record{PID: 50, StartTime: 100, CommandPID: 60, CommandStartTime: 101}
	running := func(pid, parent, group, session int, start uint64) process {
		return process{pid: pid, parent: parent, group: group, session: session, state: 'S', threads: 1, start: start}
	}
	zombie := func(p process) process {
		p.state = 'Z'
		return p
	}
	for _, c := range []struct {
		name string
		all  []process
		want []int
	}{
		{"nothing", nil, nil},
		{"strangers", []process{running(1, 0, 1, 1, 1), running(70, 1, 70, 70, 200)}, nil},
		{"the command", []process{running(60, 1, 60, 50, 101)}, []int{60}},
		{"a child, the command being dead", []process{running(61, 1, 60, 50, 102)}, []int{61}},
		{"a child, the command being a zombie", []process{zombie(running(60, 1, 60, 50, 101)), running(61, 1, 60, 50, 102)}, []int{61}},
		{"another group in the session, beside a proof", []process{running(60, 1, 60, 50, 101), running(62, 1, 62, 50, 103)}, []int{60, 62}},
		{"another session below a proof", []process{running(60, 1, 60, 50, 101), running(63, 60, 63, 63, 103), running(64, 63, 63, 63, 104)}, []int{60, 63, 64}},
		{"another group in the session, without a proof", []process{running(62, 1, 62, 50, 103)}, nil},
		{"the command's number is another's", []process{running(60, 1, 60, 60, 300)}, nil},
		{"a group of the command's number elsewhere", []process{running(60, 1, 60, 40, 300), running(61, 60, 60, 40, 301)}, nil},
		{"the supervisor's number is another's", []process{running(50, 1, 50, 50, 300), running(61, 50, 60, 50, 301)}, nil},
		{"older than the command", []process{running(61, 1, 60, 50, 99)}, nil},
		{"the supervisor is running", []process{running(50, 1, 50, 50, 100), running(60, 50, 60, 50, 101)}, nil},
		{"the supervisor is a zombie", []process{zombie(running(50, 1, 50, 50, 100)), running(60, 1, 60, 50, 101)}, []int{60}},
	} {
		var got []int
		for _, p := range provedProcesses(c.all, rec) {
			got = append(got, p.pid)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if got := provedProcesses([]process{running(60, 1, 60, 50, 101)}, Record{PID: 50, StartTime: 100}); got != nil {
		t.Errorf("without a command in the record: got %v", fmt.Sprint(got))
	}
}

// TestRemainsOfADyingSupervisor: a supervisor that was killed, and is still in the table, is waited
// for, and then what it left is killed.
func TestRemainsOfADyingSupervisor(t *testing.T) {
	t.Parallel()
	supervisor := exec.Command("bash", "-c", "set -m; sleep 600 & echo $!; wait")
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := supervisor.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	var command int
	if _, err := fmt.Fscan(out, &command); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(command, syscall.SIGKILL) }) // it is dead when the test passes
	own, there := readProcess(supervisor.Process.Pid)
	left, alsoThere := readProcess(command)
	if !there || !alsoThere {
		t.Fatalf("supervisor %t, command %t", there, alsoThere)
	}
	dying := time.AfterFunc(50*time.Millisecond, func() { _ = supervisor.Process.Kill() })
	defer dying.Stop()
	reaped := make(chan error, 1) // capacity 1: there is no receiver if the test has failed
	go func() { reaped <- supervisor.Wait() }()

	err = killRemains(t.Context(), Record{PID: own.pid, StartTime: own.start, CommandPID: left.pid, CommandStartTime: left.start})

	if err != nil || processAlive(left.pid, left.start) {
		t.Errorf("got %v, and the command runs: %t", err, processAlive(left.pid, left.start))
	}
	<-reaped
}

// TestRemainsOfAnUntoldCommand has a supervisor that died before it could record its command's pid,
// while the kernel kills the command: killRemains waits until it is gone, since it may still write.
// A process that does not die must not be killed, and the wait for it is limited.
func TestRemainsOfAnUntoldCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lives string // seconds
		left  bool
	}{"it dies": {lives: "0.5"}, "it keeps running": {lives: "600", left: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			supervisor := exec.Command("bash", "-c", "set -m; sleep "+c.lives+" >&- 2>&- & echo $!; read")
			supervisor.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			goOn, err := supervisor.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := supervisor.StdoutPipe()
			if err == nil {
				err = supervisor.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			own, _ := readProcess(supervisor.Process.Pid)
			var pid int
			if _, err := fmt.Fscan(out, &pid); err != nil {
				t.Fatal(err)
			}
			command, there := readProcess(pid)
			if !there || command.session != own.pid {
				t.Fatalf("the command is %+v, the supervisor %+v", command, own)
			}
			t.Cleanup(func() { _ = signalProcess(command.pid, command.start, syscall.SIGKILL) })
			_ = goOn.Close()
			_ = supervisor.Wait() // it leaves with the status of its read

			err = killRemains(t.Context(), Record{PID: own.pid, StartTime: own.start})

			if runs := processAlive(command.pid, command.start); err != nil || runs != c.left {
				t.Errorf("got %v, and the command runs: %t", err, runs)
			}
		})
	}
}
