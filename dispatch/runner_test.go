package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// bed is a dispatcher in a bubble, and the ends of its work.
type bed struct {
	*dispatch.Runner
	ends chan dispatch.End // capacity 64: more than any test starts
	gone atomic.Int32
}

// inBubble runs a law with virtual time.
func inBubble(t *testing.T, law func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{Runner: dispatch.NewRunner(t.Context(), dispatch.Config{}), ends: make(chan dispatch.End, 64)}
		law(t, b)
		b.Shutdown(context.Background())
	})
}

func (b *bed) start(t *testing.T, w dispatch.Work) {
	t.Helper()
	w.End = func(e dispatch.End) { b.ends <- e }
	w.SlotReleased = func() { b.gone.Add(1) }
	if err := b.Start(w); err != nil {
		t.Fatalf("Start(%s): %v", w.ID, err)
	}
}

// untilStopped is work that ends with its context.
func untilStopped(ctx context.Context) tool.Result {
	<-ctx.Done()
	return tool.Internal(context.Cause(ctx))
}

func TestWorkEndsByItself(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.start(t, dispatch.Work{ID: "a", Lane: perdure.Background, Session: "s", Run: func(context.Context) tool.Result { return tool.Success(1) }})

		end := <-b.ends
		synctest.Wait()

		if !end.Result.IsSuccess() || end.Cause != "" || end.DidNotStop || end.ReturnedAt.IsZero() {
			t.Errorf("got %+v, want a plain end", end)
		}
		if ofSession, ofProcess := b.SlotsInUse("s"); ofSession != 0 || ofProcess != 0 || b.gone.Load() != 1 {
			t.Errorf("slots %d and %d, gone %d: the slot is not free (BG16)", ofSession, ofProcess, b.gone.Load())
		}
	})
}

func TestRunnerPanicSettles(t *testing.T) { // TL5, LN16
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.start(t, dispatch.Work{ID: "a", Run: func(context.Context) tool.Result { panic("boom") }})

		end := <-b.ends

		if end.Result.Kind != tool.KindInternal || end.Result.ErrorKind != perdure.ErrorPanic {
			t.Errorf("got %+v, want an internal error of kind panic", end.Result)
		}
		synctest.Wait()
		if b.Running("a") {
			t.Error("the slot is not free")
		}
	})
}

func TestCancelTellsItsCause(t *testing.T) {
	t.Parallel()
	for _, cause := range []perdure.Cause{perdure.CauseCanceled, perdure.CauseInterrupt, perdure.CauseSuperseded} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				b.start(t, dispatch.Work{ID: "a", Run: untilStopped})

				if !b.Cancel("a", cause) || b.Cancel("b", cause) {
					t.Fatal("Cancel must say what runs")
				}
				b.Cancel("a", perdure.CauseDeadline) // the first cause stays

				end := <-b.ends
				if end.Cause != cause || !errors.Is(end.Result.Err, cause) {
					t.Errorf("got cause %q and %v, want %q", end.Cause, end.Result.Err, cause)
				}
			})
		})
	}
}

func TestRealResultWithinGraceIsKept(t *testing.T) { // RC3
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.start(t, dispatch.Work{ID: "a", Run: func(ctx context.Context) tool.Result {
			<-ctx.Done()
			timer := time.NewTimer(9 * time.Second)
			<-timer.C
			return tool.Success("done all the same")
		}})
		b.Cancel("a", perdure.CauseCanceled)

		end := <-b.ends

		if !end.Result.IsSuccess() || end.DidNotStop {
			t.Errorf("got %+v, want the real result", end)
		}
	})
}

func TestStubbornToolFenced(t *testing.T) { // RC6: its slot stays in use until it returns
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		release := make(chan struct{})
		b.start(t, dispatch.Work{ID: "a", Session: "s", Lane: perdure.Background, Run: func(context.Context) tool.Result {
			<-release
			return tool.Success("too late")
		}})
		begun := time.Now()
		b.Cancel("a", perdure.CauseCanceled)

		end := <-b.ends

		if !end.DidNotStop || !end.ReturnedAt.IsZero() || time.Since(begun) != dispatch.DefaultGrace+dispatch.DefaultKillWait {
			t.Errorf("got %+v after %s", end, time.Since(begun))
		}
		if n, _ := b.SlotsInUse("s"); n != 1 {
			t.Errorf("%d slots in use, want 1 until it returns", n)
		}
		close(release)
		synctest.Wait()
		if n, _ := b.SlotsInUse("s"); n != 0 || len(b.ends) != 0 {
			t.Errorf("%d slots in use and %d more ends, want none", n, len(b.ends))
		}
	})
}

