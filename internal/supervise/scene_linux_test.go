package supervise_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// markVariable is in the environment of every process of a test's command, and names the test.
const markVariable = "PERDURE_TEST_MARK"

// scene is one run directory of one test, with real processes.
type scene struct {
	*testing.T
	dir  string
	mark string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneIn(t, t.TempDir())
}

func newSceneIn(t *testing.T, parent string) *scene {
	t.Helper()
	root := newRoot(t, parent)
	return &scene{T: t, dir: filepath.Join(root, "run"), mark: root}
}

// memoryDir returns a temporary directory in which a sync costs nothing, if the system has one: for
// tests with many runs.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "perdure")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// soon is a context for one step, which takes no longer than 20 s.
func (s *scene) soon() context.Context {
	ctx, cancel := context.WithTimeoutCause(s.Context(), 20*time.Second, errors.New("one step took 20 s"))
	s.Cleanup(cancel)
	return ctx
}

// shell is a command that runs script.
func (s *scene) shell(script string) supervise.Command {
	return supervise.Command{Argv: []string{"sh", "-c", script}, Env: s.env(), Dir: s.TempDir()}
}

func (s *scene) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), markVariable + "=" + s.mark}
}

// start runs c in the scene's directory.
func (s *scene) start(c supervise.Command) supervise.Run {
	s.Helper()
	l := newLocal(s)
	if err := l.Prepare(s.soon(), s.dir); err != nil {
		s.Fatal(err)
	}
	run, err := l.Start(s.soon(), s.dir, c)
	if err != nil {
		s.Fatal(err)
	}
	return run
}

// find asks a new runtime, which must answer want.
func (s *scene) find(want supervise.Remains) supervise.Run {
	s.Helper()
	got, run, err := newLocal(s).Find(s.soon(), s.dir)
	if err != nil {
		s.Fatal(err)
	}
	if got != want {
		s.Fatalf("Find answers %s, want %s", got, want)
	}
	return run
}

// follow reads to the end.
func (s *scene) follow(run supervise.Run) (string, supervise.Exit) {
	s.Helper()
	return s.followWith(s.soon(), run)
}

func (s *scene) followWith(ctx context.Context, run supervise.Run) (string, supervise.Exit) {
	s.Helper()
	var out strings.Builder
	e, err := run.Follow(ctx, 0, func(c supervise.Chunk) error {
		out.Write(c.Bytes)
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return out.String(), e
}

// awaitOutput returns when the output contains text n times.
func (s *scene) awaitOutput(run supervise.Run, text string, n int) {
	s.Helper()
	var out strings.Builder
	ctx, cancel := context.WithCancel(s.soon())
	defer cancel()
	_, err := run.Follow(ctx, 0, func(c supervise.Chunk) error {
		out.Write(c.Bytes)
		if strings.Count(out.String(), text) >= n {
			cancel()
		}
		return nil
	})
	if strings.Count(out.String(), text) < n {
		s.Fatalf("the output is %q and not %d times %q: %v", out.String(), n, text, err)
	}
}

// eventually waits until ok.
func (s *scene) eventually(what string, ok func() bool) {
	s.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	ctx := s.soon()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Fatalf("it never came true: %s", what)
		}
	}
}

// marked returns the running processes of the scene's command, by their environment: a proof that
// uses nothing of the code under test. Zombies have no environment.
func (s *scene) marked() []int {
	s.Helper()
	return s.processesWith(markVariable + "=" + s.mark)
}

// processesWith returns the running processes with a variable in their environment.
func (s *scene) processesWith(variable string) []int {
	s.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains("\x00"+string(b)+"\x00", "\x00"+variable+"\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			s.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// wantNobody checks that no process of the command runs, and that its supervisor is not even a
// zombie.
func (s *scene) wantNobody(run supervise.Run) {
	s.Helper()
	if pids := s.marked(); len(pids) > 0 {
		s.Errorf("processes of the command are left: %v", pids)
	}
	if run == nil {
		return
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(run.Record().PID)); err == nil {
		s.Error("the supervisor is left")
	}
}

// edit changes a file of the run directory.
func (s *scene) edit(name string, change func(string) string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(string(b))), 0o600); err != nil {
		s.Fatal(err)
	}
}

// replace puts a new file into the run directory, at once.
func (s *scene) replace(name, text string) {
	s.Helper()
	tmp := filepath.Join(s.TempDir(), name)
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(s.dir, name)); err != nil {
		s.Fatal(err)
	}
}
