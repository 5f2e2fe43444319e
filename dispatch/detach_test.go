package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// lasting is work that takes its time, unless it is stopped.
func lasting(d time.Duration) func(context.Context) tool.Result {
	return func(ctx context.Context) tool.Result {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return tool.Success("done")
		case <-ctx.Done():
			return tool.Internal(context.Cause(ctx))
		}
	}
}

func yes() bool { return true }

// asks is a Detach that is answered by the test.
type asks struct {
	asked  chan struct{}
	answer chan bool
}

func newAsks() asks { return asks{asked: make(chan struct{}), answer: make(chan bool)} }

func (a asks) detach() bool {
	a.asked <- struct{}{}
	return <-a.answer
}

func TestRunnerSoftBudget(t *testing.T) { // LN3, LN7
	t.Parallel()
	const second = time.Second
	for _, row := range []struct {
		name    string
		lane    perdure.Lane
		soft    time.Duration
		lasts   time.Duration
		answers []bool // of Detach; a panic where there is none
		want    perdure.Lane
		asked   []time.Duration
	}{
		{"fires", perdure.Foreground, 5 * second, time.Minute, []bool{true}, perdure.Background, []time.Duration{5 * second}},
		{"spares_fast_work", perdure.Foreground, 5 * second, 4 * second, nil, perdure.Foreground, nil},
		{"off", perdure.Foreground, 0, time.Hour, nil, perdure.Foreground, nil},
		{"never", perdure.Foreground, tool.Never, time.Hour, nil, perdure.Foreground, nil},
		{"not_of_background_work", perdure.Background, second, time.Minute, nil, perdure.Background, nil},
		{"tries_again", perdure.Foreground, 5 * second, time.Minute, []bool{false, false, true}, perdure.Background, []time.Duration{5 * second, 6 * second, 7 * second}},
		{"a_panic_is_a_no", perdure.Foreground, 5 * second, 5*second + 500*time.Millisecond, nil, perdure.Foreground, []time.Duration{5 * second}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				var asked []time.Duration
				begun := time.Now()
				b.start(t, dispatch.Work{ID: "a", Lane: row.lane, SoftBudget: row.soft, Run: lasting(row.lasts), Detach: func() bool {
					asked = append(asked, time.Since(begun))
					return row.answers[len(asked)-1]
				}})

				end := <-b.ends
				synctest.Wait()

				if end.Lane != row.want || !end.Result.IsSuccess() || end.Cause != "" || time.Since(begun) != row.lasts {
					t.Errorf("got %+v after %s, want lane %s and nothing cancelled", end, time.Since(begun), row.want)
				}
				if fmt.Sprint(asked) != fmt.Sprint(row.asked) {
					t.Errorf("asked at %v, want %v", asked, row.asked)
				}
			})
		})
	}
}

