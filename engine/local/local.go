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
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// The defaults of chapter 18.
const (
	defaultLease = 10 * time.Second
	defaultBeat  = 2 * time.Second
	defaultDrain = 10 * time.Second
	stopTime     = 5 * time.Second // for work to return once its context has ended
)

// Overflow is what happens to a background run for which there is no place (BG17).
type Overflow = effect.Overflow

// Guard looks at the text of an answer while it comes (TN9).
type Guard = effect.Guard

// The policies for overflow. The zero value of Config is queue.
const (
	OverflowQueue  = effect.OverflowQueue
	OverflowReject = effect.OverflowReject
	OverflowEvict  = effect.OverflowEvict
)

// Config is what an engine is made of. Store, Model and Tools are required.
type Config struct {
	Store store.Store // closed by whoever opened it, after Run has returned
	Model model.Model
	Tools *tool.Registry
	// Files opens the files of a session, as the model sees them and as the runtime writes them.
	// nil: the store's own files.
	Files func(session perdure.SessionID) (model, runtime tool.Files)
	// Egress is the way out for tools. nil: there is none, and tools that need it say so.
	Egress tool.Egress
	// Ports opens what else a call of a session may reach: its values, secrets, resources … nil: the store's own.
	Ports   func(session perdure.SessionID, call tool.Call) tool.Ports
	Secrets Secrets // of the store's own ports
	Beside  Beside  // likewise: large images, databases
	Utility Utility // likewise: the small model of tools

	MaxExecutions      int           // LG9; 0: 3; -1: no cap
	NoProgress         int           // TN1; 0: 3; -1: off
	ModelAttempts      int           // TN21; 0: 5
	PerSession         int           // running background runs of a session; 0: 5; -1: no cap
	PerProcess         int           // of the process; 0: 64; -1: no cap
	QueueLength        int           // queued runs of a session; 0: 32
	Overflow           Overflow      // BG17
	DeferAbove         int           // TL37: with more tools than this, schemas are loaded later; 0: 40; -1: never
	PerSessionDetached int           // calls of a session that left the foreground; they take none of PerSession; 0: 32; -1: no cap
	EvictCap           int           // live background tasks of a session before the oldest is canceled, with OverflowEvict; 0: 32
	SoftBudget         time.Duration // of execution, then a foreground call goes on as a task (LN3), for tools that name none; 0: 600 s; -1: never
	StallTimeout       time.Duration // without text from the model, before it is asked again (TN8); 0: 2 min; -1: none
	IdleTimeout        time.Duration // in which nothing happens in a turn, before it fails (RC19); 0: 30 min; -1: off; at least 18 min
	IdleHardCap        time.Duration // likewise, while a foreground call runs; 0: 2 h
	ApprovalExpiry     time.Duration // 0: approvals never expire
	CheckpointBytes    int           // of new text of an answer, before it is stored (TN19); 0: 4 KiB
	CheckpointTime     time.Duration // since its first new text, likewise; 0: 1 s

	Capabilities []tool.Capability // that agents may choose, beside those that tools name (TL32); their tools are the engine's, too
	Blueprints   []tool.Blueprint  // named presets of agents (PL1)

	Agents         map[string]perdure.Agent // agents that spawn_subagent may name; nil: only ones like the session's own
	SubagentDepth  int                      // of subagents below a root session; 0: 2; -1: there are none (SA5)
	SubagentsLive  int                      // at work below a root; 0: 16; -1: no cap
	SubagentsTotal int                      // in all below a root; 0: 200; -1: no cap

	Route  func(tool.Call) dispatch.Route // in which lane a call starts, and when it leaves it; nil: as its tool says (LN2)
	Permit tool.Permit                    // judges what calls want to do; nil: everything is allowed that its tool does not ask about (AP1)
	Hooks  []tool.Hook                    // look at calls before and after (TL35)
	Guards []Guard                        // look at answers while they come, and end those that must not be shown (TN9)

	Retention   time.Duration // how long a task is kept that has ended and came home (TK16); 0: 30 days; -1: for ever
	PruneBatch  int           // tasks that are forgotten in one commit; 0: 100
	Cleanup                   // of leased resources
	Timekeeping               // of schedules
	// Forget removes what the host keeps of a session outside the store, once that was deleted: again after an error, and
	// again after a crash, so that what is gone already is no error. nil: it keeps nothing.
	Forget func(context.Context, perdure.SessionID) error

	Grace time.Duration // from cancel to fence; 0: 10 s
	Drain time.Duration // how long Run lets work settle when its ctx ends; 0: 10 s; -1: none
	Lease time.Duration // of the worker; 0: 10 s
	Beat  time.Duration // of the worker; 0: 2 s
	Log   *slog.Logger  // nil: discarded

	Shared     bool          // other workers use the store too: leases decide who is dead, not a lock (LG20)
	OrphanScan time.Duration // how often a shared store is searched for what dead workers left (RC12); 0: 5 s
}

