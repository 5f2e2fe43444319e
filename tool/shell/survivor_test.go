package shell

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// waits is a command that continues when the file go exists.
const waits = "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 7"

// left runs a command in a first runtime, which dies after the first output. It returns the bench
// and how many bytes are in the log.
func left(t *testing.T, c tool.Call, logged int64) (bench, int64) {
	t.Helper()
	b, s := newBench(t), newSink()
	ctx, die := context.WithCancelCause(t.Context())
	defer die(nil)
	results := make(chan tool.Result, 1) // one place, for the one result
	go func() { results <- b.RunBackground(ctx, c, tool.Env{LogBytes: logged}, s) }()
	s.await(t, "stdout", "\n")
	die(perdure.CauseShutdown)
	wait(t, results)
	return b, logged + int64(len(s.got("stdout")))
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	for name, logged := range map[string]int64{"first attempt": 0, "a log that was there before": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := command(waits)
			b, logBytes := left(t, c, logged)
			second, s := b.reborn(t), newSink()
			wantRemains(t, second, c, perdure.RemainsAlive)

			results := make(chan tool.Result, 1) // one place, for the one result
			go func() { results <- second.Adopt(t.Context(), c, tool.Env{LogBytes: logBytes}, s) }()
			touch(t, filepath.Join(b.config.Dir, "go"))

			wantAnswer(t, wait(t, results), answer{ExitCode: 7, Stdout: "one\ntwo\n"})
			if got := s.got("stdout"); got != "two\n" {
				t.Fatalf("got %q reported, want only what the log did not have", got)
			}
		})
	}
}

func TestAdoptAnEndedCommand(t *testing.T) {
	t.Parallel()
	b, c := newBench(t), command("echo one; exit 7")
	b.Run(t.Context(), c, tool.Env{})
	second := b.reborn(t)
	wantRemains(t, second, c, perdure.RemainsEnded)

	for range 2 { // adopting is safe to repeat
		s := newSink()
		wantAnswer(t, second.Adopt(t.Context(), c, tool.Env{LogBytes: 2}, s), answer{ExitCode: 7, Stdout: "one\n"})
		if got := s.got("stdout"); got != "e\n" {
			t.Fatalf("got %q reported, want what comes after two bytes", got)
		}
	}
}

func TestAdoptWhatNeverStarted(t *testing.T) {
	t.Parallel()
	b, c := newBench(t), command("touch ran")
	if err := b.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	wantRemains(t, b.Bash, c, perdure.RemainsUnstarted)

	if r := b.Adopt(t.Context(), c, tool.Env{}, newSink()); r.IsSuccess() || !r.Refused {
		t.Fatalf("got %+v, want a refusal", r)
	}
	if r := b.Run(t.Context(), c, tool.Env{}); !errors.Is(r.Err, supervise.Spent) {
		t.Fatalf("got %+v, want Spent from a ticket that was revoked", r)
	}
	c.Execution = 2
	wantAnswer(t, b.Run(t.Context(), c, tool.Env{}), answer{})
}

