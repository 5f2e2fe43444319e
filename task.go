package perdure

import (
	"encoding/json"
	"time"
)

// TaskKind is the kind of work that a task represents.
type TaskKind string

// The kinds of task.
const (
	KindBackgroundTool TaskKind = "background_tool"
	KindMonitor        TaskKind = "monitor"
	KindSubagent       TaskKind = "subagent"
	KindExternalAgent  TaskKind = "external_agent"
)

// Origin says how a task was created.
type Origin string

// The origins of a task.
const (
	OriginSpawned  Origin = "spawned"  // by the model, with spawn_background
	OriginDetached Origin = "detached" // a foreground call that left the turn
	OriginRouted   Origin = "routed"   // by the host's routing policy
	OriginSchedule Origin = "schedule"
	OriginSubagent Origin = "subagent"
	OriginHost     Origin = "host" // by a caller outside of any session: an MCP client or a program
)

// TaskState is the state of a task.
type TaskState string

// The states of a task. Only an operator's answer ends the state unknown.
const (
	TaskQueued        TaskState = "queued"
	TaskRunning       TaskState = "running"
	TaskAwaitingInput TaskState = "awaiting_input"
	TaskSucceeded     TaskState = "succeeded"
	TaskFailed        TaskState = "failed"
	TaskCanceled      TaskState = "canceled"
	TaskUnknown       TaskState = "unknown"
)

// Valid reports whether s is one of the seven states.
func (s TaskState) Valid() bool { return s.Live() || s.Terminal() }

// Live reports whether the task has not ended.
func (s TaskState) Live() bool {
	return s == TaskQueued || s == TaskRunning || s == TaskAwaitingInput
}

// Terminal reports whether the task has ended.
func (s TaskState) Terminal() bool {
	return s == TaskSucceeded || s == TaskFailed || s == TaskCanceled || s == TaskUnknown
}

// CanBecome reports whether a task may go from s to another state. Two steps are not part of it,
// and Update checks them: crash recovery from running to queued, which needs a new attempt, and an
// operator's answer to the state unknown.
func (s TaskState) CanBecome(to TaskState) bool {
	switch s {
	case "":
		return to.Live()
	case TaskQueued:
		return to == TaskRunning || to == TaskAwaitingInput || to == TaskFailed || to == TaskCanceled || to == TaskUnknown
	case TaskRunning:
		return to == TaskAwaitingInput || to.Terminal()
	case TaskAwaitingInput:
		return to == TaskQueued || to == TaskRunning || to.Terminal()
	}
	return false
}

