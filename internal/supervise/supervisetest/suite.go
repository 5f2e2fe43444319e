// Package supervisetest contains the conformance tests of supervise.Runner, and World, a fake in
// memory.
//
// It may import supervise and the standard library.
//
// The one thing to know: the tests use commands that both implementations can run, the Programs. In
// a World they are Go functions, and in a real process the test binary runs them (Main, Argv).
package supervisetest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// Harness is a new environment for one test. All fields are required.
type Harness struct {
	// An absolute path for run directories; initially empty.
	Root      string
	Dir       string                                        // a working directory for commands
	NewRunner func() supervise.Runner                       // returns another runtime of the same environment
	Argv      func(program string, args ...string) []string // returns the command line of one of Programs
	// Variables, as NAME=, that the runner's sandbox adds to the environment of every command.
	AddedEnv []string
}

// Adapter describes the implementation under test.
type Adapter struct {
	New    func(t *testing.T) Harness
	Bubble bool // run each test in a synctest bubble, New included
}

// property is one property of the port.
type property struct {
	name  string
	check func(ctx context.Context, t *testing.T, h Harness)
}

// Run tests the implementation that a describes.
func Run(t *testing.T, a Adapter) {
	var laws []property
	laws = append(laws, ticketProperties()...)
	laws = append(laws, outputProperties()...)
	laws = append(laws, endProperties()...)
	laws = append(laws, restartProperties()...)
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			keep := func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the test took a minute"))
				defer cancel()
				l.check(ctx, t, a.New(t))
			}
			if a.Bubble {
				synctest.Test(t, keep)
				return
			}
			t.Parallel()
			keep(t)
		})
	}
}

// dir returns the path of a run directory.
func (h Harness) dir(name string) string { return filepath.Join(h.Root, name) }

// command returns the command that runs program.
func (h Harness) command(program string, args ...string) supervise.Command {
	return supervise.Command{Argv: h.Argv(program, args...), Dir: h.Dir}
}

// start prepares and starts a run with the given name.
func (h Harness) start(ctx context.Context, t *testing.T, name string, c supervise.Command) supervise.Run {
	t.Helper()
	r := h.NewRunner()
	if err := r.Prepare(ctx, h.dir(name)); err != nil {
		t.Fatal(err)
	}
	run, err := r.Start(ctx, h.dir(name), c)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// find calls Find and fails unless the answer is want.
func (h Harness) find(ctx context.Context, t *testing.T, r supervise.Runner, name string, want supervise.Remains) supervise.Run {
	t.Helper()
	got, run, err := r.Find(ctx, h.dir(name))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("Find answers %s, want %s", got, want)
	}
	if (run != nil) != (want == supervise.Alive || want == supervise.Ended) {
		t.Fatalf("Find answers %s with the Run %v", got, run)
	}
	return run
}

// reading is what a follower has read.
type reading struct {
	all, out, err []byte
	exit          supervise.Exit
}

// follow reads a run from an offset to its end, and checks that there are no gaps.
func follow(ctx context.Context, t *testing.T, run supervise.Run, from int64) reading {
	t.Helper()
	var got reading
	next := from
	exit, err := run.Follow(ctx, from, func(c supervise.Chunk) error {
		if c.Offset != next || len(c.Bytes) == 0 || len(c.Bytes) > 64<<10 || c.At.IsZero() {
			t.Errorf("chunk of %d bytes at %d, %v; want the next at %d", len(c.Bytes), c.Offset, c.At, next)
		}
		next += int64(len(c.Bytes))
		got.all = append(got.all, c.Bytes...)
		switch c.Stream {
		case supervise.Stdout:
			got.out = append(got.out, c.Bytes...)
		case supervise.Stderr:
			got.err = append(got.err, c.Bytes...)
		default:
			t.Errorf("chunk of stream %s", c.Stream)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !exit.TreeGone || exit.Version < 1 || exit.StartedAt.IsZero() || exit.EndedAt.Before(exit.StartedAt) {
		t.Errorf("exit record says %+v", exit)
	}
	if exit.OutputBytes != next {
		t.Errorf("output ends at %d, the exit says %d", next, exit.OutputBytes)
	}
	got.exit = exit
	return got
}

// errEnough ends a Follow that has read enough.
var errEnough = errors.New("enough")

// readUntil follows a run from its beginning until it has read as many bytes as text, and checks
// that they are text.
func readUntil(ctx context.Context, t *testing.T, run supervise.Run, text string) {
	t.Helper()
	var got []byte
	_, err := run.Follow(ctx, 0, func(c supervise.Chunk) error {
		if got = append(got, c.Bytes...); len(got) >= len(text) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("Follow ends with %v before %q came; it read %q", err, text, got)
	}
	if string(got[:len(text)]) != text {
		t.Fatalf("read %q, want %q", got, text)
	}
}

// wantKind checks the kind of an error.
func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got error %v, want one of kind %q", err, kind)
	}
}

// wantCode checks an exit code.
func wantCode(t *testing.T, e supervise.Exit, code int) {
	t.Helper()
	if e.Code != code {
		t.Errorf("got exit %+v, want code %d", e, code)
	}
}
