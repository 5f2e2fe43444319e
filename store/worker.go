package store

import (
	"time"

	"github.com/perdure/perdure"
)

// Worker is one process that executes work. Its lease covers all its sessions, claims and tasks.
type Worker struct {
	ID         perdure.WorkerID
	Host       string
	BootID     string
	PID        int
	StartedAt  time.Time
	LeaseUntil time.Time // by the store's clock
}

// Heartbeat is the result of a heartbeat.
type Heartbeat struct {
	Canceled []perdure.TaskID // its live tasks with a cancel request
	Tasks    []perdure.Task   // its live tasks as stored; a task that it runs and that is missing here is lost
}

// WorkerReader reads workers.
type WorkerReader interface {
	// Get returns the row. NotFound: no such worker.
	Get(id perdure.WorkerID) (Worker, error)
	// List lists all rows, by id.
	List() ([]Worker, error)
}

// WorkerWriter writes workers.
type WorkerWriter interface {
	// Put adds or replaces the row.
	Put(w Worker) error
	// Renew renews the lease to now + lease and sets heartbeat_at of the worker's live tasks,
	// in one batch and without an event. Lost: no such worker; another has taken over its work.
	Renew(id perdure.WorkerID, lease time.Duration) (Heartbeat, error)
	// MarkDead removes the row of a worker whose lease has expired by the store's clock. A
	// valid lease is left alone.
	MarkDead(id perdure.WorkerID) error
	// Retire is Workers.Remove for a worker that stopped in an orderly way. It decrements
	// Resumes of the sessions that the worker still drives, because an orderly stop is not a failed
	// attempt.
	Retire(id perdure.WorkerID) error
	// Remove removes the lease. Removing it again does nothing.
	Remove(id perdure.WorkerID) error
	// Elect reports whether this transaction gets a role. One transaction at a time has a role,
	// until it ends. Elect never waits: if another transaction has the role, it returns false. In a
	// store that runs one writing transaction at a time, it returns true.
	Elect(role string) (bool, error)
}
