package core

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/engine/config"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Config configures New. Store, Model, Tools, Runner, Worker and Scheduler are required.
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
	Scheduler

	Limits   config.Limits
	Timing   config.Timing
	Policies config.Policies
	Ports    config.Ports // Open nil: there are no other ports

	// Outbound is asked before a call that leaves the deployment is claimed. Calls are counted for
	// the session's organisation, or for Org if the session has none. nil: no limit.
	Outbound tool.OutboundRateLimiter
	Org      string // empty: there are no organisations

	Agents           AgentDirectory // agents that spawn_subagent may name; nil: none
	ScheduleFailures int            // failed fires in a row before a schedule is paused; 0: never

	Meter     *meter.Meter         // prices, reserves and counts work; nil: a meter with the built-in prices
	Telemetry *telemetry.Telemetry // nil: no telemetry
	Log       *slog.Logger         // nil: discarded

	// Shared says that other workers use the store too. Their leases decide which of them are dead,
	// and this worker's work writes nothing once its own lease has expired. false: this worker has
	// the store to itself, so every other worker is dead.
	Shared bool
	Home   Home // matters only if Shared
}

// Home is the data directory of a worker.
type Home struct {
	ID   perdure.HomeID // empty: there is none
	Wait time.Duration  // for which remains of another home are left to it, after its last sign; -1: for ever
	// Files is the home of files that this process creates for sessions; empty: they bind a session
	// to no home.
	Files perdure.HomeID
	// FilesShared says that every worker reaches the files of all sessions, so that no session is
	// bound to a home.
	FilesShared bool
	// HasFiles reports whether a session of an agent has files outside the store from the start,
	// for example a workspace. It does no I/O. nil: none has.
	HasFiles func(perdure.Agent) bool
}

// AgentDirectory finds the agents that a model may name for a subagent. It is safe for concurrent
// use.
type AgentDirectory interface {
	// List returns the agents that a session may name, sorted by name.
	List(ctx context.Context, session perdure.SessionID) ([]NamedAgent, error)
	// Resolve returns the configuration that a subagent would have if it started now. NotFound: the
	// session may name no such agent. Conflict and Invalid: it cannot be used; the error says why.
	Resolve(ctx context.Context, session perdure.SessionID, name string) (ResolvedAgent, error)
}

// NamedAgent is an agent as a model reads it.
type NamedAgent struct {
	Name        string
	Description string // one line or more; may be empty
}

// ResolvedAgent is the configuration of a subagent, with the files that exist when it starts.
type ResolvedAgent struct {
	Agent perdure.Agent
	Files []tool.InitialFile
}

// Scheduler is what the stories tell and ask the engine around them. Its methods do not block,
// except CreateSchedule; they are called concurrently, also within transactions.
type Scheduler interface {
	// Wake says that a session has something new in its journal.
	Wake(id perdure.SessionID)
	// StartQueued says that queued runs may start: one was queued, or a slot is free.
	StartQueued()
	// ReportActivity says that the turn of a session shows activity: text, progress, output.
	ReportActivity(id perdure.SessionID)
	// ReportTakeOver says that this worker took over a call or task of a dead one. It is called
	// after the commit, and may be called twice for the same one.
	ReportTakeOver(done TakenOver)
	// CreateSchedule creates a schedule for a call of a model, and its monitor if the call asks for
	// one, in one commit. Called again for the same call, it creates nothing.
	CreateSchedule(ctx context.Context, s perdure.Schedule, by *ScheduleCall) (perdure.Schedule, error)
	EngineState
}

// TakenOver is a call or task of a dead worker that this worker took over.
type TakenOver struct {
	Session perdure.SessionID
	Task    perdure.TaskID   // empty: it is a call
	Call    perdure.CallID   // empty: it is a task
	Dead    perdure.WorkerID // the worker that had it
	Class   perdure.EffectClass
	How     perdure.TakeOver
	// LastSign is when the record last showed that its worker was alive; zero: it does not say.
	LastSign time.Time
}

// EngineState is what the engine knows of its own process.
type EngineState interface {
	// Running reports whether work may start in this process. If not, it is stored, and the next
	// start carries it out.
	Running() bool
	// Stopping reports whether the engine is stopping: then nothing waits any longer for a store
	// that does not answer.
	Stopping() bool
	// LeaseHeld reports, if the store is shared, whether this worker's lease is still valid by its
	// own clock. Work starts only while it is.
	LeaseHeld() bool
	// Granted reports whether a scheduler outside of the engine gives out the work. Then leases
	// only say which workers seem to be alive: they fence nothing, nothing is taken over without a
	// grant, and a new background run is queued until it is granted. It is always the same.
	Granted() bool
	// Leads reports whether this process does all the work that is bound to no other home. A
	// process that does not lead answers callers, and works only on the sessions that are bound to
	// its home. Without a lease, and under grants, every process leads. It may change at any time.
	Leads() bool
}

// ScheduleCall is a model's call that asks for a schedule.
type ScheduleCall struct {
	Call    perdure.CallID
	Turn    perdure.TurnID
	At      time.Time // journaled time of the message that holds the call
	Monitor bool      // create a task that represents the schedule
	// Fence is that of the call, checked in the commit that creates the schedule.
	Fence func(store.Reader) error
}
