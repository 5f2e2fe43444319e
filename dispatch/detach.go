package dispatch

import (
	"fmt"
	"runtime/debug"

	"github.com/perdure/perdure"
)

// Detach calls the Detach function of work now, before its budget is used up, and reports whether
// the work is in the background. That is also true if it already was, or if it returned during the
// call. It returns false if there is no such work, if it is being stopped, or if its Detach
// returned false; then the next attempt comes when the budget is used up.
func (d *Runner) Detach(id string) bool {
	r := d.run(id)
	if r == nil {
		return false
	}
	answer := make(chan bool, 1) // the goroutine does not wait for a reader
	go func() { answer <- d.tryDetach(r) }()
	return <-answer
}

// softBudgetEnded handles the end of the soft budget. Work that could not detach tries again later.
func (d *Runner) softBudgetEnded(r *run) {
	if d.tryDetach(r) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lane == perdure.Foreground && !r.returned && r.cause == "" {
		r.clocks[softClock] = d.workTime(r) + retryDetach
		d.arm(r)
	}
}

// tryDetach decides whether work detaches, and reports whether it is in the background.
//
// Four things can happen to foreground work at the same time: it returns, it is stopped, it is
// interrupted, or it detaches. All of them check and change the run under its mu, so exactly one
// wins. Detach itself is called without mu, because it may take long. While it is being called,
// detachDecided is set: runWork waits for the answer before it reports the end, a second request
// waits for the answer of the first, and an interrupt is only noted and applied afterwards if the
// answer was no.
func (d *Runner) tryDetach(r *run) bool {
	r.mu.Lock()
	if r.detachDecided != nil {
		r.awaitDetachDecision()
		defer r.mu.Unlock()
		return r.lane == perdure.Background
	}
	if r.lane != perdure.Foreground || r.returned || r.cause != "" || r.work.Detach == nil || d.root.Err() != nil {
		defer r.mu.Unlock()
		return r.lane == perdure.Background
	}
	r.detachDecided = make(chan struct{})
	r.mu.Unlock()

	left := d.callDetach(r)

	d.mu.Lock()
	r.mu.Lock()
	if left {
		r.lane = perdure.Background
		r.clocks[softClock] = noTime
		d.arm(r)
	}
	interrupt := r.interruptPending && !left && !r.returned && d.mark(r, perdure.CauseInterrupt)
	r.interruptPending = false
	close(r.detachDecided)
	r.detachDecided = nil
	r.mu.Unlock()
	d.mu.Unlock()
	if interrupt {
		d.signal(r, perdure.CauseInterrupt)
	}
	return left
}

// callDetach calls the work's Detach. A panic counts as false.
func (d *Runner) callDetach(r *run) (left bool) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("detach panicked", "work", r.work.ID, "session", r.work.Session, "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			left = false
		}
	}()
	return r.work.Detach()
}

// Interrupt cancels the foreground work of a turn and returns how much that was. Background work of
// the turn continues. Work whose Detach is being called counts, and is canceled if the answer is
// no. Interrupt does not wait for that answer, so Detach may itself wait for the caller of
// Interrupt.
func (d *Runner) Interrupt(turn perdure.TurnID) int {
	d.mu.Lock()
	var found []*run
	for _, r := range d.runs {
		if r.work.Turn == turn && r.lane == perdure.Foreground {
			found = append(found, r)
		}
	}
	d.mu.Unlock()
	hit := 0
	for _, r := range found {
		if d.interruptRun(r) {
			hit++
		}
	}
	return hit
}

// InterruptWork is Interrupt for one piece of work. It returns false if the work does not exist or
// has left the foreground.
func (d *Runner) InterruptWork(id string) bool {
	r := d.run(id)
	return r != nil && d.interruptRun(r)
}

// interruptRun stops foreground work. The check of the lane and the stop are one step under the
// run's mu.
func (d *Runner) interruptRun(r *run) bool {
	r.mu.Lock()
	if r.lane != perdure.Foreground || r.returned {
		r.mu.Unlock()
		return false
	}
	if r.detachDecided != nil {
		r.interruptPending = true
		r.mu.Unlock()
		return true
	}
	fresh := d.mark(r, perdure.CauseInterrupt)
	r.mu.Unlock()
	if fresh {
		d.signal(r, perdure.CauseInterrupt)
	}
	return true
}
