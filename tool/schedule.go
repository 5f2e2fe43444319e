package tool

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// Schedules manages the session's own schedules (the port "Schedule store").
type Schedules interface {
	// CreateSchedule creates and enables a schedule. The same call creates only one. Limit: too
	// many are enabled. Invalid: it is wrong. In both cases the text is the model's answer. Denied:
	// the tool must not run; it contains the answer for the model.
	CreateSchedule(ctx context.Context, o ScheduleRequest) (perdure.Schedule, error)
	// Schedules returns the session's schedules in the order of their creation.
	Schedules(ctx context.Context) ([]perdure.Schedule, error)
	// CancelSchedule cancels a schedule, its monitor and the monitor's runs in one commit, and
	// returns the schedule. NotFound: it does not exist in this session.
	CancelSchedule(ctx context.Context, id perdure.ScheduleID, why string) (perdure.Schedule, error)
}

// ScheduleRequest is a model's request for a schedule. The model sets Title, Description, one of
// Cron and At, Zone, Missed, Overlap and Action; the runtime sets the rest.
type ScheduleRequest struct {
	Schedule perdure.Schedule
	Monitor  bool // a task represents it
}

// ScheduleRefusal returns the model's answer to an error of [Schedules.CreateSchedule], if a model
// can act on it.
func ScheduleRefusal(err error) (Result, bool) {
	var denied *Denied
	if errors.As(err, &denied) {
		return denied.Result, true
	}
	for _, kind := range []perdure.Kind{perdure.Limit, perdure.Invalid} {
		if errors.Is(err, kind) {
			return Error(strings.TrimPrefix(textOfKind(err, kind), kind.Error()+": ")), true
		}
	}
	return Result{}, false
}

// textOfKind returns the text of the error of a kind without the texts of the layers that wrapped
// it.
func textOfKind(err error, kind perdure.Kind) string {
	for {
		inner := errors.Unwrap(err)
		if inner == error(kind) || !errors.Is(inner, kind) {
			return err.Error()
		}
		err = inner
	}
}

// ScheduleView is a schedule in the form for the model.
type ScheduleView struct {
	ID     perdure.ScheduleID `json:"schedule_id"`
	Type   string             `json:"schedule_type"`
	Cron   *string            `json:"cron_expression"`
	At     *time.Time         `json:"scheduled_at"`
	Zone   string             `json:"timezone"`
	NextAt *time.Time         `json:"next_trigger_at"`
	On     bool               `json:"enabled"`
	Task   *perdure.TaskID    `json:"task_id"` // its monitor
}

// ViewSchedule returns a schedule in the form for the model.
func ViewSchedule(s perdure.Schedule) ScheduleView {
	return ScheduleView{
		ID: s.ID, Type: s.Type(), Cron: orNull(s.Cron), At: timeOrNull(s.At), Zone: s.Zone,
		NextAt: timeOrNull(s.NextAt), On: s.Enabled, Task: orNull(s.Monitor),
	}
}

// orNull returns nil for an empty text.
func orNull[T ~string](text T) *T {
	if text == "" {
		return nil
	}
	return &text
}

func timeOrNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}
