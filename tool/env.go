package tool

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Env is what a tool can access: narrow ports and the data of this call. A nil port is not
// available, and the tool then returns [Missing]. An Env is cheap to copy. The ports are bound to
// the session; a tool cannot choose another one by its arguments. The zero value has no session: a
// tool with NeedsEnv refuses it.
type Env struct {
	Call          Call
	Sink          Sink      // for reports in every lane; nil outside a session: use [Env.Report]
	Registry      *Registry // the tools of the session
	Files         Files
	Tasks         Tasks
	TaskMessenger TaskMessenger
	Dialog        Dialog
	Remote        Remote
	Agents        Agents
	Schedules     Schedules
	Egress        Egress
	Events        Events
	Ports

	Network  perdure.NetworkList // merged; sent along with every outgoing request
	Locale   string              // BCP 47
	Timezone string              // IANA
	DryRun   bool
	Visible  []string         // names of the tools that the session can use; nil: all of the registry
	Now      func() time.Time // nil: time.Now
	LogBytes int64            // length of the task's log when this attempt started
	Trace    string           // the W3C traceparent for requests to other systems; empty: no tracing
}

// Ports are the ports for the state of a session and its environment. The host may add and replace
// them.
type Ports struct {
	Values       Values
	Secrets      Secrets
	SecretMasker SecretMasker // the values that are masked in reports of this call; nil: none
	Images       Images
	SQL          SQL
	Resources    Resources
	Leases       Leases
	Connections  Connections
	Session      Sessions
	Messages     Messages
	Credentials  Credentials
	Utility      Utility
	Payments     Payments
	Budgets      Budgets
	Platform     Platform // only if the host opens it
}

// Sink receives the reports of running work, in every lane. No method makes a tool fail or blocks
// for long. Each one returns why the work should end; empty: it should continue. Safe for
// concurrent use.
type Sink interface {
	// Status reports the current activity in one line; at most 512 characters are stored.
	Status(text string) perdure.Cause
	// Progress reports progress. A total of 0 means unknown. [ReportProgress] also names what is
	// counted.
	Progress(current, total float64, label string) perdure.Cause
	// Output reports a piece of output of a stream, for instance stdout. It is written immediately.
	Output(stream string, delta []byte) perdure.Cause
	// Artifact reports something that the work produced.
	Artifact(a perdure.Artifact) perdure.Cause
	// Heartbeat only restarts the stall clock.
	Heartbeat() perdure.Cause
}

// Skipper is a sink that accepts reports of missing output: the work produced it faster than it
// could be read. The sinks of this runtime are Skippers. Later offsets count the missing bytes.
type Skipper interface {
	// Skip reports that n bytes are missing here, of any streams.
	Skip(n int64) perdure.Cause
}

// Tasks gives access to the session's own tasks (the port "Session task registry").
type Tasks interface {
	// Spawn starts a background run of a tool, queues it, or requests an approval, in which case
	// its state is perdure.TaskAwaitingInput. The same call spawns only once. Limit: there is no
	// slot; the text is the model's answer. Denied: the target's policy or a hook denied it; it
	// contains the answer for the model.
	Spawn(ctx context.Context, s SpawnRequest) (SpawnResult, error)
	// Task returns a task by task id or run id. NotFound: it does not exist in this session.
	Task(ctx context.Context, id string) (perdure.Task, error)
	// List returns the session's tasks in the order of their creation.
	List(ctx context.Context) ([]perdure.Task, error)
	// Cancel cancels a task and waits for at most the grace period. It returns the task as it is
	// then; a task that had already ended is returned with its real result. NotFound: it does not
	// exist in this session.
	Cancel(ctx context.Context, id, why string) (perdure.CancelReceipt, perdure.Task, error)
	// Wait returns when any of the tasks (with All every one) has ended or needs input, or after
	// w.For.
	Wait(ctx context.Context, w WaitRequest) ([]perdure.Task, error)
	// Log returns at most max bytes of output from offset on; a negative offset counts from the
	// end.
	Log(ctx context.Context, id string, offset int64, max int) (LogPage, error)
}

