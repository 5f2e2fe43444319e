package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/store"
)

// defaultOrphanScan is how often a worker looks for what dead ones left (RC12).
const defaultOrphanScan = 5 * time.Second

// fullScan is how many looks for orphans lie between two that also ask for what was written to a session at rest by a
// process that went before anybody was woken.
const fullScan = 12

// firstScans are for how many looks after the start of a worker, whoever looks, that is asked for, too: a worker before it in
// its process may still have answered requests, and woken nobody.
const firstScans = 7

// The worker that looks for orphans has the role scanner: one at a time does (RC12). Its last look stands in a file of no
// session, so that nobody is shown it: the worker's id, under the moment of the look by the store's clock.
const (
	scanner                    = "scanner"
	scans    perdure.SessionID = "orphan_scans"
	lastScan                   = "/last"
)

// lease is the worker's own, where the store is shared. What others see of it stands in the store; this is what the worker
// knows by its own clock: no successful beat for a whole lease, and its work stops by itself (TK8). Once it has passed,
// nothing brings it back. The zero value holds nothing.
type lease struct {
	mu     sync.Mutex
	until  time.Time   // guarded by mu; on the monotonic clock
	bell   *time.Timer // guarded by mu; rings when it has passed; nil: never held
	lapsed bool        // guarded by mu

	letGo func()                      // ends the beats and waits for that; only touched by Run; nil: there are none
	seen  map[perdure.SessionID]int64 // only touched by the beats: the last seq of the sessions that are driven here
	scans int                         // only touched by Run: looks for orphans
	more  chan struct{}               // capacity 1: the last look left tasks of dead workers
}

// register writes the worker's row, and returns the moment before it was written. Where the store kept it waiting, most of the
// lease may be over by then, so it is written again.
func (e *Engine) register(ctx context.Context) (begun time.Time, err error) {
	for begun.IsZero() || time.Since(begun) > e.cfg.Lease/2 {
		begun = time.Now()
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			worker := e.worker
			worker.StartedAt, worker.LeaseUntil = tx.Now(), tx.Now().Add(e.cfg.Lease)
			return tx.PutWorker(worker)
		})
		if err != nil {
			return begun, err
		}
	}
	return begun, nil
}

// extend lets the lease hold from the moment before the beat that was answered.
func (e *Engine) extend(begun time.Time) {
	l := &e.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lapsed {
		return
	}
	l.until = begun.Add(e.cfg.Lease)
	left := time.Until(l.until)
	if l.bell == nil {
		l.bell = time.AfterFunc(left, func() {
			e.lapse(fmt.Errorf("%w: no beat succeeded for a whole lease of %s", perdure.Lost, e.cfg.Lease))
		})
		return
	}
	l.bell.Reset(left)
}

// holds reports whether the lease holds by this worker's own clock.
func (e *Engine) holds() bool {
	if !e.cfg.Shared {
		return true
	}
	e.lease.mu.Lock()
	defer e.lease.mu.Unlock()
	return !e.lease.lapsed && time.Now().Before(e.lease.until)
}

// lapsed reports whether the lease has passed and the work was stopped for it.
func (e *Engine) lapsed() bool {
	e.lease.mu.Lock()
	defer e.lease.mu.Unlock()
	return e.lease.lapsed
}

// lapse stops all work of this worker, for others may take it up, and ends Run with why.
func (e *Engine) lapse(why error) {
	e.lease.mu.Lock()
	first := !e.lease.lapsed
	e.lease.lapsed = true
	e.lease.mu.Unlock()
	if !first {
		return
	}
	e.cfg.Log.Error("this worker is lost: its work goes on elsewhere", "worker", e.worker.ID, "error", why)
	e.effects.Abandon()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail(why)
}

