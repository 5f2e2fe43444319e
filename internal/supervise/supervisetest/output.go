package supervisetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/internal/supervise"
)

// outputProperties test what a follower sees.
func outputProperties() []property {
	return []property{
		{"both streams are complete and in order", bothStreams},
		{"every offset gives the rest, byte for byte", everyOffset},
		{"two followers see the same", twoFollowers},
		{"a silent command has no output", silent},
		{"beyond the limit the beginning and the end of the output are kept", beyondLimit},
		{"follow ends with the context's cause", followEndsWithCause},
		{"follow ends with emit's error", followEndsWithEmit},
		{"follow refuses an offset beyond the end", followRefusesOffset},
		{"the command sees its own environment and nothing else", ownEnvironment},
	}
}

func bothStreams(ctx context.Context, t *testing.T, h Harness) {
	const lines = 500
	var out, errs strings.Builder
	for i := range lines {
		fmt.Fprintf(&out, "out %d\n", i)
		fmt.Fprintf(&errs, "err %d\n", i)
	}

	got := follow(ctx, t, h.start(ctx, t, "a", h.command("both", fmt.Sprint(lines))), 0)

	if string(got.out) != out.String() {
		t.Errorf("stdout has %d bytes and differs from the %d that were written", len(got.out), out.Len())
	}
	if string(got.err) != errs.String() {
		t.Errorf("stderr has %d bytes and differs from the %d that were written", len(got.err), errs.Len())
	}
	wantCode(t, got.exit, 0)
}

func everyOffset(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("both", "30"))
	whole := follow(ctx, t, run, 0).all

	for from := range len(whole) + 1 {
		if rest := follow(ctx, t, run, int64(from)).all; string(rest) != string(whole[from:]) {
			t.Fatalf("from offset %d: got %q, want %q", from, rest, whole[from:])
		}
	}
}

func twoFollowers(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("tick", "20"))

	var got [2]reading
	var both sync.WaitGroup
	for i := range got {
		both.Go(func() { got[i] = follow(ctx, t, run, 0) })
	}
	both.Wait()

	if string(got[0].all) != string(got[1].all) || got[0].exit.Code != got[1].exit.Code || len(got[0].all) == 0 {
		t.Errorf("one follower has %q, %+v; the other %q, %+v", got[0].all, got[0].exit, got[1].all, got[1].exit)
	}
}

func silent(ctx context.Context, t *testing.T, h Harness) {
	got := follow(ctx, t, h.start(ctx, t, "a", h.command("exit", "0")), 0)

	if len(got.all) != 0 {
		t.Errorf("got output %q", got.all)
	}
	wantCode(t, got.exit, 0)
}

func beyondLimit(ctx context.Context, t *testing.T, h Harness) {
	const written, limit = 3_000_000, 400_000
	c := h.command("flood", fmt.Sprint(written))
	c.OutputMaxBytes = limit
	run := h.start(ctx, t, "a", c)

	for _, from := range []int64{0, 1000, written - 1, written} { // the first one follows, the others read what is left
		var first, next, kept int64 = -1, from, 0
		exit, err := run.Follow(ctx, from, func(c supervise.Chunk) error {
			if c.Offset < next || strings.Trim(string(c.Bytes), "x") != "" {
				t.Errorf("a chunk of %d bytes at %d, and %d were read", len(c.Bytes), c.Offset, next)
			}
			if c.Offset > next && first < 0 {
				first = next
			}
			next, kept = c.Offset+int64(len(c.Bytes)), kept+int64(len(c.Bytes))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if first >= 0 && first < limit/4 || next != written || from > 0 && kept > limit {
			t.Errorf("from %d: the first gap is at %d, the end at %d, and %d bytes were read", from, first, next, kept)
		}
		if exit.OutputBytes != written || exit.RotatedBytes < written-limit || exit.DroppedBytes != 0 || exit.Code != 0 {
			t.Errorf("got exit %+v", exit)
		}
	}
}

func followEndsWithCause(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("hold"))
	why := errors.New("why")
	some, cancel := context.WithCancelCause(ctx)

	_, err := run.Follow(some, 0, func(supervise.Chunk) error {
		cancel(why)
		return nil
	})

	wantKind(t, err, why)
	h.find(ctx, t, h.NewRunner(), "a", supervise.Alive)
	if err := run.Stop(ctx, 0); err != nil {
		t.Error(err)
	}
}

func followEndsWithEmit(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("both", "3"))

	calls := 0
	_, err := run.Follow(ctx, 0, func(supervise.Chunk) error {
		calls++
		return errEnough
	})

	wantKind(t, err, errEnough)
	if calls != 1 {
		t.Errorf("emit was called %d times", calls)
	}
	follow(ctx, t, run, 0)
}

func followRefusesOffset(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("both", "1"))

	for _, from := range []int64{-1, 13, 1 << 40} {
		_, err := run.Follow(ctx, from, func(c supervise.Chunk) error {
			t.Errorf("from offset %d: emits %d bytes at %d", from, len(c.Bytes), c.Offset)
			return nil
		})
		if err == nil {
			t.Errorf("Follow from offset %d returns no error", from)
		}
	}
}

func ownEnvironment(ctx context.Context, t *testing.T, h Harness) {
	c := h.command("env")
	c.Env = []string{"A=1", "B=two words", "C=not utf-8: \xff"}

	got := follow(ctx, t, h.start(ctx, t, "a", c), 0)

	seen := strings.Split(string(got.all), "\n")
	for _, name := range h.AddedEnv {
		i := slices.IndexFunc(seen, func(v string) bool { return strings.HasPrefix(v, name) })
		if i < 0 {
			t.Fatalf("the command sees %q, and no %s", seen, name)
		}
		seen = slices.Delete(seen, i, i+1)
	}
	if want := strings.Join(c.Env, "\n"); strings.Join(seen, "\n") != want {
		t.Errorf("the command sees %q, want %q", seen, want)
	}
}