// TaskMessenger sends messages to the session's own tasks.
type TaskMessenger interface {
	// Send sends a message to a task, by task id or run id, and returns the id of the message. With
	// InReplyTo it answers the task's question, and the task continues. NotFound: the task does not
	// exist in this session. Conflict: it has ended, or the question was already answered. Invalid:
	// the answer does not fit the question, which stays open.
	Send(ctx context.Context, id string, m perdure.TaskMessage) (perdure.TaskMessageID, error)
}

// Dialog lets running work communicate with its session. A foreground call that uses it becomes a
// task and leaves its turn, because a turn must not wait for a person.
type Dialog interface {
	// Ask asks a question and blocks until it is answered. Meanwhile the work holds no slot, and
	// its clocks stand still. The nth question of a task is the same one in every attempt: if it
	// was answered before, the answer is returned at once. The error is a perdure.Cause if the work
	// must end, or perdure.Conflict if nobody can be asked here.
	Ask(ctx context.Context, q Question) (Reply, error)
	// SendToSession sends a message to the session.
	SendToSession(ctx context.Context, m perdure.TaskMessage) error
	// Inbox returns up to limit messages to this work after the given one, oldest first; 0 means
	// all. It waits until there is one, or returns none when ctx ends.
	Inbox(ctx context.Context, after perdure.TaskMessageID, limit int) ([]perdure.TaskMessage, error)
}

// Remote records that another system carries out the work, so that people and later attempts find
// it there.
type Remote interface {
	// Link records the id of the work in the other system. It is durable and shown with the task
	// when Link returns. Recording the same id again does nothing. For a foreground call it is
	// recorded when the call detaches. Lost: another attempt owns the task, and this work must end.
	Link(ctx context.Context, id string) error
}

// Agents manages the session's subagents, and the contact of a subagent to its parent (the port
// "Subagent spawn store").
type Agents interface {
	// Start creates a subagent, a session of its own that works on the prompt. The same call starts
	// only one, however often it runs. The returned task is the session's record of it. Denied: too
	// deep, too many, no such agent, or an invalid schema; it contains the answer for the model.
	// Lost: this worker no longer owns the call.
	Start(ctx context.Context, o SubagentRequest) (perdure.Task, error)
	// Await returns the task when the subagent has finished, with its recorded result. If ctx ends
	// first, the error is a perdure.Cause, and the subagent is canceled if the call was still in
	// the foreground.
	Await(ctx context.Context, id perdure.TaskID) (perdure.Task, []byte, error)
	// SendToParent sends a message to the parent session. Conflict: there is no parent, or its work
	// is over.
	SendToParent(ctx context.Context, text string) error
}

// SubagentRequest is the request for a subagent.
type SubagentRequest struct {
	Name       string
	Prompt     string // the assignment
	Agent      string // a named agent of the engine; empty: like the session's own
	Schema     []byte // JSON Schema of its answer; empty: any text
	Background bool   // the call does not wait for it
}

// Question is a question to a person or the model.
type Question struct {
	Prompt      string
	Expected    []byte               // JSON Schema of the answer; empty: any
	Permissions []perdure.Permission // set: the question asks for an approval
	Expires     time.Duration        // time limit of an approval; 0: none
}

// Reply is the answer to a question.
type Reply struct {
	Text     string
	Data     []byte // JSON; empty: text only
	Approved bool   // for an approval
	By       string // who answered
}

// SpawnRequest is the request for a background run.
type SpawnRequest struct {
	Tool      string
	Args      []byte // JSON object, validated
	Title     string
	NotifyEnd bool // signal_on_completion: the session is notified of the end
}

// Denied is the error of a call that must not run.
type Denied struct{ Result Result }

// Error returns the text of the result.
func (d *Denied) Error() string { return d.Result.Text }

// SpawnResult is a background run that was started or queued.
type SpawnResult struct {
	Task     perdure.Task
	Position int // in the queue, from 1; 0: it runs
	// HasSlot says that it runs, or will as soon as the scheduler gives it to a process.
	HasSlot bool
}

// WaitRequest says which tasks to wait for.
type WaitRequest struct {
	IDs     []string // task ids or run ids
	All     bool
	Timeout time.Duration
}

// LogPage is a piece of a task's output.
type LogPage struct {
	Offset int64
	Bytes  []byte
	Next   int64 // offset after this piece
	LogLen int64 // present length of the log
}

