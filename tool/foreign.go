package tool

import (
	"context"

	"github.com/perdure/perdure"
)

// Adapt makes a tool of a definition that came from outside, for instance from an MCP server. A missing
// effect class is derived from the hints (TL10); that is done here and for no other tool. The hint
// supports_background may be set although there is no executor (TL2).
//
// run nil is a tool that the client runs: its policy becomes client_side, and running it here is a tool error (TL9).
func Adapt(spec Spec, run func(ctx context.Context, call Call, env Env) Result) Tool {
	spec.Class = ClassOf(spec.Hints, spec.Class)
	spec.Inside, spec.Trusted = false, false // nobody knows what it reaches and reads
	if run == nil {
		spec.Policy = PolicyClientSide
		run = func(_ context.Context, call Call, _ Env) Result {
			return Failf("%s runs on the client and cannot be run here.", call.Tool)
		}
	}
	return &foreign{spec: spec, run: run}
}

// ClassOf returns the effect class that is set, or the one that the hints of a foreign definition allow:
// readonly is pure, idempotent is idempotent, all else at most once (TL10).
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

// foreign is a tool whose definition came from outside.
type foreign struct {
	spec Spec
	run  func(ctx context.Context, call Call, env Env) Result
}

// Spec returns the definition's spec with its class.
func (f *foreign) Spec() Spec { return f.spec }

// Run carries out one call.
func (f *foreign) Run(ctx context.Context, call Call, env Env) Result { return f.run(ctx, call, env) }