// TestRunnerTie ends work on the tick of its budget, in both orders.
func TestRunnerTie(t *testing.T) { // LN3
	t.Parallel()
	t.Run("asked_first", func(t *testing.T) {
		t.Parallel()
		for _, answer := range []bool{true, false} {
			inBubble(t, func(t *testing.T, b *bed) {
				a := newAsks()
				release := make(chan struct{})
				b.start(t, dispatch.Work{ID: "a", Lane: perdure.Foreground, SoftBudget: time.Second, Detach: a.detach, Run: func(context.Context) tool.Result {
					<-release
					return tool.Success(1)
				}})
				<-a.asked
				close(release)
				synctest.Wait() // it has returned, and waits

				if len(b.ends) != 0 || !b.Running("a") {
					t.Fatal("its end was reported before the detach was decided")
				}
				a.answer <- answer
				end := <-b.ends

				want := map[bool]perdure.Lane{true: perdure.Background, false: perdure.Foreground}[answer]
				if end.Lane != want || !end.Result.IsSuccess() {
					t.Errorf("answer %t: got %+v, want the result in lane %s", answer, end, want)
				}
			})
		}
	})
	t.Run("returned_first", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T, b *bed) {
			reported, release := make(chan dispatch.End), make(chan struct{})
			err := b.Start(dispatch.Work{
				ID: "a", Lane: perdure.Foreground, SoftBudget: time.Second, Run: func(context.Context) tool.Result { return tool.Success(1) },
				Detach: func() bool { t.Error("work that has returned was asked"); return true },
				End:    func(e dispatch.End) { reported <- e; <-release },
			})
			if err != nil {
				t.Fatal(err)
			}
			end := <-reported
			<-time.After(2 * time.Second) // of the bubble: the budget passes while End is at work

			if b.Detach("a") || b.InterruptWork("a") || b.Interrupt("") != 0 || end.Lane != perdure.Foreground {
				t.Errorf("got %+v; work that has returned was detached or interrupted", end)
			}
			close(release)
		})
	})
	t.Run("same_tick", func(t *testing.T) {
		t.Parallel()
		for range 200 {
			inBubble(t, func(t *testing.T, b *bed) {
				var left atomic.Int32
				b.start(t, dispatch.Work{
					ID: "a", Lane: perdure.Foreground, SoftBudget: time.Second, Run: lasting(time.Second),
					Detach: func() bool { left.Add(1); return true },
				})

				end := <-b.ends

				if detached := end.Lane == perdure.Background; detached != (left.Load() == 1) || left.Load() > 1 {
					t.Errorf("asked %d times and ended in lane %s", left.Load(), end.Lane)
				}
			})
		}
	})
}

func TestRunnerDetachNow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		answers := []bool{false, true}
		asked := 0
		b.start(t, dispatch.Work{ID: "a", Session: "s", Lane: perdure.Foreground, Run: untilStopped, Detach: func() bool {
			asked++
			return answers[asked-1]
		}})
		b.start(t, dispatch.Work{ID: "fast", Lane: perdure.Foreground, Run: untilStopped})

		if b.Detach("a") {
			t.Error("it left although it said no")
		}
		<-time.After(time.Minute)
		if asked != 1 {
			t.Errorf("asked %d times: without a budget a no stays a no", asked)
		}
		if !b.Detach("a") || !b.Detach("a") || asked != 2 {
			t.Errorf("asked %d times, want the second to detach it and the third to ask nothing", asked)
		}
		if b.Detach("fast") || b.Detach("unknown") {
			t.Error("work without Detach, or no work, left the foreground")
		}
	})
}

// TestRunnerInterruptWhileAsked interrupts while Detach is in flight, and lets either win.
func TestRunnerInterruptWhileAsked(t *testing.T) { // RC8
	t.Parallel()
	for _, left := range []bool{true, false} {
		t.Run(fmt.Sprintf("left_%t", left), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				a := newAsks()
				b.start(t, dispatch.Work{ID: "a", Turn: "turn_1", Lane: perdure.Foreground, SoftBudget: time.Second, Detach: a.detach, Run: untilStopped})
				<-a.asked

				n := b.Interrupt("turn_1")
				again := b.InterruptWork("a")
				synctest.Wait()
				early := len(b.ends)
				a.answer <- left
				synctest.Wait()

				if n != 1 || !again || early != 0 {
					t.Errorf("interrupted %d and %t, %d ended before the answer", n, again, early)
				}
				if left {
					if !b.Running("a") || b.InterruptWork("a") || b.Interrupt("turn_1") != 0 {
						t.Error("work that had left was interrupted")
					}
					return
				}
				if end := <-b.ends; end.Cause != perdure.CauseInterrupt || end.Lane != perdure.Foreground {
					t.Errorf("got %+v, want it interrupted in the foreground", end)
				}
			})
		})
	}
}

