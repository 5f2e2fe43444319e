package supervisetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/internal/supervise/supervisetest"
)

func newWorld(t *testing.T) *supervisetest.World {
	w := supervisetest.NewWorld(supervisetest.Programs())
	t.Cleanup(w.Close)
	return w
}

func TestWorld(t *testing.T) {
	supervisetest.Run(t, supervisetest.Adapter{Bubble: true, New: func(t *testing.T) supervisetest.Harness {
		w := newWorld(t)
		return supervisetest.Harness{
			Root:      "/runs",
			Dir:       "/",
			NewRunner: func() supervise.Runner { return w.NewRunner() },
			Argv:      func(program string, args ...string) []string { return append([]string{program}, args...) },
		}
	}})
}

// begin starts a program in the run directory /runs/a.
func begin(t *testing.T, r supervise.Runner, argv ...string) supervise.Run {
	t.Helper()
	if err := r.Prepare(t.Context(), "/runs/a"); err != nil {
		t.Fatal(err)
	}
	run, err := r.Start(t.Context(), "/runs/a", supervise.Command{Argv: argv, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func discard(supervise.Chunk) error { return nil }

func TestRunnerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.NewRunner()
		run := begin(t, r, "tick", "100")

		var follower sync.WaitGroup
		follower.Go(func() {
			if _, err := run.Follow(t.Context(), 0, discard); !errors.Is(err, supervisetest.Dead) {
				t.Errorf("Follow ends with %v", err)
			}
		})
		synctest.Wait()
		r.Die()
		follower.Wait()

		if _, _, err := r.Find(t.Context(), "/runs/a"); !errors.Is(err, supervisetest.Dead) {
			t.Errorf("a dead runtime finds: %v", err)
		}
		if err := run.Stop(t.Context(), 0); !errors.Is(err, supervisetest.Dead) {
			t.Errorf("a dead runtime stops: %v", err)
		}
		remains, next, err := w.NewRunner().Find(t.Context(), "/runs/a")
		if err != nil || remains != supervise.Alive {
			t.Fatalf("the next runtime finds %s, %v", remains, err)
		}
		if e, err := next.Follow(t.Context(), 0, discard); err != nil || e.Code != 5 {
			t.Errorf("it follows to %+v, %v", e, err)
		}
	})
}

func TestSupervisorDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		run := begin(t, w.NewRunner(), "hold")
		synctest.Wait()

		w.KillSupervisor("/runs/a")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		read := 0
		_, err := run.Follow(ctx, 0, func(c supervise.Chunk) error {
			read += len(c.Bytes)
			return nil
		})
		if !errors.Is(err, supervise.Vanished) || read != len("ready\n") {
			t.Errorf("Follow reads %d bytes and ends with %v", read, err)
		}
		if err := run.Stop(ctx, 0); !errors.Is(err, supervise.Vanished) {
			t.Errorf("Stop ends with %v", err)
		}
		if remains, gone, err := w.NewRunner().Find(ctx, "/runs/a"); remains != supervise.Gone || gone != nil || err != nil {
			t.Errorf("Find answers %s, %v, %v", remains, gone, err)
		}
	})
}
