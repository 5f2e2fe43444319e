// Package dispatch runs tool calls in lanes. Each call has a goroutine and a context of its own, so
// a caller can wait for it, interrupt it together with its turn, cancel it, or detach it from the
// foreground when it is slow. Nothing that a call does, not even a panic, blocks a waiter.
//
// There are two entry points:
//
//   - A [Runner] runs single executions. The engines are built on it.
//   - A [Dispatcher] is for any agent loop and needs neither a store nor an engine: [Async] has
//     lanes, [Inline] has none. A [Journal] makes an Async durable.
//
// The package may import the root package and tool.
//
// The one thing to know: work holds its slot until it has really returned, even if its result was
// decided before, for example by a cancel.
//
// One execution in a Runner looks like this. Whether it returned, was stopped or detached first is
// one decision under one lock:
//
//	Start ──▶ foreground ──▶ returned ──────────────▶ End (once), slot free
//	             │ Soft passed, Detach said yes          ▲
//	             ▼                                       │
//	          background ──▶ returned ───────────────────┤
//	             │ Cancel, deadline, stall;              │
//	             ▼ in the foreground Interrupt too       │
//	          stopping ──▶ returned in the grace period ─┘ with the cause
//	             │ grace period over
//	             ▼
//	          fenced ──▶ End{DidNotStop}; slot held ──▶ returned: slot free
//
// One call of an Async goes through these states. Its result goes to its turn if it ends in the
// foreground. Otherwise it is delivered later:
//
//	Start ─▶ queued ─▶ running ─▶ succeeded, failed, canceled, unknown
//	                     │  ▲           ▲
//	                     ▼  │ approved  │ denied, canceled, interrupted
//	               awaiting_input ──────┘
package dispatch
