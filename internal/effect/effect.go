// Package effect carries out one command of the root: it asks the model, runs or takes over a tool call,
// runs a task, and commits what happened together with the decision that follows from it.
//
// It may import the root, agent, model, tool, dispatch, store, sessionfile and foldcache. The one thing to know: the order of the steps of
// a call is kept here, and only here. Claim, then run, then settle with the event; nothing is told to
// anybody before its commit.
package effect

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/foldcache"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Overflow is what happens to a background run for which there is no place (BG17).
type Overflow string

// The policies for overflow. The zero value is queue.
const (
	OverflowQueue  Overflow = "queue"
	OverflowReject Overflow = "reject"
	OverflowEvict  Overflow = "evict_oldest" // the oldest live background task of the session is canceled
)

// Config is what carrying out commands needs. Store, Model, Tools, Runner and Worker are required.
type Config struct {
	Store  store.Store
	Model  model.Model
	Tools  *tool.Registry
	Runner *dispatch.Runner
	Worker perdure.WorkerID
	// Files opens the files of a session, once as the model sees them and once as the runtime writes them.
	// nil: the store's own files.
	Files func(session perdure.SessionID) (model, runtime tool.Files)
	// Egress is the way out for tools. nil: there is none.
	Egress tool.Egress
	// Ports opens what else a call of a session may reach. nil: nothing.
	Ports func(session perdure.SessionID, call tool.Call) tool.Ports

	MaxExecutions      int           // LG9; 0: perdure.DefaultMaxExecutions; -1: no cap
	NoProgress         int           // TN1; 0: perdure.DefaultNoProgress; -1: off
	ModelAttempts      int           // TN21; 0: perdure.DefaultModelAttempts
	StallTimeout       time.Duration // TN8; 0: two minutes; -1: none
	PerSession         int           // places of a session; 0: 5 (BG16)
	PerProcess         int           // places of the process; 0: 64
	QueueLength        int           // queued runs a session; 0: 32
	Overflow           Overflow      //
	PerSessionDetached int           // detached calls of a session, which take none of its places; 0: 32 (BG16)
	EvictCap           int           // live background tasks of a session before the oldest goes, with OverflowEvict; 0: 32
	DeferAbove         int           // TL37; 0: 40; -1: off
	SoftBudget         time.Duration // of tools that name none; 0: tool.DefaultSoftBudget; -1: they never detach (LN2)
	ApprovalExpiry     time.Duration // 0: approvals never expire (AP6)
	CheckpointBytes    int           // of new text of an answer, before it is stored (TN19); 0: 4 KiB
	CheckpointTime     time.Duration // since its first new text, likewise; 0: 1 s

	Agents         map[string]perdure.Agent // what spawn_subagent may name; nil: none
	SubagentDepth  int                      // of subagents below a root; 0: 2; -1: there are none (SA5)
	SubagentsLive  int                      // at work below a root; 0: 16; -1: no cap
	SubagentsTotal int                      // in all below a root; 0: 200; -1: no cap

	Route    func(tool.Call) dispatch.Route // the host's routing; nil: none (LN2). Called by many at once
	Permit   tool.Permit                    // the host's policy; nil: none (AP1)
	Hooks    []tool.Hook                    // TL35
	HookTime time.Duration                  // that hooks may look at a result; 0: dispatch.DefaultGrace

	Guards []Guard // look at answers while they come (TN9)

	Log *slog.Logger // nil: discarded

	// Wake tells the engine that a session has something new in its journal. nil: nobody listens.
	Wake func(perdure.SessionID)
	// Freed tells the engine that a place may be free. nil: nobody listens.
	Freed func()
	// Works says whether work may begin: an intent that is given to an engine that does not run is carried out by the
	// next start. nil: always.
	Works func() bool
	// Ends says whether the engine is told to stop: then nobody waits for a store that does not answer. nil: never.
	Ends func() bool
	// Sign tells the engine that something happens in a turn: text, progress, output. nil: nobody listens.
	Sign func(perdure.SessionID)

	// Shared says that other workers use the store too: their leases say who of them is dead, and this worker's own work
	// writes nothing once its own lease has passed (LG3). false: every other worker is dead (LG20).
	Shared bool
	// Holds says, where the store is shared, whether this worker's lease holds by its own clock: work begins only while it
	// does (TK8). nil: always.
	Holds func() bool
}

