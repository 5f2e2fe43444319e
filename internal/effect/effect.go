// Package effect carries out the commands of the root. It asks the model, runs or takes over tool
// calls, runs tasks, and commits the outcome together with the decisions that follow from it.
//
// It may import the root, agent, budget, model, tool, dispatch and store, and of internal:
// meter, redact, secretargs, sessioncache, sessionfile and telemetry.
//
// The one thing to know: this package alone fixes the order of the steps of a call. Claim the call,
// run it, settle it together with its event. Nothing is shown to anybody before it is committed.
//
// An engine drives a session in a loop. Take acquires the session and returns the commands that are
// due. The engine lets StartCall, AskModel and the like carry them out, hands the outcomes to
// Commit, and gets the next commands. A commit that leaves nothing to do also releases the session.
package effect

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/internal/sessioncache"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Config configures New. Store, Model, Tools, Runner and Worker are required.
type Config struct {
	Store store.Store
	Model model.Model
	Tools *tool.Registry
	// BackgroundTools holds the tools that list, await and cancel background work. A session gets
	// them as soon as one of its calls has left its turn, whatever Tools contains. nil: only what
	// Tools has.
	BackgroundTools []tool.Tool
	Runner          *dispatch.Runner
	Worker          perdure.WorkerID
	// Files opens the files of a session, once as the model sees them and once as the runtime
	// writes them. nil: the files are stored in Store.
	Files func(session perdure.SessionID) (model, runtime tool.Files)
	// Egress carries the network requests of tools. nil: tools have no network.
	Egress tool.Egress
	// Ports opens the other ports of a call, such as secrets and images. nil: there are none.
	Ports func(session perdure.SessionID, call tool.Call) tool.Ports

	// Outbound is asked before a call that leaves the deployment is claimed. Calls are counted for
	// the session's organisation, or for Org if the session has none. nil: no limit.
	Outbound tool.OutboundRateLimiter
	Org      string // empty: there are no organisations

	// executions of a call before it is given up; 0: perdure.DefaultMaxExecutions; -1: no limit
	MaxExecutions   int
	NoProgress      int           // steps without progress; 0: perdure.DefaultNoProgress; -1: off
	ModelAttempts   int           // attempts for one message; 0: perdure.DefaultModelAttempts
	StallTimeout    time.Duration // of a model stream without content; 0: two minutes; -1: none
	SlotsPerSession int           // slots of a session; 0: 5; -1: no limit
	SlotsPerProcess int           // slots of the process; 0: 64; -1: no limit
	QueueLength     int           // queued tasks of a session; 0: 32; -1: no limit
	Overflow        perdure.Overflow
	MaxDetached     int // detached calls of a session, which need no slot of the session; 0: 32; -1: no limit
	// EvictCap is how many live background tasks a session may have before the oldest is evicted,
	// with OverflowEvict. 0: 32; -1: no limit.
	EvictCap         int
	DeferAbove       int           // number of tools above which schemas are loaded on demand; 0: 40; -1: off
	SoftBudget       time.Duration // of tools without their own; 0: tool.DefaultSoftBudget; -1: they never detach
	ApprovalExpiry   time.Duration // 0: approvals never expire
	ScheduleFailures int           // failed fires in a row before a schedule is paused; 0: never
	CheckpointBytes  int           // bytes of new text before a checkpoint is stored; 0: 4 KiB
	CheckpointTime   time.Duration // time after the first new text before a checkpoint is stored; 0: 1 s

	Agents         map[string]perdure.Agent // agents that spawn_subagent may name; nil: none
	SubagentDepth  int                      // levels of subagents below a root session; 0: 2; -1: no subagents
	SubagentsLive  int                      // workerAlive subagents below a root session; 0: 16; -1: no limit
	SubagentsTotal int                      // subagents ever started below a root session; 0: 200; -1: no limit

	Route  func(tool.Call) dispatch.Route // routing policy of the host; nil: none. Called concurrently
	Permit tool.Permit                    // policy of the host; nil: none
	Hooks  []tool.Hook                    // called before and after each call
	// from a cancel to the fence; also the time hooks have; 0: dispatch.DefaultGrace
	Grace time.Duration

	// Meter prices, reserves and counts work. nil: a meter with the built-in prices.
	Meter *meter.Meter

	Guardrails []Guardrail // check model responses while they stream

	Telemetry *telemetry.Telemetry // nil: no telemetry
	Log       *slog.Logger         // nil: discarded

	// Wake is called when a session has something new in its journal. nil: not called.
	Wake func(perdure.SessionID)
	// SlotFreed is called when a slot may have become free. nil: not called.
	SlotFreed func()
	// EngineRunning reports whether the engine runs, so that work may start. An intent that reaches
	// an engine that does not run is stored, and the next start carries it out. nil: always true.
	EngineRunning func() bool
	// Stopping reports whether the engine is stopping: then nothing waits any longer for a store
	// that does not answer. nil: always false.
	Stopping func() bool
	// Activity is called when a turn shows activity: text, progress, output. nil: not called.
	Activity func(perdure.SessionID)

	// Schedule creates a schedule for a call of a model, and its monitor if the call asks for one,
	// in one commit. Called again for the same call, it creates nothing. nil: no schedules.
	Schedule func(ctx context.Context, s perdure.Schedule, by *ScheduleCall) (perdure.Schedule, error)

	// Shared says that other workers use the store too. Their leases decide which of them are dead,
	// and this worker's work writes nothing once its own lease has expired. false: this worker has
	// the store to itself, so every other worker is dead.
	Shared bool
	// LeaseHeld reports, if the store is shared, whether this worker's lease is still valid by its
	// own clock. Work starts only while it is. nil: always true.
	LeaseHeld func() bool
}