func TestRunnerCancelWhileAsked(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{true, false} {
		inBubble(t, func(t *testing.T, b *bed) {
			a := newAsks()
			b.start(t, dispatch.Work{ID: "a", Lane: perdure.Foreground, SoftBudget: time.Second, Detach: a.detach, Run: untilStopped})
			<-a.asked

			b.Cancel("a", perdure.CauseCanceled)
			synctest.Wait()
			if len(b.ends) != 0 {
				t.Error("the end was reported before the detach was decided")
			}
			a.answer <- left
			end := <-b.ends

			if end.Cause != perdure.CauseCanceled || (end.Lane == perdure.Background) != left {
				t.Errorf("left %t: got %+v", left, end)
			}
		})
	}
}

// TestRunnerFenceWaitsForTheAnswer holds the answer until the grace is over: the fence's End comes
// after it.
func TestRunnerFenceWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		a := newAsks()
		release := make(chan struct{})
		b.start(t, dispatch.Work{ID: "a", Lane: perdure.Foreground, SoftBudget: time.Second, Detach: a.detach, Run: func(context.Context) tool.Result {
			<-release
			return tool.Success(1)
		}})
		<-a.asked
		b.Cancel("a", perdure.CauseCanceled)
		<-time.After(time.Minute)
		if len(b.ends) != 0 {
			t.Fatal("the end was reported before the detach was decided")
		}
		a.answer <- true

		if end := <-b.ends; !end.DidNotStop || end.Lane != perdure.Background {
			t.Errorf("got %+v", end)
		}
		close(release)
	})
}

func TestRunnerStoppedIsNotDetached(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		release := make(chan struct{})
		b.start(t, dispatch.Work{
			ID: "a", Lane: perdure.Foreground, SoftBudget: time.Second, Run: func(context.Context) tool.Result { <-release; return tool.Success(1) },
			Detach: func() bool { t.Error("stopped work was asked"); return true },
		})
		b.Cancel("a", perdure.CauseCanceled)
		<-time.After(5 * time.Second)
		if b.Detach("a") {
			t.Error("stopped work was detached")
		}
		close(release)
		if end := <-b.ends; end.Lane != perdure.Foreground || !end.Result.IsSuccess() {
			t.Errorf("got %+v", end)
		}
	})
}

func TestRunnerDetachKeepsDeadline(t *testing.T) { // LN4
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		begun := time.Now()
		b.start(t, dispatch.Work{ID: "a", Lane: perdure.Foreground, SoftBudget: 10 * time.Second, Deadline: begun.Add(time.Minute), Detach: yes, Run: untilStopped})

		if end := <-b.ends; end.Cause != perdure.CauseDeadline || end.Lane != perdure.Background || time.Since(begun) != time.Minute {
			t.Errorf("got %+v after %s", end, time.Since(begun))
		}
	})
}

// TestRunnerPause: each clock stands still, and the slot is free (TK15).
func TestRunnerPause(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		work dispatch.Work
		want dispatch.End
	}{
		{"deadline", dispatch.Work{Deadline: time.Now(), Lane: perdure.Background}, dispatch.End{Cause: perdure.CauseDeadline, Lane: perdure.Background}},
		{"stall", dispatch.Work{Stall: 10 * time.Second, Lane: perdure.Background}, dispatch.End{Cause: perdure.CauseStall, Lane: perdure.Background}},
		{"soft", dispatch.Work{SoftBudget: 10 * time.Second, Lane: perdure.Foreground}, dispatch.End{Cause: perdure.CauseCanceled, Lane: perdure.Background}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				begun := time.Now()
				w := row.work
				w.ID, w.Session, w.Run = "a", "s", untilStopped
				if !w.Deadline.IsZero() {
					w.Deadline = begun.Add(10 * time.Second)
				}
				rung := make(chan time.Duration, 1)
				w.Detach = func() bool {
					rung <- time.Since(begun)
					go b.Cancel("a", perdure.CauseCanceled)
					return true
				}
				b.start(t, w)

				<-time.After(4 * time.Second)
				b.Pause("a")
				b.Pause("a")
				_, held := b.SlotsInUse("s")
				<-time.After(time.Hour)
				if len(b.ends)+len(rung) != 0 {
					t.Fatal("a clock ran on")
				}
				b.Resume("a")
				b.Resume("a")
				end := <-b.ends

				if held != 0 {
					t.Error("paused work holds a slot")
				}
				if end.Cause != row.want.Cause || end.Lane != row.want.Lane || time.Since(begun) != time.Hour+10*time.Second {
					t.Errorf("got %+v after %s, want %+v after an hour and 10 s", end, time.Since(begun), row.want)
				}
			})
		})
	}
	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T, b *bed) {
			release := make(chan struct{})
			begun := time.Now()
			b.start(t, dispatch.Work{ID: "a", Deadline: begun.Add(time.Hour), Run: func(context.Context) tool.Result { <-release; return tool.Success(1) }})
			b.Pause("a")
			b.Cancel("a", perdure.CauseCanceled)

			if end := <-b.ends; !end.DidNotStop || time.Since(begun) != dispatch.DefaultGrace+dispatch.DefaultKillWait {
				t.Errorf("got %+v after %s: the fence waits for no pause", end, time.Since(begun))
			}
			close(release)
		})
	})
}

