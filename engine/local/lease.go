package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/store"
)

// lease is the worker's own lease on a shared store. Other workers see the lease in the store; this
// struct is what the worker knows by its own clock: after a full lease without a successful
// heartbeat, it stops its work by itself (TK8). Once the lease has expired, nothing renews it. The
// zero value holds no lease.
type lease struct {
	mu     sync.Mutex
	until  time.Time   // guarded by mu; on the monotonic clock
	timer  *time.Timer // guarded by mu; fires when the lease expires; nil: never held
	lapsed bool        // guarded by mu

	// stopHeartbeats stops the heartbeats and waits for that; only touched by Run; nil: there are
	// none
	stopHeartbeats func()
	// only touched by the heartbeats: the last seq of the sessions driven here
	seen map[perdure.SessionID]int64
	// only touched by the heartbeats: since when sessions wait for this home that were woken
	waiting     map[perdure.SessionID]time.Time
	leads       atomic.Bool   // this worker leads, as far as it knows
	moreOrphans chan struct{} // capacity 1: the last scan left tasks of dead workers
	// only touched by Run: the workers that were not connected at the last look
	disconnected map[perdure.WorkerID]disconnection
}

// claimPause is the time between two tries to claim a store for which other workers register.
const claimPause = 10 * time.Millisecond

// register writes the worker's row, and returns the time just before the write. If the store
// delayed the write so long that most of the lease may be over, register writes it again. Conflict:
// another scheduler works on the store (RC32).
func (e *Engine) register(ctx context.Context) (begun time.Time, err error) {
	for free := false; !free || time.Since(begun) > e.cfg.Workers.Lease/2; {
		begun = time.Now()
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			if free, err = host.ClaimStore(tx, e.schedulerName()); err != nil || !free {
				return err
			}
			if err := e.removeEarlier(tx); err != nil {
				return err
			}
			worker := e.worker
			worker.StartedAt, worker.LeaseUntil = tx.Now(), tx.Now().Add(e.cfg.Workers.Lease)
			return tx.Workers().Put(worker)
		})
		if err != nil {
			return begun, err
		}
		if free {
			continue
		}
		select {
		case <-time.After(claimPause):
		case <-ctx.Done():
			return begun, context.Cause(ctx)
		}
	}
	return begun, nil
}

// removeEarlier removes the earlier workers of this home, whose leases may not have expired. One
// process at a time has a data directory, so they are dead (RC31).
func (e *Engine) removeEarlier(tx store.Tx) error {
	if !e.cfg.Workers.Shared || e.worker.Home == "" {
		return nil
	}
	workers, err := tx.Workers().List()
	for _, w := range workers {
		if w.Home == e.worker.Home && w.ID != e.worker.ID {
			err = errors.Join(err, tx.Workers().Remove(w.ID))
		}
	}
	return err
}

// schedulerName is the name of the scheduler that gives out this engine's work.
func (e *Engine) schedulerName() string {
	if e.outside != nil {
		return e.outside.Name()
	}
	return host.LocalScheduler
}

// extend renews the lease from the time just before a successful heartbeat.
func (e *Engine) extend(begun time.Time) {
	l := &e.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lapsed {
		return
	}
	l.until = begun.Add(e.cfg.Workers.Lease)
	left := time.Until(l.until)
	if l.timer == nil {
		l.timer = time.AfterFunc(left, func() {
			e.lapse(fmt.Errorf("%w: no heartbeat succeeded for a full lease of %s", perdure.Lost, e.cfg.Workers.Lease))
		})
		return
	}
	l.timer.Reset(left)
}

// leaseHeld reports whether the lease is valid by this worker's own clock.
func (e *Engine) leaseHeld() bool {
	if !e.cfg.Workers.Shared {
		return true
	}
	if e.outside != nil { // leases fence nothing
		return !e.lapsed()
	}
	e.lease.mu.Lock()
	defer e.lease.mu.Unlock()
	return !e.lease.lapsed && time.Now().Before(e.lease.until)
}

// lapsed reports whether the lease has expired and the work was stopped for it.
func (e *Engine) lapsed() bool {
	e.lease.mu.Lock()
	defer e.lease.mu.Unlock()
	return e.lease.lapsed
}

// lapse stops all work of this worker, because other workers may take it over, and ends Run with
// why.
func (e *Engine) lapse(why error) {
	e.lease.mu.Lock()
	first := !e.lease.lapsed
	e.lease.lapsed = true
	e.lease.mu.Unlock()
	if !first {
		return
	}
	e.cfg.Log.Error("worker lost; its work continues elsewhere", "worker", e.worker.ID, "error", why)
	e.host.Supersede()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail(why)
}