// Progress says how far work has got. Every field is optional.
type Progress struct {
	Current *float64 `json:"current,omitempty"`
	Total   *float64 `json:"total,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Label   string   `json:"label,omitempty"`
}

// InputRequest is a question that a task waits for an answer to.
type InputRequest struct {
	ID       RequestID       `json:"id"`
	Kind     string          `json:"kind"` // question or approval
	Prompt   string          `json:"prompt"`
	Expected json.RawMessage `json:"expected,omitempty"` // JSON schema of the answer
}

// The directions of a task's messages.
const (
	Inbound  = "inbound"  // session to task
	Outbound = "outbound" // task to session
)

// TaskMessage is a message between a session and its task.
type TaskMessage struct {
	ID        TaskMessageID   `json:"id"`
	Task      TaskID          `json:"task_id"`
	Direction string          `json:"direction"` // Inbound or Outbound
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	InReplyTo RequestID       `json:"in_reply_to,omitempty"`
	By        string          `json:"by,omitempty"` // the sender
	CreatedAt time.Time       `json:"created_at"`
}

// PlainText returns the text of the message, or else its data.
func (m TaskMessage) PlainText() string {
	if m.Text == "" {
		return string(m.Data)
	}
	return m.Text
}

// Artifact is a file or another result that a task produced.
type Artifact struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	Path string `json:"path,omitempty"`
	URL  string `json:"url,omitempty"`
}

// TaskError is the failure of a task.
type TaskError struct {
	Kind    ErrorKind `json:"kind"`
	Message string    `json:"message"`
}

// TaskSpec is what the task of a background tool has to do.
type TaskSpec struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	// Reattachable is informative. Crash recovery depends on the effect classes.
	Reattachable       bool `json:"reattachable"`
	SignalOnCompletion bool `json:"signal_on_completion"`

	// Schedule is set for a monitor, and for the runs that its schedule starts.
	Schedule     ScheduleID `json:"schedule_id,omitempty"`
	ScheduleType string     `json:"schedule_type,omitempty"`
	Cron         string     `json:"cron_expression,omitempty"`
	At           time.Time  `json:"scheduled_at,omitzero"`
	Zone         string     `json:"timezone,omitempty"`
	Nominal      time.Time  `json:"nominal_at,omitzero"` // of a run: the nominal time that it was started for
}

// Links refers to things that belong to the task elsewhere. Updates merge them field by field.
type Links struct {
	ChildSession SessionID `json:"child_session_id,omitempty"`
	RemoteTask   string    `json:"remote_task_id,omitempty"`
	Resources    []string  `json:"resource_ids,omitempty"` // without duplicates
}

// ResourceStatus is the status of a resource.
type ResourceStatus string

// The statuses of a resource; all but active are terminal.
const (
	ResourceActive    ResourceStatus = "active"
	ResourceCompleted ResourceStatus = "completed"
	ResourceFailed    ResourceStatus = "failed"
	ResourceReleased  ResourceStatus = "released"
)

// Valid reports whether s is a status of a resource.
func (s ResourceStatus) Valid() bool {
	return s == ResourceActive || s == ResourceCompleted || s == ResourceFailed || s == ResourceReleased
}

// Resource is an entry in the registry of things that a session uses outside of it.
type Resource struct {
	ID        string          `json:"resource_id"` // unique in its session, 1 to 256 bytes
	Kind      string          `json:"kind"`        // any word: sandbox, browser, connection …
	Name      string          `json:"display_name"`
	Status    ResourceStatus  `json:"status"`             // empty in a request means active
	Metadata  json.RawMessage `json:"metadata,omitempty"` // a JSON object without secrets, at most 16 KiB
	Task      TaskID          `json:"task_id,omitempty"`  // the task that it belongs to
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// LeaseStatus is the status of a lease.
type LeaseStatus string

// The statuses of a lease.
const (
	LeaseActive   LeaseStatus = "active"
	LeaseCleaning LeaseStatus = "cleaning"       // a cleanup is running
	LeaseFailed   LeaseStatus = "cleanup_failed" // the cleanup failed and is retried a limited number of times
	LeaseReleased LeaseStatus = "released"
)

// Valid reports whether s is a status of a lease.
func (s LeaseStatus) Valid() bool {
	return s == LeaseActive || s == LeaseCleaning || s == LeaseFailed || s == LeaseReleased
}

// Lease is a leased resource: remote state that must be cleaned up. Provider, type and external id
// together identify it.
type Lease struct {
	ID         LeaseID         `json:"id"`
	Session    SessionID       `json:"session_id"`    // the session that created it
	Org        string          `json:"org,omitempty"` // of that session; empty: the default org
	Provider   string          `json:"provider"`
	Type       string          `json:"resource_type"`
	ExternalID string          `json:"external_id"`
	Name       string          `json:"display_name"`
	Status     LeaseStatus     `json:"status"`
	Owner      string          `json:"owner_user_id,omitempty"` // its connection created it and is used by the cleanup
	Keep       bool            `json:"keep,omitempty"`          // it stays when its task ends
	Task       TaskID          `json:"task_id,omitempty"`       // the only holder; empty: the session holds it
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	ExpiresAt  time.Time       `json:"lease_expires_at"`
	CleanupAt  time.Time       `json:"cleanup_started_at,omitzero"` // fencing token of the running cleanup
	Attempts   int             `json:"cleanup_attempts"`
	LastError  string          `json:"last_error,omitempty"` // redacted
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
}

// Task is the durable record of work that may outlive its turn.
type Task struct {
	ID          TaskID    `json:"id"`
	Run         RunID     `json:"run_id,omitempty"` // of background tools
	Session     SessionID `json:"session_id"`
	RootSession SessionID `json:"root_session_id"`
	Kind        TaskKind  `json:"kind"`
	Turn        TurnID    `json:"turn_id,omitempty"`
	Call        CallID    `json:"call_id,omitempty"` // the call that asked for it
	Parent      TaskID    `json:"parent_task_id,omitempty"`
	Origin      Origin    `json:"origin"`

	Tool        string      `json:"tool"`
	ArgsHash    string      `json:"args_hash,omitempty"`
	Spec        TaskSpec    `json:"spec"`
	DisplayName string      `json:"display_name,omitempty"`
	Class       EffectClass `json:"effect_class"`
	Lane        Lane        `json:"lane"`

	State        TaskState     `json:"state"`
	StateDetail  string        `json:"state_detail,omitempty"`
	Progress     *Progress     `json:"progress,omitempty"`
	InputRequest *InputRequest `json:"input_request,omitempty"`
	LogBytes     int64         `json:"log_bytes"`
	Tail         string        `json:"tail,omitempty"` // the last 2,048 characters of output (BG12)

	Summary string `json:"summary,omitempty"`
	// Result is for a call that became a task: compact JSON, at most 4,096 characters.
	Result     string     `json:"result,omitempty"`
	ResultPath string     `json:"result_path,omitempty"`
	LogPath    string     `json:"log_path,omitempty"`
	Artifacts  []Artifact `json:"artifacts,omitempty"`
	Error      *TaskError `json:"error,omitempty"`

	Attempt     int       `json:"attempt"`    // from 1; the fencing token of every write
	Executions  int       `json:"executions"` // starts so far; adopting a process does not count
	Worker      WorkerID  `json:"worker_id,omitempty"`
	HeartbeatAt time.Time `json:"heartbeat_at,omitzero"`
	DeadlineAt  time.Time `json:"deadline_at,omitzero"`
	StallMS     int64     `json:"stall_ms,omitempty"` // the stall timeout; 0: none

	CancelRequestedAt time.Time `json:"cancel_requested_at,omitzero"`
	CancelBy          string    `json:"cancel_by,omitempty"`
	CancelWhy         string    `json:"cancel_why,omitempty"`

	// Trace is the traceparent of the request for the task or for its turn. Empty: it had none.
	Trace string `json:"traceparent,omitempty"`

	Delivery  Delivery  `json:"delivery"`
	Wake      Wake      `json:"wake"`
	Delivered Delivered `json:"delivered"`

	Links Links `json:"links,omitzero"`

	CreatedAt  time.Time `json:"created_at"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	DetachedAt time.Time `json:"detached_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"` // of the last operator's answer
	// RepliedAt is when the caller got the full reply to its call; only for tasks with OriginHost.
	RepliedAt time.Time `json:"told_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at"`
}

