package store

import (
	"time"

	"github.com/perdure/perdure"
)

// Worker is one process that runs work. Its lease is that of all its sessions, claims and tasks (LG19).
type Worker struct {
	ID         perdure.WorkerID
	Host       string
	BootID     string
	PID        int
	StartedAt  time.Time
	LeaseUntil time.Time // by the store's clock
}

// Beat is what a worker learns from its heartbeat.
type Beat struct {
	Canceled []perdure.TaskID // its live tasks with a cancel request
	Tasks    []perdure.Task   // its live tasks as stored: one that it runs and that is not here is lost
}

// WorkerReader reads workers.
type WorkerReader interface {
	// Worker returns the row. NotFound: no such worker.
	Worker(id perdure.WorkerID) (Worker, error)
	// Workers lists all rows, by id.
	Workers() ([]Worker, error)
}

// WorkerWriter writes workers.
type WorkerWriter interface {
	// PutWorker adds or replaces the row.
	PutWorker(w Worker) error
	// BeatWorker moves the lease to now + lease and stamps heartbeat_at of the worker's live tasks, in one
	// batch, without an event (TK8). Lost: no such worker; another has taken its work.
	BeatWorker(id perdure.WorkerID, lease time.Duration) (Beat, error)
	// BuryWorker removes the row of a worker whose lease has passed by the store's clock; it leaves one that holds alone.
	BuryWorker(id perdure.WorkerID) error
	// RetireWorker is RemoveWorker for one that has ended in order: of each session that it still drives one take-up is taken
	// back, so that an orderly end is no attempt that came to nothing (TN1).
	RetireWorker(id perdure.WorkerID) error
	// RemoveWorker hands the lease back; removing it again does nothing.
	RemoveWorker(id perdure.WorkerID) error
	// Elect reports whether this transaction has a role, which one transaction at a time has, until its end. It never waits:
	// whoever comes while another one has the role goes without (RC12). Where one transaction at a time writes, it has every role.
	Elect(role string) (bool, error)
}
