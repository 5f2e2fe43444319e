// Package core holds what the stories of the effect layer share in one process: the configuration,
// the store as this worker writes to it, the cached folds, and the plain rules of ids, leases,
// owners and waiting.
//
// It may import the root, budget, model, tool, dispatch and store, and of internal: meter,
// sessioncache, sessionfile and telemetry.
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
	c := &Core{Config: cfg, Work: cfg.Store}
	if cfg.Shared {
		c.Work = Fenced{Store: cfg.Store, Fence: c.LeaseHolds}
	}
	if cfg.Files == nil {
		c.Files = func(id perdure.SessionID) (tool.Files, tool.Files) {
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
