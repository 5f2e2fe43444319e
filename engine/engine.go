// Package engine is the port of a running Perdure: what a caller may ask of it, in this process or far away.
//
// It may import the root, budget and webhook. The one thing to know: every answer that acknowledges something comes after
// the commit that makes it durable. The laws stand in enginetest.
package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
)

// Engine is the only door for API, MCP, CLI and UI. It is safe for concurrent use.
//
// Errors are kinds of the root: NotFound for what is unknown or belongs to somebody else, Conflict, Limit,
// Invalid for input that will never be right, Unavailable when it cannot be done now, Storage when the
// store cannot promise durability any more.
type Engine interface {
	Sessions
	Archives
	Conversations
	Journals
	Calls
	Approvals
	Tasks
	Operations
	Deliveries
	Schedules
	ScheduleActs
	Budgets
	Costs
	Webhooks
	WebhookDeliveries
	Tools
	Agents
	AgentStarts
	Harnesses
	Connections
	Providers
	HostCalls
	Tokens
	Audits
	Files
	Values
	Secrets
	Resources
	SessionChanges
	Bulks
}

// Sessions starts sessions and shows them.
type Sessions interface {
	// NewSession starts a session for an agent.
	NewSession(ctx context.Context, agent perdure.Agent) (Session, error)
	// NewSessionAs is NewSession under an id of the caller's. The same id again, with the same agent, is one
	// session; with another agent it is Conflict. Invalid: it is no session id (N5).
	NewSessionAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (Session, error)
	// Session returns a session. NotFound: no such session.
	Session(ctx context.Context, id perdure.SessionID) (Session, error)
	// Sessions lists sessions, newest first; limit 0 means all.
	Sessions(ctx context.Context, limit int) ([]Session, error)
	// SessionsWhere is Sessions, of those that a filter matches. Invalid: no such labels, or no such status.
	SessionsWhere(ctx context.Context, filter SessionFilter) ([]Session, error)
	// DeleteSession removes a session for good, with its subagents' sessions and all that belongs to them: journals, calls,
	// tasks and their output, files, and what their commands left. A folder of the host in which a session worked stays,
	// but for the output of its background runs. Forks of it stay. What stands outside the store goes after the commit, and
	// after a crash with a later pass, but for that output in a folder of the host, which nobody finds any more. Where
	// several machines share a store, only what the machine has that cleans up is removed, which is the one that was asked
	// or, when that could not, any. Until it is removed, Import of the same id is Unavailable. NotFound: no such session. Conflict: one of them is at
	// work: it is driven, or a call or a task of it has not ended. Invalid: it is a subagent, whose root is to be deleted.
	DeleteSession(ctx context.Context, id perdure.SessionID) error
}

// SessionFilter narrows a list of sessions. The zero value lists all.
type SessionFilter struct {
	Labels perdure.LabelFilter   // only those that have all of these
	Status perdure.SessionStatus // only those that stand there; empty: all
	Limit  int                   // 0: no limit
}

// Conversations speaks in sessions.
type Conversations interface {
	// Send hands a message to a session. It is durable when Send returns; the answer comes as events.
	// A message without an id is given one. The same id again, with the same content, is one message.
	Send(ctx context.Context, id perdure.SessionID, message perdure.Message) error
	// Interrupt asks for the end of the turn that runs (RC8). Without one it does nothing.
	Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error
	// PauseSession has nothing new begin in a session until it is resumed: no turn, no question to the model, no call of a tool.
	// What has begun goes on to its own end: a question under way, calls that were claimed, tasks. What comes in waits, and the
	// turn that runs goes on where it stopped. The pause is of this session and not of its subagents. Pausing twice is the same,
	// and the first one stands. NotFound: no such session.
	PauseSession(ctx context.Context, id perdure.SessionID, by, why string) error
	// ResumeSession lets a session go on that a person paused, or that a budget had stopped: beyond a soft limit, or although a
	// price is not known, until the budget's period ends. A turn that was cut short goes on. Where both stop it, the pause ends
	// also when the budget does not let it go on: the session then is still paused, by the budget. NotFound: no such session.
	// Conflict: nothing stops it, or only a budget does, of which nothing is left: set a higher limit.
	ResumeSession(ctx context.Context, id perdure.SessionID, by string) error
	// WaitIdle returns when the session is at rest: no turn, nothing queued, no live task, nothing to
	// deliver that would start a turn. One that is paused rests when nothing of it is at work. It ends with ctx.
	WaitIdle(ctx context.Context, id perdure.SessionID) error
}

