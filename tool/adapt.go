package tool

import (
	"context"

	"github.com/perdure/perdure"
)

// Adapt makes a tool from a foreign definition, for instance of an MCP server. A missing effect
// class is derived from the hints; no other tools get a derived class. The hint supports_background
// may be set without an executor.
//
// If run is nil, the client runs the tool: its policy becomes client_side, and running it here is a
// tool error.
func Adapt(spec Spec, run func(ctx context.Context, call Call, env Env) Result) Tool {
	spec.Class = ClassOf(spec.Hints, spec.Class)
	spec.SessionOnly, spec.Trusted = false, false // what it accesses and returns is unknown
	if run == nil {
		spec.Policy = PolicyClientSide
		run = func(_ context.Context, call Call, _ Env) Result {
			return Failf("%s runs on the client and cannot be run here.", call.Tool)
		}
	}
	return &foreign{spec: spec, run: run}
}

// ClassOf returns the given effect class, or the one that follows from the hints of a foreign
// definition: readonly gives pure, idempotent gives idempotent, anything else at_most_once.
func ClassOf(h Hints, class perdure.EffectClass) perdure.EffectClass {
	switch {
	case class != "":
		return class
	case h.ReadOnly != nil && *h.ReadOnly:
		return perdure.Pure
	case h.Idempotent != nil && *h.Idempotent:
		return perdure.Idempotent
	default:
		return perdure.AtMostOnce
	}
}

// foreign is a tool with a foreign definition.
type foreign struct {
	spec Spec
	run  func(ctx context.Context, call Call, env Env) Result
}

// Spec returns the definition's spec with its class.
func (f *foreign) Spec() Spec { return f.spec }

// Run executes one call.
func (f *foreign) Run(ctx context.Context, call Call, env Env) Result { return f.run(ctx, call, env) }
