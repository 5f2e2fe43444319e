// Package local is the engine that turns the wheel in this process, over a store: the embedded default.
//
// It may import the ports, dispatch and internal/effect. The one thing to know: a start after kill -9 is an
// ordinary start. [Open] only prepares; [Engine.Run] reads what the journal says, takes up whatever is
// unfinished, and goes on; whoever holds the store's directory proves by it that the former process is dead.
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

// The defaults of chapter 18.
const (
	defaultLease = 10 * time.Second
	defaultBeat  = 2 * time.Second
	defaultDrain = 10 * time.Second
	stopTime     = 5 * time.Second // for work to return once its context has ended
)

// Engine turns the wheel in this process. It is safe for concurrent use. Intents (a session, a message, a
// cancel) are durable whether or not Run runs; work is only done while it does.
type Engine struct {
	cfg      Config
	worker   store.Worker
	effects  *effect.Effects
	lanes    *dispatch.Runner
	meter    *meter.Meter
	tells    *telemetry.Telemetry // nil: nobody is told
	left     sync.Map             // perdure.SessionID to time.Time: the sessions that dead workers had in work, and when those were seen last
	lease    lease                // where the store is shared
	watched  sync.Map             // perdure.SessionID to *watchdog: the sessions that are driven
	payments *payment.Authority   // nil: nothing is paid
	limiter  *ratelimit.Limiter   // nil: the host's own, or none
	hooks    *webhook.Sender      // of webhooks
	freed    chan struct{}        // capacity 1: places may be free
	emptied  chan struct{}        // closed when the lanes are empty for good

	pruneNext time.Time   // only touched in Run: when old tasks are looked for again
	pruning   atomic.Bool // a pass of retention is under way
	sealed    string      // only touched in Run: the key under which the last pass sealed what there is
	pruneSoon atomic.Bool // the last pass of retention left something to another, who may have died with it
	time      timekeeper  // of schedules
	bulks     bulks

	making sync.Mutex // held while a session is made whose databases are written before it; taken before mu

	mu      sync.Mutex                     // not held while the store is waited for: transactions take it
	begins  bool                           // guarded by mu; Run registers the worker
	running bool                           // guarded by mu
	ended   bool                           // guarded by mu; an engine runs once
	ctx     context.Context                // guarded by mu; of the drivers, while Run runs
	drivers map[perdure.SessionID]*driver  // guarded by mu
	woken   map[perdure.SessionID]struct{} // guarded by mu; before Run began
	group   sync.WaitGroup                 // the drivers, and a pass of retention
	fail    context.CancelCauseFunc        // guarded by mu; ends Run
}

var _ engine.Engine = (*Engine)(nil)

// Open checks the configuration and prepares an engine; it starts nothing. Invalid: what is wrong, among it
// every tool that the registry refused.
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
	if cfg.Lease < 3*cfg.Beat { // ER7
		return nil, fmt.Errorf("open engine: %w configuration: Lease %s is under three times Beat %s", perdure.Invalid, cfg.Lease, cfg.Beat)
	}
	tells, err := tellsOf(&cfg)
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	e := &Engine{
		cfg: cfg, tells: tells, limiter: outboundOf(cfg), freed: make(chan struct{}, 1), emptied: make(chan struct{}),
		drivers: map[perdure.SessionID]*driver{}, woken: map[perdure.SessionID]struct{}{}, lease: lease{more: make(chan struct{}, 1)},
		time: timekeeper{planned: make(chan struct{}, 1), late: map[perdure.ScheduleID]perdure.Fire{}},
	}
	e.meter = newMeter(cfg.Money)
	e.worker = store.Worker{ID: effect.NewID[perdure.WorkerID](), Host: hostname(), BootID: bootID(), PID: os.Getpid()}
	e.lanes = dispatch.NewRunner(context.WithoutCancel(ctx), dispatch.Config{Grace: cfg.Grace, Log: cfg.Log})
	if e.payments, err = paymentsOf(cfg); err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	e.hooks = e.senderOf(cfg)
	if cfg.Ports == nil {
		cfg.Ports = sessionport.New(e.ports(cfg))
		e.cfg.Ports = cfg.Ports
	}
	e.effects, err = effect.New(effect.Config{
		Store: cfg.Store, Model: cfg.Model, Tools: cfg.Tools, Watching: background.Watching(background.Config{}), Runner: e.lanes, Worker: e.worker.ID, Files: cfg.Files, Egress: cfg.Egress, Ports: cfg.Ports, Outbound: e.limiterPort(), Org: cfg.Org, Meter: e.meter,
		MaxExecutions: cfg.MaxExecutions, NoProgress: cfg.NoProgress, ModelAttempts: cfg.ModelAttempts,
		PerSession: cfg.PerSession, PerProcess: cfg.PerProcess, PerSessionDetached: cfg.PerSessionDetached, EvictCap: cfg.EvictCap,
		QueueLength: cfg.QueueLength, Overflow: cfg.Overflow, DeferAbove: cfg.DeferAbove, SoftBudget: cfg.SoftBudget, StallTimeout: cfg.StallTimeout,
		Agents: cfg.Agents, SubagentDepth: cfg.SubagentDepth, SubagentsLive: cfg.SubagentsLive, SubagentsTotal: cfg.SubagentsTotal,
		ApprovalExpiry: cfg.ApprovalExpiry, ScheduleFailures: cfg.Schedules.MaxFailures, Route: cfg.Route, Permit: cfg.Permit, Hooks: cfg.Hooks, Grace: cfg.Grace,
		CheckpointBytes: cfg.CheckpointBytes, CheckpointTime: cfg.CheckpointTime, Guards: cfg.Guards,
		Telemetry: tells, Log: cfg.Log, Wake: e.wake, Freed: e.placeFreed, Sign: e.sign, Works: e.works, Ends: e.ends, Shared: cfg.Shared, Holds: e.holds, Schedule: e.createSchedule,
	})
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	return e, nil
}

