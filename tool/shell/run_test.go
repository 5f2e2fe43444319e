package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// scripted is a supervise.Runner, and its one Run, that answers as a test says: for what real
// processes do too rarely. What it is not asked for panics.
type scripted struct {
	supervise.Runner
	startErr error
	remains  supervise.Remains // of Find; its run is this one where the remains have a run
	findErr  error
	follow   []followed    // one for each Follow
	says     perdure.Cause // what the sink answers
	stopErr  error
	stopped  int
}

// followed is the outcome of one Follow.
type followed struct {
	output string
	exit   supervise.Exit
	err    error
}

func (s *scripted) Prepare(context.Context, string) error { return nil }

func (s *scripted) Start(context.Context, string, supervise.Command) (supervise.Run, error) {
	if s.startErr != nil {
		return nil, s.startErr
	}
	return s, nil
}

func (s *scripted) Find(ctx context.Context, _ string) (supervise.Remains, supervise.Run, error) {
	if ctx.Err() != nil {
		return 0, nil, context.Cause(ctx)
	}
	if s.remains == supervise.Alive || s.remains == supervise.Ended {
		return s.remains, s, s.findErr
	}
	return s.remains, nil, s.findErr
}

func (s *scripted) Follow(_ context.Context, from int64, emit func(supervise.Chunk) error) (supervise.Exit, error) {
	f := s.follow[0]
	s.follow = s.follow[1:]
	if f.output != "" {
		if err := emit(supervise.Chunk{Offset: from, Stream: supervise.Stdout, Bytes: []byte(f.output)}); err != nil {
			return supervise.Exit{}, err
		}
	}
	return f.exit, f.err
}

func (s *scripted) Stop(context.Context, time.Duration) error { s.stopped++; return s.stopErr }

func (s *scripted) Record() supervise.Record { return supervise.Record{} }

func runScripted(t *testing.T, s *scripted) (tool.Result, *sink) {
	t.Helper()
	b := newBash(t, Config{Runner: s, RunsDir: t.TempDir(), Dir: t.TempDir()})
	reports := newSink()
	reports.answer = s.says
	return b.RunBackground(t.Context(), command("true"), tool.Env{}, reports), reports
}

// TestRealResultBeatsTheStop is RC3: the command had ended before the stop reached it.
func TestRealResultBeatsTheStop(t *testing.T) {
	t.Parallel()
	s := &scripted{says: perdure.CauseCanceled, follow: []followed{
		{output: "on\n"},
		{output: "done\n", exit: supervise.Exit{Code: 4}},
	}}

	r, reports := runScripted(t, s)

	wantAnswer(t, r, answer{ExitCode: 4, Stdout: "on\ndone\n"})
	if reports.got("stdout") != "on\ndone\n" || s.stopped != 1 {
		t.Fatalf("got %q reported and %d stops", reports.got("stdout"), s.stopped)
	}
}

func TestStopThatFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"not in time":               {context.DeadlineExceeded, "The command was canceled. It may still be running."},
		"its supervisor was killed": {supervise.Vanished, "The command was canceled. It was stopped."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := runScripted(t, &scripted{stopErr: c.err, follow: []followed{{err: perdure.CauseCanceled}, {err: supervise.Vanished}}})
			wantError(t, r, perdure.ErrorCanceled, c.want)
		})
	}
}