// Effects carries out commands. It is safe for concurrent use.
type Effects struct {
	cfg   Config
	group sync.WaitGroup // goroutines of this package outside the runner: task ends, retries
	// folds caches the sessions that this process worked on last, which saves folding their
	// journals again.
	folds sessioncache.Cache
	// backgroundTools is the registry of Config.Watching. A tool of the host with the same name
	// wins.
	backgroundTools *tool.Registry
	// starting holds the tasks whose start is being committed.
	starting startingTasks
	// endWaiters notifies goroutines of this process that wait for the end of a task.
	endWaiters taskEnds
	// unstarted holds the tokens of claims and take-overs that this process committed, or may have
	// committed, and has not acted on yet. If the answer of such a commit is lost, the token in the
	// ledger shows that the claim is ours. It maps perdure.Token to perdure.TakeOver, which is
	// empty for a claim.
	unstarted sync.Map
	// calls holds the running foreground calls: perdure.CallKey to *callRun.
	calls sync.Map
	// detached maps the tasks of calls that left their turns in this process to the id of their
	// work in the runner: perdure.TaskID to string.
	detached sync.Map
	// tasks holds the attempts that run here, if the store is shared: perdure.TaskID to *taskRun.
	tasks sync.Map
	// hosts finds calls of hosts again whose reply was never written in full.
	hosts hostCalls
	// cleaning holds the notes that are being cleaned in this process: claim path to true.
	cleaning sync.Map
	// vault holds the secret arguments of the calls of this process, in memory only.
	vault secretargs.Vault
	// meter reserves and counts what work costs.
	meter *meter.Meter
	// workID is the store through which this worker's work writes; if the store is shared, it is
	// fenced by the worker's lease. Intents of callers go to cfg.Store, without that fence.
	work store.Store
	// ownFiles says that files are stored in Store, so that a fence and a file write are one
	// commit.
	ownFiles bool
	// ports gives work the ports of the stories above it.
	ports ports
}

// above implements what a story needs of the stories above it.
type above struct{ e *Effects }

// Bind implements ports.
func (a above) Bind(env *tool.Env, by *caller) {
	tasks := &taskPort{e: a.e, caller: by}
	agents := &agentPort{e: a.e, caller: by, tasks: tasks}
	env.Tasks, env.Agents, env.TaskMessenger = tasks, agents, agents
	if by.byModel && a.e.cfg.Schedule != nil {
		env.Schedules = &schedulePort{e: a.e, caller: by}
	}
}

// foldBatch is the number of events that are folded in one view, or inside a commit. If others have
// appended more, for example a call that wrote many files, they are folded before the commit.
const foldBatch = 1000

