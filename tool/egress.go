package tool

import (
	"context"

	"github.com/perdure/perdure"
)

// Egress is the only way to the network (the port "Egress service"). Safe for concurrent use.
type Egress interface {
	// Do carries out one request and returns a response of any status. Every address of a host is
	// checked, and the connection is bound to a checked address; redirects are checked in the same
	// way. The error is a *perdure.EgressError, or the cause of ctx if ctx ended. Nothing is
	// retried.
	Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error)
}

// OutboundRateLimiter counts the outgoing calls of an org. It is not a port of tools: the runtime
// asks it before it claims a call whose tool talks to the outside. Safe for concurrent use.
type OutboundRateLimiter interface {
	// CheckOrg counts a call of an org, which may be empty, and reports whether it may go out. It
	// fails open: if its counter does not answer, it soon decides from local knowledge.
	CheckOrg(ctx context.Context, org string) bool
}

// IsOutgoing reports whether calls of a tool count as outgoing: its hint open_world says so, or it
// is a foreign tool that does not deny it. A client-side tool goes out from the client instead, and
// a tool of the session only, such as spawn_background, is not outgoing itself: its target is.
func IsOutgoing(t Tool) bool {
	spec := t.Spec()
	if spec.Policy == PolicyClientSide || spec.SessionOnly {
		return false
	}
	if spec.Hints.OpenWorld != nil {
		return *spec.Hints.OpenWorld
	}
	_, outside := t.(*foreign)
	return outside
}
