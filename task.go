package perdure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
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

// String returns the progress for people, such as "3/8 files · compiling". It is empty where
// nothing is known.
func (p *Progress) String() string {
	if p == nil {
		return ""
	}
	var done string
	switch {
	case p.Current != nil && p.Total != nil && *p.Total > 0:
		done = fmt.Sprintf("%g/%g %s", *p.Current, *p.Total, p.Unit)
	case p.Current != nil:
		done = fmt.Sprintf("%g %s", *p.Current, p.Unit)
	}
	done, label := strings.Join(strings.Fields(done), " "), strings.Join(strings.Fields(p.Label), " ")
	if done == "" || label == "" {
		return done + label
	}
	return done + " · " + label
}

// Finite reports whether the progress can be encoded as JSON: its numbers are numbers.
func (p *Progress) Finite() bool {
	if p == nil {
		return false
	}
	for _, n := range []*float64{p.Current, p.Total} {
		if n != nil && (math.IsNaN(*n) || math.IsInf(*n, 0)) {
			return false
		}
	}
	return true
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

	// Narration describes the work to people, such as "Running go test ./...", and its end once it
	// has ended. Empty: the tool has no sentence of its own.
	Narration string `json:"narration,omitempty"`

	Summary string `json:"summary,omitempty"`
	// Result is for a call that became a task: compact JSON, at most 4,096 characters.
	Result     string     `json:"result,omitempty"`
	ResultPath string     `json:"result_path,omitempty"`
	LogPath    string     `json:"log_path,omitempty"`
	Artifacts  []Artifact `json:"artifacts,omitempty"`
	Error      *TaskError `json:"error,omitempty"`

	Attempt    int      `json:"attempt"`    // from 1; the fencing token of every write
	Executions int      `json:"executions"` // starts so far; adopting a process does not count
	Worker     WorkerID `json:"worker_id,omitempty"`
	// Home is where the remains of its last execution are. Empty: it leaves none on one machine.
	Home HomeID `json:"home_id,omitempty"`
	// WaitsForHome is the home that alone can take the task over while the worker is dead: Home, or
	// that of the session's files.
	WaitsForHome HomeID    `json:"waits_for_home,omitempty"`
	HeartbeatAt  time.Time `json:"heartbeat_at,omitzero"`
	DeadlineAt   time.Time `json:"deadline_at,omitzero"`
	StallMS      int64     `json:"stall_ms,omitempty"` // the stall timeout; 0: none

	CancelRequestedAt time.Time `json:"cancel_requested_at,omitzero"`
	CancelBy          string    `json:"cancel_by,omitempty"`
	CancelWhy         string    `json:"cancel_why,omitempty"`
	// ForceRequestedAt is when a cancel without a grace period was requested (RC21); zero: it was
	// not.
	ForceRequestedAt time.Time `json:"force_requested_at,omitzero"`

	// Metadata is that of the request for the task, or of the message that its turn worked on.
	Metadata map[string]string `json:"metadata,omitempty"`

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

// ForceRequested reports whether a cancel without a grace period was requested.
func (t Task) ForceRequested() bool { return !t.ForceRequestedAt.IsZero() }

// AwaitsInput reports whether the task waits for an answer. A task that is being canceled does not.
func (t Task) AwaitsInput() bool { return t.State == TaskAwaitingInput && !t.CancelRequested() }

// AwaitsApproval reports whether the task waits for the decision about an approval, its own or one
// of its subagent. Such a task needs nothing beside that decision.
func (t Task) AwaitsApproval() bool {
	return t.AwaitsInput() && t.InputRequest != nil && t.InputRequest.Kind == "approval"
}

// ArtifactDir is the folder of a background run's files. It is the same for all attempts.
func (t Task) ArtifactDir() string { return "/.background/" + string(t.Run) }

// isWork reports whether the task is work of its own. A monitor only represents its schedule.
func (t Task) isWork() bool { return t.Kind != KindMonitor }

// compareAge orders tasks by their creation.
func (t Task) compareAge(other Task) int {
	return cmp.Or(t.CreatedAt.Compare(other.CreatedAt), strings.Compare(string(t.ID), string(other.ID)))
}
