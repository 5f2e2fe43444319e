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
