package local

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/store"
)

// scheduler is what the host tells and asks its engine.
type scheduler struct{ *Engine }

var _ host.Scheduler = scheduler{}

// Wake wakes the driver of a session, or starts one. Before Run the session is remembered.
func (e scheduler) Wake(id perdure.SessionID) {
	if e.outside != nil {
		e.outside.Wake(id)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		e.woken[id] = struct{}{}
		return
	}
	if d := e.drivers[id]; d != nil {
		d.Wake()
		return
	}
	d, ctx := e.host.NewDriver(id), e.ctx
	e.drivers[id] = d
	e.group.Go(func() { e.drive(ctx, id, d) })
}

func (e scheduler) Forget(id perdure.SessionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.woken, id)
}

func (e scheduler) StartQueued() {
	select {
	case e.slotsFreed <- struct{}{}:
	default:
	}
	if e.outside != nil {
		e.outside.StartQueued()
	}
}

func (e scheduler) Replan() {
	select {
	case e.replanned <- struct{}{}:
	default:
	}
}

func (e scheduler) Go(work func(context.Context)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		return false
	}
	ctx := e.ctx
	e.group.Go(func() { work(ctx) })
	return true
}

// Running reports whether Run is running and not shutting down.
func (e scheduler) Running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

func (e scheduler) Stopping() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ctx != nil && e.ctx.Err() != nil
}

// LeaseHeld reports whether the lease is valid by this worker's own clock.
func (e scheduler) LeaseHeld() bool { return e.leaseHeld() }

// Granted reports whether a scheduler outside of this process gives out the work.
func (e scheduler) Granted() bool { return e.outside != nil }

// Leads reports whether this worker works on what is bound to no other home.
func (e scheduler) Leads() bool { return e.leads() || e.cfg.Workers.Transient }

// drive runs a driver until its session is idle, and again if it was woken in the meantime.
func (e *Engine) drive(ctx context.Context, id perdure.SessionID, d *host.Driver) {
	for attempt := 1; ; attempt++ {
		err := d.Run(ctx)
		if err == nil {
			attempt = 0
		}
		if e.finish(ctx, id, d, err) {
			return
		}
		if err != nil {
			e.cfg.Log.Warn("session resumed after error", "session", id, "error", err)
			pause(ctx, perdure.RetryDelay(min(attempt, 5), 0, string(id))/10)
		}
	}
}

// finish decides whether a driver ends. It decides and removes the driver under e.mu, so that no
// wake is lost in between.
func (e *Engine) finish(ctx context.Context, id perdure.SessionID, d *host.Driver, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	again := d.WokenAgain()
	switch {
	case store.Broken(err):
		e.cfg.Log.Error("store failed", "session", id, "error", err)
		e.fail(err)
	case notHere(err) && again && ctx.Err() == nil:
		// The other worker may have released the session before it saw the event that woke this
		// driver.
		return false
	case ctx.Err() != nil, errors.Is(err, perdure.Lost), errors.Is(err, perdure.NotFound), host.Permanent(err):
	case err != nil, again:
		return false
	}
	if err != nil && ctx.Err() == nil && !notHere(err) {
		e.cfg.Log.Error("session released after error", "session", id, "error", err)
	}
	if notHere(err) {
		e.notify(work{Session: id})
	}
	if err != nil {
		// Not after a normal end: a call of an idle session that waits for a person continues in
		// this process, and needs its secret arguments.
		e.host.Release(id)
	}
	delete(e.drivers, id)
	return true
}

// notHere reports whether another worker drives the session, or will when it comes back.
func notHere(err error) bool {
	return errors.Is(err, host.OwnedElsewhere) || errors.Is(err, host.AtAnotherHome)
}

func pause(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
