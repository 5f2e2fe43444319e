// Package host is an engine without its scheduler: everything that callers may ask of an engine
// over a store, and the work itself. A scheduler decides when work is done, and in which process.
// engine/local is such a scheduler, for one process or several with a database in common.
//
// It may import the ports, dispatch and internal/effect. The one thing to know: the store holds
// everything that is to be done. A scheduler may call late, or call twice, and nothing is lost: a
// driver reads the journal, a pass reads what is due, and every write is fenced.
//
// The main parts are the driver (driver.go), which makes the decisions of one session; the fires of
// schedules (fire.go); and the passes of cleanup (cleanup.go) and retention (retention.go). The
// other files have the operations of callers, one noun each. What a command does, and what is
// committed around it, is in internal/effect.
package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/connection"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/internal/ratelimit"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/webhook"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

// Scheduler is what a host tells and asks the one who schedules its work. Its methods do not block
// and do no I/O in the caller's goroutine; they are called concurrently, also within transactions.
type Scheduler interface {
	// Wake says that the journal of a session has events that its driver may not have read.
	Wake(id perdure.SessionID)
	// Forget says that a session was removed.
	Forget(id perdure.SessionID)
	// StartQueued says that queued runs may start: one was queued, or a slot is free.
	StartQueued()
	// Replan says that a schedule may be due at another time.
	Replan()
	// Go runs work in a goroutine that is waited for when the engine stops; its context ends with
	// the engine. false: the engine does not run, and work was not called.
	Go(work func(context.Context)) bool
	Worker
}

// Worker is what a scheduler knows of its own process.
type Worker interface {
	// Running reports whether new work may start in this process now. If not, it is stored, and
	// started later.
	Running() bool
	// Stopping reports whether the engine is stopping: then nothing waits any longer for a store
	// that does not answer.
	Stopping() bool
	// LeaseHeld reports whether this worker's lease is valid by its own clock. Without a lease it
	// is always true.
	LeaseHeld() bool
	// Granted reports whether work is taken under grants only, which a scheduler outside of this
	// process gives out. It is always the same.
	Granted() bool
	// Leads reports whether this process does all the work that is bound to no other home. If not,
	// it works only on the sessions that are bound to its home.
	Leads() bool
}

// Host is an engine without its scheduler. It is safe for concurrent use. Requests of callers are
// durable at once, but work is done only while the scheduler has it done.
type Host struct {
	cfg        Config
	scheduler  Scheduler
	worker     perdure.WorkerID
	effects    *effect.Effects
	lanes      *dispatch.Runner
	meter      *meter.Meter
	telemetry  *telemetry.Telemetry // nil: no telemetry
	lastSigns  sync.Map             // perdure.SessionID to orphan: the sessions of dead workers
	recoveries recoveries
	spending   spending
	watched    sync.Map           // perdure.SessionID to *watchdog: sessions with a driver
	payments   *payment.Authority // nil: no payments
	limiter    *ratelimit.Limiter // nil: the host's own limiter, or none
	webhooks   *webhook.Sender
	lanesEmpty chan struct{}  // closed when the lanes have become empty during shutdown
	work       sync.WaitGroup // model calls and preparations of drivers
	bulks      sync.Map       // bulkKey to true: the bulks that this process carries out
	timekeeper *Timekeeper

	connections *connection.Connections
	awaited     awaitedCalls

	// createMu is held while a session is created whose databases are written before the session.
	createMu sync.Mutex
}

var _ engine.Engine = (*Host)(nil)

// NewWorkerID returns the id of a new worker.
func NewWorkerID() perdure.WorkerID { return core.NewID[perdure.WorkerID]() }

