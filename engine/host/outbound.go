package host

import (
	"context"

	"github.com/perdure/perdure/internal/ratelimit"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/tool"
)

// Outbound limits the outbound calls of an org's tools (RL1). It counts the tools that declare
// open_world, and foreign tools that do not deny it.
type Outbound struct {
	PerMinute int                      // per minute, over all engines that share the store; 0: 1,000; -1: no limit
	Limiter   tool.OutboundRateLimiter // replaces the store's limiter; nil: the store's
}

// OutboundCounts has the decisions of the engine's own limiter since the engine was opened.
type OutboundCounts = ratelimit.Counts

// outboundOf creates the limiter over the store; nil: the host has its own, or wants none.
func outboundOf(cfg Config, t *telemetry.Telemetry) *ratelimit.Limiter {
	if cfg.Outbound.Limiter != nil || cfg.Outbound.PerMinute < 0 {
		return nil
	}
	return ratelimit.New(ratelimit.Config{Store: cfg.Store, PerMinute: cfg.Outbound.PerMinute, Log: cfg.Log,
		Decided: func(org string, allowed, alone bool) {
			by := "store"
			if alone {
				by = "process"
			}
			t.Outbound(org, allowed, by)
		}})
}

// limiterPort returns the limiter for calls; nil: none.
func (e *Host) limiterPort() tool.OutboundRateLimiter {
	switch {
	case e.limiter != nil:
		return e.limiter
	case e.cfg.Outbound.Limiter != nil:
		return countedLimiter{e.cfg.Outbound.Limiter, e.telemetry}
	}
	return nil
}

// countedLimiter is the host's own limiter, whose decisions are counted.
type countedLimiter struct {
	tool.OutboundRateLimiter
	telemetry *telemetry.Telemetry
}

// CheckOrg implements tool.OutboundRateLimiter.
func (l countedLimiter) CheckOrg(ctx context.Context, org string) bool {
	allowed := l.OutboundRateLimiter.CheckOrg(ctx, org)
	l.telemetry.Outbound(org, allowed, "host")
	return allowed
}

// OutboundCounts returns how many calls were allowed and refused, and how many of these decisions
// the process made locally because the store did not answer (RL2). It returns the zero value if the
// limiter is the host's, or there is none.
func (e *Host) OutboundCounts() OutboundCounts {
	if e.limiter == nil {
		return OutboundCounts{}
	}
	return e.limiter.Counts()
}
