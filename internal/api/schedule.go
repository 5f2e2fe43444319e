package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cron"
)

// OfSchedule is the path of a schedule.
type OfSchedule struct {
	ID perdure.ScheduleID `path:"id" example:"sched_019aa0000000700080000000000000aa" doc:"The schedule."`
}

// newSchedule is the body of a schedule's creation.
type newSchedule struct {
	ID          perdure.ScheduleID     `json:"id,omitempty" doc:"The id of the schedule, for callers that generate ids. The same request with the same id is one schedule."`
	Session     perdure.SessionID      `json:"session_id" doc:"The session in which it fires."`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty" doc:"A description for people; it has no effect on a fire."`
	Cron        string                 `json:"cron_expression,omitempty" doc:"Five fields, or @hourly, @daily, @weekly, @monthly, @yearly. Exactly one of cron_expression and scheduled_at is required."`
	At          *time.Time             `json:"scheduled_at,omitempty" doc:"The time at which it fires once."`
	Zone        string                 `json:"timezone,omitempty" doc:"An IANA time zone; default UTC."`
	Missed      perdure.MissedPolicy   `json:"missed,omitempty" enum:"one,skip,all" doc:"What happens to fires missed while the engine was stopped; default one."`
	Window      time.Duration          `json:"missed_window_ns,omitempty" doc:"With missed=all: how far back. Default 24 hours."`
	Overlap     perdure.OverlapPolicy  `json:"overlap,omitempty" enum:"skip,allow,queue,replace" doc:"What happens to a fire while the previous one is still running; default skip."`
	Jitter      time.Duration          `json:"jitter_ns,omitempty" doc:"The maximum random delay of a fire; at most half of the smallest interval."`
	Action      perdure.ScheduleAction `json:"action" doc:"What a fire does: a message, or a tool with its args."`
}

// schedule is a schedule as shown in responses.
type schedule struct {
	perdure.Schedule
	Type  string `json:"schedule_type" enum:"oneshot,recurring"`
	Words string `json:"in_words,omitempty" doc:"When it fires, in words."`
}

type madeSchedule struct {
	Location string `header:"Location"`
	Body     schedule
}

// preview is when a schedule would fire.
type preview struct {
	Words string            `json:"in_words,omitempty" doc:"When it would fire, in words. Not for a schedule that fires once."`
	Next  []engine.NextFire `json:"next" doc:"The next fires, and how clock changes affect them."`
}

// scheduleAct is the empty body of an action on a schedule.
type scheduleAct struct{}

// pausing is the body of a pause.
type pausing struct {
	Reason string `json:"reason,omitempty"`
}

// backfilling is the body of a backfill.
type backfilling struct {
	From   time.Time `json:"from" doc:"The start of the period."`
	To     time.Time `json:"to" doc:"The end of the period, inclusive; must be in the past."`
	DryRun bool      `json:"dry_run,omitempty" doc:"Only return the fires that would be made."`
}

