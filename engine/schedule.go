package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// MaxNextFires limits the fires that one request can ask for.
const MaxNextFires = 100

// Schedules creates schedules and reads them (chapter 12).
type Schedules interface {
	ScheduleControl

	// Create creates a schedule of a session and enables it. The caller sets Session,
	// Owner, Title, Description, either Cron or At, Zone, Missed, Window, Overlap, Jitter and
	// Action, and optionally ID: the same id with the same values is the same schedule. The engine
	// sets the other fields.
	//
	// NotFound: no such session. Limit: too many schedules are enabled. Conflict: the id belongs to
	// another schedule. Invalid: the schedule is not valid, for example because it never fires
	// (SC9).
	Create(ctx context.Context, s perdure.Schedule) (perdure.Schedule, error)
	// Get returns a schedule. NotFound: no such schedule.
	Get(ctx context.Context, id perdure.ScheduleID) (perdure.Schedule, error)
	// List lists the schedules of a session, or all schedules for an empty id, by creation
	// time.
	List(ctx context.Context, id perdure.SessionID) ([]perdure.Schedule, error)
	// NextFires returns the next n fires of a schedule, at most MaxNextFires, with notes on clock
	// changes. For a paused schedule it returns the fires that it would have.
	NextFires(ctx context.Context, id perdure.ScheduleID, n int) ([]NextFire, error)
	// Preview returns the next n fires of a schedule with the Cron or At, Zone and Jitter of s, at
	// most MaxNextFires, without creating it. The other fields are ignored. Invalid: Create would
	// refuse these times; the error says why (SC9 to SC11).
	Preview(ctx context.Context, s perdure.Schedule, n int) ([]NextFire, error)
	// Fires lists the recorded fires of a schedule, latest first; limit 0 means all. A
	// skipped fire states the reason (SC16).
	Fires(ctx context.Context, id perdure.ScheduleID, limit int) ([]perdure.Fire, error)
}

// ScheduleControl changes schedules and fires them by hand.
type ScheduleControl interface {
	// Pause disables a schedule and records the reason. A disabled schedule does not
	// change.
	Pause(ctx context.Context, id perdure.ScheduleID, by, why string) (perdure.Schedule, error)
	// Resume enables a schedule from now on. Invalid: it has no fires left. Limit: too many
	// schedules are enabled.
	Resume(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Schedule, error)
	// Trigger fires a schedule at once, whether or not its previous fire has ended. Its
	// later fires do not change.
	Trigger(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Fire, error)
	// Delete removes a schedule and its fires. The same commit cancels its monitor and the
	// tasks of that monitor (SC28).
	Delete(ctx context.Context, id perdure.ScheduleID, by string) error
	// Backfill fires each nominal time of a past period that has no fire yet. Repeating a backfill
	// fires nothing twice. Limit: there are too many nominal times.
	Backfill(ctx context.Context, id perdure.ScheduleID, of TimeRange) ([]perdure.Fire, error)
}

// NextFire is a future fire.
type NextFire struct {
	At    time.Time `json:"at"`              // in the zone of the schedule
	Clock string    `json:"clock,omitempty"` // effect of a clock change: gap, once, first, second or skipped
	Note  string    `json:"note,omitempty"`  // the same, for people
}

// TimeRange is a period in the past.
type TimeRange struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`                // not in the future
	DryRun bool      `json:"dry_run,omitempty"` // only list the nominal times
	By     string    `json:"by,omitempty"`
}
