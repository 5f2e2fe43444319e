package dispatch

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// retryDetach is the wait before work that could not detach tries again.
const retryDetach = time.Second

// noTime is a time that is not reached.
const noTime time.Duration = math.MaxInt64

// run is one execution. There can be thousands that only wait, so a run has one timer for all its
// clocks, and only while a clock is running.
type run struct {
	work   Work
	cancel context.CancelCauseFunc

	mu          sync.Mutex
	lane        perdure.Lane // written under the runner's mu and this mu, read under either
	paused      bool         // same locking as lane
	returned    bool         // same locking as lane
	slotGivenUp bool         // same locking as lane: the slot was given up for good
	// an interrupt came while Detach was being called; mu guards this and everything below
	interruptPending bool
	detachDecided    chan struct{} // closed after Detach has answered; nil: Detach is not being called
	fenceReported    chan struct{} // closed after the fence has reported the end; nil: the fence has not fired
	cause            perdure.Cause // why it was stopped; empty: it was not
	forced           bool          // without a grace period
	signalled        time.Time
	pausedAt         time.Duration
	clocks           clocks
	timer            *time.Timer
}

// holdsSlot reports whether the work holds a background slot. Work that returned holds none, even
// before its end is reported.
func (r *run) holdsSlot() bool {
	return r.lane == perdure.Background && !r.paused && !r.slotGivenUp && !r.returned
}

// detached reports whether the work left the foreground.
func (r *run) detached() bool {
	return r.lane == perdure.Background && r.work.Lane == perdure.Foreground
}

// awaitDetachDecision waits until Detach is not being called. The caller holds mu, which is
// released during the wait.
func (r *run) awaitDetachDecision() {
	for r.detachDecided != nil {
		asked := r.detachDecided
		r.mu.Unlock()
		<-asked
		r.mu.Lock()
	}
}

// clock is one of the clocks of a run.
type clock int

// The clocks. The first three run while the work is neither paused nor stopped, the other two only
// while it is being stopped.
const (
	deadlineClock clock = iota // the deadline
	stallClock                 // the stall timeout
	softClock                  // the soft budget
	forceClock                 // until a killer uses force
	fenceClock                 // the grace period
	numClocks
)

// clocks has the end of each clock on the runner's clock; never: it is not running.
type clocks [numClocks]time.Duration

// newClocks returns the clocks of work that starts now.
func newClocks(w Work, now time.Duration) clocks {
	c := clocks{noTime, noTime, noTime, noTime, noTime}
	if !w.Deadline.IsZero() {
		c[deadlineClock] = now + time.Until(w.Deadline)
	}
	if w.Stall > 0 {
		c[stallClock] = now + w.Stall
	}
	if w.SoftBudget > 0 && w.Detach != nil && w.Lane == perdure.Foreground {
		c[softClock] = now + w.SoftBudget
	}
	return c
}

// next returns the clock that ends first, and when. If several end together, the first in the list
// wins, so that work at its deadline is not detached.
func (c *clocks) next() (clock, time.Duration) {
	first := clock(0)
	for i, due := range c {
		if due < c[first] {
			first = clock(i)
		}
	}
	return first, c[first]
}

// shift delays all running clocks by the time for which they stood still.
func (c *clocks) shift(by time.Duration) {
	for i, due := range c {
		if due != noTime {
			c[i] = due + by
		}
	}
}

// arm sets the timer to the clock that ends first. The caller holds the run's mu.
func (d *Runner) arm(r *run) {
	_, due := r.clocks.next()
	if r.returned || due == noTime || r.paused && r.cause == "" {
		if r.timer != nil {
			r.timer.Stop()
		}
		return
	}
	wait := due - d.now()
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, func() { d.clockEnded(r) })
		return
	}
	r.timer.Reset(wait)
}

// clockEnded handles the end of a clock. It handles one clock per call, because each handler can
// take long.
func (d *Runner) clockEnded(r *run) {
	r.mu.Lock()
	which, due := r.clocks.next()
	if due > d.now() || r.returned || r.paused && r.cause == "" {
		d.arm(r) // the clock was moved or stands still
		r.mu.Unlock()
		return
	}
	r.clocks[which] = noTime
	d.arm(r)
	r.mu.Unlock()
	switch which {
	case deadlineClock:
		d.stopRun(r, perdure.CauseDeadline)
	case stallClock:
		d.stopRun(r, perdure.CauseStall)
	case softClock:
		d.softBudgetEnded(r)
	case forceClock:
		d.killOnce(r, true)
	case fenceClock:
		d.fenceRun(r)
	}
}

// Touch restarts the stall clock of work after a sign of life. Unknown ids are ignored.
func (d *Runner) Touch(id string) {
	r := d.run(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clocks[stallClock] != noTime { // the timer notices when it fires
		r.clocks[stallClock] = d.workTime(r) + r.work.Stall
	}
}

// workTime returns the time on the work's clock: now, or for paused work the time of the pause. The
// caller holds the run's mu.
func (d *Runner) workTime(r *run) time.Duration {
	if r.paused {
		return r.pausedAt
	}
	return d.now()
}

// Pause stops the clocks of work and gives up its slot, for instance while it waits for a person.
// The work can still be canceled. Pausing it again does nothing, and unknown ids are ignored.
func (d *Runner) Pause(id string) {
	d.setPaused(id, true)
}

// Resume continues the clocks with the remaining time, which moves the deadline by the length of
// the pause. The work gets a slot again, even if none is free. Without a pause Resume does nothing.
func (d *Runner) Resume(id string) {
	d.setPaused(id, false)
}

// Yield gives up the slot of work for good, while its clocks continue. It is for work that only
// waits for other work, which needs slots of its own. It returns true the first time; unknown ids
// are ignored.
func (d *Runner) Yield(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.runs[id]
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.slotGivenUp
	r.slotGivenUp = true
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
	} else if r.cause == "" { // the clocks of stopped work did not stand still
		r.clocks.shift(d.now() - r.pausedAt)
	}
	d.arm(r)
}