func (a scheduleHandlers) register() {
	missing := []int{http.StatusNotFound}
	now := time.Date(2025, 3, 28, 12, 0, 0, 0, time.UTC)
	write(a.API, operation{
		id: "create-schedule", path: "/v1/schedules", policy: writes, summary: "Create a schedule", status: http.StatusCreated, errors: append(missing, http.StatusTooManyRequests),
	}, body[newSchedule]{example: newSchedule{
		Session: "session_019aa0000000700080000000000000aa", Title: "Morning report", Cron: "30 7 * * 1-5", Zone: "Europe/Berlin",
		Action: perdure.ScheduleAction{Message: "Summarise what came in overnight."},
	}}, a.createSchedule)
	read(a.API, operation{id: "list-schedules", path: "/v1/schedules", policy: reads, summary: "List schedules, in the order in which they were created"}, a.listSchedules)
	read(a.API, operation{id: "get-schedule", path: "/v1/schedules/{id}", policy: reads, summary: "Show a schedule", errors: missing},
		func(ctx context.Context, in *OfSchedule) (*single[schedule], error) {
			return scheduleResponse(a.cfg.Engine.Schedules().Get(ctx, in.ID))
		})
	erase(a.API, operation{
		id: "delete-schedule", path: "/v1/schedules/{id}", policy: writes, summary: "Delete a schedule and its fires; its monitor and running work are canceled", errors: missing,
	}, a.deleteSchedule)
	read(a.API, operation{id: "next-fires", path: "/v1/schedules/{id}/next", policy: reads, summary: "Show the next fires, and how clock changes affect them", errors: missing}, a.nextFires)
	read(a.API, operation{id: "list-fires", path: "/v1/schedules/{id}/fires", policy: reads, summary: "List past fires with their outcomes, latest first", errors: missing}, a.listFires)
	read(a.API, operation{
		id: "preview-schedule", path: "/v1/schedules:preview", policy: reads, errors: []int{http.StatusUnprocessableEntity},
		summary: "Show when a schedule would fire, without creating it; what its creation would refuse is refused with the reason",
	}, a.previewSchedule)
	write(a.API, operation{id: "trigger-schedule", path: "/v1/schedules/{id}/trigger", policy: writes, summary: "Fire now, without changing the next fires", errors: missing},
		body[scheduleAct]{optional: true}, a.triggerSchedule)
	write(a.API, operation{id: "pause-schedule", path: "/v1/schedules/{id}/pause", policy: writes, class: stopsWork, summary: "Pause a schedule until it is resumed", errors: missing},
		body[pausing]{example: pausing{Reason: "holidays"}, optional: true}, func(ctx context.Context, in *OfSchedule, b pausing) (*single[schedule], error) {
			return scheduleResponse(a.cfg.Engine.Schedules().Pause(ctx, in.ID, requestOf(ctx).actor, b.Reason))
		})
	write(a.API, operation{
		id: "resume-schedule", path: "/v1/schedules/{id}/resume", policy: writes, summary: "Resume a paused schedule", errors: append(missing, http.StatusTooManyRequests),
	}, body[scheduleAct]{optional: true}, func(ctx context.Context, in *OfSchedule, _ scheduleAct) (*single[schedule], error) {
		return scheduleResponse(a.cfg.Engine.Schedules().Resume(ctx, in.ID, requestOf(ctx).actor))
	})
	write(a.API, operation{
		id: "backfill-schedule", path: "/v1/schedules/{id}/backfill", policy: writes, summary: "Fire for each nominal time of a past period that has no fire yet", errors: append(missing, http.StatusTooManyRequests),
	}, body[backfilling]{example: backfilling{From: now.Add(-time.Hour), To: now, DryRun: true}}, a.backfillSchedule)
}

// scheduleResponse converts a schedule for a response.
func scheduleResponse(s perdure.Schedule, err error) (*single[schedule], error) {
	return &single[schedule]{scheduleOf(s)}, err
}

func scheduleOf(s perdure.Schedule) schedule {
	shown := schedule{Schedule: s, Type: s.Type()}
	if spec, err := cron.Parse(s.Cron); s.Cron != "" && err == nil {
		shown.Words = spec.Describe() + ", " + s.Zone
	}
	return shown
}

func (a scheduleHandlers) createSchedule(ctx context.Context, _ *struct{}, in newSchedule) (*madeSchedule, error) {
	if in.ID == "" {
		in.ID = newID[perdure.ScheduleID](ctx)
	}
	s := perdure.Schedule{
		ID: in.ID, Session: in.Session, Owner: requestOf(ctx).actor, Title: in.Title, Description: in.Description, Cron: strings.TrimSpace(in.Cron), Zone: in.Zone,
		Missed: in.Missed, Window: in.Window, Overlap: in.Overlap, Jitter: in.Jitter, Action: in.Action,
	}
	if in.At != nil {
		s.At = *in.At
	}
	made, err := a.cfg.Engine.Schedules().Create(ctx, s)
	return &madeSchedule{Location: "/v1/schedules/" + string(made.ID), Body: scheduleOf(made)}, impossible(ctx, err)
}

// impossible returns an error for a request that is well-formed, but describes an impossible
// schedule.
func impossible(ctx context.Context, err error) error {
	if !errors.Is(err, perdure.Invalid) {
		return err
	}
	p := problemOf(ctx, err)
	p.Status = http.StatusUnprocessableEntity
	return p
}

func (a scheduleHandlers) previewSchedule(ctx context.Context, in *struct {
	Cron   string    `query:"cron_expression" example:"30 7 * * 1-5" doc:"Five fields, or @hourly, @daily, @weekly, @monthly, @yearly. Exactly one of cron_expression and scheduled_at is required."`
	At     time.Time `query:"scheduled_at" doc:"The time at which it fires once."`
	Zone   string    `query:"timezone" doc:"An IANA time zone; default UTC."`
	Jitter int64     `query:"jitter_ns" doc:"The maximum random delay of a fire, in nanoseconds."`
	N      int       `query:"n" minimum:"1" maximum:"100" doc:"The number of fires; default 5."`
}) (*single[preview], error) {
	s := perdure.Schedule{Cron: strings.TrimSpace(in.Cron), At: in.At, Zone: in.Zone, Jitter: time.Duration(in.Jitter)}
	next, err := a.cfg.Engine.Schedules().Preview(ctx, s, orDefault(in.N, 5))
	if err != nil {
		return nil, impossible(ctx, err)
	}
	s.Zone = cmp.Or(s.Zone, "UTC")
	return &single[preview]{preview{Words: scheduleOf(s).Words, Next: append([]engine.NextFire{}, next...)}}, nil
}