// startHeartbeats sends heartbeats in a goroutine of its own, so that neither a long start nor a
// long drain costs the lease. stopHeartbeats ends it.
func (e *Engine) startHeartbeats(ctx context.Context) {
	if !e.cfg.Workers.Shared {
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	e.lease.stopHeartbeats = func() {
		stop()
		<-done
		e.lease.mu.Lock()
		defer e.lease.mu.Unlock()
		e.lease.lapsed = true // nothing new starts
		if e.lease.timer != nil {
			e.lease.timer.Stop()
		}
	}
	go func() {
		defer close(done)
		e.sendHeartbeats(ctx)
	}()
}

// stopHeartbeats ends the heartbeats, if there are any. Afterwards the lease can be given back.
func (e *Engine) stopHeartbeats() {
	if e.lease.stopHeartbeats != nil {
		e.lease.stopHeartbeats()
	}
}

// sendHeartbeats renews the lease until ctx ends or the lease is lost.
func (e *Engine) sendHeartbeats(ctx context.Context) {
	tick := time.NewTicker(e.cfg.Workers.Beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		begun := time.Now()
		waiting, stop := context.WithTimeout(ctx, e.cfg.Workers.Lease)
		err, refused := e.host.Heartbeat(waiting), false
		switch {
		case e.outside != nil && errors.Is(err, perdure.Lost): // it was late, and another worker removed its row
			_, err = e.register(waiting)
			refused = errors.Is(err, perdure.Conflict) // the store has another scheduler by now
		case err == nil && e.outside == nil:
			e.extend(begun)
			err = errors.Join(e.wakeChanged(waiting), e.wakeWaiting(waiting), e.wakeUnread(waiting))
		case err == nil:
			_, err = e.disconnectedWorkers(waiting, "") // only a worker that was seen connected can be declared dead
		}
		stop()
		switch {
		case errors.Is(err, perdure.Lost):
			e.lapse(err)
			return
		case store.Broken(err), refused:
			e.mu.Lock()
			e.fail(err)
			e.mu.Unlock()
			return
		case err != nil && ctx.Err() == nil:
			e.cfg.Log.Warn("heartbeat failed", "worker", e.worker.ID, "error", err)
		}
	}
}

// wakeChanged wakes the drivers of this worker whose sessions have new events since the last
// heartbeat. A write through another worker does not wake a driver here.
func (e *Engine) wakeChanged(ctx context.Context) error {
	driven, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Session, error) {
		return r.Sessions().List(store.SessionFilter{HasDriver: true})
	})
	if err != nil {
		return fmt.Errorf("list the sessions driven here: %w", err)
	}
	seen := map[perdure.SessionID]int64{}
	for _, s := range driven {
		if s.Worker != e.worker.ID {
			continue
		}
		seen[s.ID] = s.LastSeq
		if last, known := e.lease.seen[s.ID]; !known || last != s.LastSeq {
			scheduler{e}.Wake(s.ID)
		}
	}
	e.lease.seen = seen
	return nil
}

// wakeWaiting wakes the drivers of sessions that wait for this home since the last heartbeat:
// another worker received something for them (RC26).
func (e *Engine) wakeWaiting(ctx context.Context) error {
	if e.worker.Home == "" {
		return nil
	}
	waiting, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Session, error) {
		return r.Sessions().List(store.SessionFilter{Waiting: true, Home: e.worker.Home})
	})
	if err != nil {
		return fmt.Errorf("list the sessions that wait for this home: %w", err)
	}
	since := map[perdure.SessionID]time.Time{}
	for _, s := range waiting {
		since[s.ID] = s.WaitsSince
		if !e.lease.waiting[s.ID].Equal(s.WaitsSince) {
			scheduler{e}.Wake(s.ID)
		}
	}
	e.lease.waiting = since
	return nil
}

// wakeUnread has the leader wake the drivers of sessions that other workers wrote to, if no
// notification of it arrived.
func (e *Engine) wakeUnread(ctx context.Context) error {
	if !e.leads() {
		return nil
	}
	unread, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Session, error) {
		return r.Sessions().List(store.SessionFilter{Unread: true})
	})
	if err != nil {
		return fmt.Errorf("list the sessions with unread events: %w", err)
	}
	for _, s := range unread {
		if !e.host.WaitsElsewhere(s) {
			scheduler{e}.Wake(s.ID)
		}
	}
	return nil
}