func TestStartInDoubt(t *testing.T) {
	t.Parallel()
	lost := errors.New("no answer")
	t.Run("it runs", func(t *testing.T) {
		t.Parallel()
		r, _ := runScripted(t, &scripted{startErr: lost, remains: supervise.Alive, follow: []followed{{exit: supervise.Exit{Code: 5}}}})
		wantAnswer(t, r, answer{ExitCode: 5})
	})
	t.Run("it never started", func(t *testing.T) {
		t.Parallel()
		r, _ := runScripted(t, &scripted{startErr: lost, remains: supervise.Revoked})
		if !r.Refused || !errors.Is(r.Err, lost) {
			t.Fatalf("got %+v", r)
		}
	})
	t.Run("it was started and is gone", func(t *testing.T) {
		t.Parallel()
		r, _ := runScripted(t, &scripted{startErr: lost, remains: supervise.Gone})
		wantError(t, r, perdure.ErrorOrphaned, "the command's supervisor was killed; the command was stopped")
	})
	t.Run("the end is unknown", func(t *testing.T) {
		t.Parallel()
		r, _ := runScripted(t, &scripted{startErr: lost, findErr: supervise.Corrupt})
		if r.Refused || !errors.Is(r.Err, lost) || !errors.Is(r.Err, supervise.Corrupt) {
			t.Fatalf("got %+v", r)
		}
	})
	t.Run("it is certain that it never started", func(t *testing.T) {
		t.Parallel()
		r, _ := runScripted(t, &scripted{startErr: supervise.NotStarted})
		if !r.Refused || !errors.Is(r.Err, supervise.NotStarted) {
			t.Fatalf("got %+v", r)
		}
	})
}

func TestWhatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	r, _ := runScripted(t, &scripted{follow: []followed{{exit: supervise.Exit{Code: 126, Error: "no such file"}}}})
	wantError(t, r, "", "the command could not be run: no such file")
}

func TestDroppedOutputIsTruncated(t *testing.T) {
	t.Parallel()
	r, _ := runScripted(t, &scripted{follow: []followed{{output: "a", exit: supervise.Exit{DroppedBytes: 1}}}})
	wantAnswer(t, r, answer{Stdout: "a", Truncated: true})
}

// TestR21EndOfAFlood: of output that was too long to be kept, the model reads the beginning and the
// end, with what lies between counted; binary and broken UTF-8 are whole characters there.
func TestR21EndOfAFlood(t *testing.T) {
	t.Parallel()
	end := strings.Repeat("z", supervise.EndMaxBytes-9) + "\xff\x1b[31m\x00é"
	shown := strings.Repeat("z", tailBytes-9) + "\uFFFD\x1b[31m\x00é"
	for name, exit := range map[string]supervise.Exit{
		"now": {RotatedBytes: 1 << 31, Ends: []supervise.End{
			{Stream: supervise.Stdout, Total: 20<<10 + 1<<30, Bytes: []byte(end)}, {Stream: supervise.Stderr, Total: 2, Bytes: []byte("no")},
		}},
		"of a supervisor that did not rotate": {DroppedBytes: 1 << 31, Ends: []supervise.End{
			{Stream: supervise.Stdout, Dropped: 1 << 30, Bytes: []byte(end)}, {Stream: supervise.Stderr, Dropped: 2, Bytes: []byte("no")},
		}},
	} {
		t.Log(name)
		r, _ := runScripted(t, &scripted{follow: []followed{{output: strings.Repeat("a", 20<<10), exit: exit}}})
		wantAnswer(t, r, answer{
			Stdout: strings.Repeat("a", headBytes) + fmt.Sprintf("\n[... %d bytes left out ...]\n", 20<<10-headBytes+1<<30-tailBytes) + shown,
			Stderr: "no", Truncated: true,
		})
	}

	var none clip // all of it came after there was room
	if none.finish(1000, []byte("the end")); none.total != 1000 {
		t.Errorf("got %+v", none)
	}
	if text, cut := none.text(nil); text != "\n[... 993 bytes left out ...]\nthe end" || !cut {
		t.Errorf("got %q", text)
	}
}

// skips is a sink that records gaps.
type skips struct {
	*sink
	missing int64
}

func (s *skips) Skip(n int64) perdure.Cause {
	s.missing += n
	return ""
}