// Effects carries out commands. It is safe for concurrent use.
type Effects struct {
	cfg   Config
	group sync.WaitGroup // ends of tasks that no dispatcher carries
	// folds holds the sessions that this process worked on last, so that nobody folds their journals again.
	folds foldcache.Cache
	// starting holds the tasks whose start is being committed.
	starting startingTasks
	// unstarted holds the tokens of claims and take-overs that this process made and has not acted on yet,
	// so that one whose answer was lost is known as ours (LG5): perdure.Token to perdure.TakeOver, which is
	// empty for a claim.
	unstarted sync.Map
	// calls holds the foreground calls that run: perdure.CallKey to *callRun.
	calls sync.Map
	// detached names the work of the calls that left their turns in this process: perdure.TaskID to string.
	detached sync.Map
	// tasks holds the attempts that run here, where the store is shared: perdure.TaskID to *taskRun.
	tasks sync.Map
	// hosts finds calls of hosts again whose reply was not written whole.
	hosts hostCalls
	// vault holds the secret arguments of the calls that this process was asked for.
	vault veil.Vault
	// work is the store as the work of this worker writes to it. Intents go to cfg.Store.
	work store.Store
	// ownFiles says that files are the store's, so that a fence holds in the commit that writes one.
	ownFiles bool
}

// Forget drops what this process remembers of a session that was removed.
func (e *Effects) Forget(id perdure.SessionID) { e.folds.Drop(id) }

// Wait returns when nothing is written any more by a goroutine of the effects' own.
func (e *Effects) Wait() { e.group.Wait() }

// New checks the configuration and fills in the defaults.
func New(cfg Config) (*Effects, error) {
	if cfg.Store == nil || cfg.Model == nil || cfg.Tools == nil || cfg.Runner == nil || cfg.Worker == "" {
		return nil, fmt.Errorf("%w configuration: store, model, tools, dispatcher and worker are required", perdure.Invalid)
	}
	cfg.MaxExecutions = capOf(cfg.MaxExecutions, perdure.DefaultMaxExecutions)
	cfg.NoProgress = capOf(cfg.NoProgress, perdure.DefaultNoProgress)
	cfg.PerSession = capOf(cfg.PerSession, 5)
	cfg.PerProcess = capOf(cfg.PerProcess, 64)
	cfg.PerSessionDetached = capOf(cfg.PerSessionDetached, 32)
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
	if cfg.Freed == nil {
		cfg.Freed = func() {}
	}
	if cfg.Works == nil {
		cfg.Works = func() bool { return true }
	}
	if cfg.Ends == nil {
		cfg.Ends = func() bool { return false }
	}
	if cfg.HookTime <= 0 {
		cfg.HookTime = dispatch.DefaultGrace
	}
	if cfg.Sign == nil {
		cfg.Sign = func(perdure.SessionID) {}
	}
	if cfg.Holds == nil {
		cfg.Holds = func() bool { return true }
	}
	e := &Effects{cfg: cfg, work: cfg.Store}
	if cfg.Shared {
		e.work = fenced{Store: cfg.Store, fence: e.LeaseHolds}
	}
	if cfg.Files == nil {
		e.cfg.Files = func(id perdure.SessionID) (tool.Files, tool.Files) {
			return sessionfile.New(e.work, id, false), sessionfile.New(e.work, id, true)
		}
		e.ownFiles = true
	}
	return e, nil
}

// capOf reads a cap: 0 is the default and a negative number is no cap, which is 0 to the rules.
func capOf(n, fallback int) int {
	switch {
	case n == 0:
		return fallback
	case n < 0:
		return 0
	}
	return n
}

// NewID mints a time-ordered identifier (N3).
func NewID[T perdure.ID]() T { return perdure.FormatID[T](uuid.Must(uuid.NewV7())) }

// NewMessageID mints a random identifier: messages are shown to clients, and a v7 would tell when they were made (N3).
func NewMessageID() perdure.MessageID { return perdure.FormatID[perdure.MessageID](uuid.New()) }

// newToken mints the proof of a claim.
func newToken() perdure.Token {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return perdure.Token(hex.EncodeToString(b[:]))
}

// stamp gives events their ids and, where they have none, their moment.
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