// New checks the configuration and prepares a host for a worker. It starts nothing. Invalid: the
// configuration is not valid, or the registry refused a tool; the error says why.
func New(ctx context.Context, cfg Config, worker perdure.WorkerID, s Scheduler) (*Host, error) {
	if cfg.Store == nil || cfg.Model == nil || cfg.Tools == nil {
		return nil, fmt.Errorf("%w configuration: Store, Model and Tools are required", perdure.Invalid)
	}
	if err := errors.Join(cfg.Tools.Err(), cfg.Limits.Check(), cfg.Timing.Check()); err != nil {
		return nil, err
	}
	cfg, err := withCapabilities(withDefaults(cfg))
	if err != nil {
		return nil, err
	}
	if err := checkIdle(cfg); err != nil {
		return nil, err
	}
	if cfg.Workers.Lease < 3*cfg.Workers.Beat { // a worker must survive two missed heartbeats
		return nil, fmt.Errorf("%w configuration: Lease %s must be at least three times Beat %s",
			perdure.Invalid, cfg.Workers.Lease, cfg.Workers.Beat)
	}
	observer, err := newTelemetry(&cfg)
	if err != nil {
		return nil, err
	}
	e := &Host{
		cfg: cfg, scheduler: s, worker: worker, telemetry: observer, limiter: outboundOf(cfg, observer), lanesEmpty: make(chan struct{}),
		meter: newMeter(cfg.Billing),
	}
	e.timekeeper = &Timekeeper{e: e, late: map[perdure.ScheduleID]perdure.Fire{}}
	e.lanes = dispatch.NewRunner(context.WithoutCancel(ctx), dispatch.Config{Grace: cfg.Timing.Grace, Log: cfg.Log})
	if e.payments, err = paymentsOf(cfg); err != nil {
		return nil, err
	}
	e.webhooks = e.newSender(cfg)
	e.connections = e.newConnections(cfg)
	if e.cfg.Ports.Open == nil {
		e.cfg.Ports.Open = sessionport.New(e.ports(cfg))
	}
	if err := e.openPlatform(); err != nil {
		return nil, err
	}
	if open, replace := e.cfg.Ports.Open, cfg.Ports.Replace; replace != nil {
		e.cfg.Ports.Open = func(session perdure.SessionID, call tool.Call) tool.Ports {
			return replace(session, call, open(session, call))
		}
		e.cfg.Ports.Replace = nil // done
	}
	if e.effects, err = e.newEffects(e.cfg); err != nil {
		return nil, err
	}
	return e, nil
}

// newEffects creates what carries out the commands of the drivers.
func (e *Host) newEffects(cfg Config) (*effect.Effects, error) {
	return effect.New(core.Config{
		Store: cfg.Store, Model: cfg.Model, Tools: cfg.Tools, BackgroundTools: background.Watching(background.Config{MaxWait: cfg.Timing.MaxWait}),
		Runner: e.lanes, Worker: e.worker, Scheduler: effectScheduler{e.scheduler, e},
		Limits: cfg.Limits, Timing: cfg.Timing, Policies: cfg.Policies, Ports: cfg.Ports,
		Outbound: e.limiterPort(), Org: cfg.Org, Agents: subagentDirectory{hostAgents{e}},
		ScheduleFailures: cfg.Timekeeping.Schedules.MaxFailures,
		Meter:            e.meter, Telemetry: e.telemetry, Log: cfg.Log, Shared: cfg.Workers.Shared,
		Home: core.Home{ID: cfg.Storage.Home, Wait: cfg.Workers.HomeWait, Files: filesHome(cfg), FilesShared: cfg.Storage.Shared, HasFiles: cfg.Storage.HasFiles},
	})
}

// effectScheduler is the scheduler with what the host itself does for the effects.
type effectScheduler struct {
	Scheduler
	e *Host
}

// ReportActivity implements core.Scheduler.
func (s effectScheduler) ReportActivity(id perdure.SessionID) { s.e.reportActivity(id) }

// ReportTakeOver implements core.Scheduler.
func (s effectScheduler) ReportTakeOver(done core.TakenOver) { s.e.recoveries.takenOver(done) }

// CreateSchedule implements core.Scheduler.
func (s effectScheduler) CreateSchedule(
	ctx context.Context, made perdure.Schedule, by *core.ScheduleCall,
) (perdure.Schedule, error) {
	return hostSchedules{s.e}.createSchedule(ctx, made, by)
}

// Config returns the configuration with its defaults filled in. Its store and models report to the
// telemetry, if there is any.
func (e *Host) Config() Config { return e.cfg }

// TakeOverBatch is the number of tasks that TakeOver takes over at most.
const TakeOverBatch = taskrun.TakeOverBatch