// Journals reads what happened.
type Journals interface {
	// Events returns up to limit events of a session after seq; limit 0 means all.
	Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error)
	// Follow calls fn with every event after seq, in order and without a gap, then with new ones as they
	// are committed, and with ephemeral frames in between. It returns with fn's error or ctx's.
	Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(Frame) error) error
}

// Approvals are the questions whether calls may run (AP3).
type Approvals interface {
	// Approvals lists approvals in the order in which they were asked for.
	Approvals(ctx context.Context, filter ApprovalFilter) ([]perdure.Approval, error)
	// Approval returns an approval. NotFound: no such approval.
	Approval(ctx context.Context, id perdure.ApprovalID) (perdure.Approval, error)
	// DecideApproval records a person's verdict; the first one stands (AP9). Conflict: it is closed, or the person saw
	// other arguments than it is about. Invalid: nobody is named who decides.
	DecideApproval(ctx context.Context, id perdure.ApprovalID, verdict perdure.Verdict) (perdure.Approval, error)
}

// ApprovalFilter narrows a list of approvals. The zero value lists all.
type ApprovalFilter struct {
	Session perdure.SessionID     // empty: of all sessions
	State   perdure.ApprovalState // empty: in every state
}

// Deliveries is how late results and words come home, and go out.
type Deliveries interface {
	// DrainReady hands over the ended tasks of a session whose delivery is manual, each once, in the order of their
	// ends (DL7).
	DrainReady(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error)
	// SetDelivery changes how the end of a live task comes home; an empty word leaves it as it is. Conflict: already
	// settled. Invalid: no such word.
	SetDelivery(ctx context.Context, id perdure.TaskID, delivery perdure.Delivery, wake perdure.Wake) (perdure.Task, error)
	// SendTask hands a message to a task; with InReplyTo it answers the task's question, which then goes on (TK12).
	// Conflict: the task has ended, or the question was answered. Invalid: the answer is not what was asked for.
	SendTask(ctx context.Context, id perdure.TaskID, m perdure.TaskMessage) (perdure.TaskMessageID, error)
	// TaskMessages returns up to limit messages of a task after one, oldest first; limit 0 means all.
	TaskMessages(ctx context.Context, id perdure.TaskID, after perdure.TaskMessageID, limit int) ([]perdure.TaskMessage, error)
}

