package supervisetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// endProperties test how a run ends, by itself or by force.
func endProperties() []property {
	return []property{
		{"the exit code is the program's", exitCodes},
		{"a missing program is an end and not an error", missingProgram},
		{"stop lets the command finish", stopLetsFinish},
		{"stop kills after the grace", stopKills},
		{"a second stop shortens the grace and a third cannot lengthen it", stopShortens},
		{"stop of an ended run changes nothing", stopOfEnded},
		{"a stop outlives its caller", stopOutlivesCaller},
		{"a timeout lets the command finish", timeoutLetsFinish},
		{"a timeout kills after the grace", timeoutKills},
	}
}

// restartProperties test what the next runtime finds.
func restartProperties() []property {
	return []property{
		{"the next runtime finds it running and continues to read", foundAlive},
		{"the next runtime finds how it ended", foundEnded},
		{"find answers the same again", findAgain},
		{"a run that has ended is removed", removeEnded},
		{"a running command is not removed", removeAlive},
		{"inspecting says what there is and changes nothing", inspect},
	}
}

func exitCodes(ctx context.Context, t *testing.T, h Harness) {
	for _, code := range []int{0, 3, 126, 255} {
		e := follow(ctx, t, h.start(ctx, t, fmt.Sprint(code), h.command("exit", fmt.Sprint(code))), 0).exit
		wantCode(t, e, code)
		if e.Signal != 0 || e.Cancelled || e.TimedOut || e.Error != "" {
			t.Errorf("got exit %+v", e)
		}
	}
}

func missingProgram(ctx context.Context, t *testing.T, h Harness) {
	for i, program := range []string{"there-is-no-such-program", "/there/is/no/such/program"} {
		c := supervise.Command{Argv: []string{program}, Dir: h.Dir, Env: []string{"PATH=/there:/is"}}
		e := follow(ctx, t, h.start(ctx, t, fmt.Sprint(i), c), 0).exit
		wantCode(t, e, 127)
		if e.Error == "" {
			t.Error("the exit does not say what is missing")
		}
	}
}

func stopLetsFinish(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("hold"))
	readUntil(ctx, t, run, "ready\n")

	if err := run.Stop(ctx, 30*time.Second); err != nil {
		t.Fatal(err)
	}

	h.find(ctx, t, h.NewRunner(), "a", supervise.Ended)
	got := follow(ctx, t, run, 0)
	wantCode(t, got.exit, 7)
	if string(got.all) != "ready\nbye\n" || !got.exit.Cancelled {
		t.Errorf("got output %q, exit %+v", got.all, got.exit)
	}
}

func stopKills(ctx context.Context, t *testing.T, h Harness) {
	const grace = time.Second // long enough for a busy machine to let it write
	run := h.start(ctx, t, "a", h.command("stubborn"))
	readUntil(ctx, t, run, "ready\n")

	began := time.Now()
	if err := run.Stop(ctx, grace); err != nil {
		t.Fatal(err)
	}

	if took := time.Since(began); took < grace {
		t.Errorf("it was killed after %v, before its grace of %v", took, grace)
	}
	got := follow(ctx, t, run, 0)
	if e := got.exit; e.Code != 128+9 || e.Signal != 9 || !e.Cancelled || e.TimedOut {
		t.Errorf("got exit %+v", e)
	}
	if string(got.all) != "ready\nno\n" {
		t.Errorf("got output %q", got.all)
	}
}

func stopShortens(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("stubborn"))
	readUntil(ctx, t, run, "ready\n")

	var all sync.WaitGroup
	stop := func(grace time.Duration) {
		all.Go(func() {
			if err := run.Stop(ctx, grace); err != nil {
				t.Error(err)
			}
		})
	}
	stop(2 * time.Hour)
	readUntil(ctx, t, run, "ready\nno\n")
	stop(100 * time.Millisecond)
	stop(3 * time.Hour)
	all.Wait()

	wantCode(t, follow(ctx, t, run, 0).exit, 128+9)
}

func stopOfEnded(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("exit", "3"))
	before := follow(ctx, t, run, 0).exit

	if err := run.Stop(ctx, 0); err != nil {
		t.Fatal(err)
	}

	if after := follow(ctx, t, run, 0).exit; !reflect.DeepEqual(after, before) {
		t.Errorf("the exit was %+v and is %+v", before, after)
	}
}

func stopOutlivesCaller(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("stubborn"))
	readUntil(ctx, t, run, "ready\n")
	why := errors.New("why")
	some, cancel := context.WithCancelCause(ctx)

	var caller sync.WaitGroup
	// Longer than a busy machine takes to find it again.
	caller.Go(func() { wantKind(t, run.Stop(some, 3*time.Second), why) })
	readUntil(ctx, t, run, "ready\nno\n")
	cancel(why)
	caller.Wait()

	next := h.find(ctx, t, h.NewRunner(), "a", supervise.Alive)
	if e := follow(ctx, t, next, 0).exit; e.Signal != 9 || !e.Cancelled {
		t.Errorf("got exit %+v", e)
	}
}

