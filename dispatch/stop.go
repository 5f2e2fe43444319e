package dispatch

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Cancel stops work with a cause and reports whether the work exists. Canceling again does nothing.
func (d *Runner) Cancel(id string, cause perdure.Cause) bool {
	r := d.run(id)
	return r != nil && d.stopRun(r, cause)
}

// Force stops canceled work without a grace period, and reports whether the work exists. Work that
// was not canceled is canceled by it. The context of the work ends at once, and the fence comes a
// kill wait later, if it was not to come sooner. Forcing again does nothing.
func (d *Runner) Force(id string, cause perdure.Cause) bool {
	r := d.run(id)
	if r == nil {
		return false
	}
	r.mu.Lock()
	if r.returned || r.forced {
		defer r.mu.Unlock()
		return !r.returned
	}
	r.forced = true
	fresh := d.mark(r, cause)
	if r.clocks[fenceClock] != noTime { // otherwise the fence has reported the end, or is about to
		r.clocks[fenceClock] = min(r.clocks[fenceClock], d.now()+d.cfg.KillWait)
	}
	d.arm(r)
	r.mu.Unlock()
	if fresh {
		r.cancel(cause)
	}
	go d.force(r)
	return true
}

// force calls the tool's own way to end at once; a panic in it affects nothing else.
func (d *Runner) force(r *run) {
	if r.work.Force == nil {
		if r.work.Kill != nil {
			d.killOnce(r, true)
		}
		return
	}
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("tool panicked during force", "work", r.work.ID, "panic", fmt.Sprint(p))
		}
	}()
	r.work.Force()
}

// stopRun is the first phase of stopping work; the fence is the second one. It returns false if the
// work has returned.
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

// mark records that work is being stopped: its clocks end, and the clock of the fence starts. The
// first cause stays. The caller holds the run's mu.
func (d *Runner) mark(r *run, cause perdure.Cause) (fresh bool) {
	if r.cause != "" {
		return false
	}
	r.cause, r.signalled = cause, time.Now()
	r.clocks = clocks{noTime, noTime, noTime, noTime, d.now() + d.cfg.Grace + d.cfg.KillWait}
	d.arm(r)
	return true
}

// signal tells the work to stop.
func (d *Runner) signal(r *run, cause perdure.Cause) {
	r.cancel(cause)
	if r.work.Kill != nil && cause != perdure.CauseSuperseded { // then it belongs to another worker
		go d.kill(r)
	}
}

// kill signals a tool that needs more than its context, and starts the clock until force is used.
func (d *Runner) kill(r *run) {
	d.killOnce(r, false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clocks[forceClock] = d.now() + d.cfg.KillWait
	d.arm(r)
}

// killOnce calls the tool's Kill; a panic in it affects nothing else.
func (d *Runner) killOnce(r *run, force bool) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("tool panicked during kill", "work", r.work.ID, "panic", fmt.Sprint(p))
		}
	}()
	r.work.Kill(force)
}

// fenceRun reports the end of work that did not stop. The work holds its slot until it returns.
func (d *Runner) fenceRun(r *run) {
	r.mu.Lock()
	r.awaitDetachDecision()
	if r.returned {
		r.mu.Unlock()
		return // it returned at the last moment
	}
	reported := make(chan struct{})
	r.fenceReported = reported
	end := End{Lane: r.lane, Cause: r.cause, SignalledAt: r.signalled, DidNotStop: true}
	r.mu.Unlock()
	defer close(reported)
	d.cfg.Log.Warn("work not stopped within the grace period", "work", r.work.ID, "session", r.work.Session,
		"cause", end.Cause)
	r.work.End(end)
}
