// Package local is the engine that runs in this process, over a store. It is the embedded default.
//
// It may import the ports, dispatch and internal/effect. The one thing to know: a start after kill
// -9 is an ordinary start. [OutputOpen] only prepares; [Engine.Run] reads the journals, takes over
// unfinished work and continues it. On an exclusive store, the lock on the data directory proves
// that the previous process is dead; on a shared store, leases do.
//
// The main parts are the driver (driver.go), one goroutine per session that is not idle; the worker
// loop (in this file), which sends heartbeats and starts queued tasks; the lease
// (lease.go), which fences the worker on a shared store; and the timekeeper (fire.go), which fires
// schedules. What a command does, and what is committed around it, is in internal/effect.
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
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/internal/ratelimit"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/webhook"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool/background"
)

// The default timings.
const (
	defaultLease = 10 * time.Second
	defaultBeat  = 2 * time.Second
	defaultDrain = 10 * time.Second
	stopTime     = 5 * time.Second // for work to return after its context has ended
)

// Engine runs sessions in this process. It is safe for concurrent use. Requests (a session, a
// message, a cancel) are durable whether or not Run is running, but work is done only while it is.
type Engine struct {
	cfg       Config
	worker    store.Worker
	effects   *effect.Effects
	lanes     *dispatch.Runner
	meter     *meter.Meter
	telemetry *telemetry.Telemetry // nil: no telemetry
	// lastSigns maps perdure.SessionID to time.Time: the sessions of dead workers, with the last
	// sign of life
	lastSigns  sync.Map
	lease      lease              // only used on a shared store
	watched    sync.Map           // perdure.SessionID to *watchdog: sessions with a driver
	payments   *payment.Authority // nil: no payments
	limiter    *ratelimit.Limiter // nil: the host's own limiter, or none
	webhooks   *webhook.Sender
	slotsFreed chan struct{} // capacity 1: slots may be free
	lanesEmpty chan struct{} // closed when the lanes have become empty during shutdown

	pruneNext   time.Time   // only touched in Run: the next retention pass
	pruning     atomic.Bool // a retention pass is running
	resealedKey string      // only touched in Run: the key of the last re-encryption pass
	pruneSoon   atomic.Bool // the last retention pass left work to another cleaner, which may have crashed
	time        timekeeper  // scheduleOf schedules
	bulks       bulks

	// createMu is held while a session is created whose databases are written before the session.
	// It is locked before mu.
	createMu sync.Mutex

	mu       sync.Mutex                     // not held while waiting for the store, because transactions lock it
	starting bool                           // guarded by mu; Run is registering the worker
	running  bool                           // guarded by mu
	ended    bool                           // guarded by mu; an engine runs once
	ctx      context.Context                // guarded by mu; for the drivers, while Run is running
	drivers  map[perdure.SessionID]*driver  // guarded by mu
	woken    map[perdure.SessionID]struct{} // guarded by mu; woken before Run
	group    sync.WaitGroup                 // drivers and background passes
	fail     context.CancelCauseFunc        // guarded by mu; ends Run
}

var _ engine.Engine = (*Engine)(nil)

