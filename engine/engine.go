// Package engine is the port of a running Perdure: everything that a caller can ask of it, in this
// process or over the network. engine/local and engine/remote implement it.
//
// It may import the root, agent, budget and webhook. The one thing to know: a method that
// acknowledges something returns after the commit that makes it durable. The laws that every
// implementation passes are in enginetest.
package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// Engine is the only entry point for API, MCP, CLI and UI. It is safe for concurrent use.
//
// Errors are kinds of the root. NotFound: the object does not exist or belongs to somebody else.
// Conflict: it is in another state than the request needs. Limit: a limit is reached. Invalid: the
// input can never succeed. Unavailable: it cannot be done now. Storage: the store can no longer
// guarantee durability.
type Engine interface {
	// Send adds a message to a session. The message is durable when Send returns; the answer
	// arrives as events. Send creates an id for a message without one. The same id with the same
	// content is one message; with other content it is Conflict. Invalid: a *perdure.MessageError,
	// as CheckInput of the message returns it.
	Send(ctx context.Context, id perdure.SessionID, message perdure.Message) (Sent, error)
	Journal

	// Sessions creates, lists, changes, copies and deletes sessions, and controls their turns.
	Sessions() Sessions
	// Approvals manages the decisions of people whether calls may run.
	Approvals() Approvals
	// Calls reads the effect ledger and resolves its calls.
	Calls() Calls
	// HostCalls runs tools for callers other than a model.
	HostCalls() HostCalls
	// Tasks reads and controls tasks, and exchanges messages with them.
	Tasks() Tasks
	// Tools lists the tools, and calls one outside a session.
	Tools() Tools
	// Schedules manages what runs at a time.
	Schedules() Schedules
	// Budgets manages budgets and reports costs.
	Budgets() Budgets
	// Webhooks manages webhooks and their deliveries.
	Webhooks() Webhooks
	// Agents manages stored agents.
	Agents() Agents
	// Harnesses manages what agents have in common.
	Harnesses() Harnesses
	// Connections lists the servers whose tools agents use.
	Connections() Connections
	// Providers manages the providers of models, and the default models.
	Providers() Providers
	// Tokens manages the tokens of callers.
	Tokens() Tokens
	// Audit reads who did what.
	Audit() Audit
	// Files reads and writes the files of sessions.
	Files() Files
	// Values reads and writes the values of sessions.
	Values() Values
	// Secrets stores the secrets of sessions.
	Secrets() Secrets
	// Resources lists what sessions created elsewhere.
	Resources() Resources
	// Images stores images with sessions.
	Images() Images
	// Databases reads the databases of sessions.
	Databases() Databases
	// Payments reads and resolves what tools paid.
	Payments() Payments
}

// Journal reads the events of sessions.
type Journal interface {
	// Events returns up to limit events of a session with a larger seq than after; limit 0 means
	// all.
	Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error)
	// Follow calls fn with every event after seq, in order and without gaps, and then with new
	// events as they are committed. Ephemeral frames come in between. Follow returns the error of
	// fn or of ctx.
	Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(Frame) error) error
}

// Sessions creates, lists, changes, copies and deletes sessions, and controls their turns.
type Sessions interface {
	SessionCreation
	SessionControl
	SessionArchive
	SessionHomes

	// Get returns a session. NotFound: no such session.
	Get(ctx context.Context, id perdure.SessionID) (Session, error)
	// List lists sessions, newest first; limit 0 means all.
	List(ctx context.Context, limit int) ([]Session, error)
	// ListWhere lists the sessions that match a filter, newest first. Invalid: the ids, labels, the
	// status or the limit are not valid.
	ListWhere(ctx context.Context, filter SessionFilter) ([]Session, error)
}