// OwnedElsewhere is the error, of kind Lost, of a driver whose session another live worker drives.
var OwnedElsewhere = effect.OwnedElsewhere

// AtAnotherHome is the error, of kind Lost, of a driver whose session waits for another home.
var AtAnotherHome = effect.AtAnotherHome

// TakeOver takes over tasks of dead workers (RC12), at most TakeOverBatch, and returns their
// number.
func (e *Host) TakeOver(ctx context.Context) (int, error) {
	e.recoveries.passBegins()
	return e.effects.Tasks().TakeOver(ctx, "")
}

// TakeOverHome is TakeOver for the tasks whose remains are at the home of this worker. Without a
// home it does nothing.
func (e *Host) TakeOverHome(ctx context.Context) (int, error) {
	if e.cfg.Storage.Home == "" {
		return 0, nil
	}
	return e.effects.Tasks().TakeOver(ctx, e.cfg.Storage.Home)
}

// StopCanceled stops what canceled tasks left running at the home of this worker (RC30).
func (e *Host) StopCanceled(ctx context.Context) error {
	return e.effects.Tasks().StopCanceled(ctx)
}

// StartQueued starts queued runs as far as there are slots, and returns their number.
func (e *Host) StartQueued(ctx context.Context) (int, error) {
	return e.effects.Tasks().StartQueued(ctx)
}

// ExpireApprovals expires the approvals whose time has passed.
func (e *Host) ExpireApprovals(ctx context.Context) error { return e.effects.Approvals().Expire(ctx) }

// UpdateParents records the ends of subagents in the sessions of their parents, where a crash left
// that undone.
func (e *Host) UpdateParents(ctx context.Context) { e.effects.Subagents().UpdateParents(ctx) }

// Heartbeat records that the worker and its tasks are alive, and stops the tasks that were
// cancelled or taken over elsewhere. Lost: the worker's row is gone or, on a shared store, its
// lease has expired; an expired lease is not renewed, because other workers rely on its end.
func (e *Host) Heartbeat(ctx context.Context) error {
	var beat store.Heartbeat
	ran := e.effects.RunningTasks()
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if err := e.Fence(tx.Reader()); err != nil {
			return err
		}
		beat, err = tx.Workers().Renew(e.worker, e.cfg.Workers.Lease)
		return err
	})
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	e.effects.Tasks().ApplyHeartbeat(ran, beat)
	return nil
}

// Fence returns Lost if the store is shared, work is not granted, and the worker's lease has
// expired in it (TK8).
func (e *Host) Fence(r store.Reader) error {
	if !e.cfg.Workers.Shared || e.scheduler.Granted() {
		return nil
	}
	return e.effects.LeaseHolds(r)
}

// WorkerAlive reports whether another worker is alive by its lease.
func (e *Host) WorkerAlive(r store.Reader, id perdure.WorkerID) bool {
	return e.effects.OtherWorkerAlive(r, id)
}

// Supersede stops all work of this worker, because other workers may take it over.
func (e *Host) Supersede() { e.effects.SupersedeAll() }

// Release ends the in-memory state of a session whose driver ended with an error.
func (e *Host) Release(id perdure.SessionID) { e.effects.ReleaseSession(id) }

// Drain waits until the lanes are empty, or ctx ends.
func (e *Host) Drain(ctx context.Context) { e.lanes.WaitIdle(ctx) }

// Shutdown ends the contexts of the remaining work and waits for it, at most until ctx ends. Work
// that has not returned by then stays claimed for the next start (RC11). The drivers end after it;
// Close comes after them.
func (e *Host) Shutdown(ctx context.Context) {
	if left := e.lanes.Shutdown(ctx); left > 0 {
		e.cfg.Log.Warn("work left running for the next start", "left", left)
	}
	close(e.lanesEmpty)
}

// Close waits for the goroutines of the host, after the drivers have ended, and drops its in-memory
// state.
func (e *Host) Close() {
	e.work.Wait()
	e.effects.Wait()
	e.effects.ReleaseAll()
}

// Permanent reports an error of a driver that another attempt cannot fix, for example a journal
// that cannot be folded.
func Permanent(err error) bool {
	return errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Conflict)
}