func TestRunnerStall(t *testing.T) { // LN4
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		begun := time.Now()
		b.start(t, dispatch.Work{ID: "a", Stall: 10 * time.Second, Run: untilStopped})
		b.start(t, dispatch.Work{ID: "free", Run: untilStopped})
		for range 5 {
			<-time.After(9 * time.Second)
			b.Touch("a")
			b.Touch("free")
			b.Touch("unknown")
		}
		if len(b.ends) != 0 {
			t.Fatal("work with signs of life was stopped")
		}

		if end := <-b.ends; end.Cause != perdure.CauseStall || time.Since(begun) != 55*time.Second || !errors.Is(end.Result.Err, perdure.CauseStall) {
			t.Errorf("got %+v after %s, want it stalled after 55 s", end, time.Since(begun))
		}
	})
}

func TestRunnerSlots(t *testing.T) { // BG16
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		b.start(t, dispatch.Work{ID: "front", Session: "s", Lane: perdure.Foreground, Detach: yes, Run: untilStopped})
		b.start(t, dispatch.Work{ID: "back", Session: "s", Lane: perdure.Background, Run: untilStopped})
		b.start(t, dispatch.Work{ID: "other", Session: "t", Lane: perdure.Background, Run: untilStopped})
		slots := func() [3]int {
			ofSession, ofProcess := b.SlotsInUse("s")
			return [3]int{ofSession, ofProcess, b.Detached("s")}
		}

		got := [][3]int{slots()}
		b.Detach("front")
		got = append(got, slots())
		b.Pause("front")
		got = append(got, slots())
		b.Resume("front")
		b.Pause("back")
		got = append(got, slots())
		b.Resume("back")
		for _, id := range []string{"front", "back", "other"} {
			b.Cancel(id, perdure.CauseCanceled)
		}
		synctest.Wait()
		got = append(got, slots())

		want := [][3]int{{1, 2, 0}, {1, 3, 1}, {1, 2, 0}, {0, 2, 1}, {0, 0, 0}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v (of the session, of the process, detached)", got, want)
		}
	})
}

