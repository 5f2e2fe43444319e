package tool

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Env is what a tool may reach: narrow ports and the data of this call. A nil port is not available here,
// and [Missing] says so. It is cheap to copy. Every port takes the session from Env, never from the
// model's arguments (EN3). The zero value is no session at all: a tool with NeedsEnv refuses it (TL6).
type Env struct {
	Call     Call
	Sink     Sink      // reports in every lane; nil in a call outside a session: use [Env.Report]
	Registry *Registry // the session's own tools
	Files    Files
	Tasks    Tasks
	Mail     Mail
	Dialog   Dialog
	Remote   Remote
	Agents   Agents
	Plans    Schedules
	Egress   Egress
	Ports

	Network  perdure.NetworkList // merged; handed on with every request that leaves
	Locale   string              // BCP 47
	Timezone string              // IANA
	DryRun   bool                //
	Visible  []string            // names of the tools that the session may see; nil: all of the registry (TL23)
	Now      func() time.Time    // nil: time.Now
	LogBytes int64               // length of the task's log when this attempt began
	Trace    string              // the W3C traceparent for what this call asks of other runtimes; empty: nobody traces it
}

// Ports is what of an Env is about the state of a session and its surroundings. The host may add and replace them.
type Ports struct {
	Values      Values
	Secrets     Secrets
	Known       Known // what the runtime masks in all that this call reports; nil: nothing
	Images      Images
	SQL         SQL
	Resources   Resources
	Leases      Leases
	Connections Connections
	Session     Sessions
	Messages    Messages
	Credentials Credentials
	Utility     Utility
	Payments    Payments
	Budgets     Budgets
	Platform    Platform // only the host opens it
}

// Sink is what running work reports through, in every lane (7.5). No method makes a tool fail or blocks it
// long; each answers why the work should end, empty meaning: go on. Safe for concurrent use.
type Sink interface {
	// Status says in a line what is going on; at most 512 characters are kept.
	Status(text string) perdure.Cause
	// Progress says how far the work is. total 0 means unknown.
	Progress(current, total float64, label string) perdure.Cause
	// Output reports a piece of output of a stream, for instance stdout. It is written as it comes.
	Output(stream string, delta []byte) perdure.Cause
	// Artifact names something that the work leaves behind.
	Artifact(a perdure.Artifact) perdure.Cause
	// Heartbeat is a sign of life for the stall clock only.
	Heartbeat() perdure.Cause
}

// Skipper is a sink that can be told of output which nobody reports, since it came faster than anybody reads. The sinks of this
// runtime are. Offsets of the output behind it count it.
type Skipper interface {
	// Skip says that n bytes are missing here, of whichever streams.
	Skip(n int64) perdure.Cause
}

// Tasks is the session's own tasks (the port "Session task registry").
type Tasks interface {
	// Spawn starts a background run of a tool, or queues it, or asks a person first, and then its state is
	// perdure.TaskAwaitingInput. The same call spawns once (TK1). Limit: no place; the error's text is the model's
	// answer. Denied: the target's policy or a hook says no, with the answer for the model.
	Spawn(ctx context.Context, s Spawn) (Spawned, error)
	// Task returns a task by task id or run id. NotFound: unknown or foreign.
	Task(ctx context.Context, id string) (perdure.Task, error)
	// List returns the session's tasks in the order of their creation.
	List(ctx context.Context) ([]perdure.Task, error)
	// Cancel asks for the end of a task and waits up to the grace. NotFound: unknown or foreign. The task is
	// as it stands then; one that had ended before is returned with its real result.
	Cancel(ctx context.Context, id, why string) (perdure.CancelReceipt, perdure.Task, error)
	// Wait returns when any (or, with all, every one) of the tasks has ended or awaits input, or after d.
	Wait(ctx context.Context, w Wait) ([]perdure.Task, error)
	// Log returns output from byte offset on, at most max bytes; a negative offset counts from the end.
	Log(ctx context.Context, id string, offset int64, max int) (LogPage, error)
}

