package config

import (
	"cmp"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// DefaultLimits returns the limits that the zero value of Limits stands for.
func DefaultLimits() Limits {
	return Limits{
		MaxExecutions: perdure.DefaultMaxExecutions, NoProgress: perdure.DefaultNoProgress,
		ModelAttempts:   perdure.DefaultModelAttempts,
		SlotsPerSession: dispatch.DefaultPerSession, SlotsPerProcess: dispatch.DefaultPerProcess,
		DetachedPerSession: dispatch.DefaultDetached, QueueLength: dispatch.DefaultQueued,
		Overflow: perdure.OverflowQueue, EvictCap: dispatch.DefaultLive,
		SubagentDepth: 2, SubagentsLive: 16, SubagentsTotal: 200,
		ResultBytes: tool.ResultLimit, DeferAbove: 40, CheckpointBytes: 4 << 10, PruneBatch: 100,
	}
}

// DefaultTiming returns the times that the zero value of Timing stands for.
func DefaultTiming() Timing {
	return Timing{
		SoftBudget: tool.DefaultSoftBudget, Deadline: tool.DefaultDeadline, MaxWait: 9 * time.Minute,
		Stall: 2 * time.Minute, Idle: 30 * time.Minute, IdleHardCap: 2 * time.Hour,
		Checkpoint: time.Second, Grace: dispatch.DefaultGrace, Drain: 10 * time.Second, Return: 5 * time.Second,
		Retention: 30 * 24 * time.Hour,
	}
}

// WithDefaults replaces each zero by its default. What is switched off, -1, stays.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits()
	l.MaxExecutions = cmp.Or(l.MaxExecutions, d.MaxExecutions)
	l.NoProgress = cmp.Or(l.NoProgress, d.NoProgress)
	l.ModelAttempts = cmp.Or(max(l.ModelAttempts, 0), d.ModelAttempts)
	l.SlotsPerSession = cmp.Or(l.SlotsPerSession, d.SlotsPerSession)
	l.SlotsPerProcess = cmp.Or(l.SlotsPerProcess, d.SlotsPerProcess)
	l.DetachedPerSession = cmp.Or(l.DetachedPerSession, d.DetachedPerSession)
	l.QueueLength = cmp.Or(l.QueueLength, d.QueueLength)
	l.Overflow = cmp.Or(l.Overflow, d.Overflow)
	l.EvictCap = cmp.Or(l.EvictCap, d.EvictCap)
	l.SubagentDepth = cmp.Or(l.SubagentDepth, d.SubagentDepth)
	l.SubagentsLive = cmp.Or(l.SubagentsLive, d.SubagentsLive)
	l.SubagentsTotal = cmp.Or(l.SubagentsTotal, d.SubagentsTotal)
	if l.ResultBytes <= 0 || l.ResultBytes > d.ResultBytes {
		l.ResultBytes = d.ResultBytes // tools fit their own output to this size
	}
	l.DeferAbove = cmp.Or(l.DeferAbove, d.DeferAbove)
	l.CheckpointBytes = cmp.Or(max(l.CheckpointBytes, 0), d.CheckpointBytes)
	l.PruneBatch = cmp.Or(max(l.PruneBatch, 0), d.PruneBatch)
	return l
}

// WithDefaults replaces each zero by its default. What is switched off, -1, stays.
func (t Timing) WithDefaults() Timing {
	d := DefaultTiming()
	t.SoftBudget = cmp.Or(t.SoftBudget, d.SoftBudget)
	t.Deadline = cmp.Or(max(t.Deadline, 0), d.Deadline)
	t.CallStall = max(t.CallStall, 0)
	t.MaxWait = cmp.Or(max(t.MaxWait, 0), d.MaxWait)
	t.Stall = cmp.Or(t.Stall, d.Stall)
	t.Idle = cmp.Or(t.Idle, d.Idle)
	t.IdleHardCap = cmp.Or(max(t.IdleHardCap, 0), d.IdleHardCap)
	t.ApprovalExpiry = max(t.ApprovalExpiry, 0)
	t.Checkpoint = cmp.Or(max(t.Checkpoint, 0), d.Checkpoint)
	t.Grace = cmp.Or(max(t.Grace, 0), d.Grace)
	t.Drain = cmp.Or(t.Drain, d.Drain)
	t.Return = cmp.Or(max(t.Return, 0), d.Return)
	t.Retention = cmp.Or(t.Retention, d.Retention)
	return t
}
