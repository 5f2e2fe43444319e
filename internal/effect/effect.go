// Package effect carries out one command of the root: it asks the model, runs or takes over a tool call,
// runs a task, and commits what happened together with the decision that follows from it.
//
// It may import the root, agent, budget, model, tool, dispatch, store, and of internal: sessionfile, foldcache, meter, telemetry
// and veil. The one thing to know: the order of the steps of a call is kept here, and only here. Claim, then run, then settle
// with the event; nothing is told to anybody before its commit.
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
	"github.com/perdure/perdure/internal/foldcache"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Config is what carrying out commands needs. Store, Model, Tools, Runner and Worker are required.
type Config struct {
	Store store.Store
	Model model.Model
	Tools *tool.Registry
	// Watching is the tools that wait for background work, list it and end it. A session has them as soon as work of it has
	// left its turn, whatever Tools has. nil: only what Tools has.
	Watching []tool.Tool
	Runner   *dispatch.Runner
	Worker   perdure.WorkerID
	// Files opens the files of a session, once as the model sees them and once as the runtime writes them.
	// nil: the store's own files.
	Files func(session perdure.SessionID) (model, runtime tool.Files)
	// Egress is the way out for tools. nil: there is none.
	Egress tool.Egress
	// Ports opens what else a call of a session may reach. nil: nothing.
	Ports func(session perdure.SessionID, call tool.Call) tool.Ports

	// Outbound is asked before a call that goes out is claimed, for the organisation Org (RL1). nil: nobody is.
	Outbound tool.OutboundRateLimiter
	Org      string // empty: there are no organisations

	MaxExecutions      int           // LG9; 0: perdure.DefaultMaxExecutions; -1: no cap
	NoProgress         int           // TN1; 0: perdure.DefaultNoProgress; -1: off
	ModelAttempts      int           // TN21; 0: perdure.DefaultModelAttempts
	StallTimeout       time.Duration // TN8; 0: two minutes; -1: none
	PerSession         int           // places of a session; 0: 5 (BG16)
	PerProcess         int           // places of the process; 0: 64
	QueueLength        int           // queued runs a session; 0: 32
	Overflow           perdure.Overflow
	PerSessionDetached int           // detached calls of a session, which take none of its places; 0: 32 (BG16)
	EvictCap           int           // live background tasks of a session before the oldest goes, with OverflowEvict; 0: 32
	DeferAbove         int           // TL37; 0: 40; -1: off
	SoftBudget         time.Duration // of tools that name none; 0: tool.DefaultSoftBudget; -1: they never detach (LN2)
	ApprovalExpiry     time.Duration // 0: approvals never expire (AP6)
	ScheduleFailures   int           // failed fires in a row before a schedule is paused; 0: never (SC17)
	CheckpointBytes    int           // of new text of an answer, before it is stored (TN19); 0: 4 KiB
	CheckpointTime     time.Duration // since its first new text, likewise; 0: 1 s

	Agents         map[string]perdure.Agent // what spawn_subagent may name; nil: none
	SubagentDepth  int                      // of subagents below a root; 0: 2; -1: there are none (SA5)
	SubagentsLive  int                      // at work below a root; 0: 16; -1: no cap
	SubagentsTotal int                      // in all below a root; 0: 200; -1: no cap

	Route  func(tool.Call) dispatch.Route // the host's routing; nil: none (LN2). Called by many at once
	Permit tool.Permit                    // the host's policy; nil: none (AP1)
	Hooks  []tool.Hook                    // TL35
	Grace  time.Duration                  // from cancel to fence, and what hooks have for a result; 0: dispatch.DefaultGrace

	// Meter says what work costs. nil: the prices that come with the program.
	Meter *meter.Meter

	Guards []Guard // look at answers while they come (TN9)

	Telemetry *telemetry.Telemetry // nil: nobody is told
	Log       *slog.Logger         // nil: discarded

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

	// Schedule makes a schedule for a call of a model, with its monitor where it asks for one, in one commit (BG6). The same call
	// makes it once. nil: there are no schedules.
	Schedule func(ctx context.Context, s perdure.Schedule, by *ScheduleCall) (perdure.Schedule, error)

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
	// watching is Config.Watching. Where the host has a tool of one of the names, that one is taken.
	watching *tool.Registry
	// starting holds the tasks whose start is being committed.
	starting startingTasks
	// ends tells who waits here that a task has ended in this process.
	ends taskEnds
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
	// cleaning are the notes that are cleaned here: where their claims stand, to true.
	cleaning sync.Map
	// vault holds the secret arguments of the calls that this process was asked for.
	vault veil.Vault
	// meter reserves and counts what work costs.
	meter *meter.Meter
	// work is the store as the work of this worker writes to it. Intents go to cfg.Store.
	work store.Store
	// ownFiles says that files are the store's, so that a fence holds in the commit that writes one.
	ownFiles bool
}

