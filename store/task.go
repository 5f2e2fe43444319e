package store

import (
	"time"

	"github.com/perdure/perdure"
)

// TaskFilter narrows a list of tasks. The zero value lists all of them.
type TaskFilter struct {
	Session perdure.SessionID   // empty: every session
	States  []perdure.TaskState // empty: every state
	Worker  perdure.WorkerID    // empty: every worker
	Except  perdure.WorkerID    // the worker whose tasks are left out; empty: nobody's are
	Kind    perdure.TaskKind    // empty: every kind
	Limit   int                 // 0: no limit
}

// TaskCount is how many tasks of a session are in a state.
type TaskCount struct {
	Session  perdure.SessionID
	N        int
	Detached int // of the N, those that are Beside: they take none of the session's places (BG16)
	Agents   int // of the N, those whose Origin is perdure.OriginSubagent: their limits are others (SA5)
	Monitors int // of the N, those whose Kind is perdure.KindMonitor: they stand for their schedules and run nothing
}

// Places is how many of a session's places the tasks take.
func (c TaskCount) Places() int { return c.N - c.Detached - c.Agents - c.Monitors }

// Delivery is an outbox row: the end of a task that has to come home (DL1).
type Delivery struct {
	Session perdure.SessionID
	Task    perdure.TaskID
	Attempt int
	State   perdure.TaskState // the terminal state that it tells
	Settled time.Time         // when it was added
	Claimed bool              // it came home: injected, read or drained
}

// What is kept of a log that is longer (BG13, R21): its beginning, and its end. What is between them is rotated away, and a
// chunk or two more or less of it.
const (
	LogHeadBytes = 32 << 20
	LogTailBytes = 32 << 20
)

// MaxLogChunkBytes bounds a chunk of a log: longer output is several chunks (BG13).
const MaxLogChunkBytes = 64 << 10

// LogChunk is a piece of a task's output.
type LogChunk struct {
	Offset  int64 // of its first byte in the whole log, from the first attempt on (BG13)
	Stream  string
	Attempt int
	At      time.Time
	Bytes   []byte
}

// Prunable reports whether a task may go that ended before a moment, as far as its record says: no live one, no unknown
// outcome, which is left by a resolve only, and no result that has yet to come home by itself (TK16). The moment is
// cut to microseconds.
func Prunable(t perdure.Task, before time.Time) bool {
	waits := t.Delivery == perdure.ToLoop && (t.Delivered == perdure.NotDelivered || t.Delivered == "")
	return t.State.Terminal() && t.State != perdure.TaskUnknown && !waits &&
		!t.FinishedAt.IsZero() && t.FinishedAt.UnixMicro() < before.UnixMicro()
}

// TaskReader reads tasks, their messages, their deliveries and their output.
type TaskReader interface {
	// Task returns the record. NotFound: no such task in this session; an empty session asks for any.
	Task(session perdure.SessionID, id perdure.TaskID) (perdure.Task, error)
	// Tasks lists records in the order of their creation. Invalid: the filter names a state that is none.
	Tasks(filter TaskFilter) ([]perdure.Task, error)
	// CountTasks counts the tasks in a state by session, without reading their records. A session that has none is
	// not there; they come in the order in which the first that counts was created. An empty session asks for all.
	// Invalid: no such state.
	CountTasks(state perdure.TaskState, session perdure.SessionID) ([]TaskCount, error)
	// TaskMessages returns up to limit messages of a task after one, in the order they were added; limit 0
	// means all of them. An empty or unknown after means from the first on.
	TaskMessages(id perdure.TaskID, after perdure.TaskMessageID, limit int) ([]perdure.TaskMessage, error)
	// Deliveries returns the outbox rows of a session that are not claimed, in the order they were added.
	// An empty session lists those of all.
	Deliveries(session perdure.SessionID) ([]Delivery, error)
	// ReadLog returns chunks from byte offset on, at most max bytes; the first is cut to start at offset.
	// end is the length of the log. No chunks at offset >= end. Each chunk begins where the one before it ends: they stop before
	// what was left out or rotated away. A *perdure.Rotated: the byte at offset is of that, and the error says where the log goes
	// on; never with max 0. NotFound: no such task.
	ReadLog(id perdure.TaskID, offset int64, max int) (chunks []LogChunk, end int64, err error)
}

// TaskPruner forgets tasks.
type TaskPruner interface {
	// PruneTasks removes up to limit tasks that ended before a moment, the oldest end first, with their messages, their
	// output, their approvals and their claimed deliveries, and returns their records; limit 0 means all of them. It
	// leaves alone what Prunable says, one with a delivery that is not claimed, and one with an open approval (TK16).
	// Their calls in the ledger stay, since those live as long as the journal (LG16), and so do spawn handles.
	PruneTasks(before time.Time, limit int) ([]perdure.Task, error)
}

// TaskWriter writes tasks.
type TaskWriter interface {
	TaskPruner
	// CreateTask adds a record. A task with this id that exists is returned unchanged, with created false (TK9).
	// Moments are cut to microseconds. Invalid: its state is none (TK5), or it cannot be written as JSON.
	CreateTask(t perdure.Task) (stored perdure.Task, created bool, err error)
	// UpdateTask applies one write by perdure.Task.Update to the locked row. NotFound: no such task in
	// this session; an empty session means any. Conflict: a forbidden step. An answer that is not Updated
	// changed nothing, and neither did an error.
	UpdateTask(session perdure.SessionID, id perdure.TaskID, u perdure.TaskUpdate) (perdure.TaskChange, error)
	// AddTaskMessage adds a message. Conflict: its id exists.
	AddTaskMessage(m perdure.TaskMessage) error
	// AddDelivery adds an outbox row; the same (task, attempt, state) again does nothing, also when it was
	// claimed meanwhile. Invalid: its state is not terminal.
	AddDelivery(d Delivery) error
	// ClaimDeliveries marks the session's unclaimed rows of the tasks as come home and returns how many there were.
	ClaimDeliveries(session perdure.SessionID, tasks []perdure.TaskID) (int, error)
	LogWriter
}

// LogWriter writes the output of tasks. What gets too long is rotated: see LogHeadBytes.
type LogWriter interface {
	// AppendLog adds output under the task's attempt and returns the offset of its first byte.
	// Lost: another attempt has the task. NotFound: no such task. An empty write answers the present end.
	AppendLog(id perdure.TaskID, attempt int, stream string, p []byte) (int64, error)
	// SkipLog says under the task's attempt that n bytes of output come here which nobody kept: the log is longer by them.
	// Lost and NotFound as of AppendLog. Less than one byte is none.
	SkipLog(id perdure.TaskID, attempt int, n int64) error
}
