// Package local is the engine that runs in this process, over a store. It is the embedded default.
//
// It may import the ports and engine/host. The one thing to know: a start after kill -9 is an
// ordinary start. [Open] only prepares; [Engine.Run] reads the journals, takes over unfinished work
// and continues it. On an exclusive store, the lock on the data directory proves that the previous
// process is dead; on a shared store, leases do.
//
// The package decides when work is done, and in which process: it starts the drivers of sessions
// (drivers.go), runs the worker's loop (in this file), renews the lease that fences the worker on a
// shared store (lease.go), where one worker leads and the others stand by (lead.go), and calls the
// passes of schedules, cleanup and retention (passes.go). An engine that works under the grants of
// a scheduler outside of the process leaves these decisions to it (granted.go). The work itself,
// and everything that callers may ask, is in engine/host.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/host"
	"github.com/perdure/perdure/store"
)

// operations are those of every engine.
type operations interface{ engine.Engine }

// Engine runs sessions in this process. It is safe for concurrent use. Requests (a session, a
// message, a cancel) are durable whether or not Run is running, but work is done only while it is.
type Engine struct {
	operations // of callers
	host       *host.Host
	cfg        Config // with defaults
	worker     store.Worker
	lease      lease            // only used on a shared store
	outside    OutsideScheduler // gives out all work; nil: this engine takes it
	slotsFreed chan struct{}    // capacity 1: slots may be free
	replanned  chan struct{}    // capacity 1: a schedule was created or changed
	started    chan struct{}    // closed when Run has registered the worker
	stopped    chan struct{}    // closed when Run stops

	pruneNext   time.Time   // only touched in Run: the next retention pass
	pruning     atomic.Bool // a retention pass is running
	resealedKey string      // only touched in Run: the key of the last re-encryption pass, or of the start
	pruneSoon   atomic.Bool // the last retention pass left work to another cleaner, which may have crashed

	mu       sync.Mutex                         // not held while waiting for the store, because transactions lock it
	starting bool                               // guarded by mu; Run is registering the worker
	running  bool                               // guarded by mu
	ended    bool                               // guarded by mu; an engine runs once
	ctx      context.Context                    // guarded by mu; for the drivers, while Run is running
	drivers  map[perdure.SessionID]*host.Driver // guarded by mu
	woken    map[perdure.SessionID]struct{}     // guarded by mu; woken before Run
	group    sync.WaitGroup                     // drivers and background passes
	fail     context.CancelCauseFunc            // guarded by mu; ends Run
}

var _ engine.Engine = (*Engine)(nil)

// Open checks the configuration and prepares an engine. It starts nothing. Invalid: the
// configuration is not valid, or the registry refused a tool; the error says why.
func Open(ctx context.Context, cfg Config) (*Engine, error) { return open(ctx, cfg, nil) }

func open(ctx context.Context, cfg Config, outside OutsideScheduler) (*Engine, error) {
	e := &Engine{
		outside:    outside,
		worker:     store.Worker{ID: host.NewWorkerID(), Host: hostname(), BootID: bootID(), PID: os.Getpid(), Home: cfg.Storage.Home},
		slotsFreed: make(chan struct{}, 1), replanned: make(chan struct{}, 1),
		started: make(chan struct{}), stopped: make(chan struct{}),
		drivers: map[perdure.SessionID]*host.Driver{}, woken: map[perdure.SessionID]struct{}{},
		lease: lease{moreOrphans: make(chan struct{}, 1)},
	}
	var err error
	if e.host, err = host.New(ctx, cfg, e.worker.ID, scheduler{e}); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	e.operations, e.cfg = e.host, e.host.Config()
	return e, nil
}