// TestPrepareAgain replays a spawn at every point of the run's life cycle.
func TestPrepareAgain(t *testing.T) {
	t.Parallel()
	b, c := newBench(t), command("echo x >> ran")
	prepare := func() {
		t.Helper()
		if err := b.Prepare(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	prepare()
	prepare()
	wantAnswer(t, b.Run(t.Context(), c, tool.Env{}), answer{})
	prepare()
	wantRemains(t, b.Bash, c, perdure.RemainsEnded)
	c.Execution = 2
	prepare()
	wantRemains(t, b.Bash, c, perdure.RemainsUnstarted)
	prepare()
	wantRemains(t, b.Bash, c, perdure.RemainsUnstarted)
}

// TestAdoptForACallThatEnded stops the command, as if it had been followed all along.
func TestAdoptForACallThatEnded(t *testing.T) {
	t.Parallel()
	c := command(waits)
	b, logged := left(t, c, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(perdure.CauseCanceled)

	r := b.reborn(t).Adopt(ctx, c, tool.Env{LogBytes: logged}, newSink())

	wantError(t, r, perdure.ErrorCanceled, "The command was canceled. It was stopped.")
	wantRemains(t, b.Bash, c, perdure.RemainsEnded)
}

func TestLookAtNothing(t *testing.T) {
	t.Parallel()
	wantRemains(t, newBench(t).Bash, command("true"), perdure.RemainsNone)
}

func TestSupersededLeavesTheCommand(t *testing.T) {
	t.Parallel()
	b, s, c := newBench(t), newSink(), command(waits)
	s.answer = perdure.CauseSuperseded

	r := wait(t, begin(t.Context(), b.Bash, c, s))

	wantError(t, r, perdure.ErrorCanceled, "The command was canceled. It continues without this process.")
	wantRemains(t, b.Bash, c, perdure.RemainsAlive)
	if err := b.Stop(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	c := command(`trap "" TERM; (trap "" TERM; exec sleep 600) & echo $!; wait; wait`)
	b, _ := left(t, c, 0)
	second := b.reborn(t)
	s := newSink()

	for range 2 { // stopping is safe to repeat
		if err := second.Stop(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}

	wantRemains(t, second, c, perdure.RemainsEnded)
	second.Adopt(t.Context(), c, tool.Env{}, s)
	wantDead(t, s.got("stdout"))
}

// TestForce ends the grace period of a command that ignores SIGTERM, with its whole tree, wherever
// the command is at that time (RC21).
func TestForce(t *testing.T) {
	t.Parallel()
	c := command(`trap "" TERM; (trap "" TERM; exec sleep 600) & echo $!; wait; wait`)
	begun := func(t *testing.T) (bench, *sink, context.CancelCauseFunc, <-chan tool.Result) {
		b, s := newBench(t), newSink()
		b.config.Grace = time.Hour
		b.Bash = newBash(t, b.config)
		ctx, cancel := context.WithCancelCause(t.Context())
		t.Cleanup(func() { cancel(nil) })
		results := begin(ctx, b.Bash, c, s)
		s.await(t, "stdout", "\n")
		return b, s, cancel, results
	}
	for name, canceled := range map[string]bool{"in its grace period": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, s, cancel, results := begun(t)
			if canceled {
				cancel(perdure.CauseCanceled)
			}

			for range 2 { // forcing is safe to repeat
				if err := b.Force(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			wantDead(t, s.got("stdout"))
			wantRemains(t, b.Bash, c, perdure.RemainsEnded)
			cancel(perdure.CauseCanceled)
			wait(t, results)
		})
	}
	t.Run("of a dead runtime", func(t *testing.T) {
		t.Parallel()
		b, s, die, results := begun(t)
		die(perdure.CauseShutdown)
		wait(t, results)

		if err := b.reborn(t).Force(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		wantDead(t, s.got("stdout"))
	})
	t.Run("before its start", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if err := b.Prepare(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := b.Force(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(perdure.CauseCanceled)
		wantError(t, b.Run(ctx, c, tool.Env{}), perdure.ErrorCanceled, "The command was canceled. It never started.")
		wantRemains(t, b.Bash, c, perdure.RemainsUnstarted)
	})
}

func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	c := command("sleep 600 & echo $!; wait")
	const text = "the command's supervisor was killed; the command was stopped"
	t.Run("while it is followed", func(t *testing.T) {
		t.Parallel()
		b, s := newBench(t), newSink()
		results := begin(t.Context(), b.Bash, c, s)
		s.await(t, "stdout", "\n")

		kill(t, b, c)

		wantError(t, wait(t, results), perdure.ErrorOrphaned, text)
		wantDead(t, s.got("stdout"))
		wantRemains(t, b.Bash, c, perdure.RemainsNone)
	})
	t.Run("before it is adopted", func(t *testing.T) {
		t.Parallel()
		b, _ := left(t, c, 0)

		kill(t, b, c)

		wantError(t, b.reborn(t).Adopt(t.Context(), c, tool.Env{}, newSink()), perdure.ErrorOrphaned, text)
	})
}

func TestTruncatedOutputFile(t *testing.T) {
	t.Parallel()
	b, c := newBench(t), command("echo one; echo two")
	b.Run(t.Context(), c, tool.Env{})
	output := filepath.Join(b.runDir(c), "output")
	st, err := os.Stat(output)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(output, st.Size()-1); err != nil {
		t.Fatal(err)
	}

	r := b.reborn(t).Adopt(t.Context(), c, tool.Env{}, newSink())

	wantError(t, r, perdure.ErrorUnknown, "the command's output file is truncated or damaged; what the command did and how it ended is unknown")
}

func TestRunDirectoriesDiffer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seen := map[string]bool{}
	for _, c := range []tool.Call{
		{Session: "session_1", ID: "a", Execution: 1},
		{Session: "session_1", ID: "a", Execution: 2},
		{Session: "session_1", ID: "../a", Execution: 1},
		{Session: "session_2", ID: "a", Execution: 1},
	} {
		dir := b.runDir(c)
		if seen[dir] || filepath.Dir(dir) != b.config.RunsDir {
			t.Fatalf("got %s twice or elsewhere", dir)
		}
		seen[dir] = true
	}
}

// kill kills the supervisor of a call's command.
func kill(t *testing.T, b bench, c tool.Call) {
	t.Helper()
	_, run, err := b.runner.Find(t.Context(), b.runDir(c))
	if err != nil || run == nil {
		t.Fatalf("no run to kill: %v", err)
	}
	if err := syscall.Kill(run.Record().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func wantRemains(t *testing.T, b *Bash, c tool.Call, want perdure.ExecutionRemains) {
	t.Helper()
	got, err := b.Inspect(t.Context(), c)
	if err != nil || got != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}
