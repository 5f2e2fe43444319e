package host

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Overflow is the policy for a background run without a free slot (BG17).
type Overflow = perdure.Overflow

// Guard is a guardrail: it checks a model response while it streams (TN9).
type Guard = core.Guardrail

// The overflow policies. Config uses OverflowQueue if it names none.
const (
	OverflowQueue  = perdure.OverflowQueue
	OverflowReject = perdure.OverflowReject
	OverflowEvict  = perdure.OverflowEvict
)

// Config configures an engine. Store, Model and Tools are required.
type Config struct {
	Store store.Store // the caller closes it after Run has returned
	Model model.Model
	Tools *tool.Registry
	// Files opens the files of a session: once as the model sees them, once as the runtime writes
	// them. nil: the store's own files.
	Files func(session perdure.SessionID) (model, runtime tool.Files)
	// Egress carries the outgoing traffic of tools. nil: there is none, and tools that need it
	// return an error.
	Egress tool.Egress
	// Ports opens the other ports of a call: values, secrets, resources and so on. call.Org and
	// call.User name the owner of the session. A call without an ID is the runtime's own, for the
	// session's images, secrets and masks. nil: the store's own ports.
	Ports      func(session perdure.SessionID, call tool.Call) tool.Ports
	Secrets    Secrets    // for the store's own ports
	BlobConfig BlobConfig // for the store's own ports: large images, databases
	Utility    Utility    // for the store's own ports: the small model that tools may use
	Billing    Billing    // prices, and the owners of sessions

	Payments Payments // for the store's own ports: what tools may pay; zero: nothing
	Outbound Outbound // limits the outbound calls of tools (RL1)
	Webhooks Webhooks // sends events to webhooks; zero: nowhere
	// Org owns the payments and outbound calls of this engine: they are counted per org. empty: one
	// count for everybody who shares the store.
	Org           string
	MaxExecutions int      // executions of a pure or idempotent call (LG9); 0: 3; -1: no limit
	NoProgress    int      // resumes of a turn without a new event before it is sealed (TN1); 0: 3; -1: off
	ModelAttempts int      // attempts of a model call; 0: 5
	PerSession    int      // running background runs per session; 0: 5; -1: no limit
	PerProcess    int      // running background runs per process; 0: 64; -1: no limit
	QueueLength   int      // queued runs per session; 0: 32
	Overflow      Overflow // what happens to a run without a slot; empty: OverflowQueue
	DeferAbove    int      // with more tools than this, schemas are loaded on demand (TL37); 0: 40; -1: never
	// MaxDetached limits the detached calls per session, which do not count for SlotsPerSession.
	// 0: 32; -1: no limit.
	PerSessionDetached int
	EvictCap           int // live background tasks per session before OverflowEvict cancels the oldest; 0: 32
	// SoftBudget is the execution time after which a foreground call is detached (LN3), unless its
	// tool sets one. 0: 600 s; -1: never.
	SoftBudget time.Duration
	// StallTimeout is the time without text from the model after which the model call is retried
	// (TN8). 0: 2 min; -1: none.
	StallTimeout time.Duration
	// IdleTimeout is the time without any activity in a turn after which the turn fails (RC19). It
	// is at least twice the longest wait of a tool (18 min). 0: 30 min; -1: off.
	IdleTimeout time.Duration
	// IdleHardCap replaces IdleTimeout while a foreground call runs that does not state a longer
	// time itself. It is at least IdleTimeout. 0: 2 h.
	IdleHardCap     time.Duration
	ApprovalExpiry  time.Duration // 0: approvals never expire
	CheckpointBytes int           // new text of a model response after which it is stored (TN19); 0: 4 KiB
	CheckpointTime  time.Duration // time since the first new text after which it is stored; 0: 1 s
	// Capabilities are the capabilities that agents may select, besides those that tools name
	// (TL32). Their tools are added to Tools.
	Capabilities []tool.Capability
	Blueprints   []tool.Blueprint // find presets of agents (PL1)

	// Agents are the agents that spawn_subagent may name; nil: only copies of the session's agent.
	Agents         map[string]perdure.Agent
	SubagentDepth  int // levels of subagents below a root session; 0: 2; -1: no subagents (SA5)
	SubagentsLive  int // loop subagents below a root session; 0: 16; -1: no limit
	SubagentsTotal int // subagents ever started below a root session; 0: 200; -1: no limit

	Providers Providers // parts of the program's configuration that callers can read: agents, connections, providers

	Route func(tool.Call) dispatch.Route // decides the lane of a call and its soft budget; nil: as its tool says (LN2)
	// Permit evaluates the permissions of calls (AP1). nil: everything is allowed, unless the tool
	// asks.
	Permit tool.Permit
	Hooks  []tool.Hook // see calls before they run and results before they are stored (TL35)
	// Guards check model responses while they stream, and end those that must not be shown (TN9).
	Guards []Guard

	Retention   time.Duration // how long an ended and delivered task is kept (TK16); 0: 30 days; -1: for ever
	PruneBatch  int           // tasks that are pruned in one commit; 0: 100
	Cleanup                   // of leased resources
	Timekeeping               // scheduleOf schedules
	// Forget removes what the host keeps of a deleted session outside the store. It is called again
	// after an error or a crash, so it must accept that something is gone already. nil: the host
	// keeps nothing.
	Forget func(context.Context, perdure.SessionID) error

	Grace time.Duration // grace period from a cancel to the fence; 0: 10 s
	Drain time.Duration // how long Run lets work settle after its ctx ends; 0: 10 s; -1: none
	// Return is how long Run waits after Drain for work to return. The context of that work has
	// ended by then. 0: 5 s.
	Return time.Duration
	Lease  time.Duration // of the worker; 0: 10 s
	Beat   time.Duration // the interval of the worker's heartbeats; 0: 2 s
	Log    *slog.Logger  // nil: discarded

	Telemetry Telemetry // exports traces and metrics by OpenTelemetry; zero: nothing

	Shared     bool          // other workers use the store too: leases decide which worker is dead, not a lock (LG20)
	OrphanScan time.Duration // how often a shared store is scanned for the work of dead workers (RC12); 0: 5 s
}

// The default timings.
const (
	defaultLease      = 10 * time.Second
	defaultBeat       = 2 * time.Second
	defaultDrain      = 10 * time.Second
	defaultOrphanScan = 5 * time.Second // the interval between scans for the work of dead workers (RC12)
	stopTime          = 5 * time.Second // for work to return after its context has ended
)

func withDefaults(cfg Config) Config {
	if cfg.Lease <= 0 {
		cfg.Lease = defaultLease
	}
	if cfg.Beat <= 0 {
		cfg.Beat = defaultBeat
	}
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, defaultIdle)
	if cfg.IdleHardCap <= 0 {
		cfg.IdleHardCap = defaultIdleHard
	}
	cfg.Drain = cmp.Or(cfg.Drain, defaultDrain)
	if cfg.Return <= 0 {
		cfg.Return = stopTime
	}
	if cfg.OrphanScan <= 0 {
		cfg.OrphanScan = defaultOrphanScan
	}
	cfg.Retention = cmp.Or(cfg.Retention, engine.DefaultRetention)
	if cfg.PruneBatch <= 0 {
		cfg.PruneBatch = defaultPruneBatch
	}
	cfg.Cleanup, cfg.Timekeeping = cfg.Cleanup.withDefaults(), cfg.Timekeeping.withDefaults()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}