func TestKillerIsSignalledThenForced(t *testing.T) { // RC4
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		forced := make(chan bool, 2)
		done := make(chan struct{})
		b.start(t, dispatch.Work{
			ID:   "a",
			Run:  func(context.Context) tool.Result { <-done; return tool.Success(nil) },
			Kill: func(force bool) { forced <- force },
		})
		begun := time.Now()
		b.Cancel("a", perdure.CauseCanceled)

		if first := <-forced; first {
			t.Error("the first kill was by force")
		}
		if second := <-forced; !second || time.Since(begun) != dispatch.DefaultKillWait {
			t.Errorf("second kill forced %t after %s", second, time.Since(begun))
		}
		close(done)
	})
}

// TestRunnerForce ends the grace period of canceled work, and cancels other work without one
// (RC21).
func TestRunnerForce(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"at once": 0, "within the grace period": 3 * time.Second, "shortly before the fence": 11 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				release := make(chan struct{})
				var forced atomic.Int32
				causes := make(chan error, 1)
				b.start(t, dispatch.Work{ID: "a", Session: "s", Lane: perdure.Background,
					Run: func(ctx context.Context) tool.Result {
						<-ctx.Done()
						causes <- context.Cause(ctx)
						<-release
						return tool.Success("too late")
					},
					Force: func() { forced.Add(1) },
					Kill:  func(bool) {},
				})
				begun := time.Now()
				if wait > 0 {
					b.Cancel("a", perdure.CauseCanceled)
					<-time.After(wait)
				}

				for range 2 { // forcing again does nothing
					if !b.Force("a", perdure.CauseCanceled) || b.Force("b", perdure.CauseCanceled) {
						t.Fatal("Force must say what runs")
					}
				}
				synctest.Wait()
				if n := forced.Load(); n != 1 {
					t.Errorf("the tool was forced %d times, want at once, and once", n)
				}
				end := <-b.ends

				if cause := <-causes; cause != perdure.CauseCanceled || end.Cause != perdure.CauseCanceled || !end.DidNotStop {
					t.Errorf("got %v and %+v", cause, end)
				}
				want := min(wait+dispatch.DefaultKillWait, dispatch.DefaultGrace+dispatch.DefaultKillWait)
				if got := time.Since(begun); got != want {
					t.Errorf("fenced after %s, want %s", got, want)
				}
				b.Force("a", perdure.CauseCanceled) // after the fence: it reports no second end
				<-time.After(time.Minute)
				close(release)
				synctest.Wait()
				if len(b.ends) != 0 || b.Force("a", perdure.CauseCanceled) {
					t.Error("a second end was reported, or work that returned was forced")
				}
			})
		})
	}
}

// TestRunnerForceOfAKiller uses force at once, and a panic in it affects nothing else (RC21).
func TestRunnerForceOfAKiller(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		forced := make(chan bool, 2)
		b.start(t, dispatch.Work{ID: "a", Run: untilStopped, Kill: func(force bool) { forced <- force }})
		b.start(t, dispatch.Work{ID: "b", Run: untilStopped, Force: func() { panic("boom") }})
		begun := time.Now()

		b.Force("a", perdure.CauseCanceled)
		b.Force("b", perdure.CauseCanceled)

		if !<-forced || time.Since(begun) != 0 {
			t.Errorf("not forced at once, but after %s", time.Since(begun))
		}
		for range 2 {
			if end := <-b.ends; end.DidNotStop {
				t.Errorf("got %+v", end)
			}
		}
	})
}

func TestRunnerInterruptForegroundOnly(t *testing.T) { // RC8, prior art's interrupt
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.start(t, dispatch.Work{ID: "front", Turn: "turn_1", Lane: perdure.Foreground, Run: untilStopped})
		b.start(t, dispatch.Work{ID: "other", Turn: "turn_2", Lane: perdure.Foreground, Run: untilStopped})
		b.start(t, dispatch.Work{ID: "back", Turn: "turn_1", Lane: perdure.Background, Run: untilStopped})

		n := b.Interrupt("turn_1")
		end := <-b.ends
		synctest.Wait()

		if n != 1 || end.Cause != perdure.CauseInterrupt || b.Running("front") || !b.Running("back") || !b.Running("other") {
			t.Errorf("interrupted %d, %+v; the background work and the other turn must continue", n, end)
		}
	})
}

func TestDeadlineEndsWork(t *testing.T) { // LN4
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.start(t, dispatch.Work{ID: "a", Deadline: time.Now().Add(time.Hour), Run: untilStopped})

		end := <-b.ends

		if end.Cause != perdure.CauseDeadline {
			t.Errorf("got %+v", end)
		}
	})
}