// Forget drops what this process remembers of a session that was removed.
func (e *Effects) Forget(id perdure.SessionID) {
	e.folds.Drop(id)
	e.vault.DropSession(id)
}

// LetGo forgets the secret arguments of a session's calls: another process carries them on, without.
func (e *Effects) LetGo(id perdure.SessionID) {
	e.vault.DropSession(id)
	e.cfg.Telemetry.Leave(id)
}

// LetAllGo is LetGo for all sessions: this process carries on none.
func (e *Effects) LetAllGo() { e.vault.DropAll() }

// Fold reads a session's fold from its snapshot and journal, as of one moment. NotFound: no such session.
func Fold(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	s, _, err := foldSaved(r, id)
	return s, err
}

// foldSaved also says how far the snapshot goes with which it began.
func foldSaved(r store.Reader, id perdure.SessionID) (s *perdure.Session, saved int64, err error) {
	s = perdure.NewSession(id)
	if snap, err := r.Snapshot(id); err == nil {
		if cached, err := perdure.DecodeSnapshot(snap.Version, snap.Body); err == nil && cached.Seq == snap.Seq && cached.ID == id {
			s, saved = cached, snap.Seq
		}
	}
	if err := catchUp(r, s); err != nil {
		return nil, 0, err
	}
	if s.Seq == 0 {
		return nil, 0, fmt.Errorf("session %s: %w", id, perdure.NotFound)
	}
	return s, saved, nil
}

// Fold is the function Fold, and begins with what this process knows of the session. The caller may change the fold.
func (e *Effects) Fold(r store.Reader, id perdure.SessionID) (*perdure.Session, error) {
	last, ok := e.folds.Get(id)
	if !ok {
		return Fold(r, id)
	}
	row, err := r.Session(id)
	if err != nil {
		return nil, err
	}
	s := last.Session
	if s.Seq > row.LastSeq { // the reader is older
		return Fold(r, id)
	}
	s = s.Clone()
	if s.Seq == row.LastSeq {
		return s, nil
	}
	return s, catchUp(r, s)
}

// catchUp folds what the journal has beyond the session, page by page.
func catchUp(r store.Reader, s *perdure.Session) error {
	for more := true; more; {
		n, err := foldPage(r, s)
		if err != nil {
			return err
		}
		more = n == foldBatch
	}
	return nil
}

// foldPage folds the next events of the journal, and says how many there were.
func foldPage(r store.Reader, s *perdure.Session) (int, error) {
	page, err := r.Events(s.ID, s.Seq, foldBatch)
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

// approach folds what others wrote, a page in a view, so that the next commit of the driver finds little more to fold.
func (e *Effects) approach(ctx context.Context, d *Drive) error {
	for n := foldBatch; n == foldBatch; {
		var next *perdure.Session
		err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
			next = d.session.Successor() // a view may run again
			n, err = foldPage(r, next)
			return err
		})
		if err != nil {
			return err
		}
		d.session = next
		e.folds.Keep(foldcache.Fold{Session: d.session, Saved: d.saved}) // who takes the session next goes on from here
	}
	return nil
}

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
	if cfg.Grace <= 0 {
		cfg.Grace = dispatch.DefaultGrace
	}
	if cfg.Sign == nil {
		cfg.Sign = func(perdure.SessionID) {}
	}
	if cfg.Meter == nil {
		cfg.Meter = meter.New(meter.Config{Prices: budget.Prices()})
	}
	if cfg.Holds == nil {
		cfg.Holds = func() bool { return true }
	}
	e := &Effects{cfg: cfg, work: cfg.Store, meter: cfg.Meter, watching: tool.NewRegistry(cfg.Watching...)}
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

// wait waits for d, and reports whether it did.
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
