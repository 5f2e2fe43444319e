package local

import (
	"github.com/perdure/perdure/internal/ratelimit"
	"github.com/perdure/perdure/tool"
)

// Outbound is how often the tools of an organisation may go out (RL1): those that say open_world, and those of others that do
// not deny it.
type Outbound struct {
	PerMinute int                      // in any minute, over all engines that share the store; 0: 1,000; -1: no limit
	Limiter   tool.OutboundRateLimiter // in place of the store's own; nil: the store's own
}

// OutboundCounts says what the engine's own limiter answered since it was opened.
type OutboundCounts = ratelimit.Counts

// outboundOf makes the limiter over the store; nil: the host has another one, or wants none.
func outboundOf(cfg Config) *ratelimit.Limiter {
	if cfg.Outbound.Limiter != nil || cfg.Outbound.PerMinute < 0 {
		return nil
	}
	return ratelimit.New(ratelimit.Config{Store: cfg.Store, PerMinute: cfg.Outbound.PerMinute, Log: cfg.Log})
}

// limiterPort is what calls are held against; nil: nothing.
func (e *Engine) limiterPort() tool.OutboundRateLimiter {
	if e.limiter == nil {
		return e.cfg.Outbound.Limiter
	}
	return e.limiter
}

// OutboundCounts returns how many calls went out, how many were held back, and how many of these answers the process gave by
// itself, since the store did not (RL2). The zero value where the limiter is the host's, or there is none.
func (e *Engine) OutboundCounts() OutboundCounts {
	if e.limiter == nil {
		return OutboundCounts{}
	}
	return e.limiter.Counts()
}