// Run does the work until ctx ends: it takes up everything unfinished at once, then drives sessions and
// runs tasks. When ctx ends, work may settle for the drain time; what has not returned is left as it is, for
// the next start (RC11). It returns nil then, Storage when the store cannot promise durability any more,
// Lost when the worker's row is gone or its lease has passed, so that others have its work, Conflict when it runs already, and Unavailable when it has run before. Every goroutine of the engine is gone when it returns.
func (e *Engine) Run(ctx context.Context) error {
	work, fail, err := e.begin(ctx)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	defer fail(nil)
	defer e.showLevels()()
	defer func() { e.end(ctx, store.Broken(err) || store.Broken(context.Cause(ctx))) }()
	e.keepLease(ctx)
	e.startCleaning(work)
	err = e.recover(work)
	if err == nil {
		e.startTime(work)
		e.startWebhooks(work)
		err = e.turn(work)
	}
	if cause := context.Cause(work); store.Broken(cause) || errors.Is(cause, perdure.Lost) { // what ended the work, and not its echo
		err = cause
	}
	return unlessEnded(ctx, err)
}

// unlessEnded is the error of a Run, or nil when it is only the echo of ctx's end.
func unlessEnded(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && !store.Broken(err) {
		return nil
	}
	return fmt.Errorf("run: %w", err)
}