func (a scheduleHandlers) listSchedules(ctx context.Context, in *struct {
	Session perdure.SessionID `query:"session" doc:"Only those of this session."`
	Paged
}) (*page[schedule], error) {
	return pageOfAppended(a.API, in.Paged, appendedList[schedule]{
		name: orgPrefix(ctx) + "schedules " + string(in.Session),
		all: func() ([]schedule, error) {
			all, err := a.cfg.Engine.Schedules().List(ctx, in.Session)
			shown := make([]schedule, 0, len(all))
			for _, s := range all {
				shown = append(shown, scheduleOf(s))
			}
			return shown, err
		},
		match: func(schedule) bool { return true },
		id:    func(s schedule) string { return string(s.ID) },
	})
}

// deleteSchedule deletes a schedule. If an earlier attempt under the same key was started and the
// schedule no longer exists, that counts as success.
func (a scheduleHandlers) deleteSchedule(ctx context.Context, in *OfSchedule) (*nothing, error) {
	err := a.cfg.Engine.Schedules().Delete(ctx, in.ID, requestOf(ctx).actor)
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).repeated {
		err = nil
	}
	return &nothing{}, err
}

func (a scheduleHandlers) nextFires(ctx context.Context, in *struct {
	OfSchedule
	N int `query:"n" minimum:"1" maximum:"100" doc:"The number of fires; default 10."`
}) (*page[engine.NextFire], error) {
	next, err := a.cfg.Engine.Schedules().NextFires(ctx, in.ID, orDefault(in.N, 10))
	return pageOf(next, len(next), nil), err
}

// listFires lists fires, latest first. New fires are added at the front, so the position in the
// list is a nominal time.
func (a scheduleHandlers) listFires(ctx context.Context, in *struct {
	OfSchedule
	Paged
}) (*page[perdure.Fire], error) {
	which := orgPrefix(ctx) + "fires " + string(in.ID)
	place, err := a.cursors.read(which, in.Cursor, 1)
	if err != nil {
		return nil, err
	}
	limit, most := in.limit(), in.limit()+1
	var last time.Time
	if place != nil {
		most = 0
		if last, err = time.Parse(time.RFC3339Nano, place[0]); err != nil {
			return nil, err
		}
	}
	fires, err := a.cfg.Engine.Schedules().Fires(ctx, in.ID, most)
	if err != nil {
		return nil, err
	}
	for place != nil && len(fires) > 0 && !fires[0].Nominal.Before(last) {
		fires = fires[1:]
	}
	return pageOf(fires, limit, func(f perdure.Fire) string { return a.cursors.write(which, f.Nominal.UTC().Format(time.RFC3339Nano)) }), nil
}

// triggerSchedule fires now. A repeated request with an idempotency key returns the fire of its
// first attempt.
func (a scheduleHandlers) triggerSchedule(ctx context.Context, in *OfSchedule, _ scheduleAct) (*single[perdure.Fire], error) {
	req := requestOf(ctx)
	if req.repeated {
		fires, err := a.cfg.Engine.Schedules().Fires(ctx, in.ID, 0)
		if err != nil {
			return nil, err
		}
		for _, f := range fires {
			if f.ByHand(req.actor) && !f.Actual.Before(req.at) {
				return &single[perdure.Fire]{f}, nil
			}
		}
	}
	return singleOf(a.cfg.Engine.Schedules().Trigger(ctx, in.ID, req.actor))
}

// backfillSchedule makes the missing fires. A repeated request with an idempotency key also returns
// the fires of its first attempt.
func (a scheduleHandlers) backfillSchedule(ctx context.Context, in *OfSchedule, b backfilling) (*page[perdure.Fire], error) {
	if b.From.IsZero() || b.To.IsZero() {
		return nil, invalid("/from", "from and to are both required")
	}
	req := requestOf(ctx)
	var before []perdure.Fire
	if req.repeated && !b.DryRun {
		fires, err := a.cfg.Engine.Schedules().Fires(ctx, in.ID, 0)
		if err != nil {
			return nil, err
		}
		for _, f := range fires {
			if f.Backfilled(req.actor) && !f.Actual.Before(req.at) && !f.Nominal.Before(b.From) && !f.Nominal.After(b.To) {
				before = append([]perdure.Fire{f}, before...)
			}
		}
	}
	fires, err := a.cfg.Engine.Schedules().Backfill(ctx, in.ID, engine.TimeRange{From: b.From, To: b.To, DryRun: b.DryRun, By: req.actor})
	if err != nil {
		return nil, err
	}
	fires = append(before, fires...)
	return pageOf(fires, len(fires), nil), nil
}