// Run does the work of the engine until ctx ends: it takes over all unfinished work, then drives
// sessions and runs tasks. When ctx ends, running work may settle for the drain time. Work that has
// not returned by then stays claimed for the next start (RC11). Every goroutine of the engine has
// ended when Run returns.
//
// Run returns nil after ctx has ended. Storage: the store can no longer guarantee durability. Lost:
// the worker's row is gone or its lease has expired, so other workers take over its work. Conflict:
// Run is already running. Unavailable: Run has ended before; open another engine.
func (e *Engine) Run(ctx context.Context) error {
	work, fail, err := e.registerAndStart(ctx)
	if err != nil {
		return runError(ctx, err)
	}
	defer fail(nil)
	defer e.host.ExportGauges()()
	defer func() { e.shutDown(ctx, store.Broken(err) || store.Broken(context.Cause(ctx))) }()
	e.startHeartbeats(ctx)
	e.resealedKey = e.host.Retention().CurrentKey() // a rotation from now on is one of this run
	e.background(work, e.clean)
	if e.outside == nil {
		err = e.recover(work)
	}
	if err == nil {
		if e.outside == nil {
			e.background(work, e.keepTime)
			if e.cfg.Workers.Shared {
				e.background(work, e.hearOthers)
			}
		}
		e.background(work, e.host.SendWebhooks)
		e.background(work, e.stopCanceled)
		err = e.loop(work)
	}
	// The cause explains why work ended; err may only be a consequence of it.
	if cause := context.Cause(work); store.Broken(cause) || errors.Is(cause, perdure.Lost) || errors.Is(cause, perdure.Conflict) {
		err = cause
	}
	return runError(ctx, err)
}

// runError returns the error of Run, or nil if the error only results from the end of ctx.
func runError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && !store.Broken(err) {
		return nil
	}
	return fmt.Errorf("run: %w", err)
}

// registerAndStart registers the worker, before it claims anything (LG19), and marks the engine as
// running.
func (e *Engine) registerAndStart(ctx context.Context) (context.Context, context.CancelCauseFunc, error) {
	if err := e.admitRun(); err != nil {
		return nil, nil, err
	}
	begun, err := e.register(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.starting = false
	if err != nil {
		return nil, nil, fmt.Errorf("register worker: %w", err)
	}
	work, fail := context.WithCancelCause(ctx)
	e.running, e.ctx, e.fail = true, work, fail
	close(e.started)
	if e.cfg.Workers.Shared && e.outside == nil {
		e.extend(begun)
	}
	return work, fail, nil
}

// admitRun admits a single Run.
func (e *Engine) admitRun() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running || e.starting {
		return fmt.Errorf("%w: it is already running", perdure.Conflict)
	}
	if e.ended {
		return fmt.Errorf("%w: it has run and stopped; open another engine", perdure.Unavailable)
	}
	e.starting = true
	return nil
}

// recover takes over the work of earlier workers (RC12): first tasks, then sessions that had a
// driver or have unread events. A worker that does not lead takes over what they left at its home.
func (e *Engine) recover(ctx context.Context) error {
	if e.cfg.Workers.Shared {
		leads := false
		err := retryUnavailable(ctx, func() (err error) {
			if leads, err = e.elected(ctx); err == nil && !leads {
				err = e.scanHome(ctx)
			}
			return err
		})
		if err == nil && !leads {
			e.cfg.Log.Info("this worker stands by; another one leads", "worker", e.worker.ID)
			e.wakeWoken()
		}
		if err != nil || !leads {
			return err
		}
	}
	if err := e.catchUp(ctx); err != nil {
		return err
	}
	var unfinished []perdure.SessionID
	err := retryUnavailable(ctx, func() (err error) {
		unfinished, err = e.unfinished(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range unfinished {
		scheduler{e}.Wake(id)
	}
	e.wakeWoken()
	return nil
}

// wakeWoken wakes the drivers of sessions that were woken before Run.
func (e *Engine) wakeWoken() {
	e.mu.Lock()
	woken := e.woken
	e.woken = map[perdure.SessionID]struct{}{}
	e.mu.Unlock()
	for id := range woken {
		scheduler{e}.Wake(id)
	}
}

// catchUp takes over tasks of earlier workers and starts queued ones. A task that cannot be taken
// over now is logged and retried at the next heartbeat; it does not block others.
func (e *Engine) catchUp(ctx context.Context) error {
	return retryUnavailable(ctx, func() error {
		err := e.takeOver(ctx)
		if err == nil {
			err = e.host.ResumeBulks(ctx)
		}
		if err == nil {
			_, err = e.host.StartQueued(ctx)
		}
		return err
	})
}

// retryUnavailable retries do while the store is unavailable, until ctx ends.
func retryUnavailable(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil || !errors.Is(err, perdure.Unavailable) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(perdure.RetryDelay(min(attempt, 5), 0, "start") / 20):
		case <-ctx.Done():
			return err
		}
	}
}

// unfinished lists the sessions that had a driver or have events that no driver has read. It also
// removes the rows of earlier workers.
func (e *Engine) unfinished(ctx context.Context) ([]perdure.SessionID, error) {
	if e.cfg.Workers.Shared {
		return e.orphans(ctx)
	}
	ids := []perdure.SessionID{}
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		ids = ids[:0]
		sessions, err := tx.Sessions().List(store.SessionFilter{})
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if s.Worker != "" || s.Unread() {
				ids = append(ids, s.ID)
			}
		}
		workers, err := tx.Workers().List()
		if err != nil {
			return err
		}
		e.host.NoteOrphans(tx.Now(), workers, sessions)
		return e.removeDeadWorkers(tx, workers)
	})
	if err != nil {
		return nil, fmt.Errorf("find unfinished sessions: %w", err)
	}
	return ids, nil
}

