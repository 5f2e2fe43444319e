// Package config has the parts of an engine's configuration that several of its layers read: the
// limits, the times, the policies and the ports. Engines take them as fields of their own
// configuration, for example local.Config.
//
// It may import the root, dispatch and tool. The one thing to know: the zero value of each field is
// its default, and the field says which. Where a limit can be switched off, -1 does so.
package config

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/tool"
)

// Limits bounds the amount of work. The zero value has the defaults.
type Limits struct {
	MaxExecutions int // executions of a pure or idempotent call (LG9); 0: 3; -1: no limit
	NoProgress    int // resumes of a turn without a new event before it is sealed (TN1); 0: 3; -1: off
	ModelAttempts int // attempts of a model call; 0: 5

	SlotsPerSession    int // running background runs of a session; 0: 5; -1: no limit
	SlotsPerProcess    int // running background runs of a process; 0: 64; -1: no limit
	DetachedPerSession int // detached calls of a session, which need no slot of the session; 0: 32; -1: no limit
	QueueLength        int // queued runs of a session; 0: 32; -1: no limit
	// Overflow says what happens to a run without a free slot (BG17). empty: it is queued.
	Overflow perdure.Overflow
	// EvictCap is how many live background tasks a session may have before OverflowEvict cancels
	// the oldest. 0: 32; -1: no limit.
	EvictCap int

	SubagentDepth  int // levels of subagents below a root session; 0: 2; -1: no subagents (SA5)
	SubagentsLive  int // live subagents below a root session; 0: 16; -1: no limit
	SubagentsTotal int // subagents ever started below a root session; 0: 200; -1: no limit

	// Iterations, ParallelCalls and Continuations are for agents that set none, and the most that
	// any agent may have. 0: 500, 32 and 20 for an agent that sets none, and no ceiling.
	Iterations    int // reason steps in a turn
	ParallelCalls int // calls of a step at once
	Continuations int // automatic turns in a row (DL8)

	ResultBytes     int // result that a model reads, at most 64 KiB (TL16); 0: 64 KiB
	DeferAbove      int // tools above which schemas are loaded on demand (TL37); 0: 40; -1: never
	CheckpointBytes int // bytes of new text of a model response after which it is stored (TN19); 0: 4 KiB
	PruneBatch      int // tasks that are pruned in one commit; 0: 100
}

// Timing has the times of the work. The zero value has the defaults.
type Timing struct {
	// SoftBudget is the execution time after which a foreground call is detached (LN3), unless its
	// tool sets one. 0: 600 s; -1: never.
	SoftBudget time.Duration
	// SoftBudgets are the soft budgets of single tools, by name. They replace what the tool and the
	// agent say. -1: never; nil: none.
	SoftBudgets map[string]time.Duration
	Deadline    time.Duration // of an execution of a tool that sets none (LN4); 0: 2 h
	// CallStall is the silence after which a call is ended (LN4), unless its tool sets a time or
	// waits for other work. 0: none.
	CallStall time.Duration
	MaxWait   time.Duration // of check_background_tool and wait_task after a detached call; 0: 9 min
	// Stall is the time without text from the model after which the model call is retried (TN8).
	// 0: 2 min; -1: none.
	Stall time.Duration
	// Idle is the time without any activity in a turn after which the turn fails (RC19). It is at
	// least twice the longest wait of a tool (18 min). 0: 30 min; -1: off.
	Idle time.Duration
	// IdleHardCap replaces Idle while a foreground call runs that does not state a longer time
	// itself. It is at least Idle. 0: 2 h.
	IdleHardCap    time.Duration
	ApprovalExpiry time.Duration // 0: approvals never expire
	Checkpoint     time.Duration // time since the first new text of a response after which it is stored (TN19); 0: 1 s
	Grace          time.Duration // from a cancel to the fence, and the time that hooks have; 0: 10 s
	Drain          time.Duration // for work to settle when the engine stops; 0: 10 s; -1: none
	// Return is the time after Drain for work to return. The context of that work has ended by
	// then. 0: 5 s.
	Return    time.Duration
	Retention time.Duration // how long an ended and delivered task is kept (TK16); 0: 30 days; -1: for ever
}

// Policies are what the program decides about calls and responses. The functions are called
// concurrently.
type Policies struct {
	Route func(tool.Call) dispatch.Route // the lane of a call and its soft budget; nil: as its tool says (LN2)
	// Permit evaluates the permissions of calls (AP1). nil: everything is allowed, unless the tool
	// asks.
	Permit tool.Permit
	Hooks  []tool.Hook // see calls before they run and results before they are stored (TL35)
	Guards []Guard     // check model responses while they stream, and end those that must not be shown (TN9)
}

// Guard is a guardrail: it checks the text of a model response while it streams. When Check trips,
// the response ends, no more of it is shown, replacement takes its place, and its text is stored
// nowhere. Check is called concurrently, repeatedly with the full text so far, and must return
// quickly. If it panics, the step fails and nothing more is shown.
type Guard struct {
	Name  string // recorded in the event
	Check func(text string) (replacement string, tripped bool)
}

// Ports are what tools reach outside their call, and how they are entered.
type Ports struct {
	// Executor carries out the calls of tools. nil: the tools themselves do, in this process. A
	// call that crash recovery adopts or reconciles is left to its tool.
	Executor tool.Executor
	// Files opens the files of a session: once as the model sees them, once as the runtime writes
	// them. nil: the files are in the store.
	Files func(session perdure.SessionID) (model, runtime tool.Files)
	// Egress carries the outgoing traffic of tools. nil: there is none, and tools that need it
	// return an error.
	Egress tool.Egress
	// Open opens the other ports of a call: values, secrets, resources and so on. call.Org and
	// call.User name the owner of the session. A call without an ID is the runtime's own, for the
	// session's images, secrets and masks. nil: the store's own ports.
	Open func(session perdure.SessionID, call tool.Call) tool.Ports
	// Replace replaces some of the ports of a call: it gets those of Open, normally all of the
	// store's own, and returns the ports that the call has. A program that replaces Secrets
	// replaces SecretMasker, too. It does no I/O and is called concurrently. nil: nothing is
	// replaced.
	Replace func(session perdure.SessionID, call tool.Call, own tool.Ports) tool.Ports
	// Platform reports whether a call has the port Platform, for the org of its session: the
	// sessions of that org and, in the default org, the agents and harnesses to read. Call.Org and
	// call.User name the owner of the session. Give it only to tools whose code you trust. nil: no
	// call has it.
	Platform func(call tool.Call) bool
}