// keepLease beats in a goroutine of its own, so that neither a long start nor a long drain costs the lease. stopBeats
// ends it.
func (e *Engine) keepLease(ctx context.Context) {
	if !e.cfg.Shared {
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	e.lease.letGo = func() {
		stop()
		<-done
		e.lease.mu.Lock()
		defer e.lease.mu.Unlock()
		e.lease.lapsed = true // nothing begins any more
		e.lease.bell.Stop()
	}
	go func() {
		defer close(done)
		e.beats(ctx)
	}()
}

// stopBeats ends the beats, if there are any. The lease is handed back after it.
func (e *Engine) stopBeats() {
	if e.lease.letGo != nil {
		e.lease.letGo()
	}
}

// beats renews the lease until ctx ends or it is lost.
func (e *Engine) beats(ctx context.Context) {
	tick := time.NewTicker(e.cfg.Beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		begun := time.Now()
		waiting, stop := context.WithTimeout(ctx, e.cfg.Lease)
		err := e.beat(waiting)
		if err == nil {
			e.extend(begun)
			err = e.wakeGrown(waiting)
		}
		stop()
		switch {
		case errors.Is(err, perdure.Lost):
			e.lapse(err)
			return
		case store.Broken(err):
			e.mu.Lock()
			e.fail(err)
			e.mu.Unlock()
			return
		case err != nil && ctx.Err() == nil:
			e.cfg.Log.Warn("a beat failed", "worker", e.worker.ID, "error", err)
		}
	}
}

// wakeGrown wakes the drivers of this worker in whose sessions somebody wrote since the last beat: what came through
// another worker woke nobody here.
func (e *Engine) wakeGrown(ctx context.Context) error {
	var driven []store.Session
	err := e.view(ctx, func(r store.Reader) (err error) {
		driven, err = r.Sessions(store.SessionFilter{Unrested: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("look at what is driven here: %w", err)
	}
	seen := map[perdure.SessionID]int64{}
	for _, s := range driven {
		if s.Worker != e.worker.ID {
			continue
		}
		seen[s.ID] = s.LastSeq
		if last, known := e.lease.seen[s.ID]; !known || last != s.LastSeq {
			e.wake(s.ID)
		}
	}
	e.lease.seen = seen
	return nil
}

// scanOrphans takes up what dead workers left, if it is this worker that looks for it (RC12).
func (e *Engine) scanOrphans(ctx context.Context) error {
	e.effects.TellOwn(ctx)
	mine, err := e.elected(ctx)
	if err != nil || !mine {
		return err
	}
	e.lease.scans++
	if err := e.takeOver(ctx); err != nil {
		return err
	}
	left, err := e.orphans(ctx, e.lease.scans%fullScan == 1)
	for _, id := range left {
		e.wake(id)
	}
	return err
}

// takeMore goes on where a look for orphans stopped, as long as this worker is the one that looks.
func (e *Engine) takeMore(ctx context.Context) error {
	mine, err := e.elected(ctx)
	if err != nil || !mine {
		return err
	}
	return e.takeOver(ctx)
}

// takeOver takes over tasks of dead workers. Where they are more than one pass takes, the next one comes at once, when what
// else is due has had its turn.
func (e *Engine) takeOver(ctx context.Context) error {
	taken, err := e.effects.TakeOverTasks(ctx)
	if e.cfg.Shared && taken >= effect.TakeOverBatch {
		select {
		case e.lease.more <- struct{}{}:
		default:
		}
	}
	return err
}

// elected reports whether it is this worker that looks for orphans now, and notes that it does. Who did last goes on, as long as
// it lives and does; no safety hangs on it, since of two that look, one gets what both find (RC14). A lock elects among those who
// would take the role at once. It lasts no longer than the note takes: a process that is paused with it loses it with its
// transaction.
func (e *Engine) elected(ctx context.Context) (mine bool, err error) {
	var last store.File
	err = e.view(ctx, func(r store.Reader) error {
		if last, err = lastScanIn(r); err == nil {
			mine, err = e.mayScan(r, last)
		}
		return err
	})
	if err == nil && mine {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			if mine, err = tx.Elect(scanner); err != nil || !mine {
				return err
			}
			now, err := lastScanIn(tx)
			if mine = string(now.Content) == string(last.Content) && now.UpdatedAt.Equal(last.UpdatedAt); err != nil || !mine {
				return err
			}
			if err := e.effects.LeaseHolds(tx); err != nil {
				return err
			}
			_, err = tx.PutFile(scans, store.File{Path: lastScan, Content: []byte(e.worker.ID), Encoding: store.EncodingText})
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("ask who looks for orphans: %w", err)
	}
	return mine, nil
}

// lastScanIn returns the note of the last look for orphans. Without one nobody has looked.
func lastScanIn(r store.Reader) (store.File, error) {
	last, err := r.File(scans, lastScan)
	if errors.Is(err, perdure.NotFound) {
		return store.File{}, nil
	}
	return last, err
}

// mayScan reports whether this worker may look for orphans: it did so last, or who did is dead, or late by half a pass. A look
// in the future says that the clock was set back, and nothing about its worker.
func (e *Engine) mayScan(r store.Reader, last store.File) (bool, error) {
	id, since := perdure.WorkerID(last.Content), r.Now().Sub(last.UpdatedAt)
	if id == e.worker.ID || since < 0 || since >= e.cfg.OrphanScan*3/2 {
		return true, nil
	}
	w, err := r.Worker(id)
	if errors.Is(err, perdure.NotFound) {
		return true, nil
	}
	return err == nil && !w.LeaseUntil.After(r.Now()), err
}

// orphans lists the sessions that dead workers left; with all, or when a worker has died or has begun, also those whose journal
// has something that nobody looked at. The rows of dead workers go: one without a row is as dead as one whose lease has passed.
func (e *Engine) orphans(ctx context.Context, all bool) (ids []perdure.SessionID, err error) {
	var dead []perdure.WorkerID
	err = e.view(ctx, func(r store.Reader) error {
		ids, dead = nil, nil
		workers, err := r.Workers()
		if err != nil {
			return err
		}
		live := map[perdure.WorkerID]bool{e.worker.ID: true}
		for _, w := range workers {
			if live[w.ID] = w.ID == e.worker.ID || w.LeaseUntil.After(r.Now()); !live[w.ID] {
				dead = append(dead, w.ID)
			}
			all = all || r.Now().Sub(w.StartedAt) < firstScans*e.cfg.OrphanScan
		}
		sessions, err := r.Sessions(store.SessionFilter{Unrested: !all && len(dead) == 0})
		for _, s := range sessions {
			if s.Worker != "" && !live[s.Worker] || s.Worker == "" && s.Unread() {
				ids = append(ids, s.ID)
			}
		}
		return errors.Join(err, e.noteLeft(r, sessions))
	})
	if err == nil && len(dead) > 0 {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			for _, id := range dead { // it is asked again: a beat may have been under way
				if err := tx.BuryWorker(id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return ids, fmt.Errorf("look for orphans: %w", err)
	}
	return ids, nil
}
