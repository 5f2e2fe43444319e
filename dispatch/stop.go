package dispatch

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Cancel asks work to stop, with a cause, and reports whether it runs. Asking again does nothing.
func (d *Runner) Cancel(id string, cause perdure.Cause) bool {
	r := d.run(id)
	return r != nil && d.stopRun(r, cause)
}

// stopRun is the first phase of a cancel; the fence is the second (RC3 to RC6). False: the work has returned.
func (d *Runner) stopRun(r *run, cause perdure.Cause) bool {
	r.mu.Lock()
	if r.returned {
		r.mu.Unlock()
		return false
	}
	fresh := d.mark(r, cause)
	r.mu.Unlock()
	if fresh {
		d.signal(r, cause)
	}
	return true
}

// mark notes that work is being stopped: its own clocks end and the fence's begins. The first cause stays. The
// run's mu is held.
func (d *Runner) mark(r *run, cause perdure.Cause) (fresh bool) {
	if r.cause != "" {
		return false
	}
	r.cause, r.signalled = cause, time.Now()
	r.clocks = clocks{never, never, never, never, d.now() + d.cfg.Grace + d.cfg.KillWait}
	d.arm(r)
	return true
}

// signal tells the work to stop.
func (d *Runner) signal(r *run, cause perdure.Cause) {
	r.cancel(cause)
	if r.work.Kill != nil {
		go d.kill(r)
	}
}

// kill signals a tool that needs more than its context, then forces it (RC4).
func (d *Runner) kill(r *run) {
	d.killOnce(r, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clocks[forceClock] = d.now() + d.cfg.KillWait
	d.arm(r)
}

// killOnce calls the tool's own Kill; a panic in it stops nothing else.
func (d *Runner) killOnce(r *run, force bool) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("a tool panicked while it was killed", "work", r.work.ID, "panic", fmt.Sprint(p))
		}
	}()
	r.work.Kill(force)
}

// fenceRun ends work that did not stop. Its place stays taken until it returns.
func (d *Runner) fenceRun(r *run) {
	r.mu.Lock()
	r.answered()
	if r.returned {
		r.mu.Unlock()
		return // in the last moment
	}
	told := make(chan struct{})
	r.told = told
	end := End{Lane: r.lane, Cause: r.cause, SignalledAt: r.signalled, DidNotStop: true}
	r.mu.Unlock()
	defer close(told)
	d.cfg.Log.Warn("work did not stop within the grace", "work", r.work.ID, "session", r.work.Session, "cause", end.Cause)
	r.work.End(end)
}
