package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// ScheduleCaps bound how many schedules are enabled. The zero value bounds nothing.
type ScheduleCaps struct {
	Session int // of one session; 0: no limit
	Org     int // of all of its org; 0: no limit
}

// Check says whether one more schedule may be enabled beside so many, the same in every store: nil, or Limit in the words that
// a model reads (SC19).
func (c ScheduleCaps) Check(ofSession, ofOrg int) error {
	switch {
	case c.Session > 0 && ofSession >= c.Session:
		return &tooManySchedules{fmt.Sprintf("Maximum %d active schedules per session. Cancel an existing schedule first.", c.Session)}
	case c.Org > 0 && ofOrg >= c.Org:
		return &tooManySchedules{fmt.Sprintf("Maximum %d active schedules per organization. Cancel an existing schedule first.", c.Org)}
	}
	return nil
}

// tooManySchedules is a cap that is reached.
type tooManySchedules struct{ text string }

// Error returns the words.
func (e *tooManySchedules) Error() string { return e.text }

// Is reports Limit.
func (e *tooManySchedules) Is(target error) bool { return target == perdure.Limit }

// ScheduleFilter narrows a list of schedules. The zero value lists all.
type ScheduleFilter struct {
	Session perdure.SessionID  // empty: of all sessions
	After   perdure.ScheduleID // empty: from the first on
	Limit   int                // 0: no limit
}

// CheckSchedule says whether a schedule may be stored. Invalid: what is wrong with it.
func CheckSchedule(s perdure.Schedule) error {
	if s.ID == "" || s.Session == "" {
		return fmt.Errorf("%w schedule: it has no id or no session", perdure.Invalid)
	}
	return nil
}

// ScheduleReader reads schedules and what became of their fires.
type ScheduleReader interface {
	// Schedule returns a schedule. NotFound: there is none.
	Schedule(id perdure.ScheduleID) (perdure.Schedule, error)
	// Schedules lists schedules in the order of their ids, which is that of their making.
	Schedules(filter ScheduleFilter) ([]perdure.Schedule, error)
	// DueSchedules lists up to limit schedules whose DueAt is after a moment and has come by another, the longest due first; a zero
	// moment is before all, and limit 0 means all.
	DueSchedules(after, by time.Time, limit int) ([]perdure.Schedule, error)
	// Fire returns what became of a nominal time. NotFound: nothing did.
	Fire(id perdure.ScheduleID, nominal time.Time) (perdure.Fire, error)
	// Fires lists up to limit fires of a schedule, the latest nominal time first; limit 0 means all.
	Fires(id perdure.ScheduleID, limit int) ([]perdure.Fire, error)
}

// ScheduleWriter writes schedules. All of a session's go with it.
type ScheduleWriter interface {
	// PutSchedule adds a schedule, or replaces the one that has its id. One that becomes enabled by it is counted here, so
	// that of two that would pass a cap one fails. Limit: a cap is reached. Invalid: what CheckSchedule says.
	PutSchedule(s perdure.Schedule, caps ScheduleCaps) error
	// RemoveSchedule removes a schedule with its fires, and says whether it was there.
	RemoveSchedule(id perdure.ScheduleID) (bool, error)
	// AddFire records a fire. Conflict: its nominal time has one already (SC15).
	AddFire(f perdure.Fire) error
	// ChangeFire replaces a fire that was recorded. NotFound: it was not.
	ChangeFire(f perdure.Fire) error
}
