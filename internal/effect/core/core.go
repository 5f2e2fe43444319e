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
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/dispatch"
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
	cfg.Limits.MaxExecutions = capOf(cfg.Limits.MaxExecutions, perdure.DefaultMaxExecutions)
	cfg.Limits.NoProgress = capOf(cfg.Limits.NoProgress, perdure.DefaultNoProgress)
	cfg.Limits.SlotsPerSession = capOf(cfg.Limits.SlotsPerSession, 5)
	cfg.Limits.SlotsPerProcess = capOf(cfg.Limits.SlotsPerProcess, 64)
	cfg.Limits.DetachedPerSession = capOf(cfg.Limits.DetachedPerSession, 32)
	cfg.Limits.EvictCap = capOf(cfg.Limits.EvictCap, 32)
	if cfg.Timing.SoftBudget == 0 {
		cfg.Timing.SoftBudget = tool.DefaultSoftBudget
	}
	cfg.Limits.SubagentDepth = capOf(cfg.Limits.SubagentDepth, 2)
	cfg.Limits.SubagentsLive = capOf(cfg.Limits.SubagentsLive, 16)
	cfg.Limits.SubagentsTotal = capOf(cfg.Limits.SubagentsTotal, 200)
	cfg.Limits.DeferAbove = capOf(cfg.Limits.DeferAbove, 40)
	cfg.Limits.QueueLength = capOf(cfg.Limits.QueueLength, 32)
	switch {
	case cfg.Timing.Stall == 0:
		cfg.Timing.Stall = 2 * time.Minute
	case cfg.Timing.Stall < 0:
		cfg.Timing.Stall = math.MaxInt64
	}
	if cfg.Limits.CheckpointBytes <= 0 {
		cfg.Limits.CheckpointBytes = checkpointBytes
	}
	if cfg.Timing.Checkpoint <= 0 {
		cfg.Timing.Checkpoint = checkpointTime
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Timing.Grace <= 0 {
		cfg.Timing.Grace = dispatch.DefaultGrace
	}
	if cfg.Meter == nil {
		cfg.Meter = meter.New(meter.Config{Prices: budget.Prices()})
	}
	c := &Core{Config: cfg, Work: cfg.Store}
	if cfg.Shared {
		c.Work = Fenced{Store: cfg.Store, Fence: c.LeaseHolds}
	}
	if cfg.Ports.Files == nil {
		c.Ports.Files = func(id perdure.SessionID) (tool.Files, tool.Files) {
			return sessionfile.New(c.Work, id, false), sessionfile.New(c.Work, id, true)
		}
		c.OwnFiles = true
	}
	return c, nil
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
