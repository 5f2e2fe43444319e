package settings

import "reflect"

// Limits are the limits of the engine that a command opens. Each field is a setting: limits.NAME in
// a configuration file, PERDURE_LIMITS_NAME in the environment and --limits.NAME on the command
// line. The zero value of a field means the default of the engine.
type Limits struct {
	Turns     TurnLimits     `embed:"" title:"Turns and models"`
	Calls     CallLimits     `embed:"" title:"Calls and their results"`
	Tasks     TaskLimits     `embed:"" title:"Background work"`
	Schedules ScheduleLimits `embed:"" title:"Schedules and subagents"`
	Network   NetworkLimits  `embed:"" title:"Network and costs"`
	Sandbox   SandboxLimits  `embed:"" title:"Commands in the sandbox"`
	Storage   StorageLimits  `embed:"" title:"Databases, leased resources and workers"`
}

// TurnLimits bound the turns of a session.
type TurnLimits struct {
	Iterations      Count `min:"1" max:"100000" unset:"500" help:"Reason steps in a turn: of agents that set none, and the most that any agent may have."`
	ParallelCalls   Count `min:"1" max:"64" unset:"32" help:"Calls of a step at once: of agents that set none, and the most that any agent may have."`
	Continuations   Count `min:"1" max:"10000" unset:"20" help:"Automatic turns in a row: of agents that set none, and the most that any agent may have."`
	NoProgress      Count `min:"1" max:"1000" none:"yes" default:"3" help:"Resumes of a turn without a new event before it is sealed."`
	ModelAttempts   Count `min:"1" max:"100" default:"5" help:"Attempts of a model call."`
	Stall           Span  `min:"1s" none:"yes" default:"2m" help:"Time without text from the model after which the call is retried."`
	Idle            Span  `min:"1m" none:"yes" default:"30m" help:"Time without any activity in a turn after which it fails. At least twice max-wait."`
	IdleHardCap     Span  `min:"1m" default:"2h" help:"The same while a call runs that does not state a longer time itself. At least twice max-wait."`
	CheckpointBytes Size  `min:"1" max:"1GiB" default:"4KiB" help:"New text of an answer after which it is stored."`
	Checkpoint      Span  `min:"1ms" default:"1s" help:"Time since the first new text of an answer after which it is stored."`
	DeferAbove      Count `min:"1" none:"yes" default:"40" help:"Tools above which their schemas are loaded on demand."`
}

// CallLimits bound calls.
type CallLimits struct {
	SoftBudget     Span     `min:"1ms" none:"yes" default:"10m" help:"How long a call may keep its turn waiting before it is detached, unless its tool or agent sets a time."`
	SoftBudgets    []string `sep:"," unset:"none" help:"The same for single tools, before what they and the agent set: TOOL=DURATION, or none to never detach. Repeatable."`
	Deadline       Span     `min:"1s" default:"2h" help:"Longest execution of a call whose tool and arguments set no time. Commands have shell-deadline before it."`
	CallStall      Span     `min:"1s" none:"yes" unset:"none" help:"Silence of a call after which it is ended. Not for tools that set a time, or that wait for other work."`
	MaxWait        Span     `min:"1s" default:"9m" help:"Longest wait of check_background_tool and wait_task."`
	Grace          Span     `min:"1ms" default:"10s" help:"Time that canceled work has to stop by itself, and that hooks have."`
	MaxExecutions  Count    `min:"1" none:"yes" default:"3" help:"Executions of a pure or idempotent call, over crashes."`
	ResultBytes    Size     `min:"1KiB" max:"64KiB" default:"64KiB" help:"Result that a model reads; the full one is stored in a file."`
	ApprovalExpiry Span     `min:"1s" none:"yes" unset:"none" help:"How long an approval stays open."`
}

// TaskLimits bound background work.
type TaskLimits struct {
	SlotsPerSession    Count  `min:"1" none:"yes" default:"5" help:"Running background runs of a session."`
	SlotsPerProcess    Count  `min:"1" none:"yes" default:"64" help:"Running background runs of this process."`
	DetachedPerSession Count  `min:"1" none:"yes" default:"32" help:"Detached calls of a session."`
	QueueLength        Count  `min:"1" none:"yes" default:"32" help:"Queued runs of a session."`
	Overflow           string `enum:"queue,reject,evict_oldest" default:"queue" help:"What happens to a run without a free slot: queue, reject, or evict_oldest, which cancels the oldest task."`
	EvictCap           Count  `min:"1" none:"yes" default:"32" help:"Live tasks of a session before evict_oldest cancels one."`
	Retention          Span   `min:"1s" none:"yes" default:"30d" help:"How long an ended task is kept. The flag --retention has precedence."`
	PruneBatch         Count  `min:"1" max:"10000" default:"100" help:"Tasks that are removed in one commit."`
}