// LedgerKey is the key of the task's row in the effect ledger. A task that was a call keeps the key
// of the call. A spawned run has a row of its own, with its run id as the call id.
func (t Task) LedgerKey() CallKey {
	if t.FromCall() {
		return CallKey{Session: t.Session, Call: t.Call}
	}
	return CallKey{Session: t.Session, Call: CallID(t.Run)}
}

// FromCall reports whether the task is a call that detached or never was in the foreground. It runs
// exactly as the call would.
func (t Task) FromCall() bool {
	return t.Origin == OriginDetached || t.Origin == OriginRouted || t.Origin == OriginHost
}

// OutsideSessionSlots reports whether the task uses none of its session's slots, because it was
// detached or a caller outside of the session asked for it. It does use a slot of the process.
func (t Task) OutsideSessionSlots() bool { return t.Origin == OriginDetached || t.Origin == OriginHost }

// ReadByCaller reports whether the caller reads the result by its handle, so that nothing has to be
// delivered.
func (t Task) ReadByCaller() bool { return t.Origin == OriginHost && t.Delivery == Manual }

// CancelRequested reports whether a cancel of the task was requested.
func (t Task) CancelRequested() bool { return !t.CancelRequestedAt.IsZero() }

// AwaitsInput reports whether the task waits for an answer. A task that is being canceled does not.
func (t Task) AwaitsInput() bool { return t.State == TaskAwaitingInput && !t.CancelRequested() }

// ArtifactDir is the folder of a background run's files. It is the same for all attempts.
func (t Task) ArtifactDir() string { return "/.background/" + string(t.Run) }

// Delivery says how the result of a task reaches its session.
type Delivery string

// The ways of delivery.
const (
	ToLoop Delivery = "to_loop" // it enters the transcript, once
	Manual Delivery = "manual"  // the host drains it
)

// Wake says what a delivery does to an idle session.
type Wake string

// The effects of a delivery on an idle session.
const (
	WakeNone     Wake = "none"
	WakeNotify   Wake = "notify"
	WakeContinue Wake = "continue"
)

// Valid reports whether d is a delivery; the zero value counts.
func (d Delivery) Valid() bool { return d == "" || d == ToLoop || d == Manual }

// Valid reports whether w is a wake; the zero value counts.
func (w Wake) Valid() bool {
	return w == "" || w == WakeNone || w == WakeNotify || w == WakeContinue
}

// Delivered says how a task's result was delivered.
type Delivered string

// The states of a delivery.
const (
	NotDelivered      Delivered = "no"
	DeliveredInjected Delivered = "injected"
	DeliveredRead     Delivered = "read"    // the model read it before it entered the transcript
	DeliveredDrained  Delivered = "drained" // the host drained it
)
