// Package agent holds the types and rules of stored agents: harnesses, agents, and the overlays
// with which each layer changes the configuration of the layer above it.
//
// The package may import only the root package.
//
// The one thing to know: [Fold] is associative. A chain can be folded at once or in parts, by
// whichever component has a part of it, and the result is again an overlay. Only [Resolve] turns an
// overlay into a perdure.Agent.
//
//	harness (root) → harness … → agent → session      one Overlay each
//	        └──────── Fold ────────────────┘ → Resolve → perdure.Agent, fixed in session.created
package agent
