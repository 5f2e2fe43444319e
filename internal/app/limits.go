package app

import (
	"cmp"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/settings"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/tool/shell"
)

// withLimits sets the limits of an engine as a user set them. A limit that is not set is the
// engine's default.
func withLimits(cfg *local.Config, l cli.Limits) error {
	cfg.Limits = local.Limits{
		Iterations: int(l.Turns.Iterations), ParallelCalls: int(l.Turns.ParallelCalls),
		Continuations: int(l.Turns.Continuations), NoProgress: int(l.Turns.NoProgress),
		ModelAttempts: int(l.Turns.ModelAttempts), CheckpointBytes: int(l.Turns.CheckpointBytes),
		DeferAbove: int(l.Turns.DeferAbove), MaxExecutions: int(l.Calls.MaxExecutions),
		ResultBytes:     int(l.Calls.ResultBytes),
		SlotsPerSession: int(l.Tasks.SlotsPerSession), SlotsPerProcess: int(l.Tasks.SlotsPerProcess),
		DetachedPerSession: int(l.Tasks.DetachedPerSession), QueueLength: int(l.Tasks.QueueLength),
		Overflow: local.Overflow(l.Tasks.Overflow), EvictCap: int(l.Tasks.EvictCap),
		PruneBatch:    int(l.Tasks.PruneBatch),
		SubagentDepth: int(l.Schedules.SubagentDepth), SubagentsLive: int(l.Schedules.SubagentsLive),
		SubagentsTotal: int(l.Schedules.SubagentsTotal),
	}
	budgets, err := settings.Spans(l.Calls.SoftBudgets)
	if err != nil {
		return fmt.Errorf("%w limit: limits.soft-budgets: %w", perdure.Invalid, err)
	}
	t := &cfg.Timing
	t.Stall, t.Idle, t.IdleHardCap = span(l.Turns.Stall), span(l.Turns.Idle), span(l.Turns.IdleHardCap)
	t.Checkpoint, t.SoftBudget, t.SoftBudgets = span(l.Turns.Checkpoint), span(l.Calls.SoftBudget), budgets
	t.Deadline, t.CallStall, t.MaxWait = span(l.Calls.Deadline), span(l.Calls.CallStall), span(l.Calls.MaxWait)
	t.Grace, t.ApprovalExpiry = span(l.Calls.Grace), span(l.Calls.ApprovalExpiry)

	cfg.Timekeeping = local.Timekeeping{Schedules: scheduleRules(l.Schedules),
		CatchupParallel: int(l.Schedules.CatchupParallel)}
	cfg.Outbound.PerMinute, cfg.Billing.Answer = int(l.Network.OutboundPerMinute), int(l.Network.ReservedAnswer)
	if l.Network.SessionCost != "" {
		if cfg.Billing.SessionLimit, err = budget.Parse(string(l.Network.SessionCost)); err != nil {
			return fmt.Errorf("%w limit: limits.session-cost: %w", perdure.Invalid, err)
		}
	}
	c, w := &cfg.Cleanup, &cfg.Workers
	c.Interval, c.Claim = span(l.Storage.CleanupInterval), span(l.Storage.CleanupClaim)
	c.Attempts, c.Page = int(l.Storage.CleanupAttempts), int(l.Storage.CleanupPage)
	w.Lease, w.Beat, w.OrphanScan = span(l.Storage.Lease), span(l.Storage.Beat), span(l.Storage.OrphanScan)
	w.HomeWait = span(l.Storage.HomeWait)
	return checkTogether(l)
}

// checkTogether refuses limits that contradict each other, by their names. The engine refuses them
// too, by the names of its fields.
func checkTogether(l cli.Limits) error {
	for _, pair := range []struct {
		name, other string
		value       settings.Span
		factor      int
		of          settings.Span
	}{
		{"idle", "max-wait", l.Turns.Idle, 2, l.Calls.MaxWait},
		{"idle-hard-cap", "max-wait", l.Turns.IdleHardCap, 2, l.Calls.MaxWait},
		{"lease", "beat", l.Storage.Lease, 3, l.Storage.Beat},
	} {
		if least := time.Duration(pair.factor) * span(pair.of); pair.value > 0 && span(pair.value) < least {
			return fmt.Errorf("%w limit: limits.%s is %s, but must be at least %d times limits.%s, %s",
				perdure.Invalid, pair.name, span(pair.value), pair.factor, pair.other, span(pair.of))
		}
	}
	return nil
}

// span returns a time of the configuration of an engine, in which -1 is for ever.
func span(s settings.Span) time.Duration { return time.Duration(s) }

// scheduleRules returns the rules of schedules, in which 0 is no limit.
func scheduleRules(l settings.ScheduleLimits) perdure.ScheduleRules {
	d := perdure.DefaultScheduleRules()
	return perdure.ScheduleRules{
		PerSession:  rule(int(l.SchedulesPerSession), d.PerSession),
		PerOrg:      rule(int(l.SchedulesPerOrg), d.PerOrg),
		MinInterval: rule(span(l.ScheduleMinInterval), d.MinInterval),
		MaxFailures: rule(int(l.ScheduleMaxFailures), d.MaxFailures),
		Window:      rule(span(l.ScheduleWindow), d.Window),
		MaxCatchup:  rule(int(l.ScheduleMaxCatchup), d.MaxCatchup),
		Grace:       rule(span(l.ScheduleGrace), d.Grace),
	}
}

// rule returns a limit of which 0 is none.
func rule[N int | time.Duration](set, fallback N) N { return max(cmp.Or(set, fallback), 0) }

// sandboxLimits returns the limits of a confined command.
func sandboxLimits(l settings.SandboxLimits) shell.Limits {
	return shell.Limits{
		Processes: int(l.SandboxProcesses), MemoryBytes: int64(l.SandboxMemory), OpenFiles: int(l.SandboxOpenFiles),
		FileBytes: int64(l.SandboxFileBytes), CPU: span(l.SandboxCPU), DiskBytes: int64(l.SandboxDisk),
	}
}

// withEgressLimits sets the limits of the requests of tools.
func withEgressLimits(cfg *egress.Config, l settings.NetworkLimits) {
	cfg.MaxRequestBytes, cfg.MaxResponseBytes = int64(l.EgressRequestBytes), int64(l.EgressResponseBytes)
	cfg.Timeout, cfg.HeaderTimeout = span(l.EgressTimeout), span(l.EgressHeaderTimeout)
}

// sqlLimits returns the limits of the databases of sessions.
func sqlLimits(l settings.StorageLimits) local.SQLLimits {
	return local.SQLLimits{
		Databases: int(l.SQLDatabases), DatabaseBytes: int64(l.SQLDatabaseBytes),
		SessionBytes: int64(l.SQLSessionBytes), Timeout: span(l.SQLTimeout),
	}
}