func TestStartRefusesTheSameTwice(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.start(t, dispatch.Work{ID: "a", Run: untilStopped})

		if err := b.Start(dispatch.Work{ID: "a"}); !errors.Is(err, perdure.Conflict) {
			t.Errorf("got %v, want Conflict", err)
		}
	})
}

func TestShutdownLeavesNothing(t *testing.T) { // RC11
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.start(t, dispatch.Work{ID: "a", Run: untilStopped})

		left := b.Shutdown(context.Background())

		if end := <-b.ends; end.Cause != perdure.CauseShutdown || left != 0 {
			t.Errorf("got %+v and %d left", end, left)
		}
		if err := b.Start(dispatch.Work{ID: "b"}); !errors.Is(err, perdure.Unavailable) {
			t.Errorf("a start after it: got %v, want Unavailable", err)
		}
	})
}

// TestRunnerCancelAtStarted cancels in the moment after Start, again and again: none of them may be
// missed, and each piece of work ends once (LN15).
func TestRunnerCancelAtStarted(t *testing.T) {
	t.Parallel()
	const races = 20_000
	d := dispatch.NewRunner(t.Context(), dispatch.Config{})
	ends := make(chan dispatch.End, races)
	for i := range races {
		id := fmt.Sprint(i)
		if err := d.Start(dispatch.Work{ID: id, Run: untilStopped, End: func(e dispatch.End) { ends <- e }}); err != nil {
			t.Fatal(err)
		}
		go d.Cancel(id, perdure.CauseCanceled)
	}
	for range races {
		if end := <-ends; end.Cause != perdure.CauseCanceled {
			t.Fatalf("got %+v", end)
		}
	}
	if left := d.Shutdown(t.Context()); left != 0 {
		t.Errorf("%d left", left)
	}
}

// TestRunnerSlotBeforeEnd holds the end of work back: its slot is free as soon as it has returned,
// so that a caller that learns of the end finds a free one (BG16).
func TestRunnerSlotBeforeEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dispatch.NewRunner(t.Context(), dispatch.Config{})
		hears := make(chan struct{})
		held := func(dispatch.End) { <-hears }
		done := func(context.Context) tool.Result { return tool.Success(nil) }
		works := []dispatch.Work{
			{ID: "background", Session: "s", Lane: perdure.Background, Run: done, End: held},
			{ID: "detached", Session: "s", Lane: perdure.Foreground, End: held, SoftBudget: time.Second, Detach: func() bool { return true },
				Run: func(context.Context) tool.Result { <-time.After(2 * time.Second); return tool.Success(nil) }},
		}
		for _, w := range works {
			if err := d.Start(w); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)

		if ofSession, ofProcess := d.SlotsInUse("s"); ofSession != 0 || ofProcess != 0 || d.Detached("s") != 0 {
			t.Errorf("slots %d and %d, detached %d: work that has returned holds no slot", ofSession, ofProcess, d.Detached("s"))
		}
		if !d.Running("background") || !d.Running("detached") {
			t.Error("the end was not reported yet: the work must count as running")
		}
		close(hears)
		d.Shutdown(context.Background())
	})
}

// TestRunnerYield: work that only waits for other work gives its slot back, and its clocks
// continue.
func TestRunnerYield(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dispatch.NewRunner(t.Context(), dispatch.Config{})
		ended := make(chan perdure.Cause, 1)
		work := dispatch.Work{
			ID: "waits", Session: "s", Lane: perdure.Background, Deadline: time.Now().Add(time.Minute),
			Run: func(ctx context.Context) tool.Result {
				<-ctx.Done()
				ended <- perdure.CauseOf(ctx)
				return tool.Success(nil)
			},
			End: func(dispatch.End) {},
		}
		if err := d.Start(work); err != nil {
			t.Fatal(err)
		}
		if _, ofProcess := d.SlotsInUse("s"); ofProcess != 1 {
			t.Errorf("it uses %d slots, want 1", ofProcess)
		}

		if !d.Yield("waits") || d.Yield("waits") || d.Yield("unknown") {
			t.Error("only the first yield of what runs is one")
		}

		if ofSession, ofProcess := d.SlotsInUse("s"); ofSession != 0 || ofProcess != 0 {
			t.Errorf("it uses %d and %d slots, want none", ofSession, ofProcess)
		}
		began := time.Now()
		if cause := <-ended; cause != perdure.CauseDeadline || time.Since(began) != time.Minute {
			t.Errorf("ended by %s after %s", cause, time.Since(began))
		}
		d.Shutdown(context.Background())
	})
}
