package dispatch

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// retryDetach is the time until work that could not leave the foreground tries again (LN7).
const retryDetach = time.Second

// never is a moment that does not come.
const never time.Duration = math.MaxInt64

// run is one execution in work. Thousands of them may do nothing but wait, so it has one timer for all its clocks,
// and that only while a clock runs.
type run struct {
	work   Work
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	lane      perdure.Lane  // written under the runner's mu and mu, read under either
	paused    bool          // likewise
	returned  bool          // likewise
	yielded   bool          // likewise
	interrupt bool          // guarded by mu, as is all below; wished for while Detach was being asked
	asking    chan struct{} // closed when Detach has answered; nil: it is not being asked
	told      chan struct{} // closed when the fence has told the end; nil: it has not begun to
	cause     perdure.Cause // why it was stopped; empty: it was not
	signalled time.Time
	pausedAt  time.Duration
	clocks    clocks
	timer     *time.Timer
}

// placed reports work that holds a background place. It gives it back when it returns, before anybody hears of its end.
func (r *run) placed() bool {
	return r.lane == perdure.Background && !r.paused && !r.yielded && !r.returned
}

// detached reports work that left the foreground.
func (r *run) detached() bool {
	return r.lane == perdure.Background && r.work.Lane == perdure.Foreground
}

// answered waits, with mu held, until nobody asks Detach.
func (r *run) answered() {
	for r.asking != nil {
		asked := r.asking
		r.mu.Unlock()
		<-asked
		r.mu.Lock()
	}
}

// clock is one of the clocks of a run.
type clock int

// The clocks. Work that is paused or stopped has none of the first three running, and only stopped work the others.
const (
	deadlineClock clock = iota // LN4
	stallClock                 // LN4
	softClock                  // LN3
	forceClock                 // RC4
	fenceClock                 // RC6
	numClocks
)

// clocks says when each clock ends, on the runner's clock; never: it does not run.
type clocks [numClocks]time.Duration

// newClocks returns the clocks of work that begins now.
func newClocks(w Work, now time.Duration) clocks {
	c := clocks{never, never, never, never, never}
	if !w.Deadline.IsZero() {
		c[deadlineClock] = now + time.Until(w.Deadline)
	}
	if w.Stall > 0 {
		c[stallClock] = now + w.Stall
	}
	if w.Soft > 0 && w.Detach != nil && w.Lane == perdure.Foreground {
		c[softClock] = now + w.Soft
	}
	return c
}

// next returns the clock that ends first, and when. Of several that end together it is the first in the list, so
// that work whose deadline has come is not detached.
func (c *clocks) next() (clock, time.Duration) {
	first := clock(0)
	for i, due := range c {
		if due < c[first] {
			first = clock(i)
		}
	}
	return first, c[first]
}

// shift moves the clocks that run by the time that they stood still.
func (c *clocks) shift(by time.Duration) {
	for i, due := range c {
		if due != never {
			c[i] = due + by
		}
	}
}

// arm sets the timer to the clock that ends first. The run's mu is held.
func (d *Runner) arm(r *run) {
	_, due := r.clocks.next()
	if r.returned || due == never || r.paused && r.cause == "" {
		if r.timer != nil {
			r.timer.Stop()
		}
		return
	}
	wait := due - d.now()
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, func() { d.ring(r) })
		return
	}
	r.timer.Reset(wait)
}

// ring does what is due when a clock has ended, one thing at a time: each may last.
func (d *Runner) ring(r *run) {
	r.mu.Lock()
	which, due := r.clocks.next()
	if due > d.now() || r.returned || r.paused && r.cause == "" {
		d.arm(r) // it was moved, or stands still
		r.mu.Unlock()
		return
	}
	r.clocks[which] = never
	d.arm(r)
	r.mu.Unlock()
	switch which {
	case deadlineClock:
		d.stopRun(r, perdure.CauseDeadline)
	case stallClock:
		d.stopRun(r, perdure.CauseStall)
	case softClock:
		d.leave(r)
	case forceClock:
		d.killOnce(r, true)
	case fenceClock:
		d.fenceRun(r)
	}
}

// Touch is a sign of life of work: its stall clock begins anew. Unknown ids are passed over.
func (d *Runner) Touch(id string) {
	r := d.run(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clocks[stallClock] != never { // the timer finds out when it rings
		r.clocks[stallClock] = d.moment(r) + r.work.Stall
	}
}

// moment is now, or for paused work when it was paused. The run's mu is held.
func (d *Runner) moment(r *run) time.Duration {
	if r.paused {
		return r.pausedAt
	}
	return d.now()
}

// Pause lets the clocks of work stand still and gives its place back, for instance while it waits for a person
// (TK15). It can be cancelled as ever. Pausing again does nothing; unknown ids are passed over.
func (d *Runner) Pause(id string) {
	d.setPaused(id, true)
}

// Resume lets the clocks go on with the time that they had left, so that the deadline moves by the time paused,
// and takes the place again, whether one is free or not. Without a pause it does nothing.
func (d *Runner) Resume(id string) {
	d.setPaused(id, false)
}

// Yield gives the place of work back for good, while its clocks go on: it only waits for other work, which needs places of
// its own. It reports whether the work had not yielded before; unknown ids are passed over.
func (d *Runner) Yield(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[id]
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.yielded
	r.yielded = true
	return first
}

func (d *Runner) setPaused(id string, paused bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[id]
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused == paused || r.returned {
		return
	}
	r.paused = paused
	if paused {
		r.pausedAt = d.now()
	} else if r.cause == "" { // the clocks of stopped work never stood still
		r.clocks.shift(d.now() - r.pausedAt)
	}
	d.arm(r)
}
