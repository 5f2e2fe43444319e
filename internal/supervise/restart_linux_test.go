package supervise_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// TestR33KillRuntime kills a runtime with SIGKILL while its commands run. The next one gets the
// lock at once, adopts those that run, and reads the end of the others; no byte is missing and no
// exit code is wrong.
func TestR33KillRuntime(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	root, lock := filepath.Dir(s.dir), filepath.Join(t.TempDir(), "lock")
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(root, "gate")
	const runs = 4
	args := []string{runtimeMode, root, lock}
	for i := range runs {
		args = append(args, fmt.Sprintf(
			`echo %d >>ran.%d; for i in 1 2 3; do echo out $i; echo err $i >&2; done; while [ ! -e %s ]; do sleep 0.02; done; echo last; exit %d`,
			i, i, gate, 10+i))
	}
	args = append(args, `echo early; exit 42`)
	runtime := exec.Command(self(), args...)
	runtime.Env = s.env()
	runtime.Stderr = os.Stderr
	out, err := runtime.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatalf("the runtime says %q, %v", line, err)
	}
	if err := runtime.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = runtime.Wait() // it was killed

	f, err := takeLock(lock)
	if err != nil {
		t.Errorf("the next runtime has to wait for the lock: %v", err)
	}
	defer f.Close()
	l := newLocal(t)
	s.dir = fmt.Sprint(root, "/", runs)
	s.eventually("the short command has ended, unobserved", func() bool {
		remains, _, err := l.Find(s.soon(), s.dir)
		return err != nil || remains == supervise.Ended
	})
	if text, e := s.follow(s.find(supervise.Ended)); text != "early\n" || e.Code != 42 {
		t.Errorf("got output %q, exit %+v", text, e)
	}
	var adopted []supervise.Run
	for i := range runs {
		s.dir = fmt.Sprint(root, "/", i)
		adopted = append(adopted, s.find(supervise.Alive))
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, run := range adopted {
		var streams [3]string
		e, err := run.Follow(s.soon(), 0, func(c supervise.Chunk) error {
			streams[c.Stream] += string(c.Bytes)
			return nil
		})
		if err != nil || e.Code != 10+i || e.Signal != 0 {
			t.Errorf("run %d: got exit %+v, %v", i, e, err)
		}
		if want := [3]string{"", "out 1\nout 2\nout 3\nlast\n", "err 1\nerr 2\nerr 3\n"}; streams != want {
			t.Errorf("run %d: got output %q, want %q", i, streams, want)
		}
		if b, err := os.ReadFile(filepath.Join(root, fmt.Sprint("ran.", i))); string(b) != fmt.Sprintln(i) {
			t.Errorf("run %d: it has run %q, %v", i, b, err)
		}
	}
	s.eventually("no process is left", func() bool { return len(s.marked()) == 0 })
}

// TestTicketRace lets a recovery race the start, 200 times: either the ticket is revoked and the
// command has not run and never will, or it runs exactly once.
func TestTicketRace(t *testing.T) {
	t.Parallel()
	s := newSceneIn(t, memoryDir(t))
	root, ran := filepath.Dir(s.dir), filepath.Join(t.TempDir(), "ran")
	l := newLocalOf(t, buildSupervisor(t)) // without -race, in which 200 of them would take long
	usual := usualStart(s, l)
	revoked := 0
	const rounds = 200
	for i := range rounds {
		s.dir = fmt.Sprint(root, "/", i)
		if err := l.Prepare(s.soon(), s.dir); err != nil {
			t.Fatal(err)
		}
		c := s.shell("")
		c.Argv = []string{"sh", "-c", `echo "$0" >>"$1"`, fmt.Sprint(i), ran}

		var both sync.WaitGroup
		var run supervise.Run
		var startErr error
		both.Go(func() { run, startErr = l.Start(s.soon(), s.dir, c) })
		delay := time.NewTimer(usual * time.Duration(i%20) / 20)
		<-delay.C
		remains, _, err := newLocal(t).Find(s.soon(), s.dir)
		both.Wait()

		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		switch {
		case remains == supervise.Revoked && isKind(startErr, supervise.NotStarted):
			revoked++
		case (remains == supervise.Alive || remains == supervise.Ended) && startErr == nil:
			if _, e := s.follow(run); e.Code != 0 {
				t.Errorf("round %d: exit %+v", i, e)
			}
			lines = 1
		default:
			t.Fatalf("round %d: Find answers %s, Start %v", i, remains, startErr)
		}
		if b, err := os.ReadFile(ran); err == nil && countLine(string(b), fmt.Sprint(i)) != lines || err != nil && lines > 0 {
			t.Fatalf("round %d is %s and has run %d times, %v", i, remains, countLine(string(b), fmt.Sprint(i)), err)
		}
	}
	if revoked == 0 || revoked == rounds {
		t.Errorf("%d of %d rounds were revoked: that is no race", revoked, rounds)
	}
	t.Logf("%d of %d rounds were revoked, in a start of %v", revoked, rounds, usual)
	s.eventually("no process is left", func() bool { return len(s.marked()) == 0 })
	b, err := os.ReadFile(ran)
	if got := strings.Count(string(b), "\n"); err != nil || got != rounds-revoked {
		t.Errorf("%d commands have run in %d rounds, of which %d were revoked: %v", got, rounds, revoked, err)
	}
}

// usualStart is the median time of some starts: the recovery comes at any moment of it.
func usualStart(s *scene, l *supervise.Local) time.Duration {
	s.Helper()
	var took []time.Duration
	for i := range 5 {
		dir := fmt.Sprint(s.dir, ".usual.", i)
		if err := l.Prepare(s.soon(), dir); err != nil {
			s.Fatal(err)
		}
		began := time.Now()
		run, err := l.Start(s.soon(), dir, s.shell(""))
		if err != nil {
			s.Fatal(err)
		}
		took = append(took, time.Since(began))
		s.follow(run)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func countLine(text, line string) int {
	return strings.Count("\n"+text, "\n"+line+"\n")
}