// scanOrphans takes over the work of dead workers, if this worker leads (RC12).
func (e *Engine) scanOrphans(ctx context.Context) error {
	e.host.UpdateParents(ctx)
	leads, err := e.elected(ctx)
	if err == nil && !leads {
		return e.scanHome(ctx)
	}
	if err != nil {
		return err
	}
	if err := e.takeOver(ctx); err != nil {
		return err
	}
	if err := e.host.ResumeBulks(ctx); err != nil {
		return err
	}
	left, err := e.orphans(ctx)
	for _, id := range left {
		scheduler{e}.Wake(id)
	}
	return err
}

// scanHome takes over what earlier workers of the same home left, whichever worker leads:
// no other worker may judge the remains of this home (RC23).
func (e *Engine) scanHome(ctx context.Context) error {
	if e.worker.Home == "" {
		return nil
	}
	if _, err := e.host.TakeOverHome(ctx); err != nil {
		return err
	}
	left, err := store.Read(ctx, e.cfg.Store, e.leftAtHome)
	for _, id := range left {
		scheduler{e}.Wake(id)
	}
	return err
}

// leftAtHome lists the sessions of dead drivers whose files, or calls with remains, are at this
// home.
func (e *Engine) leftAtHome(r store.Reader) (ids []perdure.SessionID, err error) {
	driven, err := r.Sessions().List(store.SessionFilter{HasDriver: true})
	for _, s := range driven {
		if s.Worker == e.worker.ID || e.host.WorkerAlive(r, s.Worker) {
			continue
		}
		if s.Home == e.worker.Home {
			ids = append(ids, s.ID)
			continue
		}
		calls, err := r.Calls().List(store.CallFilter{Session: s.ID, State: perdure.CallRunning})
		if err != nil {
			return ids, err
		}
		if slices.ContainsFunc(calls, func(c perdure.Call) bool { return c.Home == e.worker.Home }) {
			ids = append(ids, s.ID)
		}
	}
	return ids, err
}

// continueTakeOver continues an orphan scan that stopped at its batch size, if this worker still
// leads.
func (e *Engine) continueTakeOver(ctx context.Context) error {
	mine, err := e.elected(ctx)
	if err != nil || !mine {
		return err
	}
	return e.takeOver(ctx)
}

// takeOver takes over tasks of dead workers, at most one batch. If more remain, it signals
// lease.more: Run then continues as soon as other due work has had its turn.
func (e *Engine) takeOver(ctx context.Context) error {
	if err := e.noteDead(ctx); err != nil {
		return err
	}
	taken, err := e.host.TakeOver(ctx)
	if e.cfg.Workers.Shared && taken >= host.TakeOverBatch {
		select {
		case e.lease.moreOrphans <- struct{}{}:
		default:
		}
	}
	return err
}

// noteDead finds the dead workers before anything of theirs is taken over and their rows are
// removed, so that a recovery is known as that of a crash from its beginning.
func (e *Engine) noteDead(ctx context.Context) error {
	err := e.cfg.Store.View(ctx, func(r store.Reader) error {
		workers, err := r.Workers().List()
		if err == nil {
			e.host.NoteDead(r.Now(), workers)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("find dead workers: %w", err)
	}
	return nil
}

// orphans lists the sessions that dead workers left, and those with events that nobody has read. It
// also removes the rows of dead workers: a worker without a row counts as dead, like one with an
// expired lease.
func (e *Engine) orphans(ctx context.Context) (ids []perdure.SessionID, err error) {
	var dead []perdure.WorkerID
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		ids, dead = nil, nil
		workers, err := r.Workers().List()
		if err != nil {
			return err
		}
		live := map[perdure.WorkerID]bool{e.worker.ID: true}
		for _, w := range workers {
			if live[w.ID] = w.ID == e.worker.ID || w.LeaseUntil.After(r.Now()); !live[w.ID] {
				dead = append(dead, w.ID)
			}
		}
		driven, err := r.Sessions().List(store.SessionFilter{HasDriver: true})
		if err != nil {
			return err
		}
		unread, err := r.Sessions().List(store.SessionFilter{Unread: true})
		sessions := slices.Concat(driven, unread)
		for _, s := range sessions {
			if (s.Worker == "" || !live[s.Worker]) && !e.host.WaitsElsewhere(s) {
				ids = append(ids, s.ID)
			}
		}
		e.host.NoteOrphans(r.Now(), workers, sessions)
		return err
	})
	if err == nil && len(dead) > 0 {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			for _, id := range dead { // Workers.MarkDead checks again: a heartbeat may have been under way
				if err := tx.Workers().MarkDead(id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return ids, fmt.Errorf("scan for orphans: %w", err)
	}
	return ids, nil
}