// SessionControl changes and deletes sessions, and controls their turns.
type SessionControl interface {
	// Delete permanently removes a session, the sessions of its subagents, and everything
	// that belongs to them: journals, calls, tasks and their output, files, and the remains of
	// their commands. Forks of the session stay.
	//
	// If the session worked in a host directory, that directory stays, except for the output of the
	// session's background runs. Data outside the store is removed after the commit, and after a
	// crash by a later pass. The exception is the output in a host directory, which a crash can
	// leave behind.
	//
	// Where several machines share a store, data outside it is removed by a server of its home, at
	// its start or within the hour. Until the removal is complete, Import of the same id is
	// Unavailable.
	//
	// NotFound: no such session. Conflict: one of the sessions has a driver, or a call or task that
	// has not ended. Invalid: the session is a subagent; delete its root.
	Delete(ctx context.Context, id perdure.SessionID) error
	// Change changes the title and the labels of a session. It records one event, or none if
	// nothing changes. Conflict: the journal has an event after o.If. Invalid: o requests no
	// change, the title is empty or too long, or the labels are not allowed.
	Change(ctx context.Context, id perdure.SessionID, o SessionChange) (Session, error)
	// Interrupt requests the end of the running turn (RC8). It does nothing if no turn is running.
	Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error
	// Pause stops new work of a session until it is resumed: no turn, model call or tool
	// call starts. Running model calls, claimed calls and tasks continue to their end. Messages and
	// results wait, and an open turn continues after the resume. The pause does not extend to
	// subagents. Pausing a paused session does nothing, and the first pause stands. NotFound: no
	// such session.
	Pause(ctx context.Context, id perdure.SessionID, by, why string) error
	// Resume resumes a session that a person has paused or a budget has stopped. It also
	// lets the session pass a soft limit, or spend on a model whose price is unknown, until the
	// budget's period ends. An interrupted turn continues.
	//
	// If both a pause and a budget stop the session, the pause ends in any case; the session stays
	// paused by the budget if the budget does not allow it to continue. NotFound: no such session.
	// Conflict: nothing stops the session, or only an exhausted budget does, which needs a higher
	// limit.
	Resume(ctx context.Context, id perdure.SessionID, by string) error
	// WaitIdle returns when the session is idle: no turn, no queued message, no live task, and no
	// result whose delivery would start a turn. A paused session is idle when none of its work is
	// running. It returns early when ctx ends.
	WaitIdle(ctx context.Context, id perdure.SessionID) error
}

// SessionFilter narrows a list of sessions. The zero value lists all.
type SessionFilter struct {
	Labels perdure.LabelFilter   // only sessions with all of these labels
	Status perdure.SessionStatus // only sessions in this status; empty: any
	Roots  bool                  // no sessions of subagents
	Title  perdure.TitleFilter   // only sessions whose title matches; empty: any
	After  SessionPlace          // only sessions listed after this place
	IDs    []perdure.SessionID   // only these, at most MaxSessionIDs; empty: any
	Limit  int                   // 0: no limit
	// Costs adds Session.Cost, for which journals are read.
	Costs bool
}

// MaxSessionIDs is the largest number of ids in a filter.
const MaxSessionIDs = 200

// SessionPlace is a place in a list of sessions: that of the session with this id and this time of
// creation, whether it still exists or not. The zero value is the start of the list.
type SessionPlace struct {
	CreatedAt time.Time
	ID        perdure.SessionID
}

// Precedes reports whether a session is listed after this place.
func (p SessionPlace) Precedes(s Session) bool {
	if p.ID == "" {
		return true
	}
	if c := s.CreatedAt.Truncate(time.Microsecond).Compare(p.CreatedAt); c != 0 {
		return c < 0
	}
	return s.ID < p.ID
}