// Engine turns the wheel in this process. It is safe for concurrent use. Intents (a session, a message, a
// cancel) are durable whether or not Run runs; work is only done while it does.
type Engine struct {
	cfg     Config
	worker  store.Worker
	effects *effect.Effects
	lanes   *dispatch.Runner
	lease   lease         // where the store is shared
	watched sync.Map      // perdure.SessionID to *watchdog: the sessions that are driven
	freed   chan struct{} // capacity 1: places may be free
	emptied chan struct{} // closed when the lanes are empty for good

	pruneNext time.Time   // only touched in Run: when old tasks are looked for again
	pruning   atomic.Bool // a pass of retention is under way
	sealed    string      // only touched in Run: the key under which the last pass sealed what there is
	pruneSoon atomic.Bool // the last pass of retention left something to another, who may have died with it
	time      timekeeper  // of schedules

	mu      sync.Mutex
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
	if cfg.IdleTimeout > 0 && cfg.IdleTimeout < 2*longestWait { // ER7
		return nil, fmt.Errorf("open engine: %w configuration: IdleTimeout %s is under twice the longest wait of a tool, %s", perdure.Invalid, cfg.IdleTimeout, longestWait)
	}
	if cfg.Lease < 3*cfg.Beat { // ER7
		return nil, fmt.Errorf("open engine: %w configuration: Lease %s is under three times Beat %s", perdure.Invalid, cfg.Lease, cfg.Beat)
	}
	e := &Engine{
		cfg: cfg, freed: make(chan struct{}, 1), emptied: make(chan struct{}),
		drivers: map[perdure.SessionID]*driver{}, woken: map[perdure.SessionID]struct{}{}, lease: lease{more: make(chan struct{}, 1)},
		time: timekeeper{planned: make(chan struct{}, 1), late: map[perdure.ScheduleID]perdure.Fire{}},
	}
	e.worker = store.Worker{ID: effect.NewID[perdure.WorkerID](), Host: hostname(), BootID: bootID(), PID: os.Getpid()}
	e.lanes = dispatch.NewRunner(context.WithoutCancel(ctx), dispatch.Config{Grace: cfg.Grace, Log: cfg.Log})
	if cfg.Ports == nil {
		cfg.Ports = sessionport.New(e.ports(cfg))
	}
	e.effects, err = effect.New(effect.Config{
		Store: cfg.Store, Model: cfg.Model, Tools: cfg.Tools, Runner: e.lanes, Worker: e.worker.ID, Files: cfg.Files, Egress: cfg.Egress, Ports: cfg.Ports,
		MaxExecutions: cfg.MaxExecutions, NoProgress: cfg.NoProgress, ModelAttempts: cfg.ModelAttempts,
		PerSession: cfg.PerSession, PerProcess: cfg.PerProcess, PerSessionDetached: cfg.PerSessionDetached, EvictCap: cfg.EvictCap,
		QueueLength: cfg.QueueLength, Overflow: cfg.Overflow, DeferAbove: cfg.DeferAbove, SoftBudget: cfg.SoftBudget, StallTimeout: cfg.StallTimeout,
		Agents: cfg.Agents, SubagentDepth: cfg.SubagentDepth, SubagentsLive: cfg.SubagentsLive, SubagentsTotal: cfg.SubagentsTotal,
		ApprovalExpiry: cfg.ApprovalExpiry, ScheduleFailures: cfg.Schedules.MaxFailures, Route: cfg.Route, Permit: cfg.Permit, Hooks: cfg.Hooks, HookTime: cfg.Grace,
		CheckpointBytes: cfg.CheckpointBytes, CheckpointTime: cfg.CheckpointTime, Guards: cfg.Guards,
		Log: cfg.Log, Wake: e.wake, Freed: e.placeFreed, Sign: e.sign, Works: e.works, Ends: e.ends, Shared: cfg.Shared, Holds: e.holds, Schedule: e.createSchedule,
	})
	if err != nil {
		return nil, fmt.Errorf("open engine: %w", err)
	}
	return e, nil
}

func withDefaults(cfg Config) Config {
	if cfg.Lease <= 0 {
		cfg.Lease = defaultLease
	}
	if cfg.Beat <= 0 {
		cfg.Beat = defaultBeat
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = defaultIdle
	}
	if cfg.IdleHardCap <= 0 {
		cfg.IdleHardCap = defaultIdleHard
	}
	if cfg.Drain == 0 {
		cfg.Drain = defaultDrain
	}
	if cfg.OrphanScan <= 0 {
		cfg.OrphanScan = defaultOrphanScan
	}
	if cfg.Retention == 0 {
		cfg.Retention = defaultRetention
	}
	if cfg.PruneBatch <= 0 {
		cfg.PruneBatch = defaultPruneBatch
	}
	cfg.Cleanup, cfg.Timekeeping = cfg.Cleanup.withDefaults(), cfg.Timekeeping.withDefaults()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
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
	defer func() { e.end(ctx, store.Broken(err) || store.Broken(context.Cause(ctx))) }()
	e.keepLease(ctx)
	e.startCleaning(work)
	err = e.recover(work)
	if err == nil {
		e.startTime(work)
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

// begin marks the engine as running and registers its worker, before it claims anything (LG19).
func (e *Engine) begin(ctx context.Context) (context.Context, context.CancelCauseFunc, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		return nil, nil, fmt.Errorf("%w: it runs already", perdure.Conflict)
	}
	if e.ended {
		return nil, nil, fmt.Errorf("%w: it has run and stopped; open another engine", perdure.Unavailable)
	}
	begun, err := e.register(ctx)
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
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if left := e.lanes.Shutdown(rest); left > 0 {
		e.cfg.Log.Warn("work was left as it is, for the next start", "left", left)
	}
	close(e.emptied)
	e.group.Wait()
	e.effects.Wait()
	e.effects.LetAllGo()
	e.stopBeats()
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
