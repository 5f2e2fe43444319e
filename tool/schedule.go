package tool

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// Schedules is the session's own schedules (the port "Schedule store"; chapter 12).
type Schedules interface {
	// CreateSchedule makes a schedule and enables it. The same call makes one (SC23). Limit: too many are enabled; the error's text is
	// the model's answer. Invalid: why it can never be made; likewise. Denied: the tool may not run, with the answer for the model.
	CreateSchedule(ctx context.Context, o ScheduleOrder) (perdure.Schedule, error)
	// Schedules returns the session's schedules in the order of their making.
	Schedules(ctx context.Context) ([]perdure.Schedule, error)
	// CancelSchedule ends a schedule, with its monitor and what that runs, in one commit, and returns it as it is then. NotFound:
	// unknown, or another session's (SC22).
	CancelSchedule(ctx context.Context, id perdure.ScheduleID, why string) (perdure.Schedule, error)
}

// ScheduleOrder is what a model asks for. Of the schedule it fills in Title, Description, one of Cron and At, Zone, Missed, Overlap
// and Action; the rest is the runtime's.
type ScheduleOrder struct {
	Schedule perdure.Schedule
	Monitor  bool // a task stands for it (SC23)
}

// RefusedSchedule is the model's answer to an error of [Schedules.CreateSchedule], where it is one that a model can mend.
func RefusedSchedule(err error) (Result, bool) {
	var denied *Denied
	if errors.As(err, &denied) {
		return denied.Result, true
	}
	for _, kind := range []perdure.Kind{perdure.Limit, perdure.Invalid} {
		if errors.Is(err, kind) {
			return Error(strings.TrimPrefix(wordsOf(err, kind), kind.Error()+": ")), true
		}
	}
	return Result{}, false
}

// wordsOf returns the words of the error of a kind itself, without what the layers above wrapped around them.
func wordsOf(err error, kind perdure.Kind) string {
	for {
		inner := errors.Unwrap(err)
		if inner == error(kind) || !errors.Is(inner, kind) {
			return err.Error()
		}
		err = inner
	}
}

// ShownSchedule is a schedule as a model reads it.
type ShownSchedule struct {
	ID     perdure.ScheduleID `json:"schedule_id"`
	Type   string             `json:"schedule_type"`
	Cron   *string            `json:"cron_expression"`
	At     *time.Time         `json:"scheduled_at"`
	Zone   string             `json:"timezone"`
	NextAt *time.Time         `json:"next_trigger_at"`
	On     bool               `json:"enabled"`
	Task   *perdure.TaskID    `json:"task_id"` // of its monitor
}

// ShowSchedule is what a model reads of a schedule (BG9).
func ShowSchedule(s perdure.Schedule) ShownSchedule {
	return ShownSchedule{
		ID: s.ID, Type: s.Type(), Cron: orNull(s.Cron), At: momentOrNull(s.At), Zone: s.Zone, NextAt: momentOrNull(s.NextAt), On: s.Enabled, Task: orNull(s.Monitor),
	}
}

// orNull is a text, or null where there is none.
func orNull[T ~string](text T) *T {
	if text == "" {
		return nil
	}
	return &text
}

func momentOrNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}