// Approvals manages the decisions of people whether calls may run (AP3).
type Approvals interface {
	// List lists approvals in the order of their requests.
	List(ctx context.Context, filter ApprovalFilter) ([]perdure.Approval, error)
	// Get returns an approval. NotFound: no such approval.
	Get(ctx context.Context, id perdure.ApprovalID) (perdure.Approval, error)
	// Decide records a person's verdict; the first one stands (AP9). Conflict: the approval
	// is closed, or the verdict is about other arguments than those of the call. Invalid: the
	// verdict does not name the person.
	Decide(ctx context.Context, id perdure.ApprovalID, verdict perdure.Verdict) (perdure.Approval, error)
}

// ApprovalFilter narrows a list of approvals. The zero value lists all.
type ApprovalFilter struct {
	Session perdure.SessionID     // empty: any session
	State   perdure.ApprovalState // empty: any state
}

// Calls reads the effect ledger and resolves its calls.
type Calls interface {
	// Answer records the client's result of a client-side call (AP11). Sending the same result
	// again is accepted. NotFound: no such call. Conflict: the call does not wait for the client,
	// or has a different result.
	Answer(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error
	// Detach lets a running foreground call continue as a task (LN20). The request is durable
	// before it is carried out, by the process that runs the call. Detach waits for that; if ctx
	// ends first, the request stays. NotFound: no such call runs in the foreground, or it ended
	// first. Conflict: it stays in the foreground, for instance because no slot is free.
	Detach(ctx context.Context, key perdure.CallKey, by string) (perdure.Task, error)
	// List lists the calls of a session in the order of their claims.
	List(ctx context.Context, id perdure.SessionID) ([]perdure.Call, error)
	// Resolve records an operator's resolution of a call whose outcome is unknown. Conflict:
	// the outcome is not unknown.
	Resolve(ctx context.Context, key perdure.CallKey, word Resolution) error
}

// DefaultRetention is how long a task is kept after it has ended and its result was delivered.
const DefaultRetention = 30 * 24 * time.Hour

// Tasks reads, cancels and resolves tasks, waits for them, controls how their results reach their
// session, and exchanges messages with them.
type Tasks interface {
	TaskLists
	TaskControl
	TaskDelivery
	TaskWork

	// Get returns a task. NotFound: no such task.
	Get(ctx context.Context, id perdure.TaskID) (perdure.Task, error)
	// Wait returns when the task has ended or awaits input, or when ctx ends.
	Wait(ctx context.Context, id perdure.TaskID) (perdure.Task, error)
	// Overview counts all tasks by state, without reading their records.
	Overview(ctx context.Context) (TaskOverview, error)
	// Recoveries returns what crash recovery did with the tasks and calls of dead workers, the
	// latest first, and at most the last 20. Only the process that took the work over knows it, and
	// forgets it when it ends; the journals of the sessions keep every take-over.
	Recoveries(ctx context.Context) ([]Recovery, error)
}

// TaskLists lists tasks.
type TaskLists interface {
	// List lists the tasks of a session, or all tasks for an empty id, in the order of their
	// creation.
	List(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error)
	// ListWhere lists the tasks that match a query. With a limit it reads no more than it needs to
	// find them. NotFound: the task After does not exist. Invalid: an unknown state.
	ListWhere(ctx context.Context, q TaskQuery) ([]perdure.Task, error)
}

// TaskWork shows the work of tasks: what it prints, and the processes that do it.
type TaskWork interface {
	// Log returns output of a task from a byte offset, at most max bytes. A negative offset
	// counts from the end.
	Log(ctx context.Context, id perdure.TaskID, offset int64, max int) (Log, error)
	// Processes returns what runs on a machine for the last execution of a task. A task without
	// processes and processes at another home are answers, not errors. NotFound: no such task.
	// Unavailable: this process does not have the tool of the task.
	Processes(ctx context.Context, id perdure.TaskID) (perdure.TaskProcesses, error)
}

// TaskDelivery controls how results of tasks reach their session, and exchanges messages with
// running tasks.
type TaskDelivery interface {
	// Drain returns the ended tasks of a session whose delivery is manual, each once, in the
	// order in which they ended (DL7).
	Drain(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error)
	// SetDelivery changes how the result of a live task is delivered; an empty argument keeps the
	// current value. Conflict: the task has ended. Invalid: no such value.
	SetDelivery(
		ctx context.Context, id perdure.TaskID, delivery perdure.Delivery, wake perdure.Wake,
	) (perdure.Task, error)
	// Send sends a message to a task. With InReplyTo it answers a question of the task, which
	// then continues (TK12). Conflict: the task has ended, or the question is already answered.
	// Invalid: the answer does not match the question.
	Send(ctx context.Context, id perdure.TaskID, m perdure.TaskMessage) (perdure.TaskMessageID, error)
	// Messages returns up to limit messages of a task after one, oldest first; limit 0 means
	// all.
	Messages(
		ctx context.Context, id perdure.TaskID, after perdure.TaskMessageID, limit int,
	) ([]perdure.TaskMessage, error)
}

// TaskControl cancels and resolves tasks.
type TaskControl interface {
	// Cancel requests the end of a task (RC1). The request is durable when Tasks.Cancel returns;
	// the receipt says how far the cancel has come. An ended task does not change, and its receipt
	// is zero.
	Cancel(ctx context.Context, id perdure.TaskID, by, why string) (perdure.CancelReceipt, error)
	// Force is Tasks.Cancel without a grace period (RC21), also for a task whose cancel was
	// requested before. What a command was writing may be lost in the middle. The receipt is that
	// of the cancel; forcing again changes nothing.
	Force(ctx context.Context, id perdure.TaskID, by, why string) (perdure.CancelReceipt, error)
	// CancelAll is Tasks.Cancel for every live background task of a session. It returns the number
	// of tasks.
	CancelAll(ctx context.Context, id perdure.SessionID, by, why string) (int, error)
	// Resolve records an operator's resolution of a task whose outcome is unknown. Conflict:
	// the outcome is not unknown.
	Resolve(ctx context.Context, id perdure.TaskID, word Resolution) error
	// CancelWhere requests the end of every live task that matches a filter, as Tasks.Cancel does.
	// It returns at once; the requests become durable one after another. The same id is the same
	// bulk as long as the bulk is known, and Conflict with another filter.
	//
	// Only the process that runs a bulk knows it, and the bulk stops when that process ends. The
	// requests made so far stay in effect, and a new bulk makes the remaining ones.
	CancelWhere(ctx context.Context, o BulkCancel) (Bulk, error)
	// Bulk returns the current state of a bulk. NotFound: the bulk is unknown or has been
	// forgotten.
	Bulk(ctx context.Context, id perdure.BulkID) (Bulk, error)
}

// Tools lists the tools, and calls one outside a session.
type Tools interface {
	// List lists the tools in the order of their registration.
	List(ctx context.Context) ([]Tool, error)
	// Call runs a pure or idempotent tool once, outside any session, and returns its result.
	// Invalid: the arguments are wrong, or the tool needs a session. NotFound: no such tool.
	Call(ctx context.Context, name string, args json.RawMessage) (perdure.ToolResult, error)
}

// HostCalls runs tools for callers other than a model: MCP clients and programs. Each call is a
// task of its session from the start, with a claim in the ledger. The caller reads the result by
// the handle of the call; nothing enters the transcript.
type HostCalls interface {
	// Start starts a call. The call is durable when HostCalls.Start returns (M1). A call that is
	// refused by the tool's checks or by a policy has a result and no task. NotFound: no such
	// session or tool. Conflict: o.Key names a different call.
	Start(ctx context.Context, o HostCallRequest) (HostCall, error)
	// Find returns a call by its handle, with its result once it has ended. NotFound: no such
	// call in the session.
	Find(ctx context.Context, key perdure.CallKey) (HostCall, error)
	// Wait returns when a call that HostCalls.Start or HostCalls.Find returned has ended, with its
	// result, or awaits input, or when ctx ends. NotFound: no such call in the session.
	Wait(ctx context.Context, id perdure.SessionID, made HostCall) (HostCall, error)
	// MarkReported records that the caller has received the complete reply, so that no later
	// call joins this one (M4).
	MarkReported(ctx context.Context, key perdure.CallKey) error
}

// HostCallRequest describes a call to start.
type HostCallRequest struct {
	Session perdure.SessionID `json:"-"`
	Tool    string            `json:"tool"`
	Args    json.RawMessage   `json:"args,omitempty"`  // empty: {}
	Title   string            `json:"title,omitempty"` // of the task; empty: the tool's display name
	// Key identifies the call, permanently: the same key is the same call. A new key means a new
	// effect, even while the outcome of an equal earlier call is unknown. Without a key, such a
	// call returns the earlier one, with Joined set. Empty: none.
	Key string `json:"key,omitempty"`
	// Metadata is for the tool, hooks and the routing policy ([tool.Caller]).
	Metadata map[string]string `json:"metadata,omitempty"`
	// KeyIsGenerated says that the client's library generated the idempotency key of the request,
	// not the caller. Such a key does not mean a new effect.
	KeyIsGenerated bool `json:"unnamed,omitempty"`
	// JoinWindow applies to calls without a key. An equal call that is at most this old, and whose
	// caller has not received the complete reply, is returned instead of starting a new one. Calls
	// of pure tools are never joined. 0: never.
	JoinWindow time.Duration `json:"join_ns,omitempty"`
}

// HostCall is a call of a caller other than a model.
type HostCall struct {
	ID     perdure.CallID      `json:"id"`               // its handle
	Task   *perdure.Task       `json:"task,omitempty"`   // nil: the call was refused, or its task is already removed
	Result *perdure.ToolResult `json:"result,omitempty"` // nil: the call has not ended
	Joined bool                `json:"joined,omitempty"` // the call existed before
}

// Session is a session as callers see it.
type Session struct {
	ID        perdure.SessionID     `json:"id"`
	Title     string                `json:"title"`
	Agent     SessionAgent          `json:"agent"`
	Labels    perdure.Labels        `json:"labels,omitempty"`
	Status    perdure.SessionStatus `json:"state"`
	LastSeq   int64                 `json:"last_seq"`
	OpenTasks int                   `json:"open_tasks"`
	Unknown   int                   `json:"unknown"`   // calls and tasks whose outcome is unknown
	NeedsYou  int                   `json:"needs_you"` // open approvals, and tasks that await input
	CreatedAt time.Time             `json:"created_at"`
	UpdatedAt time.Time             `json:"updated_at"`
	Parent    perdure.SessionID     `json:"parent_session_id,omitempty"`      // set for a subagent
	Root      perdure.SessionID     `json:"root_session_id"`                  // its own id without a parent
	Forked    perdure.SessionID     `json:"forked_from_session_id,omitempty"` // lineage only, never nesting (SA1)
	Org       string                `json:"org"`                              // never changes
	User      string                `json:"user,omitempty"`                   // of the org; empty: no particular user
	// Home is where its files outside the store are, in a store that several servers share. nil: it
	// has none, or every server reaches them.
	Home *SessionHome `json:"home,omitempty"`

	// Cost is set only in a list with SessionFilter.Costs. nil: it has not been added up yet, which
	// a later read does.
	Cost *Cost `json:"cost,omitempty"`

	// The following fields are set only for a single session, not in a list.

	// Paused names the person who paused the session. It is nil if a budget did; State is then
	// still paused.
	Paused *perdure.Pause `json:"paused,omitempty"`
	Turn   *SessionTurn   `json:"turn,omitempty"` // the open turn; nil: none
	// Hold says why the session answers no message until somebody acts; nil: it answers.
	Hold *Hold `json:"hold,omitempty"`
}

// SessionTurn is the progress of a turn.
type SessionTurn struct {
	ID        perdure.TurnID    `json:"id"`
	Cause     perdure.TurnCause `json:"cause"`
	Phase     perdure.TurnPhase `json:"phase"`           // ready, reasoning, reasoned or acting
	Step      int               `json:"step"`            // the number of reason steps started
	Model     string            `json:"model,omitempty"` // requested by the message; empty: the agent's
	Usage     perdure.Usage     `json:"usage"`           // of the steps that have ended
	StartedAt time.Time         `json:"started_at"`
}

// SessionAgent describes the agent of a session at its creation. The event session.created has the
// complete agent.
type SessionAgent struct {
	ID      perdure.AgentID   `json:"id,omitempty"` // the stored agent that it was created from; empty: none
	Name    string            `json:"name,omitempty"`
	Model   string            `json:"model,omitempty"` // empty: the engine's default
	Harness perdure.HarnessID `json:"harness_id,omitempty"`
}

// Frame is one item of a followed session: an event, or a live update that is never stored.
type Frame struct {
	Event *perdure.Event `json:"event,omitempty"`
	// Type is the type of a live update: output.message.delta, tool.output.delta, tool.progress.
	Type    string          `json:"type,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"` // of a live update
	Dropped int             `json:"dropped,omitempty"`
}

// Log is a piece of a task's output.
type Log struct {
	Offset int64   `json:"offset"`
	Next   int64   `json:"next"`
	End    int64   `json:"end"` // the current length of the log
	Chunks []Chunk `json:"chunks"`
}

// Chunk is output of one stream of a task.
type Chunk struct {
	Offset  int64     `json:"offset"`
	Stream  string    `json:"stream"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Bytes   []byte    `json:"bytes"`
}

// Resolution is an operator's resolution of an unknown outcome (LG11).
type Resolution struct {
	Answer perdure.ResolveAnswer `json:"outcome"`
	Result json.RawMessage       `json:"result,omitempty"` // the result of a call that happened
	By     string                `json:"by"`
	Note   string                `json:"note,omitempty"`
}

// Tool is a tool as callers see it.
type Tool struct {
	Name        string              `json:"name"`
	DisplayName string              `json:"display_name"`
	Description string              `json:"description"`
	Class       perdure.EffectClass `json:"class"`
	Background  bool                `json:"background"`
	// Capability names the capability that a session must select to get the tool, unless it names
	// the tool itself; empty: the tool needs none.
	Capability string          `json:"capability,omitempty"`
	NeedsEnv   bool            `json:"needs_env"`
	Policy     string          `json:"policy"`
	SoftBudget time.Duration   `json:"soft_budget_ns"` // -1: never
	Deadline   time.Duration   `json:"deadline_ns"`
	Parameters json.RawMessage `json:"input_schema"`
	// Hints say what its calls do. nil: they come from a server of a version without them.
	Hints *ToolHints `json:"hints,omitempty"`
}

// ToolHints are advice about what the calls of a tool do. The first four follow from the tool's own
// hints, its effect class and, where neither says it, the worse case. All bind nobody: the effect
// class and the policy do.
type ToolHints struct {
	ReadOnly        bool `json:"readonly" doc:"A call changes nothing."`
	Destructive     bool `json:"destructive" doc:"A call may remove or replace something."`
	Idempotent      bool `json:"idempotent" doc:"Another call with the same arguments changes nothing more."`
	OpenWorld       bool `json:"open_world" doc:"A call may reach things outside the session."`
	RequiresSecrets bool `json:"requires_secrets,omitempty" doc:"It works with secrets."`
	LongRunning     bool `json:"long_running,omitempty" doc:"A call may take long."`
	CPUBound        bool `json:"cpu_bound,omitempty" doc:"A call uses the processor all the time."`
	PersistOutput   bool `json:"persist_output,omitempty" doc:"Its results may be long. Any long result is stored as a file."`
	Payment         bool `json:"payment,omitempty" doc:"A call may pay."`
}
