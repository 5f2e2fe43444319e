package core

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Config configures New. Store, Model, Tools, Runner and Worker are required.
type Config struct {
	Store store.Store
	Model model.Model
	Tools *tool.Registry
	// BackgroundTools holds the tools that list, await and cancel background work. A session gets
	// them as soon as one of its calls has left its turn, whatever Tools contains. nil: only what
	// Tools has.
	BackgroundTools []tool.Tool
	Runner          *dispatch.Runner
	Worker          perdure.WorkerID
	// Files opens the files of a session, once as the model sees them and once as the runtime
	// writes them. nil: the files are stored in Store.
	Files func(session perdure.SessionID) (model, runtime tool.Files)
	// Egress carries the network requests of tools. nil: tools have no network.
	Egress tool.Egress
	// Ports opens the other ports of a call, such as secrets and images. nil: there are none.
	Ports func(session perdure.SessionID, call tool.Call) tool.Ports

	// Outbound is asked before a call that leaves the deployment is claimed. Calls are counted for
	// the session's organisation, or for Org if the session has none. nil: no limit.
	Outbound tool.OutboundRateLimiter
	Org      string // empty: there are no organisations

	// executions of a call before it is given up; 0: perdure.DefaultMaxExecutions; -1: no limit
	MaxExecutions   int
	NoProgress      int           // steps without progress; 0: perdure.DefaultNoProgress; -1: off
	ModelAttempts   int           // attempts for one message; 0: perdure.DefaultModelAttempts
	StallTimeout    time.Duration // of a model stream without content; 0: two minutes; -1: none
	SlotsPerSession int           // slots of a session; 0: 5; -1: no limit
	SlotsPerProcess int           // slots of the process; 0: 64; -1: no limit
	QueueLength     int           // queued tasks of a session; 0: 32; -1: no limit
	Overflow        perdure.Overflow
	MaxDetached     int // detached calls of a session, which need no slot of the session; 0: 32; -1: no limit
	// EvictCap is how many live background tasks a session may have before the oldest is evicted,
	// with OverflowEvict. 0: 32; -1: no limit.
	EvictCap         int
	DeferAbove       int           // number of tools above which schemas are loaded on demand; 0: 40; -1: off
	SoftBudget       time.Duration // of tools without their own; 0: tool.DefaultSoftBudget; -1: they never detach
	ApprovalExpiry   time.Duration // 0: approvals never expire
	ScheduleFailures int           // failed fires in a row before a schedule is paused; 0: never
	CheckpointBytes  int           // bytes of new text before a checkpoint is stored; 0: 4 KiB
	CheckpointTime   time.Duration // time after the first new text before a checkpoint is stored; 0: 1 s

	Agents         map[string]perdure.Agent // agents that spawn_subagent may name; nil: none
	SubagentDepth  int                      // levels of subagents below a root session; 0: 2; -1: no subagents
	SubagentsLive  int                      // live subagents below a root session; 0: 16; -1: no limit
	SubagentsTotal int                      // subagents ever started below a root session; 0: 200; -1: no limit

	Route  func(tool.Call) dispatch.Route // routing policy of the host; nil: none. Called concurrently
	Permit tool.Permit                    // policy of the host; nil: none
	Hooks  []tool.Hook                    // called before and after each call
	// from a cancel to the fence; also the time hooks have; 0: dispatch.DefaultGrace
	Grace time.Duration

	// Meter prices, reserves and counts work. nil: a meter with the built-in prices.
	Meter *meter.Meter

	Guardrails []Guardrail // check model responses while they stream

	Telemetry *telemetry.Telemetry // nil: no telemetry
	Log       *slog.Logger         // nil: discarded

	// Wake is called when a session has something new in its journal. nil: not called.
	Wake func(perdure.SessionID)
	// SlotFreed is called when a slot may have become free. nil: not called.
	SlotFreed func()
	// EngineRunning reports whether the engine runs, so that work may start. An intent that reaches
	// an engine that does not run is stored, and the next start carries it out. nil: always true.
	EngineRunning func() bool
	// Stopping reports whether the engine is stopping: then nothing waits any longer for a store
	// that does not answer. nil: always false.
	Stopping func() bool
	// Activity is called when a turn shows activity: text, progress, output. nil: not called.
	Activity func(perdure.SessionID)

	// Schedule creates a schedule for a call of a model, and its monitor if the call asks for one,
	// in one commit. Called again for the same call, it creates nothing. nil: no schedules.
	Schedule func(ctx context.Context, s perdure.Schedule, by *ScheduleCall) (perdure.Schedule, error)

	// Shared says that other workers use the store too. Their leases decide which of them are dead,
	// and this worker's work writes nothing once its own lease has expired. false: this worker has
	// the store to itself, so every other worker is dead.
	Shared bool
	// LeaseHeld reports, if the store is shared, whether this worker's lease is still valid by its
	// own clock. Work starts only while it is. nil: always true.
	LeaseHeld func() bool
}

// ScheduleCall is a model's call that asks for a schedule.
type ScheduleCall struct {
	Call    perdure.CallID
	Turn    perdure.TurnID
	At      time.Time // journaled time of the message that holds the call
	Monitor bool      // create a task that represents the schedule
}

// Guardrail is a guardrail: it checks the text of a model response while it streams. When Check
// trips, the response ends, no more of it is shown, replacement takes its place, and its text is
// stored nowhere. Check is called concurrently, repeatedly with the full text so far, and must
// return quickly. If it panics, the step fails and nothing more is shown.
type Guardrail struct {
	Name  string // recorded in the event
	Check func(text string) (replacement string, tripped bool)
}

// When the text of a streaming message is stored. A crash loses at most that much.
const (
	checkpointBytes = 4 << 10
	checkpointTime  = time.Second
)