// Open checks the configuration and prepares an engine. It starts nothing. Invalid: the
// configuration is not valid, or the registry refused a tool; the error says why.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	if cfg.Store == nil || cfg.Model == nil || cfg.Tools == nil {
		return nil, fmt.Errorf("open engine: %w configuration: Store, Model and Tools are required", perdure.Invalid)
	}
	if err := cfg.Tools.Err(); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	cfg, err := withCapabilities(withDefaults(cfg))
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	if err := checkIdle(cfg); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	if cfg.Lease < 3*cfg.Beat { // a worker must survive two missed heartbeats
		return nil, fmt.Errorf("open engine: %w configuration: Lease %s must be at least three times Beat %s",
			perdure.Invalid, cfg.Lease, cfg.Beat)
	}
	tells, err := newTelemetry(&cfg)
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	e := &Engine{
		cfg: cfg, telemetry: tells, limiter: outboundOf(cfg), slotsFreed: make(chan struct{}, 1), lanesEmpty: make(chan struct{}),
		drivers: map[perdure.SessionID]*driver{}, woken: map[perdure.SessionID]struct{}{},
		lease: lease{moreOrphans: make(chan struct{}, 1)},
		time:  timekeeper{changed: make(chan struct{}, 1), late: map[perdure.ScheduleID]perdure.Fire{}},
	}
	e.meter = newMeter(cfg.Billing)
	e.worker = store.Worker{ID: effect.NewID[perdure.WorkerID](), Host: hostname(), BootID: bootID(), PID: os.Getpid()}
	e.lanes = dispatch.NewRunner(context.WithoutCancel(ctx), dispatch.Config{Grace: cfg.Grace, Log: cfg.Log})
	if e.payments, err = paymentsOf(cfg); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	e.webhooks = e.newSender(cfg)
	if cfg.Ports == nil {
		cfg.Ports = sessionport.New(e.ports(cfg))
		e.cfg.Ports = cfg.Ports
	}
	e.effects, err = effect.New(effect.Config{
		Store: cfg.Store, Model: cfg.Model, Tools: cfg.Tools, BackgroundTools: background.Watching(background.Config{}),
		Runner: e.lanes, Worker: e.worker.ID, Files: cfg.Files, Egress: cfg.Egress, Ports: cfg.Ports,
		Outbound: e.limiterPort(), Org: cfg.Org,
		Meter:         e.meter,
		MaxExecutions: cfg.MaxExecutions, NoProgress: cfg.NoProgress, ModelAttempts: cfg.ModelAttempts,
		SlotsPerSession: cfg.PerSession, SlotsPerProcess: cfg.PerProcess, MaxDetached: cfg.PerSessionDetached,
		EvictCap: cfg.EvictCap, QueueLength: cfg.QueueLength, Overflow: cfg.Overflow, DeferAbove: cfg.DeferAbove,
		SoftBudget: cfg.SoftBudget, StallTimeout: cfg.StallTimeout, Agents: cfg.Agents,
		SubagentDepth: cfg.SubagentDepth, SubagentsLive: cfg.SubagentsLive, SubagentsTotal: cfg.SubagentsTotal,
		ApprovalExpiry: cfg.ApprovalExpiry, ScheduleFailures: cfg.Schedules.MaxFailures, Route: cfg.Route,
		Permit: cfg.Permit, Hooks: cfg.Hooks, Grace: cfg.Grace, CheckpointBytes: cfg.CheckpointBytes,
		CheckpointTime: cfg.CheckpointTime, Guardrails: cfg.Guards, Telemetry: tells, Log: cfg.Log, Wake: e.wake,
		SlotFreed: e.slotFreed, Activity: e.reportActivity, EngineRunning: e.isRunning, Stopping: e.isStopping, Shared: cfg.Shared, LeaseHeld: e.holds,
		Schedule: e.createSchedule,
	})
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
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
	defer e.exportGauges()()
	defer func() { e.shutDown(ctx, store.Broken(err) || store.Broken(context.Cause(ctx))) }()
	e.startHeartbeats(ctx)
	e.startCleaning(work)
	err = e.recover(work)
	if err == nil {
		e.startTime(work)
		e.startWebhooks(work)
		err = e.loop(work)
	}
	// The cause explains why work ended; err may only be a consequence of it.
	if cause := context.Cause(work); store.Broken(cause) || errors.Is(cause, perdure.Lost) {
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
	if e.cfg.Shared {
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
// driver or have unread events.
func (e *Engine) recover(ctx context.Context) error {
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
		e.wake(id)
	}
	e.mu.Lock()
	woken := e.woken
	e.woken = map[perdure.SessionID]struct{}{}
	e.mu.Unlock()
	for id := range woken {
		e.wake(id)
	}
	return nil
}

// catchUp takes over tasks of earlier workers and starts queued ones. A task that cannot be taken
// over now is logged and retried at the next heartbeat; it does not block others.
func (e *Engine) catchUp(ctx context.Context) error {
	return retryUnavailable(ctx, func() error {
		err := e.takeOver(ctx)
		if err == nil {
			_, err = e.effects.StartQueued(ctx)
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
	if e.cfg.Shared {
		return e.orphans(ctx, true)
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
		if err := e.noteOrphans(tx.Reader(), sessions); err != nil {
			return err
		}
		return e.removeDeadWorkers(tx)
	})
	if err != nil {
		return nil, fmt.Errorf("find unfinished sessions: %w", err)
	}
	return ids, nil
}

// removeDeadWorkers removes the rows of earlier processes. The lock on the data directory proves
// that they are dead (LG20).
func (e *Engine) removeDeadWorkers(tx store.Tx) error {
	workers, err := tx.Workers().List()
	if err != nil {
		return err
	}
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
	tick := time.NewTicker(e.cfg.Beat)
	defer tick.Stop()
	var scan <-chan time.Time // nil on an exclusive store: the start has found everything
	if e.cfg.Shared {
		ticker := time.NewTicker(e.cfg.OrphanScan)
		defer ticker.Stop()
		scan = ticker.C
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
		case <-e.lease.moreOrphans:
			err = e.continueTakeOver(ctx)
		case <-e.slotsFreed:
			_, err = e.effects.StartQueued(ctx)
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
	e.resumeHalted(ctx)
	if e.cfg.Shared {
		_, err := e.effects.StartQueued(ctx)
		return errors.Join(err, e.effects.ExpireApprovals(ctx))
	}
	if err := e.heartbeat(ctx); err != nil {
		return err
	}
	return errors.Join(e.catchUp(ctx), e.effects.ExpireApprovals(ctx))
}

func (e *Engine) heartbeat(ctx context.Context) error {
	var beat store.Heartbeat
	ran := e.effects.RunningTasks()
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if e.cfg.Shared { // an expired lease is not renewed, because other workers rely on its end
			if err := e.effects.LeaseHolds(tx.Reader()); err != nil {
				return err
			}
		}
		beat, err = tx.Workers().Renew(e.worker.ID, e.cfg.Lease)
		return err
	})
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	e.effects.ApplyHeartbeat(ran, beat)
	return nil
}

// shutDown drains the lanes, stops the remaining work and gives the lease back. Over a broken store
// nothing can settle, so it does not drain.
func (e *Engine) shutDown(ctx context.Context, broken bool) {
	e.mu.Lock()
	e.running, e.ended = false, true
	e.fail(perdure.CauseShutdown)
	e.mu.Unlock()
	lost := e.lapsed()
	if !lost && !broken { // otherwise no result could be recorded
		drain, stop := context.WithTimeout(context.WithoutCancel(ctx), max(e.cfg.Drain, 0))
		e.lanes.WaitIdle(drain)
		stop()
	}
	returned, stop := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Return)
	if left := e.lanes.Shutdown(returned); left > 0 {
		e.cfg.Log.Warn("work left running for the next start", "left", left)
	}
	stop()
	close(e.lanesEmpty)
	e.group.Wait()
	e.effects.Wait()
	e.effects.ReleaseAll()
	e.stopHeartbeats()
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Return) // even if some work has not returned
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

// isRunning reports whether Run is running and not shutting down.
func (e *Engine) isRunning() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// isStopping reports whether the context of Run has ended.
func (e *Engine) isStopping() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ctx != nil && e.ctx.Err() != nil
}

func (e *Engine) slotFreed() {
	select {
	case e.slotsFreed <- struct{}{}:
	default:
	}
}
