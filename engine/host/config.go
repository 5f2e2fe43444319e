package host

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/config"
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Config configures an engine. Store, Model and Tools are required; the zero value of every other
// field is its default.
type Config struct {
	Store store.Store // the caller closes it after Run has returned
	Model model.Model
	Tools *tool.Registry
	Log   *slog.Logger // nil: discarded
	// Org owns the payments and outbound calls of this engine: they are counted per org. empty: one
	// count for everybody who shares the store.
	Org string

	Limits   config.Limits   // how much work there may be
	Timing   config.Timing   // how long work may take
	Policies config.Policies // what the program decides about calls and responses
	Ports    config.Ports    // what tools reach outside their call

	Workers   Workers   // the processes that share the store
	Catalogue Catalogue // what callers and agents may choose from
	Billing   Billing   // prices, and the owners of sessions

	// The store's own ports, which a call has if Ports.Open is nil.
	Storage  Storage  // what sessions store outside the store
	Utility  Utility  // the small model that tools may use
	Payments Payments // what tools may pay; zero: nothing

	Outbound    Outbound    // limits the outbound calls of tools (RL1)
	Webhooks    Webhooks    // sends events to webhooks; zero: nowhere
	Cleanup     Cleanup     // of leased resources
	Timekeeping Timekeeping // of schedules
	Telemetry   Telemetry   // exports traces and metrics by OpenTelemetry; zero: nothing
}

// Workers configures how this process shares the store with others.
type Workers struct {
	Shared bool          // other workers use the store too: leases decide which worker is dead, not a lock (LG20)
	Lease  time.Duration // of this worker, at least three times Beat; 0: 10 s
	Beat   time.Duration // the interval of the worker's heartbeats; 0: 2 s
	// Transient says that this process ends with a command, or has tools of its own: it works on
	// what it is asked for, whichever worker leads, and does other work only while none leads
	// (RC12).
	Transient  bool
	OrphanScan time.Duration // how often the leader renews its role and looks for the work of dead workers (RC12); 0: 5 s
	// HomeWait is how long what a command left waits for the next process of its data directory
	// before other workers continue without it (RC24). 0: 2 min; -1: for ever.
	HomeWait time.Duration
}

// Catalogue is what callers and agents may choose from. The zero value is empty.
type Catalogue struct {
	// Capabilities are the capabilities that agents may select, besides those that tools name
	// (TL32). Their tools are added to Config.Tools.
	Capabilities []tool.Capability
	Blueprints   []tool.Blueprint // presets of agents (PL1)
	// Agents are the agents that spawn_subagent may name. nil: only copies of the session's agent.
	Agents    map[string]perdure.Agent
	Providers Providers // parts of the program's configuration that callers can read
}

// Storage is what sessions store outside the store, if the engine uses the store's own ports. The
// caller opens and closes it. With the zero value nothing is stored there.
type Storage struct {
	// Home is the id of the data directory; it is what binds commands that keep running to it, and
	// in a store that several workers share the sessions with files there. Empty: nothing is bound,
	// as for an engine without a data directory.
	Home perdure.HomeID
	// Shared says that every process which uses the store reaches the files of all sessions, for
	// example on a network drive: then no session is bound to a home.
	Shared bool
	// HasFiles reports whether a session of an agent has files of this machine from the start, for
	// example a workspace. It does no I/O and is called concurrently. nil: none has.
	HasFiles func(perdure.Agent) bool
	Secrets  Secrets           // encrypts the secrets of sessions
	Blobs    *blob.Store       // the bytes of large images; nil: the store keeps them
	SQL      *sessionsql.Store // the sessions' own databases; nil: sessions have none
	// Forget removes what the program keeps of a deleted session outside the store, for example its
	// databases; blobs are removed by garbage collection. It is called again after an error or a
	// crash, so it must accept that something is gone already. nil: the program keeps nothing.
	Forget func(context.Context, perdure.SessionID) error
}

// The defaults of Workers, and the time for cleanup writes.
const (
	defaultLease      = 10 * time.Second
	defaultBeat       = 2 * time.Second
	defaultOrphanScan = 5 * time.Second // the interval between scans for the work of dead workers (RC12)
	defaultHomeWait   = 2 * time.Minute // a restart of the machine, or a rolling deployment
	stopTime          = 5 * time.Second // for work to return after its context has ended
)

func withDefaults(cfg Config) Config {
	if cfg.Workers.Lease <= 0 {
		cfg.Workers.Lease = defaultLease
	}
	if cfg.Workers.Beat <= 0 {
		cfg.Workers.Beat = defaultBeat
	}
	cfg.Limits, cfg.Timing = cfg.Limits.WithDefaults(), cfg.Timing.WithDefaults()
	if cfg.Workers.OrphanScan <= 0 {
		cfg.Workers.OrphanScan = defaultOrphanScan
	}
	if cfg.Workers.HomeWait == 0 {
		cfg.Workers.HomeWait = defaultHomeWait
	}
	cfg.Cleanup, cfg.Timekeeping = cfg.Cleanup.withDefaults(), cfg.Timekeeping.withDefaults()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}
