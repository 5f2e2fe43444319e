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
	Home       perdure.HomeID // its data directory; empty: it has none
	StartedAt  time.Time
	LeaseUntil time.Time // by the store's clock
}

// Home is a data directory whose worker used the store. Its row stays when its workers are gone.
type Home struct {
	ID   perdure.HomeID
	Host string // of its last worker
	// SeenAt is the last sign of its workers: the end of the latest lease, or the orderly end of a
	// worker.
	SeenAt  time.Time
	Present bool // a worker of it has a valid lease by the store's clock
}

// Work is what a scheduler outside of the engine gives out: a session, or one task of it.
type Work struct {
	Session perdure.SessionID
	Task    perdure.TaskID // empty: the session
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
	// Disconnected lists the workers whose processes were connected to the store before and are
	// not now; of all workers if only is empty. A store that cannot tell lists none.
	Disconnected(only perdure.WorkerID) ([]Worker, error)
	// Home returns a home. NotFound: no worker of it has used this store.
	Home(id perdure.HomeID) (Home, error)
	// Homes lists all homes, by id.
	Homes() ([]Home, error)
	// Granted returns the number of the last grant of a work that was used; 0: none was.
	Granted(w Work) (int64, error)
}

// GrantWriter writes grants.
type GrantWriter interface {
	// UseGrant records that a worker uses the grant with this number. The scheduler that gives the
	// work out counts the grants of each work. The worker that used the last grant may use it
	// again. Otherwise Lost: the number is not above that of the last one.
	UseGrant(w Work, by perdure.WorkerID, number int64) error
}

// WorkerEnder ends workers whose leases have not expired.
type WorkerEnder interface {
	// MarkDisconnected removes the row of a worker that is not connected, if it has sent no
	// heartbeat since its lease was until. Its home was last seen now. Another worker is left
	// alone.
	MarkDisconnected(id perdure.WorkerID, until time.Time) error
}

// WorkerWriter writes workers.
type WorkerWriter interface {
	GrantWriter
	// Put adds or replaces the row, and with it the row of its home.
	Put(w Worker) error
	// Renew renews the lease to now + lease and sets heartbeat_at of the worker's live tasks,
	// in one batch and without an event. Lost: no such worker; another has taken over its work.
	Renew(id perdure.WorkerID, lease time.Duration) (Heartbeat, error)
	// MarkDead removes the row of a worker whose lease has expired by the store's clock. A
	// valid lease is left alone. The home of the worker was last seen when the lease expired.
	MarkDead(id perdure.WorkerID) error
	// Retire is Workers.Remove for a worker that stopped in an orderly way. It decrements
	// Resumes of the sessions that the worker still drives, because an orderly stop is not a failed
	// attempt.
	Retire(id perdure.WorkerID) error
	// Remove removes the lease, and its home was last seen now. Removing it again does nothing.
	Remove(id perdure.WorkerID) error
	// Elect reports whether this transaction gets a role. One transaction at a time has a role,
	// until it ends. Elect never waits: if another transaction has the role, it returns false. In a
	// store that runs one writing transaction at a time, it returns true.
	Elect(role string) (bool, error)
}
