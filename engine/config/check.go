package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// bound is the least value of a setting.
type bound struct {
	name         string
	value, least int64
}

// Check returns an Invalid error if a limit is negative and has no such value: -1 switches off the
// limits that say so.
func (l Limits) Check() error {
	const off = -1
	return checkBounds("Limits", []bound{
		{"MaxExecutions", int64(l.MaxExecutions), off}, {"NoProgress", int64(l.NoProgress), off},
		{"ModelAttempts", int64(l.ModelAttempts), 0}, {"SlotsPerSession", int64(l.SlotsPerSession), off},
		{"SlotsPerProcess", int64(l.SlotsPerProcess), off}, {"DetachedPerSession", int64(l.DetachedPerSession), off},
		{"QueueLength", int64(l.QueueLength), off}, {"EvictCap", int64(l.EvictCap), off},
		{"SubagentDepth", int64(l.SubagentDepth), off}, {"SubagentsLive", int64(l.SubagentsLive), off},
		{"SubagentsTotal", int64(l.SubagentsTotal), off}, {"Iterations", int64(l.Iterations), 0},
		{"ParallelCalls", int64(l.ParallelCalls), 0}, {"Continuations", int64(l.Continuations), 0},
		{"ResultBytes", int64(l.ResultBytes), 0}, {"DeferAbove", int64(l.DeferAbove), off},
		{"CheckpointBytes", int64(l.CheckpointBytes), 0}, {"PruneBatch", int64(l.PruneBatch), 0},
	})
}

// Check returns an Invalid error if a time is negative and has no such value: -1 switches off the
// times that say so.
func (t Timing) Check() error {
	const off = -1
	all := []bound{
		{"SoftBudget", int64(t.SoftBudget), off}, {"Deadline", int64(t.Deadline), 0},
		{"CallStall", int64(t.CallStall), 0}, {"MaxWait", int64(t.MaxWait), 0}, {"Stall", int64(t.Stall), off},
		{"Idle", int64(t.Idle), off}, {"IdleHardCap", int64(t.IdleHardCap), 0},
		{"ApprovalExpiry", int64(t.ApprovalExpiry), 0}, {"Checkpoint", int64(t.Checkpoint), 0},
		{"Grace", int64(t.Grace), 0}, {"Drain", int64(t.Drain), off}, {"Return", int64(t.Return), 0},
		{"Retention", int64(t.Retention), off},
	}
	for _, name := range slices.Sorted(maps.Keys(t.SoftBudgets)) {
		all = append(all, bound{"SoftBudgets of " + name, int64(t.SoftBudgets[name]), off})
	}
	return checkBounds("Timing", all)
}

// checkBounds returns an error about the first setting that is too low.
func checkBounds(group string, all []bound) error {
	for _, b := range all {
		if b.value >= b.least {
			continue
		}
		text := fmt.Sprint(b.value)
		if group == "Timing" {
			text = time.Duration(b.value).String()
		}
		advice := "use 0 for the default"
		if b.least < 0 {
			advice += ", or -1 for none"
		}
		return fmt.Errorf("%w configuration: %s.%s is %s, which is negative: %s",
			perdure.Invalid, group, b.name, text, advice)
	}
	return nil
}
