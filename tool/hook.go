package tool

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure"
)

// Hook looks at every call before it is judged, and at every result before it is stored (TL35). An error or a panic
// blocks the call, or turns its result into an internal error. It is called by many at once, and ends with its ctx: the
// turn waits for it. AfterTool has as long as work has to stop by itself, ten seconds by default.
type Hook interface {
	// BeforeTool is asked before policy and approval, again when the arguments changed after it was asked.
	BeforeTool(ctx context.Context, call Call) (Before, error)
	// AfterTool is asked when the tool has returned, in every lane.
	AfterTool(ctx context.Context, call Call, result Result) (After, error)
}

// Before is what a hook says of a call. The zero value lets it pass.
type Before struct {
	Args        json.RawMessage      // replaces the arguments, which are then checked again; nil: they stay
	Block       string               // refuses the call with this reason, which the model reads
	Permissions []perdure.Permission // a person is asked for them
}

// After is what a hook says of a result. The zero value lets it pass.
type After struct {
	Result      *Result // stored instead; nil: the tool's own
	WithholdLog bool    // the output of a background run is not kept
}

// Permit is a host's policy for one permission of a call, with the reason that is told. It is pure and called by many at
// once; an error or a panic refuses the call.
type Permit func(ctx context.Context, call Call, p perdure.Permission) (perdure.Decision, string, error)
