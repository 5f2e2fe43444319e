package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Schedules makes schedules and shows them (chapter 12).
type Schedules interface {
	// CreateSchedule makes a schedule of a session and enables it. The caller fills in Session, Owner, Title, Description, one of
	// Cron and At, Zone, Missed, Window, Overlap, Jitter and Action, and ID where it mints ids itself: the same id with the same
	// rest is one schedule. The other fields are the engine's. NotFound: no such session. Limit: too many are enabled. Conflict:
	// the id is another schedule's. Invalid: why it can never be made, among it that it never fires (SC9).
	CreateSchedule(ctx context.Context, s perdure.Schedule) (perdure.Schedule, error)
	// Schedule returns a schedule. NotFound: no such schedule.
	Schedule(ctx context.Context, id perdure.ScheduleID) (perdure.Schedule, error)
	// Schedules lists the schedules of a session, or of all for an empty id, in the order of their making.
	Schedules(ctx context.Context, id perdure.SessionID) ([]perdure.Schedule, error)
	// NextFires returns the next n fires of a schedule, and what the clocks have to do with them; of one that is paused those that
	// it would have.
	NextFires(ctx context.Context, id perdure.ScheduleID, n int) ([]NextFire, error)
	// ScheduleFires lists what became of nominal times, the latest first; limit 0 means all. A skip has its reason (SC16).
	ScheduleFires(ctx context.Context, id perdure.ScheduleID, limit int) ([]perdure.Fire, error)
}

// ScheduleActs changes schedules, and fires them by hand (SC22).
type ScheduleActs interface {
	// PauseSchedule disables a schedule, and says why. One that is disabled stays as it is.
	PauseSchedule(ctx context.Context, id perdure.ScheduleID, by, why string) (perdure.Schedule, error)
	// ResumeSchedule enables a schedule from now on. Invalid: nothing of it is to come. Limit: too many are enabled.
	ResumeSchedule(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Schedule, error)
	// TriggerSchedule fires at once, whatever the former fire does; what comes next stays.
	TriggerSchedule(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Fire, error)
	// DeleteSchedule removes a schedule with its fires. Its monitor, and what that runs, is canceled in the same commit (SC28).
	DeleteSchedule(ctx context.Context, id perdure.ScheduleID, by string) error
	// Backfill fires each nominal time of a stretch of the past for which nothing fired. Limit: there are too many. Twice is once.
	Backfill(ctx context.Context, id perdure.ScheduleID, of Stretch) ([]perdure.Fire, error)
}

// NextFire is a fire to come.
type NextFire struct {
	At    time.Time `json:"at"`              // in the zone of the schedule
	Clock string    `json:"clock,omitempty"` // gap, once, first, second or skipped: what the clocks have to do with it
	Note  string    `json:"note,omitempty"`  // the same for people
}

// Stretch is a part of the past.
type Stretch struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`                // not in the future
	DryRun bool      `json:"dry_run,omitempty"` // only say which
	By     string    `json:"by,omitempty"`
}
