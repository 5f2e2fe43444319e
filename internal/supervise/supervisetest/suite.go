// Package supervisetest holds the laws that every supervise.Runner keeps, and World, the fake that keeps them in memory.
// It imports supervise and the standard library.
//
// The laws speak of commands that both worlds can run: Programs, which are Go functions in a World, and which the test
// binary runs in a real process (Main, Argv).
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

// Harness is a fresh world for one law. All fields are needed.
type Harness struct {
	Root      string                                        // an absolute path, for run directories; nothing is there yet
	Dir       string                                        // a working directory for commands
	NewRunner func() supervise.Runner                       // one more runtime in this world
	Argv      func(program string, args ...string) []string // the command line of one of Programs
	Adds      []string                                      // variables, as NAME=, that the runner's sandbox adds to every environment
}

// Adapter is what the suite tests.
type Adapter struct {
	New    func(t *testing.T) Harness
	Bubble bool // run each law in a synctest bubble; New is called inside
}

// law is one promise of the port.
type law struct {
	name string
	keep func(ctx context.Context, t *testing.T, h Harness)
}

// Run proves that a keeps the laws.
func Run(t *testing.T, a Adapter) {
	var laws []law
	laws = append(laws, ticketLaws()...)
	laws = append(laws, outputLaws()...)
	laws = append(laws, endLaws()...)
	laws = append(laws, restartLaws()...)
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			keep := func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the law took a minute"))
				defer cancel()
				l.keep(ctx, t, a.New(t))
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

// dir names a run directory.
func (h Harness) dir(name string) string { return filepath.Join(h.Root, name) }

// command is the one that runs program.
func (h Harness) command(program string, args ...string) supervise.Command {
	return supervise.Command{Argv: h.Argv(program, args...), Dir: h.Dir}
}

// start prepares and starts a run called name.
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

// find is Find, which must answer want.
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

// reading is what a follower has seen.
type reading struct {
	all, out, err []byte
	exit          supervise.Exit
}

// follow reads a run from an offset to its end, and checks that chunks follow one another.
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

// errEnough ends a Follow that has seen what it wanted.
var errEnough = errors.New("enough")

// readUntil follows a run from its beginning until its output is as long as text, which it must be equal to.
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
