package store

import (
	"time"

	"github.com/perdure/perdure"
)

// TaskFilter narrows a list of tasks. The zero value lists all of them.
type TaskFilter struct {
	Session      perdure.SessionID   // empty: every session
	States       []perdure.TaskState // empty: every state
	Worker       perdure.WorkerID    // empty: every worker
	ExceptWorker perdure.WorkerID    // the worker whose tasks are left out; empty: none
	Kind         perdure.TaskKind    // empty: every kind
	Home         perdure.HomeID      // empty: every home, and none
	Newest       bool                // the last created first
	After        perdure.TaskID      // only tasks that follow this one in the order of the list; empty: from the first
	Limit        int                 // 0: no limit
}

// TaskCount counts the tasks of a session in one state.
type TaskCount struct {
	Session  perdure.SessionID
	N        int
	Detached int // of the N, those that need no slot of the session
	Agents   int // of the N, those with Origin perdure.OriginSubagent: they have limits of their own
	Monitors int // of the N, those with Kind perdure.KindMonitor: they represent schedules and run nothing
}

// Slots returns how many slots of the session the tasks occupy.
func (c TaskCount) Slots() int { return c.N - c.Detached - c.Agents - c.Monitors }

// Delivery is an outbox row: the end of a task that must be delivered.
type Delivery struct {
	Session perdure.SessionID
	Task    perdure.TaskID
	Attempt int
	State   perdure.TaskState // the terminal state to deliver
	Settled time.Time         // when it was added
	Claimed bool              // it was delivered: injected, read or drained
}

// How much of a long log is kept: its head and its tail. What is between them is rotated away, to
// within a chunk or two.
const (
	LogHeadBytes = 32 << 20
	LogTailBytes = 32 << 20
)

// MaxLogChunkBytes limits a chunk of a log; longer output is several chunks.
const MaxLogChunkBytes = 64 << 10

// LogChunk is a chunk of a task's output.
type LogChunk struct {
	Offset  int64 // of its first byte in the log of all attempts
	Stream  string
	Attempt int
	At      time.Time
	Bytes   []byte
}

// Prunable reports whether the record of a task allows it to be pruned. The task must have ended
// before a time, truncated to microseconds. Its outcome must not be unknown, since only a
// resolution ends that, and its result must not be waiting for its delivery.
func Prunable(t perdure.Task, before time.Time) bool {
	waits := t.Delivery == perdure.ToLoop && (t.Delivered == perdure.NotDelivered || t.Delivered == "")
	return t.State.Terminal() && t.State != perdure.TaskUnknown && !waits &&
		!t.FinishedAt.IsZero() && t.FinishedAt.UnixMicro() < before.UnixMicro()
}

// TaskReader reads tasks, their messages, their deliveries and their output.
type TaskReader interface {
	// Get returns the record. NotFound: no such task in this session; an empty session means any.
	Get(session perdure.SessionID, id perdure.TaskID) (perdure.Task, error)
	// List lists records in the order of creation, or with Newest in the reverse order. No record
	// follows a task that does not exist. Invalid: the filter names an unknown state.
	List(filter TaskFilter) ([]perdure.Task, error)
	// Count counts the tasks in a state by session, without reading their records. Sessions
	// without such tasks are left out; the others are ordered by the creation of their first
	// counted task. An empty session means all. Invalid: unknown state.
	Count(state perdure.TaskState, session perdure.SessionID) ([]TaskCount, error)
	// Messages returns up to limit messages of a task after one, in the order they were added;
	// limit 0 means all. An empty or unknown after means from the first.
	Messages(id perdure.TaskID, after perdure.TaskMessageID, limit int) ([]perdure.TaskMessage, error)
	// Deliveries returns the unclaimed outbox rows of a session, in the order they were added. An
	// empty session means all.
	Deliveries(session perdure.SessionID) ([]Delivery, error)
	// ReadLog returns chunks from a byte offset, at most max bytes; the first is cut to start at
	// offset. end is the length of the log. There are no chunks at offset >= end. Each chunk starts
	// where the one before it ends: they stop before a gap or a rotated part. A *perdure.Rotated
	// error says that the byte at offset is in such a part, and where the log continues; it never
	// comes with max 0. NotFound: no such task.
	ReadLog(id perdure.TaskID, offset int64, max int) (chunks []LogChunk, end int64, err error)
}

// TaskPruner prunes tasks.
type TaskPruner interface {
	// Prune removes up to limit tasks that ended before a time, the oldest end first, with
	// their messages, output, approvals and claimed deliveries, and returns their records; limit 0
	// means all. It keeps tasks that are not Prunable, and tasks with an unclaimed delivery or an
	// open approval. Their calls in the ledger and their spawn handles stay, since those exist as
	// long as the journal.
	Prune(before time.Time, limit int) ([]perdure.Task, error)
}

// TaskWriter writes tasks.
type TaskWriter interface {
	TaskPruner
	// Create adds a record. An existing task with this id is returned unchanged, with created
	// false. Times are truncated to microseconds. Invalid: its state is unknown, or it cannot be
	// encoded as JSON.
	Create(t perdure.Task) (stored perdure.Task, created bool, err error)
	// Update applies one update, by perdure.Task.Update, to the locked row. An answer other
	// than Updated, and an error, mean that nothing was changed. NotFound: no such task in this
	// session; an empty session means any. Conflict: the transition is not allowed.
	Update(session perdure.SessionID, id perdure.TaskID, u perdure.TaskUpdate) (perdure.TaskChange, error)
	// AddMessage adds a message. Conflict: its id exists.
	AddMessage(m perdure.TaskMessage) error
	// AddDelivery adds an outbox row. The same task, attempt and state again do nothing, even if
	// the row was claimed. Invalid: its state is not terminal.
	AddDelivery(d Delivery) error
	// ClaimDeliveries marks the session's unclaimed rows of the tasks as delivered, and returns
	// their number.
	ClaimDeliveries(session perdure.SessionID, tasks []perdure.TaskID) (int, error)
	LogWriter
}

// LogWriter writes the output of tasks. Logs that become too long are rotated: see LogHeadBytes.
type LogWriter interface {
	// AppendLog adds output under the task's attempt and returns the offset of its first byte. An
	// empty write returns the current end. Lost: another attempt owns the task. NotFound: no such
	// task.
	AppendLog(id perdure.TaskID, attempt int, stream string, p []byte) (int64, error)
	// SkipLog records, under the task's attempt, a gap of n bytes that were not kept: the log grows
	// by them. n below 1 does nothing. Lost and NotFound as for AppendLog.
	SkipLog(id perdure.TaskID, attempt int, n int64) error
}