// removeDeadWorkers removes the rows of earlier processes. The lock on the data directory proves
// that they are dead (LG20).
func (e *Engine) removeDeadWorkers(tx store.Tx, workers []store.Worker) error {
	for _, w := range workers {
		if w.ID == e.worker.ID {
			continue
		}
		if err := tx.Workers().Remove(w.ID); err != nil {
			return err
		}
	}
	return nil
}

// loop is the loop of the worker: heartbeats, queued tasks and orphan scans, until ctx ends or the
// store fails.
func (e *Engine) loop(ctx context.Context) error {
	tick := time.NewTicker(e.cfg.Workers.Beat)
	defer tick.Stop()
	var scan, looks <-chan time.Time // nil on an exclusive store: the start has found everything
	if e.cfg.Workers.Shared && e.outside == nil {
		ticker := time.NewTicker(e.cfg.Workers.OrphanScan)
		defer ticker.Stop()
		scan = ticker.C
		look := time.NewTicker(connectionLook)
		defer look.Stop()
		looks = look.C
	}
	for {
		e.retain(ctx)
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			err = e.onHeartbeat(ctx)
		case <-scan:
			err = e.scanOrphans(ctx)
		case <-looks:
			err = e.endDisconnected(ctx)
		case <-e.lease.moreOrphans:
			err = e.continueTakeOver(ctx)
		case <-e.slotsFreed:
			e.notify(work{Queued: true})
			_, err = e.host.StartQueued(ctx)
		}
		if store.Broken(err) || errors.Is(err, perdure.Lost) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("worker pass failed", "worker", e.worker.ID, "error", err)
		}
	}
}

// onHeartbeat runs at every heartbeat. On a shared store startHeartbeats sends the heartbeats, and
// orphan scans run less often.
func (e *Engine) onHeartbeat(ctx context.Context) error {
	if e.outside != nil {
		_, err := e.host.StartQueued(ctx) // for tasks of this process that were answered
		return err
	}
	e.host.ResumeHalted(ctx)
	e.host.ResumeConnected(ctx)
	if e.cfg.Workers.Shared {
		_, err := e.host.StartQueued(ctx)
		return errors.Join(err, e.host.ExpireApprovals(ctx))
	}
	if err := e.host.Heartbeat(ctx); err != nil {
		return err
	}
	return errors.Join(e.catchUp(ctx), e.host.ExpireApprovals(ctx))
}

// shutDown drains the lanes, stops the remaining work and gives the lease back. Over a broken store
// nothing can settle, so it does not drain.
func (e *Engine) shutDown(ctx context.Context, broken bool) {
	e.mu.Lock()
	e.running, e.ended = false, true
	close(e.stopped)
	e.fail(perdure.CauseShutdown)
	e.mu.Unlock()
	lost := e.lapsed()
	if !lost && !broken { // otherwise no result could be recorded
		drain, stop := context.WithTimeout(context.WithoutCancel(ctx), max(e.cfg.Timing.Drain, 0))
		e.host.Drain(drain)
		stop()
	}
	returned, stop := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Timing.Return)
	e.host.Shutdown(returned)
	stop()
	e.group.Wait()
	e.host.Close()
	e.stopHeartbeats()
	// even if some work has not returned
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Timing.Return)
	defer cancel()
	err := e.cfg.Store.InTx(rest, func(tx store.Tx) error {
		if lost {
			return tx.Workers().Remove(e.worker.ID)
		}
		return tx.Workers().Retire(e.worker.ID)
	})
	if err != nil {
		e.cfg.Log.Warn("worker lease not given back", "worker", e.worker.ID, "error", err)
	}
}