// Forget drops what this process remembers of a session that was removed.
func (e *Effects) Forget(id perdure.SessionID) {
	e.folds.Drop(id)
	e.vault.DropSession(id)
}

// ReleaseSession drops what this process holds for a released session. Its secret arguments are
// lost: the process that continues the session does not have them.
func (e *Effects) ReleaseSession(id perdure.SessionID) {
	e.vault.DropSession(id)
	e.cfg.Telemetry.Leave(id)
}

// ReleaseAll drops the secret arguments of all sessions: this process drives none any more.
func (e *Effects) ReleaseAll() { e.vault.DropAll() }

// Fold reads a session's fold from its snapshot and journal, as of one moment. NotFound: no such
// session.
func Fold(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	s, _, err := foldFromSnapshot(r, id)
	return s, err
}

// foldFromSnapshot is Fold, and also returns the sequence number of the snapshot it started from.
func foldFromSnapshot(r store.Reader, id perdure.SessionID) (s *perdure.Session, saved int64, err error) {
	s = perdure.NewSession(id)
	if snap, err := r.Sessions().Snapshot(id); err == nil {
		if cached, err := perdure.DecodeSnapshot(snap.Version, snap.Body); err == nil && cached.Seq == snap.Seq &&
			cached.ID == id {
			s, saved = cached, snap.Seq
		}
	}
	if err := foldToEnd(r, s); err != nil {
		return nil, 0, err
	}
	if s.Seq == 0 {
		return nil, 0, fmt.Errorf("session %s: %w", id, perdure.NotFound)
	}
	return s, saved, nil
}

// Fold folds a session like the function Fold, starting from the cached session of this process if
// there is one. The caller may change the result.
func (e *Effects) Fold(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	last, ok := e.folds.Get(id)
	if !ok {
		return Fold(r, id)
	}
	row, err := r.Sessions().Get(id)
	if err != nil {
		return nil, err
	}
	s := last.Session
	if s.Seq > row.LastSeq { // the reader's view is older than the cached session
		return Fold(r, id)
	}
	s = s.Clone()
	if s.Seq == row.LastSeq {
		return s, nil
	}
	return s, foldToEnd(r, s)
}

// foldToEnd applies what the journal has after s, page by page.
func foldToEnd(r store.Reader, s *perdure.Session) error {
	for more := true; more; {
		n, err := foldPage(r, s)
		if err != nil {
			return err
		}
		more = n == foldBatch
	}
	return nil
}

// foldPage applies the next page of the journal and returns the number of its events.
func foldPage(r store.Reader, s *perdure.Session) (int, error) {
	page, err := r.Journal().Events(s.ID, s.Seq, foldBatch)
	if err != nil {
		return 0, fmt.Errorf("read journal of %s: %w", s.ID, err)
	}
	for _, event := range page {
		if err := s.Apply(event); err != nil {
			return 0, err
		}
	}
	return len(page), nil
}

// catchUp applies the events that others appended, one page in each view, so that little is left
// to fold inside the driver's next commit.
func (e *Effects) catchUp(ctx context.Context, d *Drive) error {
	for n := foldBatch; n == foldBatch; {
		var next *perdure.Session
		err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
			next = d.session.Successor() // a view may run more than once
			n, err = foldPage(r, next)
			return err
		})
		if err != nil {
			return err
		}
		d.session = next
		// the next driver of the session starts from here
		e.folds.Put(sessioncache.Fold{Session: d.session, Saved: d.snapshotSeq})
	}
	return nil
}

// Wait returns when no goroutine of Effects writes any more. Call it after the runner has stopped.
func (e *Effects) Wait() { e.group.Wait() }

