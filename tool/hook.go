package tool

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure"
)

// Hook sees every call before it is checked, and every result before it is stored. An error or a
// panic blocks the call, or turns its result into an internal error. Many goroutines call it at
// once. It must end with its ctx, because the turn waits for it. AfterTool has as long as work has
// to stop by itself, ten seconds by default.
type Hook interface {
	// BeforeTool is called before policy and approval, and again if the arguments changed after
	// that.
	BeforeTool(ctx context.Context, call Call) (Before, error)
	// AfterTool is called after the tool has returned, in every lane.
	AfterTool(ctx context.Context, call Call, result Result) (After, error)
}

// Before is a hook's decision about a call. The zero value lets it pass.
type Before struct {
	Args        json.RawMessage      // replaces the arguments, which are then checked again; nil: unchanged
	Block       string               // blocks the call; the model reads the reason
	Permissions []perdure.Permission // need an approval
}

// After is a hook's decision about a result. The zero value lets it pass.
type After struct {
	Result      *Result // replaces the tool's result; nil: unchanged
	WithholdLog bool    // the output of a background run is not stored
}

// Permit is a host's policy for one permission of a call. It returns the decision with its reason.
// It is a pure function that many goroutines call at once. An error or a panic refuses the call.
type Permit func(ctx context.Context, call Call, p perdure.Permission) (perdure.Decision, string, error)
