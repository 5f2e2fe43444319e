package local

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/store"
)

// When the passes of the host are called.
const (
	maxTimerWait        = 5 * time.Second // because the wall clock may be set in the meantime (SC18)
	retentionPause      = time.Hour
	leaseRetentionDelay = 10 * time.Minute // keeps the first pass out of the start
)

// background runs a loop in a goroutine until ctx ends. If it fails, Run ends.
func (e *Engine) background(ctx context.Context, loop func(context.Context) error) {
	e.group.Go(func() {
		if err := loop(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.Error("store failed", "worker", e.worker.ID, "error", err)
			e.mu.Lock()
			e.fail(err)
			e.mu.Unlock()
		}
	})
}

// stopCanceled stops what canceled tasks left at this home, once.
func (e *Engine) stopCanceled(ctx context.Context) error {
	err := e.host.StopCanceled(ctx)
	if err != nil && !store.Broken(err) && ctx.Err() == nil {
		e.cfg.Log.Warn("work of canceled tasks not looked for; the next start tries again", "worker", e.worker.ID, "error", err)
		return nil
	}
	return err
}

// keepTime fires schedules until ctx ends or the store is broken.
func (e *Engine) keepTime(ctx context.Context) error {
	nap := time.NewTimer(0)
	defer nap.Stop()
	var next time.Time // wall clock; zero: nothing is planned that this engine knows of
	looked, armed := false, false
	for {
		if !e.leads() {
			looked, armed, next = true, false, time.Time{}
		}
		if e.leads() && !armed {
			if err := retryUnavailable(ctx, func() error { return e.host.Timekeeper().Rearm(ctx) }); err != nil {
				return err
			}
			looked, armed = false, true
		}
		if !looked || !next.IsZero() && !time.Now().Before(next) {
			var err error
			next, err = e.host.Timekeeper().FireDue(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case store.Broken(err), errors.Is(err, perdure.Lost):
				return err
			case err != nil:
				e.cfg.Log.Warn("schedules not checked, will retry", "worker", e.worker.ID, "error", err)
				next = time.Now().Add(time.Second)
			}
		}
		looked = true
		nap.Stop()
		var rings <-chan time.Time
		if !next.IsZero() || e.cfg.Workers.Shared {
			wait := maxTimerWait
			if !next.IsZero() {
				wait = min(max(time.Until(next), 0), maxTimerWait)
			}
			nap.Reset(wait)
			rings = nap.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.replanned:
			looked = false
			e.notify(work{Schedule: true})
		case <-rings:
			looked = !e.cfg.Workers.Shared // other workers may have created schedules
		}
	}
}

// clean cleans up expired leases of resources until ctx ends. It has a goroutine of its own, so
// that it never delays the heartbeat.
func (e *Engine) clean(ctx context.Context) error {
	stale := e.cfg.Cleanup.Claim
	if !e.cfg.Workers.Shared {
		stale = 0 // every existing claim belongs to a dead process (LG20)
	}
	tick := time.NewTicker(e.cfg.Cleanup.Interval)
	defer tick.Stop()
	forget := time.Now().Add(leaseRetentionDelay)
	for {
		if err := e.host.Cleaner().Clean(ctx, stale); err == nil {
			stale = e.cfg.Cleanup.Claim
		} else if ctx.Err() == nil {
			e.cfg.Log.Warn("expired leases not cleaned up, will retry", "worker", e.worker.ID, "error", err)
		}
		if e.cfg.Timing.Retention > 0 && time.Now().After(forget) {
			forget = time.Now().Add(retentionPause)
			e.host.Cleaner().PruneLeases(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// retain starts a retention pass if one is due: at the start, about once an hour, and when the
// keyring has a new current key. The pass runs in the background and ends with ctx. Only called in
// Run.
func (e *Engine) retain(ctx context.Context) {
	if e.pruneSoon.Swap(false) {
		e.pruneNext = time.Now().Add(host.RetainClaim)
	}
	key := e.host.Retention().CurrentKey()
	if time.Now().Before(e.pruneNext) && key == e.resealedKey || !e.pruning.CompareAndSwap(false, true) {
		return
	}
	rotated := ""
	if e.resealedKey != "" && key != e.resealedKey {
		rotated = key
	}
	e.pruneNext, e.resealedKey = time.Now().Add(retentionPause), key
	e.group.Go(func() {
		defer e.pruning.Store(false)
		if e.host.Retention().Retain(ctx, rotated) {
			e.pruneSoon.Store(true)
		}
	})
}