// Files are the session's files (the port "Session file store"). Paths are absolute with forward
// slashes; an invalid path is Invalid. A [FileError] reports that a file is a directory, is
// read-only or does not exist.
type Files interface {
	// Stat describes a file or directory.
	Stat(ctx context.Context, path string) (FileStat, error)
	// Read returns a file with its content.
	Read(ctx context.Context, path string) (File, error)
	// Write replaces a file atomically and creates missing parents. With w.If it is a
	// compare-and-set on the full content: Conflict if the content differs, the file is missing or
	// it is a directory.
	Write(ctx context.Context, w FileWrite) (created bool, err error)
	// Remove deletes a file or directory and reports whether it existed. A directory that is not
	// empty needs recursive.
	Remove(ctx context.Context, path string, recursive bool) (bool, error)
	// List returns the contents of a directory, sorted by name; with deep everything below it,
	// sorted by path.
	List(ctx context.Context, dir string, deep bool) ([]FileStat, error)
	// MakeDirectory creates a directory and its parents; an existing one is returned.
	MakeDirectory(ctx context.Context, path string) (FileStat, error)
}

// FileStat describes a file.
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
	Path         string
	Content      []byte
	IfContent    *[]byte // nil: unconditional
	MustNotExist bool    // Conflict if something exists there; not with If
}

// Mover is implemented by Files that can move files, and remove a file if it is unchanged.
type Mover interface {
	// Move moves a file or a directory to another path and creates missing parents. It replaces
	// nothing: Conflict if something exists there, or if something is read-only. NotFound: nothing
	// to move. Invalid: the root, or a directory that would be moved into itself.
	Move(ctx context.Context, from, to string) (FileStat, error)
	// RemoveIf deletes a file that has this content, and reports whether it existed. Conflict: it
	// has other content or is a directory.
	RemoveIf(ctx context.Context, path string, content []byte) (bool, error)
}

// Grepper is implemented by Files that search their content themselves, for example with an index.
// Other files are read one after another.
type Grepper interface {
	// Grep searches the lines of text files. The caller has checked s, and limits the matches.
	// errors.ErrUnsupported: these files are to be read one after another after all.
	Grep(ctx context.Context, s FileSearch) (FileMatches, error)
}

// FileSearch is a search in files.
type FileSearch struct {
	Pattern    string // RE2, matched against each line
	Directory  string // empty: /
	Glob       string // without a slash it is matched against the name of a file; empty: all files
	IgnoreCase bool
	Max        int // of the matches; 0: 200
}

// FileMatches is the result of a search.
type FileMatches struct {
	Matches   []FileMatch `json:"matches"`
	Truncated bool        `json:"truncated" jsonschema:"True if there may be more matches."`
	Skipped   []FileSkip  `json:"skipped" jsonschema:"Files that were not searched, with the reason."`
}

// FileMatch is a line that matches.
type FileMatch struct {
	Path       string `json:"path"`
	LineNumber int    `json:"line_number"` // from 1
	Line       string `json:"line"`
}

// FileSkip is a file that was not searched.
type FileSkip struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// FileError says why a file operation failed; errors.Is also matches its kind.
type FileError struct {
	Kind perdure.Kind // NotFound, Conflict, Invalid, Limit
	Text string       // for the model, such as "File not found: /a"
}

// Error returns the text.
func (e *FileError) Error() string { return e.Text }

// Is reports whether target is the error's kind.
func (e *FileError) Is(target error) bool { return target == e.Kind }

// Missing is the tool error for a port that is not available; why says what needs it.
func Missing(port, why string) Result {
	return Failf("%s not available in this context. %s", port, why)
}

// Report returns the sink of the call, or one that discards everything.
func (e Env) Report() Sink {
	if e.Sink == nil {
		return discard{}
	}
	return e.Sink
}

// Clock returns the current time.
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
func (discard) ReportProgress(perdure.Progress) perdure.Cause   { return "" }
func (discard) Output(string, []byte) perdure.Cause             { return "" }
func (discard) Artifact(perdure.Artifact) perdure.Cause         { return "" }
func (discard) Heartbeat() perdure.Cause                        { return "" }