// timedOut runs a command with a timeout that ends it after it was ready. On a busy machine a short
// timeout may pass before: then a longer one is tried.
func timedOut(ctx context.Context, t *testing.T, h Harness, c supervise.Command) (reading, time.Duration) {
	t.Helper()
	for i := 0; ; i++ {
		c.Timeout = 250 * time.Millisecond << i
		got := follow(ctx, t, h.start(ctx, t, fmt.Sprint(i), c), 0)
		if strings.HasPrefix(string(got.all), "ready\n") {
			return got, c.Timeout
		}
	}
}

func timeoutLetsFinish(ctx context.Context, t *testing.T, h Harness) {
	c := h.command("hold")
	c.Grace = 30 * time.Second

	got, _ := timedOut(ctx, t, h, c)

	wantCode(t, got.exit, 7)
	if string(got.all) != "ready\nbye\n" || !got.exit.TimedOut || got.exit.Cancelled {
		t.Errorf("got output %q, exit %+v", got.all, got.exit)
	}
}

func timeoutKills(ctx context.Context, t *testing.T, h Harness) {
	c := h.command("stubborn")
	c.Grace = time.Second // long enough for a busy machine to let it write

	got, timeout := timedOut(ctx, t, h, c)

	if e := got.exit; e.Code != 128+9 || e.Signal != 9 || !e.TimedOut || e.Cancelled || string(got.all) != "ready\nno\n" {
		t.Errorf("got output %q, exit %+v", got.all, e)
	}
	if d := got.exit.EndedAt.Sub(got.exit.StartedAt); d < timeout+c.Grace {
		t.Errorf("it was killed after %v, before its timeout of %v and its grace of %v", d, timeout, c.Grace)
	}
}

func foundAlive(ctx context.Context, t *testing.T, h Harness) {
	const read = "tick 0\ntick 1\ntick 2\n"
	// It runs longer than a busy machine takes to find it.
	readUntil(ctx, t, h.start(ctx, t, "a", h.command("tick", "300")), read)

	next := h.find(ctx, t, h.NewRunner(), "a", supervise.Alive)
	got := follow(ctx, t, next, int64(len(read)))

	want := ""
	for i := 3; i < 300; i++ {
		want += fmt.Sprintf("tick %d\n", i)
	}
	if string(got.all) != want {
		t.Errorf("the next runtime reads %q", got.all)
	}
	wantCode(t, got.exit, 5)
}

func foundEnded(ctx context.Context, t *testing.T, h Harness) {
	h.start(ctx, t, "a", h.command("both", "2"))
	r := h.NewRunner()
	eventually(ctx, t, func() bool {
		remains, _, err := r.Find(ctx, h.dir("a"))
		return err != nil || remains == supervise.Ended
	})

	got := follow(ctx, t, h.find(ctx, t, h.NewRunner(), "a", supervise.Ended), 0)

	if string(got.out) != "out 0\nout 1\n" || string(got.err) != "err 0\nerr 1\n" {
		t.Errorf("got output %q and %q", got.out, got.err)
	}
	wantCode(t, got.exit, 0)
}

func findAgain(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("hold"))
	r := h.NewRunner()

	for range 3 {
		h.find(ctx, t, r, "a", supervise.Alive)
	}
	if err := run.Stop(ctx, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		h.find(ctx, t, r, "a", supervise.Ended)
	}
}

// eventually waits until ok returns true.
func eventually(ctx context.Context, t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
}

func removeEnded(ctx context.Context, t *testing.T, h Harness) {
	follow(ctx, t, h.start(ctx, t, "ended", h.command("exit", "3")), 0)
	r := h.NewRunner()
	for _, name := range []string{"prepared", "stays"} {
		if err := r.Prepare(ctx, h.dir(name)); err != nil {
			t.Fatal(err)
		}
	}

	for range 2 { // the second time does nothing
		for _, name := range []string{"ended", "prepared", "absent"} {
			if err := r.Remove(ctx, h.dir(name)); err != nil {
				t.Errorf("remove %s: %v", name, err)
			}
			h.find(ctx, t, h.NewRunner(), name, supervise.Absent)
		}
	}

	if all, err := r.List(ctx, h.Root); err != nil || len(all) != 1 || all[0].Dir != h.dir("stays") || all[0].Remains != supervise.Prepared {
		t.Errorf("List answers %v, %v; want the one that stays", all, err)
	}
}

func removeAlive(ctx context.Context, t *testing.T, h Harness) {
	run := h.start(ctx, t, "a", h.command("hold"))
	readUntil(ctx, t, run, "ready\n")

	if err := h.NewRunner().Remove(ctx, h.dir("a")); !errors.Is(err, supervise.Running) {
		t.Errorf("got %v, want Running", err)
	}

	h.find(ctx, t, h.NewRunner(), "a", supervise.Alive)
	if err := run.Stop(ctx, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := follow(ctx, t, run, 0); string(got.all) != "ready\nbye\n" {
		t.Errorf("got output %q of a run that was not to be removed", got.all)
	}
	if err := h.NewRunner().Remove(ctx, h.dir("a")); err != nil {
		t.Errorf("remove when it has ended: %v", err)
	}
	h.find(ctx, t, h.NewRunner(), "a", supervise.Absent)
}
