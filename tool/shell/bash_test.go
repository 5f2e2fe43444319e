package shell

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestBash(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args string
		want       answer
	}{
		{"both streams", `{"command":"echo out; echo err >&2"}`, answer{Stdout: "out\n", Stderr: "err\n"}},
		{"a non-zero exit is a result", `{"command":"exit 3"}`, answer{ExitCode: 3}},
		{"killed by a signal", `{"command":"kill -USR1 $$"}`, answer{ExitCode: 128 + 10}},
		{"unknown program", `{"command":"./nothing-here 2>/dev/null"}`, answer{ExitCode: 127}},
		{"empty standard input", `{"command":"cat; echo end"}`, answer{Stdout: "end\n"}},
		{"invalid text is replaced", `{"command":"printf 'a\\xff\\xfeb'"}`, answer{Stdout: "a\uFFFDb"}},
		{"its own time limit", `{"command":"echo on; sleep 600","timeout_seconds":1}`,
			answer{ExitCode: 128 + 15, Stdout: "on\n", TimedOut: true}},
		{"cwd", `{"command":"basename \"$PWD\"","cwd":"sub"}`, answer{Stdout: "sub\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if err := os.Mkdir(filepath.Join(b.config.Dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}

			r := b.Run(t.Context(), call(c.args), tool.Env{})

			wantAnswer(t, r, c.want)
		})
	}
}

func TestBashReportsOutputAsItComes(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSink()
	flag := filepath.Join(b.config.Dir, "go")

	results := begin(t.Context(), b.Bash, command("echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2"), s)
	s.await(t, "stdout", "one\n")
	touch(t, flag)

	wantAnswer(t, wait(t, results), answer{Stdout: "one\n", Stderr: "two\n"})
	if got := s.got("stderr"); got != "two\n" {
		t.Fatalf("got stderr %q in the log, want two", got)
	}
}

func TestBashKeepsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSink()

	r := wait(t, begin(t.Context(), b.Bash, command("seq 1 100000"), s))

	got, ok := r.Value.(answer)
	if !ok || !got.Truncated || !strings.HasPrefix(got.Stdout, "1\n2\n") || !strings.HasSuffix(got.Stdout, "99999\n100000\n") {
		t.Fatalf("got %+v, want the beginning and the end, truncated", r)
	}
	if len(got.Stdout) > headBytes+tailBytes+100 || !strings.Contains(got.Stdout, "bytes left out") {
		t.Fatalf("got %d bytes, want a bounded text that says what is missing", len(got.Stdout))
	}
	if all := s.got("stdout"); !strings.Contains(all, "\n50000\n") || len(all) != 588895 {
		t.Fatalf("got %d bytes in the log, want all 588895", len(all))
	}
}

func TestBashStopsWithItsCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cause error
		kind  perdure.ErrorKind
		text  string
	}{
		{perdure.CauseCanceled, perdure.ErrorCanceled, "The command was canceled. It was stopped."},
		{perdure.CauseInterrupt, perdure.ErrorInterrupted, "The command was interrupted. It was stopped."},
		{perdure.CauseDeadline, perdure.ErrorTimeout, "The command reached its deadline. It was stopped."},
		{perdure.CauseStall, perdure.ErrorTimeout, "The command showed no activity for too long. It was stopped."},
		{context.Canceled, perdure.ErrorCanceled, "The command was canceled. It was stopped."},
		{context.DeadlineExceeded, perdure.ErrorTimeout, "The command reached its deadline. It was stopped."},
	} {
		t.Run(c.cause.Error(), func(t *testing.T) {
			t.Parallel()
			b, s := newBench(t), newSink()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)

			results := begin(ctx, b.Bash, command("sleep 600 & echo $!; wait"), s)
			s.await(t, "stdout", "\n")
			cancel(c.cause)

			wantError(t, wait(t, results), c.kind, c.text)
			wantDead(t, s.got("stdout"))
		})
	}
}

func TestBashStopsWhenItsSinkSaysSo(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSink()
	s.answer = perdure.CauseCanceled

	r := wait(t, begin(t.Context(), b.Bash, command("echo on; sleep 600"), s))

	wantError(t, r, perdure.ErrorCanceled, "The command was canceled. It was stopped.")
}