// settleContext outlives the cancel that ended the work, for the writes that record it.
func settleContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}

// guarded runs a piece of somebody else's code that no dispatcher carries: a tool's ticket, a file store, a
// model. A panic in it becomes an error, and its stack goes to the log (TL5).
func (e *Effects) guarded(what string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.cfg.Log.Error("a panic was caught", "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("%s: panic: %v", what, p)
		}
	}()
	return fn()
}

// Elsewhere is the answer of Take for a session that another worker drives, which lives. It is of kind Lost.
var Elsewhere = fmt.Errorf("%w: another worker has it", perdure.Lost)

// elsewhere reports whether a worker that is not this one lives, by its lease and the store's clock (LG3). Under the
// data-directory lock every other worker is dead (LG20). What cannot be read is not taken from anybody.
func (e *Effects) elsewhere(r store.Reader, id perdure.WorkerID) bool {
	if !e.cfg.Shared || id == "" || id == e.cfg.Worker {
		return false
	}
	w, err := r.Worker(id)
	if err != nil {
		return !errors.Is(err, perdure.NotFound)
	}
	return w.LeaseUntil.After(r.Now())
}

// elsewhereNow is elsewhere outside a transaction.
func (e *Effects) elsewhereNow(ctx context.Context, id perdure.WorkerID) (is bool) {
	if !e.cfg.Shared {
		return false
	}
	err := e.cfg.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		is = e.elsewhere(r, id)
		return nil
	})
	return is || err != nil
}

// live returns the question whether a worker still lives.
func (e *Effects) live(r store.Reader) func(perdure.WorkerID) bool {
	return func(id perdure.WorkerID) bool { return id == e.cfg.Worker || e.elsewhere(r, id) }
}

// LeaseHolds is the fence of all that this worker's work writes where the store is shared: its lease, by the store's clock.
// Lost: it has passed, and others may take what this worker has. Nothing brings it back: a worker dies once.
func (e *Effects) LeaseHolds(r store.Reader) error {
	w, err := r.Worker(e.cfg.Worker)
	if errors.Is(err, perdure.NotFound) || err == nil && !w.LeaseUntil.After(r.Now()) {
		return fmt.Errorf("worker %s: %w: its lease has passed", e.cfg.Worker, perdure.Lost)
	}
	return err
}

// fenced is a store whose transactions ask a fence first, in the same commit. An error of the fence is the transaction's.
type fenced struct {
	store.Store
	fence func(store.Reader) error
}

// InTx runs fn if the fence lets it.
func (f fenced) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return f.Store.InTx(ctx, func(tx store.Tx) error {
		if err := f.fence(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Running lists the tasks whose work runs here and is committed. It is what to ask before a beat: a task that began after
// it is not lost because the beat does not know it.
func (e *Effects) Running() (ids []perdure.TaskID) {
	e.tasks.Range(func(id, _ any) bool {
		ids = append(ids, id.(perdure.TaskID))
		return true
	})
	e.calls.Range(func(_, c any) bool {
		if task, _ := c.(*callRun).asTask(); task.ID != "" {
			ids = append(ids, task.ID)
		}
		return true
	})
	return ids
}

// Beat ends what the store says is canceled, and of what ran here before the beat what is another's by now (LG19, TK8).
func (e *Effects) Beat(ran []perdure.TaskID, beat store.Beat) {
	for _, id := range beat.Canceled {
		e.cancelWork(id, perdure.CauseCanceled)
	}
	if !e.cfg.Shared {
		return
	}
	ours := map[perdure.TaskID]bool{}
	for _, task := range beat.Tasks {
		ours[task.ID] = true
	}
	for _, id := range ran {
		if !ours[id] {
			e.cancelWork(id, perdure.CauseSuperseded)
		}
	}
}

// Abandon ends all work of this worker as another's: its lease has passed, so nothing more of it is written (TK8).
func (e *Effects) Abandon() {
	e.tasks.Range(func(id, _ any) bool {
		e.cfg.Runner.Cancel(string(id.(perdure.TaskID)), perdure.CauseSuperseded)
		return true
	})
	e.calls.Range(func(key, _ any) bool {
		e.cfg.Runner.Cancel(key.(perdure.CallKey).String(), perdure.CauseSuperseded)
		return true
	})
}
