package local

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Overflow is what happens to a background run for which there is no place (BG17).
type Overflow = perdure.Overflow

// Guard looks at the text of an answer while it comes (TN9).
type Guard = effect.Guard

// The policies for overflow. The zero value of Config is queue.
const (
	OverflowQueue  = perdure.OverflowQueue
	OverflowReject = perdure.OverflowReject
	OverflowEvict  = perdure.OverflowEvict
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
	// Ports opens what else a call of a session may reach: its values, secrets, resources … The call says whose the session is, by
	// its Org and its User; one without an ID is the runtime's own, for the session's images, secrets and masks. nil: the store's own.
	Ports   func(session perdure.SessionID, call tool.Call) tool.Ports
	Secrets Secrets // of the store's own ports
	Beside  Beside  // likewise: large images, databases
	Utility Utility // likewise: the small model of tools
	Money   Money   // what work costs, and whose it is

	Payments Payments // likewise: what tools may pay; the zero value is nothing
	Outbound Outbound // how often tools may go out (RL1)
	Webhooks Webhooks // where events are sent; the zero value is nowhere
	Org      string   // whose payments and calls are counted together; empty: those of all who share the store

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
	IdleTimeout        time.Duration // in which nothing happens in a turn, before it fails (RC19); 0: 30 min; -1: off; at least twice what a tool may wait (18 min)
	IdleHardCap        time.Duration // likewise, while a foreground call runs that names no longer time itself; 0: 2 h; at least as IdleTimeout
	ApprovalExpiry     time.Duration // 0: approvals never expire
	CheckpointBytes    int           // of new text of an answer, before it is stored (TN19); 0: 4 KiB
	CheckpointTime     time.Duration // since its first new text, likewise; 0: 1 s

	Capabilities []tool.Capability // that agents may choose, beside those that tools name (TL32); their tools are the engine's, too
	Blueprints   []tool.Blueprint  // named presets of agents (PL1)

	Agents         map[string]perdure.Agent // agents that spawn_subagent may name; nil: only ones like the session's own
	SubagentDepth  int                      // of subagents below a root session; 0: 2; -1: there are none (SA5)
	SubagentsLive  int                      // at work below a root; 0: 16; -1: no cap
	SubagentsTotal int                      // in all below a root; 0: 200; -1: no cap

	Given Given // what else callers may see of the program: agents, connections, providers

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
	// Return is how long Run waits after Drain for work to return, whose context has ended by then; 0: 5 s.
	Return time.Duration
	Lease  time.Duration // of the worker; 0: 10 s
	Beat   time.Duration // of the worker; 0: 2 s
	Log    *slog.Logger  // nil: discarded

	Telemetry Telemetry // who is told what happens, by OpenTelemetry; the zero value is nobody

	Shared     bool          // other workers use the store too: leases decide who is dead, not a lock (LG20)
	OrphanScan time.Duration // how often a shared store is searched for what dead workers left (RC12); 0: 5 s
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
	if cfg.Return <= 0 {
		cfg.Return = stopTime
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