func TestBashReportsWhatCameDuringTheGrace(t *testing.T) {
	t.Parallel()
	b, s := newBench(t), newSink()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)

	results := begin(ctx, b.Bash, command(`trap 'echo bye; exit 0' TERM; echo on; sleep 600 & wait`), s)
	s.await(t, "stdout", "on\n")
	cancel(perdure.CauseCanceled)

	wantError(t, wait(t, results), perdure.ErrorCanceled, "The command was canceled. It was stopped.")
	if got := s.got("stdout"); got != "on\nbye\n" {
		t.Fatalf("got log %q, want what was written after the signal too", got)
	}
}

func TestBashNeverStarts(t *testing.T) {
	t.Parallel()
	t.Run("a call that ended before", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(perdure.CauseInterrupt)

		r := newBench(t).Run(ctx, command("touch ran"), tool.Env{})

		wantError(t, r, perdure.ErrorInterrupted, "The command was interrupted. It never started.")
		if !r.Refused {
			t.Fatal("got a started call, want one that never started")
		}
	})
	t.Run("the same execution twice", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.Run(t.Context(), command("echo x >> ran"), tool.Env{})

		r := b.Run(t.Context(), command("echo x >> ran"), tool.Env{})

		ran, err := os.ReadFile(filepath.Join(b.config.Dir, "ran"))
		if err != nil || string(ran) != "x\n" || !errors.Is(r.Err, supervise.Spent) {
			t.Fatalf("got %q, %v, result %+v, want one run and Spent", ran, err, r)
		}
	})
	t.Run("a dry run", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)

		r := b.Run(t.Context(), command("touch ran"), tool.Env{DryRun: true})

		if text, err := json.Marshal(r.Value); err != nil || !strings.Contains(string(text), `"[dry-run] Would run`) {
			t.Fatalf("got %s, %v, want what it would do", text, err)
		}
		if entries, err := os.ReadDir(b.config.Dir); err != nil || len(entries) > 0 {
			t.Fatalf("got %v, %v, want nothing done", entries, err)
		}
	})
}

func TestRegistryAdmitsBash(t *testing.T) {
	t.Parallel()
	set := tool.NewRegistry(newBench(t).Bash)
	if set.Err() != nil || !set.Has("bash") {
		t.Fatal(set.Err())
	}
	if class := set.Definitions()[0].Hints.Class; class != perdure.AtMostOnce {
		t.Fatalf("got class %s", class)
	}
	for _, args := range []string{`{}`, `{"command":""}`, `{"command":"ls","timeout_seconds":0}`, `{"command":"ls","shell":"zsh"}`} {
		if set.Validate("bash", []byte(args)) == nil {
			t.Errorf("%s: got no refusal", args)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]Config{
		"no RunsDir":       {Dir: dir},
		"no Dir":           {RunsDir: dir},
		"a negative grace": {RunsDir: dir, Dir: dir, Grace: -time.Second},
		"a nameless value": {RunsDir: dir, Dir: dir, Env: []string{"=x"}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// TestNewNeedsTheEntry runs this test again in a program that does not call Supervise.
func TestNewNeedsTheEntry(t *testing.T) {
	t.Parallel()
	if os.Getenv(noEntry) != "" {
		c := Config{RunsDir: t.TempDir(), Dir: t.TempDir()}
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "call shell.Supervise first in main") {
			t.Fatalf("got %v, want a refusal that says what to do", err)
		}
		c.Supervisor = "/bin/true"
		if _, err := New(c); err != nil {
			t.Fatalf("got %v, want no refusal with a Supervisor", err)
		}
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNewNeedsTheEntry$", "-test.v")
	again.Env = append(os.Environ(), noEntry+"=1")
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("%v:\n%s", err, out)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantDead checks that the process whose pid is text is not running. A zombie is dead; the orphans
// of a killed supervisor are reaped elsewhere.
func wantDead(t *testing.T, text string) {
	t.Helper()
	pid := strings.TrimSpace(text)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(signalTime); ; <-tick.C {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if pid != "" && (errors.Is(err, os.ErrNotExist) || strings.Contains(string(status), "State:\tZ")) {
			return
		}
		if pid == "" || time.Now().After(until) {
			t.Fatalf("process %q: %v, want it gone:\n%s", pid, err, status)
		}
	}
}

// signalTime is how long a process may take to die of a signal that reached it: it must come to run
// for that.
const signalTime = 3 * time.Second
