// Package dispatch runs tool calls in lanes: each in a goroutine of its own, with a context of its own, so
// that it can be waited for, interrupted with its turn, or cancelled, and so that nothing it does, not even
// a panic, leaves somebody waiting.
//
// It may import the root and tool. The one thing to know: a place is held until the work has really
// returned, whatever was decided about its result meanwhile.
//
//	Start ──▶ running ──▶ returned ─────────────────▶ End (once), place free
//	             │ Cancel, Interrupt, deadline
//	             ▼
//	          stopping ──▶ returned within the grace ▶ End with the cause
//	             │ grace over
//	             ▼
//	          fenced ──▶ End{DidNotStop}; place held ──▶ returned: place free
package dispatch