// Mail is words to the session's own tasks.
type Mail interface {
	// Send hands a message to a task, by task id or run id, and returns its id. With InReplyTo it answers the
	// task's question, which then goes on (TK12). NotFound: unknown or foreign. Conflict: the task has ended, or the
	// question was answered. Invalid: the answer is not what was asked for; the question stays.
	Send(ctx context.Context, id string, m perdure.TaskMessage) (perdure.TaskMessageID, error)
}

// Dialog is how running work talks with those who follow it. Talking makes a foreground call a task: it leaves its
// turn, since nobody can be kept waiting for a person.
type Dialog interface {
	// Ask puts a question and blocks until it is answered. The work holds no place meanwhile, and its clocks stand
	// still (TK15). The nth question of a task is the same question in every attempt: one that was answered before is
	// answered at once. The error is a perdure.Cause when the work is to end, or perdure.Conflict when nobody can
	// be asked here.
	Ask(ctx context.Context, q Question) (Reply, error)
	// Tell sends a message to the session.
	Tell(ctx context.Context, m perdure.TaskMessage) error
	// Inbox returns up to limit messages to this work after one, oldest first; 0 means all. It waits until there is
	// one, or until ctx ends: then there is none (TK13).
	Inbox(ctx context.Context, after perdure.TaskMessageID, limit int) ([]perdure.TaskMessage, error)
}

// Remote is how work says that another runtime carries it out, so that people and those who come after find it there.
type Remote interface {
	// Link notes the id by which the other runtime knows the work. It is durable, and shown with the task, when Link returns; the
	// same again does nothing. That of a call in the foreground is noted when the call leaves its turn. Lost: another attempt
	// has the task, and this work is to end.
	Link(ctx context.Context, id string) error
}

// Agents is the session's subagents, and the session whose subagent it is (the port "Subagent spawn store").
type Agents interface {
	// Start makes a subagent: a session of its own, which works on what it is asked. The same call starts one, however
	// often it runs (SA2). The task is the session's record of it. Denied: too deep, too many, no such
	// agent, or a schema that is none, with the answer for the model. Lost: the call is not this worker's any more.
	Start(ctx context.Context, o AgentOrder) (perdure.Task, error)
	// Await returns the task once the subagent has come to its end, with the result as it is recorded. When ctx ends
	// first, the subagent is canceled where the call still stood in the foreground, and the error is a perdure.Cause.
	Await(ctx context.Context, id perdure.TaskID) (perdure.Task, []byte, error)
	// Tell sends a message to the session whose subagent this one is. Conflict: it is nobody's, or its work is over.
	Tell(ctx context.Context, text string) error
}

// AgentOrder is what a subagent is asked for.
type AgentOrder struct {
	Name       string
	Prompt     string // what it is to do
	Agent      string // one of the engine's named agents; empty: like the session's own
	Schema     []byte // JSON Schema of its answer; empty: any text
	Background bool   // the call does not wait for it
}

// Question is what work asks a person or the model.
type Question struct {
	Prompt      string
	Expected    []byte               // JSON Schema of the answer; empty: any
	Permissions []perdure.Permission // set: this is a question for an approval (AP10)
	Expires     time.Duration        // of an approval; 0: never
}

// Reply is the answer to a question.
type Reply struct {
	Text     string
	Data     []byte // JSON; empty: text only
	Approved bool   // of an approval
	By       string // who answered
}

// Spawn asks for a background run.
type Spawn struct {
	Tool   string
	Args   []byte // JSON object, validated
	Title  string
	Signal bool // signal_on_completion
}

// Denied is the error of a call that may not run.
type Denied struct{ Result Result }

// Error returns the text of the result.
func (d *Denied) Error() string { return d.Result.Text }

