package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// ScheduleCaps limits how many schedules are enabled. The zero value limits nothing.
type ScheduleCaps struct {
	Session int // of one session; 0: no limit
	Org     int // of all sessions of its org; 0: no limit
}

// Check checks that one more schedule may be enabled, with the same result in every store: nil, or
// Limit with a text for the model.
func (c ScheduleCaps) Check(ofSession, ofOrg int) error {
	switch {
	case c.Session > 0 && ofSession >= c.Session:
		return &tooManySchedules{fmt.Sprintf("Maximum %d active schedules per session. Cancel an existing "+
			"schedule first.", c.Session)}
	case c.Org > 0 && ofOrg >= c.Org:
		return &tooManySchedules{fmt.Sprintf("Maximum %d active schedules per organization. Cancel an existing "+
			"schedule first.", c.Org)}
	}
	return nil
}

// tooManySchedules is the error of a reached limit.
type tooManySchedules struct{ text string }

// Error returns the text.
func (e *tooManySchedules) Error() string { return e.text }

// Is makes the error Limit.
func (e *tooManySchedules) Is(target error) bool { return target == perdure.Limit }

// ScheduleFilter narrows a list of schedules. The zero value lists all.
type ScheduleFilter struct {
	Session perdure.SessionID  // empty: of all sessions
	After   perdure.ScheduleID // empty: from the first one
	Limit   int                // 0: no limit
}

// CheckSchedule checks a schedule. Invalid: the error says what is wrong.
func CheckSchedule(s perdure.Schedule) error {
	if s.ID == "" || s.Session == "" {
		return fmt.Errorf("%w schedule: it has no id or no session", perdure.Invalid)
	}
	return nil
}

// ScheduleReader reads schedules and their fires.
type ScheduleReader interface {
	// Get returns a schedule. NotFound: there is none.
	Get(id perdure.ScheduleID) (perdure.Schedule, error)
	// List lists schedules by id, which is the order of creation.
	List(filter ScheduleFilter) ([]perdure.Schedule, error)
	// Due lists up to limit schedules whose DueAt is after one time and not after another,
	// the longest due first. A zero after means all, and so does limit 0.
	Due(after, by time.Time, limit int) ([]perdure.Schedule, error)
	// Fire returns the fire of a nominal time. NotFound: there is none.
	Fire(id perdure.ScheduleID, nominal time.Time) (perdure.Fire, error)
	// Fires lists up to limit fires of a schedule, the latest nominal time first; limit 0 means
	// all.
	Fires(id perdure.ScheduleID, limit int) ([]perdure.Fire, error)
}

// ScheduleWriter writes schedules. They are removed with their session.
type ScheduleWriter interface {
	// Put adds a schedule, or replaces the one with its id. A schedule that becomes enabled
	// is counted here, so that of two callers that would exceed a limit, one fails. Limit: a limit
	// is reached. Invalid: as CheckSchedule says.
	Put(s perdure.Schedule, caps ScheduleCaps) error
	// Remove removes a schedule with its fires, and reports whether it existed.
	Remove(id perdure.ScheduleID) (bool, error)
	// AddFire records a fire. Conflict: its nominal time has one already.
	AddFire(f perdure.Fire) error
	// UpdateFire replaces a recorded fire. NotFound: there is none.
	UpdateFire(f perdure.Fire) error
}
