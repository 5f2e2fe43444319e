package dispatch

import (
	"fmt"
	"runtime/debug"

	"github.com/perdure/perdure"
)

// Detach asks work now whether it leaves the foreground, whatever its budget, and reports whether it runs in the
// background: also when it did already, and when it returned while it was asked. False: there is no such work, it is
// being stopped, or its Detach said no; then nothing is tried again before its budget ends. It returns when the question is answered.
func (d *Runner) Detach(id string) bool {
	r := d.run(id)
	if r == nil {
		return false
	}
	answer := make(chan bool, 1) // the goroutine is not held up by who waits
	go func() { answer <- d.ask(r) }()
	return <-answer
}

// leave is the end of the soft budget. Work that stays is asked again (LN7).
func (d *Runner) leave(r *run) {
	if d.ask(r) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lane == perdure.Foreground && !r.returned && r.cause == "" {
		r.clocks[softClock] = d.moment(r) + retryDetach
		d.arm(r)
	}
}

// ask decides whether work leaves the foreground and reports whether it is in the background. That it has returned
// or was stopped, and that it is being asked, is one decision under the run's mu (LN3).
func (d *Runner) ask(r *run) bool {
	r.mu.Lock()
	if r.asking != nil {
		r.answered()
		defer r.mu.Unlock()
		return r.lane == perdure.Background
	}
	if r.lane != perdure.Foreground || r.returned || r.cause != "" || r.work.Detach == nil || d.root.Err() != nil {
		defer r.mu.Unlock()
		return r.lane == perdure.Background
	}
	r.asking = make(chan struct{})
	r.mu.Unlock()

	left := d.askOnce(r)

	d.mu.Lock()
	r.mu.Lock()
	if left {
		r.lane = perdure.Background
		r.clocks[softClock] = never
		d.arm(r)
	}
	interrupt := r.interrupt && !left && !r.returned && d.mark(r, perdure.CauseInterrupt)
	r.interrupt = false
	close(r.asking)
	r.asking = nil
	r.mu.Unlock()
	d.mu.Unlock()
	if interrupt {
		d.signal(r, perdure.CauseInterrupt)
	}
	return left
}

// askOnce calls the work's own Detach. A panic is a no.
func (d *Runner) askOnce(r *run) (left bool) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("a detach panicked", "work", r.work.ID, "session", r.work.Session, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			left = false
		}
	}()
	return r.work.Detach()
}

// Interrupt cancels the foreground work of a turn and says how much that was. Background work of the same
// turn is untouched (RC8). Work that is being asked whether it detaches is counted, and is cancelled when the
// answer is no: Interrupt does not wait for it, so that Detach may wait for whoever interrupts.
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

// InterruptWork is Interrupt for one piece of work. False: it is not there, or has left the foreground.
func (d *Runner) InterruptWork(id string) bool {
	r := d.run(id)
	return r != nil && d.interruptRun(r)
}

// interruptRun stops work if it is in the foreground, which is decided together with whether it leaves it.
func (d *Runner) interruptRun(r *run) bool {
	r.mu.Lock()
	if r.lane != perdure.Foreground || r.returned {
		r.mu.Unlock()
		return false
	}
	if r.asking != nil {
		r.interrupt = true
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