// New checks the configuration and fills in the defaults. Invalid: a required field is missing.
func New(cfg Config) (*Effects, error) {
	if cfg.Store == nil || cfg.Model == nil || cfg.Tools == nil || cfg.Runner == nil || cfg.Worker == "" {
		return nil, fmt.Errorf("%w configuration: store, model, tools, dispatcher and worker are required",
			perdure.Invalid)
	}
	cfg.MaxExecutions = capOf(cfg.MaxExecutions, perdure.DefaultMaxExecutions)
	cfg.NoProgress = capOf(cfg.NoProgress, perdure.DefaultNoProgress)
	cfg.SlotsPerSession = capOf(cfg.SlotsPerSession, 5)
	cfg.SlotsPerProcess = capOf(cfg.SlotsPerProcess, 64)
	cfg.MaxDetached = capOf(cfg.MaxDetached, 32)
	cfg.EvictCap = capOf(cfg.EvictCap, 32)
	if cfg.SoftBudget == 0 {
		cfg.SoftBudget = tool.DefaultSoftBudget
	}
	cfg.SubagentDepth = capOf(cfg.SubagentDepth, 2)
	cfg.SubagentsLive = capOf(cfg.SubagentsLive, 16)
	cfg.SubagentsTotal = capOf(cfg.SubagentsTotal, 200)
	cfg.DeferAbove = capOf(cfg.DeferAbove, 40)
	cfg.QueueLength = capOf(cfg.QueueLength, 32)
	switch {
	case cfg.StallTimeout == 0:
		cfg.StallTimeout = 2 * time.Minute
	case cfg.StallTimeout < 0:
		cfg.StallTimeout = math.MaxInt64
	}
	if cfg.CheckpointBytes <= 0 {
		cfg.CheckpointBytes = checkpointBytes
	}
	if cfg.CheckpointTime <= 0 {
		cfg.CheckpointTime = checkpointTime
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Wake == nil {
		cfg.Wake = func(perdure.SessionID) {}
	}
	if cfg.SlotFreed == nil {
		cfg.SlotFreed = func() {}
	}
	if cfg.EngineRunning == nil {
		cfg.EngineRunning = func() bool { return true }
	}
	if cfg.Stopping == nil {
		cfg.Stopping = func() bool { return false }
	}
	if cfg.Grace <= 0 {
		cfg.Grace = dispatch.DefaultGrace
	}
	if cfg.Activity == nil {
		cfg.Activity = func(perdure.SessionID) {}
	}
	if cfg.Meter == nil {
		cfg.Meter = meter.New(meter.Config{Prices: budget.Prices()})
	}
	if cfg.LeaseHeld == nil {
		cfg.LeaseHeld = func() bool { return true }
	}
	e := &Effects{cfg: cfg, work: cfg.Store, meter: cfg.Meter, backgroundTools: tool.NewRegistry(cfg.BackgroundTools...)}
	if cfg.Shared {
		e.work = fenced{Store: cfg.Store, fence: e.LeaseHolds}
	}
	if cfg.Files == nil {
		e.cfg.Files = func(id perdure.SessionID) (tool.Files, tool.Files) {
			return sessionfile.New(e.work, id, false), sessionfile.New(e.work, id, true)
		}
		e.ownFiles = true
	}
	e.ports = above{e}
	return e, nil
}

// capOf returns a limit: 0 is the default, and a negative number is no limit, which the rules of
// the root write as 0.
func capOf(n, fallback int) int {
	switch {
	case n == 0:
		return fallback
	case n < 0:
		return 0
	}
	return n
}

// NewID returns a new time-ordered identifier.
func NewID[T perdure.ID]() T { return perdure.FormatID[T](uuid.Must(uuid.NewV7())) }

// NewMessageID returns a new random identifier. Clients see message ids, and a UUIDv7 would reveal
// when the message was created.
func NewMessageID() perdure.MessageID { return perdure.FormatID[perdure.MessageID](uuid.New()) }

// newToken returns a new fencing token for a claim.
func newToken() perdure.Token {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return perdure.Token(hex.EncodeToString(b[:]))
}

// stamp gives events ids and, if they have none, a time.
func stamp(events []perdure.Event, now time.Time) {
	for i := range events {
		if events[i].ID == "" {
			events[i].ID = NewID[perdure.EventID]()
		}
		if events[i].At.IsZero() {
			events[i].At = now
		}
	}
}

// settleContext returns a context for the writes that record the end of work. It outlives the
// cancel that ended the work, and ends after 30 seconds.
func settleContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}

// wait waits for d. It reports false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// guarded runs foreign code that runs outside the runner: a tool's start ticket, a file store, a
// model. A panic becomes an error, and its stack is logged.
func (e *Effects) guarded(what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.cfg.Log.Error("panic recovered", "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("%s: panic: %v", what, p)
		}
	}()
	return fn()
}