// begin registers the engine's worker, before it claims anything (LG19), and marks it as running.
func (e *Engine) begin(ctx context.Context) (context.Context, context.CancelCauseFunc, error) {
	if err := e.mayBegin(); err != nil {
		return nil, nil, err
	}
	begun, err := e.register(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begins = false
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

// mayBegin lets one Run begin.
func (e *Engine) mayBegin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running || e.begins {
		return fmt.Errorf("%w: it runs already", perdure.Conflict)
	}
	if e.ended {
		return fmt.Errorf("%w: it has run and stopped; open another engine", perdure.Unavailable)
	}
	e.begins = true
	return nil
}

// recover takes up what former workers left: tasks first, then the sessions that were being driven or have
// something to do (RC12).
func (e *Engine) recover(ctx context.Context) error {
	if err := e.catchUp(ctx); err != nil {
		return err
	}
	var unfinished []perdure.SessionID
	err := patiently(ctx, func() (err error) {
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

// catchUp takes over what former workers left and starts what is queued. A task that cannot be taken up now is
// logged and tried again with the next beat; it keeps nobody else waiting.
func (e *Engine) catchUp(ctx context.Context) error {
	return patiently(ctx, func() error {
		err := e.takeOver(ctx)
		if err == nil {
			_, err = e.effects.StartQueued(ctx)
		}
		return err
	})
}

// patiently does something again while the store is not available, until ctx ends.
func patiently(ctx context.Context, do func() error) error {
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

// unfinished lists the sessions that a driver left, or whose journal has something that nobody looked at.
// Former workers' rows go with it.
func (e *Engine) unfinished(ctx context.Context) ([]perdure.SessionID, error) {
	if e.cfg.Shared {
		return e.orphans(ctx, true)
	}
	ids := []perdure.SessionID{}
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		ids = ids[:0]
		sessions, err := tx.Sessions(store.SessionFilter{})
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if s.Worker != "" || s.Unread() {
				ids = append(ids, s.ID)
			}
		}
		if err := e.noteLeft(tx, sessions); err != nil {
			return err
		}
		return e.buryWorkers(tx)
	})
	if err != nil {
		return nil, fmt.Errorf("find unfinished sessions: %w", err)
	}
	return ids, nil
}

// buryWorkers removes the rows of former processes: the lock on the data directory proves them dead (LG20).
func (e *Engine) buryWorkers(tx store.Tx) error {
	workers, err := tx.Workers()
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.ID == e.worker.ID {
			continue
		}
		if err := tx.RemoveWorker(w.ID); err != nil {
			return err
		}
	}
	return nil
}

// turn beats and starts queued work until ctx ends or the store fails.
func (e *Engine) turn(ctx context.Context) error {
	tick := time.NewTicker(e.cfg.Beat)
	defer tick.Stop()
	var scan <-chan time.Time // nil: what can be taken over was found at the start
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
			err = e.round(ctx)
		case <-scan:
			err = e.scanOrphans(ctx)
		case <-e.lease.more:
			err = e.takeMore(ctx)
		case <-e.freed:
			_, err = e.effects.StartQueued(ctx)
		}
		if store.Broken(err) || errors.Is(err, perdure.Lost) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("a round of the worker failed", "worker", e.worker.ID, "error", err)
		}
	}
}

// round is what is done with every beat. Where the store is shared, the beats are their own, and what others left is
// searched for less often.
func (e *Engine) round(ctx context.Context) error {
	e.wakeHalted(ctx)
	if e.cfg.Shared {
		_, err := e.effects.StartQueued(ctx)
		return errors.Join(err, e.effects.ExpireApprovals(ctx))
	}
	if err := e.beat(ctx); err != nil {
		return err
	}
	return errors.Join(e.catchUp(ctx), e.effects.ExpireApprovals(ctx))
}

func (e *Engine) beat(ctx context.Context) error {
	var beat store.Beat
	ran := e.effects.Running()
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if e.cfg.Shared { // a lease that has passed is not renewed: others count on it
			if err := e.effects.LeaseHolds(tx); err != nil {
				return err
			}
		}
		beat, err = tx.BeatWorker(e.worker.ID, e.cfg.Lease)
		return err
	})
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	e.effects.Beat(ran, beat)
	return nil
}

// end drains, stops what is left, and hands the lease back. Over a broken store nothing can settle, so nothing is waited for.
func (e *Engine) end(ctx context.Context, broken bool) {
	e.mu.Lock()
	e.running, e.ended = false, true
	e.fail(perdure.CauseShutdown)
	e.mu.Unlock()
	lost := e.lapsed()
	if !lost && !broken { // else nothing that it does counts any more
		drain, stop := context.WithTimeout(context.WithoutCancel(ctx), max(e.cfg.Drain, 0))
		e.lanes.WaitIdle(drain)
		stop()
	}
	returned, stop := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Return)
	if left := e.lanes.Shutdown(returned); left > 0 {
		e.cfg.Log.Warn("work was left as it is, for the next start", "left", left)
	}
	stop()
	close(e.emptied)
	e.group.Wait()
	e.effects.Wait()
	e.effects.LetAllGo()
	e.stopBeats()
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Return) // also when work did not return
	defer cancel()
	err := e.cfg.Store.InTx(rest, func(tx store.Tx) error {
		if lost {
			return tx.RemoveWorker(e.worker.ID)
		}
		return tx.RetireWorker(e.worker.ID)
	})
	if err != nil {
		e.cfg.Log.Warn("the worker's lease was not handed back", "worker", e.worker.ID, "error", err)
	}
}

// works reports whether Run runs and has not begun to end.
func (e *Engine) works() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// ends reports whether Run was told to end.
func (e *Engine) ends() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ctx != nil && e.ctx.Err() != nil
}

func (e *Engine) placeFreed() {
	select {
	case e.freed <- struct{}{}:
	default:
	}
}