// ScheduleLimits bound schedules and subagents.
type ScheduleLimits struct {
	SchedulesPerSession Count `min:"1" none:"yes" default:"5" help:"Enabled schedules of a session."`
	SchedulesPerOrg     Count `min:"1" none:"yes" default:"100" help:"Enabled schedules of an org."`
	ScheduleMinInterval Span  `min:"1s" none:"yes" default:"5m" help:"Smallest interval of a recurring schedule."`
	ScheduleMaxFailures Count `min:"1" none:"yes" default:"10" help:"Failures in a row that pause a schedule."`
	ScheduleWindow      Span  `min:"1s" default:"24h" help:"How far back missed fires are made up for, unless the schedule says it."`
	ScheduleMaxCatchup  Count `min:"1" none:"yes" default:"100" help:"Missed fires of a schedule that are made up for."`
	ScheduleGrace       Span  `min:"1s" default:"1m" help:"Lateness after which a fire counts as missed."`
	CatchupParallel     Count `min:"1" max:"1000" default:"4" help:"Late fires that run at once."`
	SubagentDepth       Count `min:"1" none:"yes" default:"2" help:"Levels of subagents below a session; none allows no subagents."`
	SubagentsLive       Count `min:"1" none:"yes" default:"16" help:"Live subagents below a session."`
	SubagentsTotal      Count `min:"1" none:"yes" default:"200" help:"Subagents ever started below a session."`
}

// NetworkLimits bound outgoing requests and costs. The lists of hosts are the egress rules.
type NetworkLimits struct {
	OutboundPerMinute   Count `min:"1" none:"yes" default:"1000" help:"Outbound calls of an org in a minute."`
	EgressRequestBytes  Size  `min:"1KiB" default:"10MiB" help:"Body of a request of a tool."`
	EgressResponseBytes Size  `min:"1KiB" default:"10MiB" help:"Body of a response that a tool reads."`
	EgressTimeout       Span  `min:"1s" default:"1m" help:"Longest request of a tool, with its redirects."`
	EgressHeaderTimeout Span  `min:"1s" default:"30s" help:"Time to the header of a response."`
	SessionCost         Money `none:"yes" unset:"none" help:"Budget of each new session with its subagents, in US dollars; a model without a known price does not run under it. More: perdure budget set."`
	ReservedAnswer      Count `min:"1" default:"4096" help:"Length in output tokens that is reserved for an answer of a model without a limit of its own."`
}

// SandboxLimits bound a confined command.
type SandboxLimits struct {
	SandboxProcesses Count `min:"1" none:"yes" default:"512" help:"Processes of a command."`
	SandboxMemory    Size  `min:"1MiB" none:"yes" default:"8GiB" help:"Memory of a command."`
	SandboxOpenFiles Count `min:"3" none:"yes" default:"1024" help:"Open files of each process."`
	SandboxFileBytes Size  `min:"1KiB" none:"yes" default:"4GiB" help:"Size of each file that a command writes."`
	SandboxCPU       Span  `name:"sandbox-cpu" min:"1s" none:"yes" default:"1h" help:"Processor time of each process."`
	SandboxDisk      Size  `min:"1MiB" none:"yes" default:"16GiB" help:"Growth of workspace, home and temporary files."`
}

// StorageLimits bound what sessions store, and the work of this process for others.
type StorageLimits struct {
	SQLDatabases     Count `name:"sql-databases" min:"1" default:"10" help:"SQL databases of a session."`
	SQLDatabaseBytes Size  `name:"sql-database-bytes" min:"64KiB" default:"50MiB" help:"Size of a SQL database."`
	SQLSessionBytes  Size  `name:"sql-session-bytes" min:"64KiB" default:"100MiB" help:"Size of all SQL databases of a session."`
	SQLTimeout       Span  `name:"sql-timeout" min:"10ms" default:"30s" help:"Longest SQL statement."`
	CleanupInterval  Span  `min:"100ms" default:"30s" help:"Time between searches for expired leases."`
	CleanupClaim     Span  `min:"1s" default:"10m" help:"Time after which an unfinished cleanup is repeated."`
	CleanupAttempts  Count `min:"1" default:"10" help:"Cleanups of a resource before a person must act."`
	CleanupPage      Count `min:"1" max:"1000" default:"8" help:"Resources that are cleaned up at once."`
	Lease            Span  `min:"1s" default:"10s" help:"Lease of a process that shares a database. At least three times beat."`
	Beat             Span  `min:"100ms" default:"2s" help:"Time between heartbeats of a process."`
	OrphanScan       Span  `min:"100ms" default:"5s" help:"Time between searches for the work of dead processes in a shared database."`
	HomeWait         Span  `min:"1s" none:"yes" default:"2m" help:"How long work that left commands on a machine waits for the next process of their data directory, in a shared database."`
}

// LimitRow describes one limit.
type LimitRow struct {
	Group string // its title
	Name  string // the key
	Help  string
	Bounds
}

// LimitRows returns all limits in the order of their groups, as topics and documents show them.
func LimitRows() (rows []LimitRow) {
	groups := reflect.TypeFor[Limits]()
	for i := range groups.NumField() {
		group := groups.Field(i)
		for _, field := range reflect.VisibleFields(group.Type) {
			name, named := field.Tag.Lookup("name")
			if !named {
				name = FlagName(field.Name)
			}
			rows = append(rows, LimitRow{Group: group.Tag.Get("title"), Name: LimitPrefix + name,
				Help: field.Tag.Get("help"), Bounds: BoundsOf(field.Type, field.Tag.Get)})
		}
	}
	return rows
}
