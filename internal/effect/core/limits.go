package core

import (
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/config"
	"github.com/perdure/perdure/store"
)

// LimitsFor returns the limits of the engine, tightened by an agent. 0 is no limit.
func (c *Core) LimitsFor(a perdure.Agent) config.Limits {
	l, of := c.Limits, a.Limits
	l.SlotsPerSession = lower(l.SlotsPerSession, of.SlotsPerSession)
	l.DetachedPerSession = lower(l.DetachedPerSession, of.DetachedPerSession)
	l.QueueLength = lower(l.QueueLength, of.QueueLength)
	l.SubagentsLive = lower(l.SubagentsLive, of.SubagentsLive)
	l.SubagentsTotal = lower(l.SubagentsTotal, of.SubagentsTotal)
	if of.SubagentDepth > 0 {
		l.SubagentDepth = min(l.SubagentDepth, of.SubagentDepth) // here 0 is no subagents
	}
	return l
}

// SessionLimits returns the limits of a session. A session without a readable agent has those of
// the engine.
func (c *Core) SessionLimits(r store.Reader, id perdure.SessionID) (config.Limits, error) {
	if last, ok := c.Folds.Get(id); ok { // the limits of an agent never change after its session began
		return c.LimitsFor(last.Session.Agent), nil
	}
	a, err := AgentOf(r, id)
	if errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid) {
		return c.Limits, nil
	}
	return c.LimitsFor(a), err
}

// SlotCaps returns the part of limits that is about background runs.
func SlotCaps(l config.Limits) perdure.SlotCaps {
	return perdure.SlotCaps{
		PerSession: l.SlotsPerSession, PerProcess: l.SlotsPerProcess, Detached: l.DetachedPerSession,
		Queued: l.QueueLength, Live: l.EvictCap,
	}
}

// ApprovalExpiry returns how long an approval of an agent's call stays open; 0: for ever.
func (c *Core) ApprovalExpiry(a perdure.Agent) time.Duration {
	return lower(c.Timing.ApprovalExpiry, time.Duration(a.Limits.ApprovalExpiryMS)*time.Millisecond)
}

// lower returns the lower of two limits, of which 0 is none.
func lower[N int | time.Duration](a, b N) N {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
