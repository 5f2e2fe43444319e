package temporal

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Host is the engine without its scheduler. Each method may be called again for the same thing,
// late, or beside another process that was asked the same.
type Host interface {
	Work
	Passes
	Queue
	Stops
}

// Work works on one thing under a grant.
type Work interface {
	// Drive drives a session until it rests or ctx ends. Lost: the grant is not above the stored
	// one; the Rest holds that. NotFound: no such session. A Drive of a session that this process
	// drives already stores the new grant, interrupts nothing, and waits for that driver.
	Drive(ctx context.Context, id perdure.SessionID, g Grant) (Rest, error)
	// RunTask runs a task until its end is committed or ctx ends. Its errors are those of Drive.
	RunTask(ctx context.Context, id perdure.TaskID, g Grant) (Ran, error)
	// OwnsSession reports whether the store has this process as the driver of a session. false: it
	// is idle, or another process has taken it.
	OwnsSession(ctx context.Context, id perdure.SessionID) (bool, error)
	// OwnsTask reports whether the store has this process as the worker of a task.
	OwnsTask(ctx context.Context, id perdure.TaskID) (bool, error)
}

// Passes are the work that belongs to no session.
type Passes interface {
	// KeepTime fires schedules that are due, until ctx ends.
	KeepTime(ctx context.Context) error
	// Tidy makes one pass over what expires: approvals, budgets, retention, cleanup.
	Tidy(ctx context.Context) error
}

// Queue reads from the store what waits for a scheduler.
type Queue interface {
	// Due lists what waits for a scheduler, page by page. after is the Next of the former page;
	// the first page has an empty one.
	Due(ctx context.Context, after string, limit int) (Waiting, error)
	// DueSession returns a session that waits for a driver. false: it does not wait, because it
	// rests, or because its driver reads what is new.
	DueSession(ctx context.Context, id perdure.SessionID) (WaitingSession, bool, error)
	// DueRuns returns the queued runs of a session that have a slot; of any session if id is empty.
	DueRuns(ctx context.Context, id perdure.SessionID) ([]WaitingRun, error)
}

// Stops are what an operator asks for by canceling a workflow.
type Stops interface {
	// Interrupt ends the turn of a session, as the operator named by asks.
	Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error
	// CancelTask records that a task is to be canceled, as the operator named by asks.
	CancelTask(ctx context.Context, id perdure.TaskID, by, why string) error
}

// Grant is the right to work on one session or task. The scheduler counts the grants of each.
type Grant struct {
	Number int64 // a grant whose number is not above the stored one is Lost
	// Evict allows to take the work from an owner that is present.
	Evict bool
	// HomeGone says that the home of the work was waited for and no process there answered: what
	// was left there cannot be seen, and is never judged to be dead.
	HomeGone bool
}

// Rest is how a session was left.
type Rest struct {
	Seq     int64     // of the journal, as the release left it
	Grant   int64     // as stored; the next one is above
	Again   time.Time // nothing is due before; zero: until an event is written
	Home    string    // the id of the home where the work must continue; nothing was taken
	Present bool      // Home is that of the owner, which is alive
}

// Ran is how a run was left.
type Ran struct {
	Grant   int64  // as stored; the next one is above
	Ended   bool   // the end of the task is committed
	Waits   bool   // for a person
	Full    bool   // the session has no slot
	Home    string // as in Rest
	Present bool
}

// Waiting is one page of what waits for a scheduler.
type Waiting struct {
	Sessions []WaitingSession
	Runs     []WaitingRun
	Next     string // where the next page begins; empty: this was the last one
}

// WaitingSession is a session whose journal has events that no driver has read, or whose driver is
// gone.
type WaitingSession struct {
	ID       perdure.SessionID
	Seq      int64
	Grant    int64  // as stored
	Home     string // the id of the home that has the session's files; empty: it may run anywhere
	Queue    string // the capability that its agent needs; empty: none
	Orphaned bool   // it has an owner, which is gone
}

// WaitingRun is a queued run that has a slot, or a task whose owner is gone.
type WaitingRun struct {
	ID    perdure.TaskID
	Grant int64
	Home  string
	Queue string // the capability that its tool needs; empty: none
}