// TestR21Gap: output that was rotated out before it was read is reported to the sink as a gap,
// except for what the log has, and later output is not mistaken for the beginning.
func TestR21Gap(t *testing.T) {
	t.Parallel()
	heard := &skips{sink: newSink()}
	out := &output{sink: heard, known: 103}
	for _, c := range []supervise.Chunk{
		{Stream: supervise.Stdout, Offset: 0, Bytes: []byte("head")},
		{Stream: supervise.Stderr, Offset: 200, Bytes: []byte("late")},
		{Stream: supervise.Stdout, Offset: 204, Bytes: []byte("end")},
	} {
		if err := out.addChunk(c); err != nil {
			t.Fatal(err)
		}
	}
	r := out.result(supervise.Exit{RotatedBytes: 196, OutputBytes: 207, Ends: []supervise.End{
		{Stream: supervise.Stdout, Total: 203, Bytes: []byte("the end")}, {Stream: supervise.Stderr, Total: 4, Bytes: []byte("late")},
	}})

	wantAnswer(t, r, answer{Stdout: "head\n[... 192 bytes left out ...]\nthe end", Stderr: "late", Truncated: true})
	if heard.missing != 200-103 || heard.got("stdout") != "end" || heard.got("stderr") != "late" {
		t.Errorf("%d bytes missing, %q and %q reported", heard.missing, heard.got("stdout"), heard.got("stderr"))
	}
}

// known is a set of secrets as a session has it.
type known struct{ tool.SecretMasker } // only Stream is asked

func (known) Stream() tool.StreamMasker { return redact.NewSet(secretText).Stream() }

const secretText = "canary-0123456789-abcdefghij"

// TestR21SecretAtACut: where the middle is left out of an output, no part of a secret is left
// beside it, wherever the cut falls.
func TestR21SecretAtACut(t *testing.T) {
	t.Parallel()
	for at := -len(secretText); at <= 0; at++ {
		var kept clip
		kept.write([]byte(strings.Repeat(".", headBytes+at) + secretText + strings.Repeat(".", 1<<20) + secretText + strings.Repeat(".", endBytes-len(secretText)-at)))

		text, _ := kept.text(known{})

		for n := range len(secretText) - 3 {
			if strings.Contains(text, secretText[n:n+4]) {
				t.Fatalf("cut %d bytes into it, %q is shown", -at, secretText[n:n+4])
			}
		}
		if len(text) < headBytes+tailBytes-len(secretText) {
			t.Errorf("only %d bytes are shown", len(text))
		}
	}
}

// TestR21CancelInAFlood: unread output of a stopped command is not completely copied to the sink.
func TestR21CancelInAFlood(t *testing.T) {
	t.Parallel()
	heard := newSink()
	out := &output{sink: heard, stopping: true}
	chunk := []byte(strings.Repeat("a", 64<<10))
	for i := range 100 {
		if err := out.addChunk(supervise.Chunk{Stream: supervise.Stdout, Offset: int64(i * len(chunk)), Bytes: chunk}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(heard.got("stdout")); n != lateMaxBytes || out.stdout.total != int64(100*len(chunk)) {
		t.Errorf("%d bytes were reported, %d taken", n, out.stdout.total)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	const size = headBytes + tailBytes
	for name, c := range map[string]struct {
		bytes int // of two-byte characters, after lead single ones
		lead  string
		whole bool
	}{
		"empty":                       {0, "", true},
		"at the bound":                {size, "", true},
		"one more":                    {size, "x", false},
		"characters cut at both ends": {4 * size, "x", false},
	} {
		var kept clip
		text := c.lead + strings.Repeat("é", c.bytes/2)
		for rest := []byte(text); len(rest) > 0; {
			n := min(7001, len(rest))
			kept.write(rest[:n])
			rest = rest[n:]
		}

		got, cut := kept.text(nil)

		if cut == c.whole || c.whole && got != text {
			t.Errorf("%s: got %d bytes, cut %v, want the whole: %v", name, len(got), cut, c.whole)
		}
		if strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("%s: got a character cut in two", name)
		}
		if len(kept.tail) > 2*endBytes || len(got) > size+100 {
			t.Errorf("%s: got %d bytes kept and %d shown", name, len(kept.tail), len(got))
		}
	}
}