// Calls reads and resolves the effect ledger.
type Calls interface {
	// AnswerCall records the client's answer to a call that was asked for from it (AP11). The same answer again is
	// accepted. NotFound: no such call. Conflict: it does not wait for the client, or has another result.
	AnswerCall(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error
	// DetachCall lets a running foreground call go on as a task. NotFound: it does not run in the foreground.
	// Conflict: there is no place for it.
	DetachCall(ctx context.Context, key perdure.CallKey, by string) (perdure.Task, error)
	// Calls lists the calls of a session in the order of their claims.
	Calls(ctx context.Context, id perdure.SessionID) ([]perdure.Call, error)
	// ResolveCall gives an operator's word on a call whose outcome is unknown. Conflict: it is not unknown.
	ResolveCall(ctx context.Context, key perdure.CallKey, word Word) error
}

// Tasks reads tasks, and waits for them.
type Tasks interface {
	// Task returns a task. NotFound: no such task.
	Task(ctx context.Context, id perdure.TaskID) (perdure.Task, error)
	// Tasks lists the tasks of a session, or of all for an empty id, in the order of their creation.
	Tasks(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error)
	// TaskLog returns output from a byte offset on, at most max bytes; a negative offset counts from the end.
	TaskLog(ctx context.Context, id perdure.TaskID, offset int64, max int) (Log, error)
	// WaitTask returns when the task has ended or awaits input, or with ctx.
	WaitTask(ctx context.Context, id perdure.TaskID) (perdure.Task, error)
}

// Operations end and settle tasks.
type Operations interface {
	// CancelTask asks for a task's end (RC1). The wish is durable when it returns; the receipt says how far
	// it has come. A task that has ended is left as it is and its receipt is zero.
	CancelTask(ctx context.Context, id perdure.TaskID, by, why string) (perdure.CancelReceipt, error)
	// CancelTasks is CancelTask for every live background task of a session, and says how many it asked.
	CancelTasks(ctx context.Context, id perdure.SessionID, by, why string) (int, error)
	// ResolveTask gives an operator's word on a task whose outcome is unknown. Conflict: it is not unknown.
	ResolveTask(ctx context.Context, id perdure.TaskID, word Word) error
}

// Tools shows the tools and calls one.
type Tools interface {
	// Tools lists the tools in the order of their registration.
	Tools(ctx context.Context) ([]Tool, error)
	// CallTool runs a pure or idempotent tool once, outside any session, and returns its record. Invalid: the
	// arguments are wrong, or the tool needs a session. NotFound: no such tool.
	CallTool(ctx context.Context, name string, args json.RawMessage) (perdure.ToolResult, error)
}

// HostCalls runs tools for callers that are no model: MCP clients, and programs. Each call is a task of its session from its
// start, with a claim in the ledger; its caller takes the result by the call's handle, and nothing enters the transcript.
type HostCalls interface {
	// StartCall starts a call. It is durable when StartCall returns (M1). A call that its tool's checks or a policy refuse
	// has a result and no task. NotFound: no such session or tool. Conflict: the key stands for another call.
	StartCall(ctx context.Context, o CallOrder) (HostCall, error)
	// FindCall returns a call by its handle, with its result once it has ended. NotFound: the session has no such call.
	FindCall(ctx context.Context, key perdure.CallKey) (HostCall, error)
	// WaitCall returns when a call that StartCall or FindCall returned has ended or awaits input, with its result in the one case,
	// or with ctx. NotFound: the session has no such call.
	WaitCall(ctx context.Context, id perdure.SessionID, made HostCall) (HostCall, error)
	// ToldCall notes that the caller has the whole reply, so that no other call joins this one (M4).
	ToldCall(ctx context.Context, key perdure.CallKey) error
}

// CallOrder asks for a call.
type CallOrder struct {
	Session perdure.SessionID `json:"-"`
	Tool    string            `json:"tool"`
	Args    json.RawMessage   `json:"args,omitempty"`  // empty: {}
	Title   string            `json:"title,omitempty"` // of the task; empty: the tool's display name
	// Key is of the caller's own: the same key is the same call, for ever. A key that is new means a new effect, also while the outcome
	// of the same call before is unknown. Without a key such a call is answered with that one, as Joined. Empty: none.
	Key string `json:"key,omitempty"`
	// Unnamed says that the idempotency key of the request is of the client's library, and not of the caller: it means no new effect.
	Unnamed bool `json:"unnamed,omitempty"`
	// Join is for a call without a key: one of the same content, not older than this, whose caller was not told the whole
	// reply, is this one. A pure tool's never is. 0: none is.
	Join time.Duration `json:"join_ns,omitempty"`
}

// HostCall is a call of a caller that is no model.
type HostCall struct {
	ID     perdure.CallID      `json:"id"`               // its handle
	Task   *perdure.Task       `json:"task,omitempty"`   // nil: it was refused, or its task is forgotten by now
	Result *perdure.ToolResult `json:"result,omitempty"` // nil: it has not ended
	Joined bool                `json:"joined,omitempty"` // it was there before
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
	Parent    perdure.SessionID     `json:"parent_session_id,omitempty"`      // whose subagent it is
	Root      perdure.SessionID     `json:"root_session_id"`                  // of its tree; its own id without a parent
	Forked    perdure.SessionID     `json:"forked_from_session_id,omitempty"` // lineage only, never nesting (SA1)
	Org       string                `json:"org"`                              // whose it is, for ever
	User      string                `json:"user,omitempty"`                   // of the org; empty: nobody's in particular
	Paused    *perdure.Pause        `json:"paused,omitempty"`                 // of one session, not in a list: who paused it; nil with a state of paused: a budget did
	Turn      *SessionTurn          `json:"turn,omitempty"`                   // of one session, not in a list: the turn that is open; nil: none is
	Hold      *Hold                 `json:"hold,omitempty"`                   // of one session, not in a list: why nothing said to it is answered until somebody acts; nil: it is answered
}

// SessionTurn is how far the turn of a session is.
type SessionTurn struct {
	ID        perdure.TurnID    `json:"id"`
	Cause     perdure.TurnCause `json:"cause"`
	Phase     perdure.TurnPhase `json:"phase"`           // ready, reasoning, reasoned or acting
	Step      int               `json:"step"`            // reason steps begun
	Model     string            `json:"model,omitempty"` // asked for by the message; empty: that of the agent
	Usage     perdure.Usage     `json:"usage"`           // of the steps that have ended
	StartedAt time.Time         `json:"started_at"`
}

// SessionAgent says whose session it is, as it began. session.created has the whole of the agent.
type SessionAgent struct {
	ID      perdure.AgentID   `json:"id,omitempty"` // the kept agent that it was made of; empty: of none
	Name    string            `json:"name,omitempty"`
	Model   string            `json:"model,omitempty"` // empty: the engine's default
	Harness perdure.HarnessID `json:"harness_id,omitempty"`
}

// Frame is what a follower sees: an event, or something for display that was never stored.
type Frame struct {
	Event   *perdure.Event  `json:"event,omitempty"`
	Type    string          `json:"type,omitempty"` // of an ephemeral frame: output.message.delta, tool.output.delta, tool.progress
	Data    json.RawMessage `json:"data,omitempty"` // of an ephemeral frame
	Dropped int             `json:"dropped,omitempty"`
}

// Log is a piece of a task's output.
type Log struct {
	Offset int64   `json:"offset"`
	Next   int64   `json:"next"`
	End    int64   `json:"end"` // length of the log now
	Chunks []Chunk `json:"chunks"`
}

// Chunk is output of one stream.
type Chunk struct {
	Offset  int64     `json:"offset"`
	Stream  string    `json:"stream"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Bytes   []byte    `json:"bytes"`
}

// Word is an operator's word on an unknown outcome (LG11).
type Word struct {
	Answer perdure.Answer  `json:"outcome"`
	Result json.RawMessage `json:"result,omitempty"` // with happened: what the call would have answered
	By     string          `json:"by"`
	Note   string          `json:"note,omitempty"`
}

// Tool is a tool as callers see it.
type Tool struct {
	Name        string              `json:"name"`
	DisplayName string              `json:"display_name"`
	Description string              `json:"description"`
	Class       perdure.EffectClass `json:"class"`
	Background  bool                `json:"background"`
	Capability  string              `json:"capability,omitempty"` // that a session must choose to have it, unless it names the tool; empty: it is there by itself
	NeedsEnv    bool                `json:"needs_env"`
	Policy      string              `json:"policy"`
	SoftBudget  time.Duration       `json:"soft_budget_ns"` // -1: never
	Deadline    time.Duration       `json:"deadline_ns"`
	Parameters  json.RawMessage     `json:"input_schema"`
}
