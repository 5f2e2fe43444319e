package perdure

import (
	"encoding/json"
	"time"
)

// TaskKind is the kind of work that a task records.
type TaskKind string

// The kinds of task.
const (
	KindBackgroundTool TaskKind = "background_tool"
	KindMonitor        TaskKind = "monitor"
	KindSubagent       TaskKind = "subagent"
	KindExternalAgent  TaskKind = "external_agent"
)

// Origin says how a task came to be.
type Origin string

// The origins of a task.
const (
	OriginSpawned  Origin = "spawned"  // by the model, with spawn_background
	OriginDetached Origin = "detached" // a foreground call that left the turn
	OriginRouted   Origin = "routed"   // by the host's policy
	OriginSchedule Origin = "schedule"
	OriginSubagent Origin = "subagent"
	OriginHost     Origin = "host" // by a caller that is no model: an MCP client, a program
)

// TaskState is the state of a task (7.2).
type TaskState string

// The states of a task. Unknown is left again only by a resolve.
const (
	TaskQueued        TaskState = "queued"
	TaskRunning       TaskState = "running"
	TaskAwaitingInput TaskState = "awaiting_input"
	TaskSucceeded     TaskState = "succeeded"
	TaskFailed        TaskState = "failed"
	TaskCanceled      TaskState = "canceled"
	TaskUnknown       TaskState = "unknown"
)

// Valid reports whether s is a state of 7.2.
func (s TaskState) Valid() bool { return s.Live() || s.Terminal() }

// Live reports whether the task still has something to do.
func (s TaskState) Live() bool {
	return s == TaskQueued || s == TaskRunning || s == TaskAwaitingInput
}

// Terminal reports whether the task has ended.
func (s TaskState) Terminal() bool {
	return s == TaskSucceeded || s == TaskFailed || s == TaskCanceled || s == TaskUnknown
}

// CanBecome reports whether the table of 7.2 allows the step without a resolve. Recovery's step from
// running to queued, with a new attempt, is told apart by the update.
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

