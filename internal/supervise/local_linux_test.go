package supervise_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/internal/supervise/supervisetest"
)

func TestMain(m *testing.M) {
	supervise.Entry()
	supervisetest.Main()
	runtimeFixture()
	treeFixture()
	escapeFixture()
	confinedFixture()
	beCareless()
	os.Exit(m.Run())
}

func TestLocal(t *testing.T) {
	t.Parallel()
	supervisetest.Run(t, supervisetest.Adapter{New: func(t *testing.T) supervisetest.Harness {
		root := newRoot(t, t.TempDir())
		return supervisetest.Harness{
			Root:      root,
			Dir:       t.TempDir(),
			NewRunner: func() supervise.Runner { return newLocal(t) },
			Argv: func(program string, args ...string) []string {
				return supervisetest.Argv(self(), program, args...)
			},
		}
	}})
}

// TestConfinedLocal holds a confined command to the laws of every command.
func TestConfinedLocal(t *testing.T) {
	t.Parallel()
	for _, profile := range []supervise.Profile{supervise.ProfileWorkspace, supervise.ProfileIsolated} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			requireProfile(t, profile)
			supervisetest.Run(t, supervisetest.Adapter{New: func(t *testing.T) supervisetest.Harness {
				root := newRoot(t, memoryDir(t))
				return supervisetest.Harness{
					AddedEnv:  []string{"HOME=", "TMPDIR="},
					Root:      root,
					Dir:       t.TempDir(),
					NewRunner: func() supervise.Runner { return confined(t, supervise.Config{Profile: profile}) },
					Argv: func(program string, args ...string) []string {
						return supervisetest.Argv(self(), program, args...)
					},
				}
			}})
		})
	}
}

// newLocal makes one more runtime on this machine.
func newLocal(t testing.TB) *supervise.Local {
	t.Helper()
	return newLocalOf(t, "")
}

// newLocalOf makes a runtime with a supervisor of its own.
func newLocalOf(t testing.TB, program string) *supervise.Local {
	t.Helper()
	l, err := supervise.New(supervise.Config{Supervisor: program})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// buildSupervisor builds a program that is a supervisor and nothing else.
func buildSupervisor(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "supervisor")
	build := exec.Command("go", "build", "-o", program, "./testdata/supervisor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a supervisor: %v\n%s", err, out)
	}
	return program
}

// newRoot makes a directory for run directories in parent. At the end of the test no process may be
// left in it, and no supervisor may have written to stderr, for example about a data race.
func newRoot(t testing.TB, parent string) string {
	t.Helper()
	root := filepath.Join(parent, "runs")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		all, err := newLocal(t).List(ctx, root)
		if err != nil {
			t.Error(err)
		}
		for _, f := range all {
			if f.Remains == supervise.Alive {
				if err := f.Run.Stop(ctx, 0); err != nil && !errors.Is(err, supervise.Vanished) {
					t.Error(err)
				}
			}
			if b, err := os.ReadFile(filepath.Join(f.Dir, "supervisor.err")); err == nil && len(b) > 0 {
				t.Errorf("the supervisor of %s said: %s", f.Dir, b)
			}
		}
	})
	return root
}
