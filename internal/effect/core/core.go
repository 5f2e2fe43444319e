// Package core holds what the stories of the effect layer share in one process: the configuration,
// the store as this worker writes to it, the cached folds, and the plain rules of ids, leases,
// owners and waiting.
//
// It may import the root, budget, model, tool, dispatch, store and engine/config, and of internal:
// meter, sessioncache, sessionfile and telemetry.
//
// The one thing to know: it decides nothing. The packages beside it do, and each holds a Core.
package core

import (
	"fmt"
	"log/slog"
	"math"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/sessioncache"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Core is what the stories share. Make it with New.
type Core struct {
	Config // with its defaults filled in

	// Work is the store through which this worker's work writes; if the store is shared, it is
	// fenced by the worker's lease. Intents of callers go to Config.Store, without that fence.
	Work store.Store
	// OwnFiles says that files are stored in Store, so that a fence and a file write are one
	// commit.
	OwnFiles bool
	// Folds caches the sessions that this process worked on last, which saves folding their
	// journals again.
	Folds sessioncache.Cache
	Group sync.WaitGroup // goroutines outside the runner: task ends, retries
}

// New checks the configuration and fills in the defaults. Invalid: a required field is missing.
func New(cfg Config) (*Core, error) {
	if cfg.Store == nil || cfg.Model == nil || cfg.Tools == nil || cfg.Runner == nil ||
		cfg.Worker == "" || cfg.Scheduler == nil {
		return nil, fmt.Errorf("%w configuration: store, model, tools, runner, worker and scheduler are required",
			perdure.Invalid)
	}
	cfg.Limits, cfg.Timing = cfg.Limits.WithDefaults(), cfg.Timing.WithDefaults()
	for _, limit := range []*int{
		&cfg.Limits.MaxExecutions, &cfg.Limits.NoProgress, &cfg.Limits.SlotsPerSession, &cfg.Limits.SlotsPerProcess,
		&cfg.Limits.DetachedPerSession, &cfg.Limits.EvictCap, &cfg.Limits.SubagentDepth, &cfg.Limits.SubagentsLive,
		&cfg.Limits.SubagentsTotal, &cfg.Limits.DeferAbove, &cfg.Limits.QueueLength,
	} {
		*limit = max(*limit, 0) // the rules of the root write "no limit" as 0
	}
	if cfg.Timing.Stall < 0 {
		cfg.Timing.Stall = math.MaxInt64
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Meter == nil {
		cfg.Meter = meter.New(meter.Config{Prices: budget.Prices()})
	}
	c := &Core{Config: cfg, Work: cfg.Store}
	if cfg.Shared && !cfg.Granted() {
		c.Work = store.Fenced{Store: cfg.Store, Fence: c.LeaseHolds}
	}
	if cfg.Ports.Files == nil {
		c.Ports.Files = func(id perdure.SessionID) (tool.Files, tool.Files) {
			return sessionfile.New(c.Work, id, false), sessionfile.New(c.Work, id, true)
		}
		c.OwnFiles = true
	}
	return c, nil
}