// Progress is how far work has come. Every field may be absent.
type Progress struct {
	Current *float64 `json:"current,omitempty"`
	Total   *float64 `json:"total,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	Label   string   `json:"label,omitempty"`
}

// InputRequest is a question of a task that waits for its answer.
type InputRequest struct {
	ID       RequestID       `json:"id"`
	Kind     string          `json:"kind"` // question or approval
	Prompt   string          `json:"prompt"`
	Expected json.RawMessage `json:"expected,omitempty"` // schema of the answer
}

// The directions of a task's messages (TK11).
const (
	Inbound  = "inbound"  // session to task
	Outbound = "outbound" // task to session
)

// TaskMessage is a word between a session and its task (TK11).
type TaskMessage struct {
	ID        TaskMessageID   `json:"id"`
	Task      TaskID          `json:"task_id"`
	Direction string          `json:"direction"` // Inbound or Outbound
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	InReplyTo RequestID       `json:"in_reply_to,omitempty"`
	By        string          `json:"by,omitempty"` // who sent it
	CreatedAt time.Time       `json:"created_at"`
}

// PlainText is the message in a line of text: what it says, or its data (TK11).
func (m TaskMessage) PlainText() string {
	if m.Text == "" {
		return string(m.Data)
	}
	return m.Text
}

// Artifact names something that a task left behind.
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

// TaskSpec is what a background tool's task was asked to do (BG10).
type TaskSpec struct {
	Tool               string          `json:"tool"`
	Arguments          json.RawMessage `json:"arguments"`
	Reattachable       bool            `json:"reattachable"` // informative; recovery judges by the classes
	SignalOnCompletion bool            `json:"signal_on_completion"`

	Schedule     ScheduleID `json:"schedule_id,omitempty"` // of a monitor, and of the runs that its schedule starts (SC23)
	ScheduleType string     `json:"schedule_type,omitempty"`
	Cron         string     `json:"cron_expression,omitempty"`
	At           time.Time  `json:"scheduled_at,omitzero"`
	Zone         string     `json:"timezone,omitempty"`
	Nominal      time.Time  `json:"nominal_at,omitzero"` // of a run: for which of its moments
}

// Links names what belongs to a task elsewhere; they are merged field by field.
type Links struct {
	ChildSession SessionID `json:"child_session_id,omitempty"`
	RemoteTask   string    `json:"remote_task_id,omitempty"`
	Resources    []string  `json:"resource_ids,omitempty"` // a set
}

// ResourceStatus is how a resource stands.
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

// Resource is an entry of the registry of what stands beside a session (RS1).
type Resource struct {
	ID        string          `json:"resource_id"` // unique in its session, 1 to 256 bytes
	Kind      string          `json:"kind"`        // sandbox, browser, connection …: any word
	Name      string          `json:"display_name"`
	Status    ResourceStatus  `json:"status"`             // empty on the way in: active
	Metadata  json.RawMessage `json:"metadata,omitempty"` // an object without secrets, at most 16 KiB
	Task      TaskID          `json:"task_id,omitempty"`  // whose it is
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// LeaseStatus is how a lease stands.
type LeaseStatus string

// The statuses of a lease.
const (
	LeaseActive   LeaseStatus = "active"
	LeaseCleaning LeaseStatus = "cleaning"       // a cleaner has claimed it
	LeaseFailed   LeaseStatus = "cleanup_failed" // it is tried again when it has expired, up to a number of attempts
	LeaseReleased LeaseStatus = "released"
)

// Valid reports whether s is a status of a lease.
func (s LeaseStatus) Valid() bool {
	return s == LeaseActive || s == LeaseCleaning || s == LeaseFailed || s == LeaseReleased
}

// Lease is a leased resource: remote state that somebody must clean up (RS2). It is one and the same wherever provider,
// type and external id are.
type Lease struct {
	ID         LeaseID         `json:"id"`
	Session    SessionID       `json:"session_id"`    // that made it
	Org        string          `json:"org,omitempty"` // of the session that made it; empty: the default one
	Provider   string          `json:"provider"`
	Type       string          `json:"resource_type"`
	ExternalID string          `json:"external_id"`
	Name       string          `json:"display_name"`
	Status     LeaseStatus     `json:"status"`
	Owner      string          `json:"owner_user_id,omitempty"` // whose connection made it, and cleans it up (RS7)
	Keep       bool            `json:"keep,omitempty"`          // it stays when its task ends (RS8)
	Task       TaskID          `json:"task_id,omitempty"`       // that alone holds it; empty: the session
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	ExpiresAt  time.Time       `json:"lease_expires_at"`
	CleanupAt  time.Time       `json:"cleanup_started_at,omitzero"` // the fence of the cleaner that has it
	Attempts   int             `json:"cleanup_attempts"`
	LastError  string          `json:"last_error,omitempty"` // redacted
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
}

// Task is the durable record of work that may outlive a turn (7.1).
type Task struct {
	ID          TaskID    `json:"id"`
	Run         RunID     `json:"run_id,omitempty"` // background tools only
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

	Summary    string     `json:"summary,omitempty"`
	Result     string     `json:"result,omitempty"` // of a call that became a task: compact JSON, at most 4,096 characters (DL4)
	ResultPath string     `json:"result_path,omitempty"`
	LogPath    string     `json:"log_path,omitempty"`
	Artifacts  []Artifact `json:"artifacts,omitempty"`
	Error      *TaskError `json:"error,omitempty"`

	Attempt     int       `json:"attempt"`    // from 1; the fence of every write (TK6)
	Executions  int       `json:"executions"` // runs begun; adopting a process adds none
	Worker      WorkerID  `json:"worker_id,omitempty"`
	HeartbeatAt time.Time `json:"heartbeat_at,omitzero"`
	DeadlineAt  time.Time `json:"deadline_at,omitzero"`
	StallMS     int64     `json:"stall_ms,omitempty"` // without a sign of life before it ends; 0: for ever (LN4)

	CancelRequestedAt time.Time `json:"cancel_requested_at,omitzero"`
	CancelBy          string    `json:"cancel_by,omitempty"`
	CancelWhy         string    `json:"cancel_why,omitempty"`

	Trace string `json:"traceparent,omitempty"` // of who asked for it, or for its turn, where they sent one: it is part of their trace

	Delivery  Delivery  `json:"delivery"`
	Wake      Wake      `json:"wake"`
	Delivered Delivered `json:"delivered"`

	Links Links `json:"links,omitzero"`

	CreatedAt  time.Time `json:"created_at"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	DetachedAt time.Time `json:"detached_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	ResolvedAt time.Time `json:"resolved_at,omitzero"` // of an operator's last word
	ToldAt     time.Time `json:"told_at,omitzero"`     // the caller has the whole reply to the call that it made; host tasks only (M4)
	UpdatedAt  time.Time `json:"updated_at"`
}

// LedgerKey is the key of the task's row in the effect ledger: that of the call which became the task, and for a spawned
// run one of its own, with the run id as call id.
func (t Task) LedgerKey() CallKey {
	if t.FromCall() {
		return CallKey{Session: t.Session, Call: t.Call}
	}
	return CallKey{Session: t.Session, Call: CallID(t.Run)}
}

// FromCall reports whether the task is a call that left the foreground, or was never there: it runs as the call would.
func (t Task) FromCall() bool {
	return t.Origin == OriginDetached || t.Origin == OriginRouted || t.Origin == OriginHost
}

// Beside reports whether the task takes none of its session's places: it left the foreground, or a caller that is no
// model asked for it (BG16). It counts in the process.
func (t Task) Beside() bool { return t.Origin == OriginDetached || t.Origin == OriginHost }

// Taken reports whether the caller reads the task's end by its handle: then nothing is delivered anywhere.
func (t Task) Taken() bool { return t.Origin == OriginHost && t.Delivery == Manual }

// CancelRequested reports whether somebody asked for the task's end.
func (t Task) CancelRequested() bool { return !t.CancelRequestedAt.IsZero() }

// Waits reports whether the task waits for somebody's answer. One that is on its way out waits for nobody.
func (t Task) Waits() bool { return t.State == TaskAwaitingInput && !t.CancelRequested() }

// ArtifactDir is the folder of a background run's files, the same for all attempts (BG11).
func (t Task) ArtifactDir() string { return "/.background/" + string(t.Run) }

// Delivery is how a late result comes home (DL6, DL7).
type Delivery string

// The deliveries.
const (
	ToLoop Delivery = "to_loop" // injected once into the transcript
	Manual Delivery = "manual"  // the host takes it
)

// Wake is what a delivery does to an idle session (DL6).
type Wake string

// The wakes.
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

// Delivered says what became of a task's result.
type Delivered string

// What can have become of a result.
const (
	NotDelivered      Delivered = "no"
	DeliveredInjected Delivered = "injected"
	DeliveredRead     Delivered = "read"    // the model read it before it was injected (DL5)
	DeliveredDrained  Delivered = "drained" // the host took it (DL7)
)