// Spawned is a background run that was started or queued.
type Spawned struct {
	Task     perdure.Task
	Position int // in the queue, from 1; 0 when it runs
}

// Wait names tasks to wait for.
type Wait struct {
	IDs []string // task ids or run ids
	All bool
	For time.Duration
}

// LogPage is a piece of a task's output.
type LogPage struct {
	Offset int64
	Bytes  []byte
	Next   int64 // offset of what comes after
	End    int64 // length of the log now
}

// Files is the session's files (the port "Session file store"; FI1 to FI9). Paths are absolute with
// forward slashes; a bad one is Invalid. A file that is a directory, read-only or not there is told by
// [FileError].
type Files interface {
	// Stat describes a file or directory.
	Stat(ctx context.Context, path string) (FileStat, error)
	// Read returns a file with its content.
	Read(ctx context.Context, path string) (File, error)
	// Write replaces a file atomically and makes missing parents. With w.If set it is a compare-and-set on
	// the whole content: Conflict when it differs, is missing or is a directory.
	Write(ctx context.Context, w FileWrite) (created bool, err error)
	// Remove deletes and says whether it was there. A directory that is not empty needs recursive.
	Remove(ctx context.Context, path string, recursive bool) (bool, error)
	// List returns what stands in a directory, sorted by name; with deep, all below it, sorted by path.
	List(ctx context.Context, dir string, deep bool) ([]FileStat, error)
	// MakeDirectory makes a directory and its parents; one that exists is returned.
	MakeDirectory(ctx context.Context, path string) (FileStat, error)
}

// FileStat describes a file (FI10).
type FileStat struct {
	Path        string    `json:"path"`
	Name        string    `json:"name"`
	IsDirectory bool      `json:"is_directory"`
	IsReadOnly  bool      `json:"is_readonly"`
	SizeBytes   int64     `json:"size_bytes"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// File is a file with its content.
type File struct {
	FileStat
	Content []byte
}

// FileWrite is one write.
type FileWrite struct {
	Path    string
	Content []byte
	If      *[]byte // nil: unconditional
	New     bool    // Conflict when anything is there; not with If
}

// Mover is files that can be moved, and removed while they are what somebody read.
type Mover interface {
	// Move gives a file, or a directory with all below it, another path and makes missing parents. It replaces nothing:
	// Conflict when something stands in the new place, and for what is read-only. NotFound: nothing is there. Invalid: it is
	// the root, or a directory on its way into itself.
	Move(ctx context.Context, from, to string) (FileStat, error)
	// RemoveIf deletes a file that has this content, and says whether it was there. Conflict: it has another, or is a
	// directory.
	RemoveIf(ctx context.Context, path string, content []byte) (bool, error)
}

// FileError says what stands in the way of a file operation; errors.Is also tells its kind.
type FileError struct {
	Kind perdure.Kind // NotFound, Conflict, Invalid, Limit
	Text string       // fit for the model: "File not found: /a" (TL28)
}

// Error returns the text.
func (e *FileError) Error() string { return e.Text }

// Is reports whether target is the error's kind.
func (e *FileError) Is(target error) bool { return target == e.Kind }

// Missing is the tool error for a port that is not there: its name and a sentence on who needs it (EN2).
func Missing(port, why string) Result {
	return Failf("%s not available in this context. %s", port, why)
}

// Report returns the sink of the call, or one that throws everything away.
func (e Env) Report() Sink {
	if e.Sink == nil {
		return discard{}
	}
	return e.Sink
}

// Clock returns the present moment.
func (e Env) Clock() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

// discard is the sink of a call outside a session.
type discard struct{}

func (discard) Status(string) perdure.Cause                     { return "" }
func (discard) Progress(float64, float64, string) perdure.Cause { return "" }
func (discard) Output(string, []byte) perdure.Cause             { return "" }
func (discard) Artifact(perdure.Artifact) perdure.Cause         { return "" }
func (discard) Heartbeat() perdure.Cause                        { return "" }
