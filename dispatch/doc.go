// Package dispatch runs tool calls in lanes: each in a goroutine of its own, with a context of its own, so
// that it can be waited for, interrupted with its turn, leave the foreground when it is slow, or be cancelled,
// and so that nothing it does, not even a panic, leaves somebody waiting.
//
// A [Runner] carries executions and is what the engines stand on. A [Dispatcher] is for any agent loop, on its own,
// without a store or an engine: [Async] with lanes, [Inline] without. A [Journal] makes an Async durable.
//
// It may import the root and tool. The one thing to know: a place is held until the work has really
// returned, whatever was decided about its result meanwhile.
//
// One execution in a Runner. Whether it returned, was stopped or leaves the foreground first is one decision:
//
//	Start ──▶ foreground ──▶ returned ──────────────▶ End (once), place free
//	             │ Soft passed, Detach said yes          ▲
//	             ▼                                       │
//	          background ──▶ returned ───────────────────┤
//	             │ Cancel, deadline, stall;              │
//	             ▼ in the foreground Interrupt too       │
//	          stopping ──▶ returned within the grace ────┘ with the cause
//	             │ grace over
//	             ▼
//	          fenced ──▶ End{DidNotStop}; place held ──▶ returned: place free
//
// One call of an Async. Its result goes to its turn if it ends in the foreground, else it comes home later:
//
//	Start ─▶ queued ─▶ running ─▶ succeeded, failed, canceled, unknown
//	                     │  ▲           ▲
//	                     ▼  │ approved  │ denied, canceled, interrupted
//	               awaiting_input ──────┘
package dispatch
