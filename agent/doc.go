// Package agent is what is kept of agents: harnesses, agents, and the overlays by which each of them changes what stands
// above it (N8).
//
// It may import the root only. The one thing to know: [Fold] is associative, so a chain may be folded whole or in parts
// and by whoever has a part of it, and what it yields is again an overlay; only [Resolve] makes a perdure.Agent of one.
//
//	harness (root) → harness … → agent → session      each one Overlay
//	        └──────── Fold ────────────────┘ → Resolve → perdure.Agent, fixed in session.created (N9)
package agent
