package tool

import (
	"context"

	"github.com/perdure/perdure"
)

// Egress is the only way out to the network (the port "Egress service"; EG1 to EG6). Safe for concurrent use.
type Egress interface {
	// Do carries out one request: every address that a name resolves to is checked, the connection is
	// pinned to a checked one, and so is each redirect's. It returns an answer of any status. The error is
	// a *perdure.EgressError, or ctx's cause when ctx ended. Nothing is tried again.
	Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error)
}

// OutboundRateLimiter counts the calls that go out for an organisation (RL1). It is no port of a tool: the runtime asks it
// before a call whose tool talks to the outside is claimed. Safe for concurrent use.
type OutboundRateLimiter interface {
	// CheckOrg counts one call of an organisation, the empty one included, and reports whether it may go out. It fails open:
	// when what it counts in does not answer, it soon says so from what it knows by itself (RL2).
	CheckOrg(ctx context.Context, org string) bool
}

// GoesOut reports whether calls of a tool count as outbound (RL1): its hint open_world says so, or it came from outside and
// does not say that it stays inside. What the client runs goes out from there.
func GoesOut(t Tool) bool {
	spec := t.Spec()
	if spec.Policy == PolicyClientSide {
		return false
	}
	if spec.Hints.OpenWorld != nil {
		return *spec.Hints.OpenWorld
	}
	_, outside := t.(*foreign)
	return outside
}