// TestRunnerDetachStopsTimer starts work with every clock set to hours and wants nothing to hold it
// when it has returned, as a timer that runs would.
func TestRunnerDetachStopsTimer(t *testing.T) {
	t.Parallel()
	for _, stop := range []string{"", "detach", "cancel", "kill"} {
		t.Run("after_"+stop, func(t *testing.T) {
			t.Parallel()
			d := dispatch.NewRunner(t.Context(), dispatch.Config{Grace: time.Hour, KillWait: time.Hour})
			release, gone := make(chan struct{}), make(chan struct{})
			held := new([1 << 16]byte)
			was := weak.Make(held)
			w := dispatch.Work{
				ID: "a", Lane: perdure.Foreground, SoftBudget: time.Hour, Stall: time.Hour, Deadline: time.Now().Add(time.Hour),
				Run:    func(context.Context) tool.Result { <-release; held[0]++; return tool.Success(1) },
				Detach: yes, End: func(dispatch.End) {}, SlotReleased: func() { close(gone) },
			}
			if stop == "kill" {
				w.Kill = func(bool) {}
			}
			if err := d.Start(w); err != nil {
				t.Fatal(err)
			}
			w, held = dispatch.Work{}, nil
			switch stop {
			case "detach":
				d.Detach("a")
			case "cancel", "kill":
				d.Cancel("a", perdure.CauseCanceled)
			}
			close(release)
			<-gone

			for begun := time.Now(); was.Value() != nil; runtime.GC() {
				if time.Since(begun) > 20*time.Second {
					t.Fatal("something holds the work that has returned")
				}
			}
		})
	}
}

// TestRunnerStorm starts, detaches, interrupts, cancels, pauses and completes at random: each piece
// of work ends once, in the lane that its Detach answered, and nothing is left.
func TestRunnerStorm(t *testing.T) {
	t.Parallel()
	const pieces, turns = 20_000, 50
	d := dispatch.NewRunner(t.Context(), dispatch.Config{Grace: time.Millisecond, KillWait: time.Millisecond})
	var ended, gone sync.WaitGroup
	slots := make(chan struct{}, 64) // pieces of work that run at a time
	for i := range pieces {
		slots <- struct{}{}
		ended.Add(1)
		gone.Add(1)
		id, turn := fmt.Sprint(i), perdure.TurnID(fmt.Sprint(i%turns))
		release := make(chan struct{})
		var ends, left atomic.Int32
		err := d.Start(dispatch.Work{
			ID: id, Turn: turn, Session: "s", Lane: perdure.Foreground, SoftBudget: time.Duration(rand.IntN(300)) * time.Microsecond, Stall: time.Minute,
			Run: func(ctx context.Context) tool.Result {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return tool.Success(1)
			},
			Detach: func() bool {
				if ends.Load() != 0 {
					t.Error("asked after its end")
				}
				if rand.IntN(3) == 0 {
					return false
				}
				left.Add(1)
				return true
			},
			End: func(e dispatch.End) {
				switch n := ends.Add(1); {
				case n != 1:
					t.Errorf("ended %d times", n)
				case (e.Lane == perdure.Background) != (left.Load() == 1):
					t.Errorf("ended in lane %s, having left %d times", e.Lane, left.Load())
				case e.Lane == perdure.Background && e.Cause == perdure.CauseInterrupt:
					t.Error("background work was interrupted")
				}
				ended.Done()
			},
			SlotReleased: func() { <-slots; gone.Done() },
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			bother(d, id, turn)
			close(release)
		}()
	}
	ended.Wait()
	gone.Wait()
	if ofSession, ofProcess := d.SlotsInUse("s"); ofSession+ofProcess+d.Detached("s") != 0 {
		t.Errorf("%d and %d slots are still in use", ofSession, ofProcess)
	}
	if left := d.Shutdown(t.Context()); left != 0 {
		t.Errorf("%d left", left)
	}
}

// bother does a few things at random to one piece of work.
func bother(d *dispatch.Runner, id string, turn perdure.TurnID) {
	for range 3 {
		switch rand.IntN(6) {
		case 0:
			d.Detach(id)
		case 1:
			d.Interrupt(turn)
		case 2:
			d.InterruptWork(id)
		case 3:
			d.Pause(id)
			d.Resume(id)
		case 4:
			d.Touch(id)
		case 5:
			d.SlotsInUse("s")
		}
	}
	if rand.IntN(2) == 0 {
		d.Cancel(id, perdure.CauseCanceled)
	}
}
