package api

import (
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
	ID          perdure.ScheduleID     `json:"id,omitempty" doc:"The schedule's own id, for callers that mint them. The same id with the same rest is one schedule."`
	Session     perdure.SessionID      `json:"session_id" doc:"In which session it fires."`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty" doc:"For people; a fire works from the action."`
	Cron        string                 `json:"cron_expression,omitempty" doc:"Five fields, or @hourly, @daily, @weekly, @monthly, @yearly. Exactly one of this and scheduled_at."`
	At          *time.Time             `json:"scheduled_at,omitempty" doc:"The one moment at which it fires."`
	Zone        string                 `json:"timezone,omitempty" doc:"An IANA name; UTC when it is not said."`
	Missed      perdure.MissedPolicy   `json:"missed,omitempty" enum:"one,skip,all" doc:"What becomes of fires whose time passed while nothing ran; one when it is not said."`
	Window      time.Duration          `json:"missed_window_ns,omitempty" doc:"Of all: how far back. 24 hours when it is not said."`
	Overlap     perdure.OverlapPolicy  `json:"overlap,omitempty" enum:"skip,allow,queue,replace" doc:"What becomes of a fire while the former one is at work; skip when it is not said."`
	Jitter      time.Duration          `json:"jitter_ns,omitempty" doc:"A fire comes up to so much after its time; at most half of the smallest interval."`
	Action      perdure.ScheduleAction `json:"action" doc:"What a fire does: a message, or a tool with its args."`
}

// schedule is a schedule as it is answered.
type schedule struct {
	perdure.Schedule
	Type  string `json:"schedule_type" enum:"oneshot,recurring"`
	Words string `json:"in_words,omitempty" doc:"When it fires, for people."`
}

type oneSchedule struct{ Body schedule }

type madeSchedule struct {
	Location string `header:"Location"`
	Body     schedule
}

type oneFire struct{ Body perdure.Fire }

// scheduleAct is the body of what needs no word.
type scheduleAct struct{}

// pausing is the body of a pause.
type pausing struct {
	Reason string `json:"reason,omitempty"`
}

// backfilling is the body of a backfill.
type backfilling struct {
	From   time.Time `json:"from" doc:"The first moment of the stretch."`
	To     time.Time `json:"to" doc:"The last one; it has passed."`
	DryRun bool      `json:"dry_run,omitempty" doc:"Only say which fires it would make."`
}

func (a *API) scheduleOperations() {
	missing := []int{http.StatusNotFound}
	now := time.Date(2025, 3, 28, 12, 0, 0, 0, time.UTC)
	write(a, operation{
		id: "create-schedule", path: "/v1/schedules", policy: writes, summary: "Make a schedule", status: http.StatusCreated, errors: append(missing, http.StatusTooManyRequests),
	}, body[newSchedule]{example: newSchedule{
		Session: "session_019aa0000000700080000000000000aa", Title: "Morning report", Cron: "30 7 * * 1-5", Zone: "Europe/Berlin",
		Action: perdure.ScheduleAction{Message: "Summarise what came in overnight."},
	}}, a.createSchedule)
	read(a, operation{id: "list-schedules", path: "/v1/schedules", policy: reads, summary: "List schedules in the order of their making"}, a.listSchedules)
	read(a, operation{id: "get-schedule", path: "/v1/schedules/{id}", policy: reads, summary: "Show a schedule", errors: missing},
		func(ctx context.Context, in *OfSchedule) (*oneSchedule, error) {
			return answered(a.cfg.Engine.Schedule(ctx, in.ID))
		})
	erase(a, operation{
		id: "delete-schedule", path: "/v1/schedules/{id}", policy: writes, summary: "Delete a schedule with its fires; its monitor, and what that runs, is canceled", errors: missing,
	}, a.deleteSchedule)
	read(a, operation{id: "next-fires", path: "/v1/schedules/{id}/next", policy: reads, summary: "Say when it fires next, and what the clocks have to do with it", errors: missing}, a.nextFires)
	read(a, operation{id: "list-fires", path: "/v1/schedules/{id}/fires", policy: reads, summary: "List what became of its times, the latest first; a skip has its reason", errors: missing}, a.listFires)
	write(a, operation{id: "trigger-schedule", path: "/v1/schedules/{id}/trigger", policy: writes, summary: "Fire at once; what comes next stays", errors: missing},
		body[scheduleAct]{optional: true}, a.triggerSchedule)
	write(a, operation{id: "pause-schedule", path: "/v1/schedules/{id}/pause", policy: writes, summary: "Let it not fire until it is resumed", errors: missing},
		body[pausing]{example: pausing{Reason: "holidays"}, optional: true}, func(ctx context.Context, in *OfSchedule, b pausing) (*oneSchedule, error) {
			return answered(a.cfg.Engine.PauseSchedule(ctx, in.ID, requestOf(ctx).actor, b.Reason))
		})
	write(a, operation{
		id: "resume-schedule", path: "/v1/schedules/{id}/resume", policy: writes, summary: "Let it fire from now on", errors: append(missing, http.StatusTooManyRequests),
	}, body[scheduleAct]{optional: true}, func(ctx context.Context, in *OfSchedule, _ scheduleAct) (*oneSchedule, error) {
		return answered(a.cfg.Engine.ResumeSchedule(ctx, in.ID, requestOf(ctx).actor))
	})
	write(a, operation{
		id: "backfill-schedule", path: "/v1/schedules/{id}/backfill", policy: writes, summary: "Fire each time of a stretch of the past for which nothing fired", errors: append(missing, http.StatusTooManyRequests),
	}, body[backfilling]{example: backfilling{From: now.Add(-time.Hour), To: now, DryRun: true}}, a.backfillSchedule)
}

// answered is a schedule as it is answered.
func answered(s perdure.Schedule, err error) (*oneSchedule, error) {
	return &oneSchedule{Body: scheduleOf(s)}, err
}

func scheduleOf(s perdure.Schedule) schedule {
	told := schedule{Schedule: s, Type: s.Type()}
	if spec, err := cron.Parse(s.Cron); s.Cron != "" && err == nil {
		told.Words = spec.Words() + ", " + s.Zone
	}
	return told
}

func (a *API) createSchedule(ctx context.Context, _ *struct{}, in newSchedule) (*madeSchedule, error) {
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
	made, err := a.cfg.Engine.CreateSchedule(ctx, s)
	if errors.Is(err, perdure.Invalid) { // the request can be read, and what it asks for can never be
		p := problemOf(ctx, err)
		p.Status = http.StatusUnprocessableEntity
		return nil, p
	}
	return &madeSchedule{Location: "/v1/schedules/" + string(made.ID), Body: scheduleOf(made)}, err
}

func (a *API) listSchedules(ctx context.Context, in *struct {
	Session perdure.SessionID `query:"session" doc:"Only those of this session."`
	Paged
}) (*page[schedule], error) {
	return walk(a, in.Paged, grown[schedule]{
		which: whose(ctx) + "schedules " + string(in.Session),
		all: func() ([]schedule, error) {
			all, err := a.cfg.Engine.Schedules(ctx, in.Session)
			told := make([]schedule, 0, len(all))
			for _, s := range all {
				told = append(told, scheduleOf(s))
			}
			return told, err
		},
		match: func(schedule) bool { return true },
		id:    func(s schedule) string { return string(s.ID) },
	})
}

// deleteSchedule takes a schedule that is not there for one that it deleted before, when that was begun under the same key.
func (a *API) deleteSchedule(ctx context.Context, in *OfSchedule) (*nothing, error) {
	err := a.cfg.Engine.DeleteSchedule(ctx, in.ID, requestOf(ctx).actor)
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).again {
		err = nil
	}
	return &nothing{}, err
}

func (a *API) nextFires(ctx context.Context, in *struct {
	OfSchedule
	N int `query:"n" minimum:"1" maximum:"100" doc:"How many; 10 when it is not said."`
}) (*page[engine.NextFire], error) {
	next, err := a.cfg.Engine.NextFires(ctx, in.ID, orDefault(in.N, 10))
	return pageOf(next, len(next), nil), err
}

// listFires walks the fires, the latest first. New ones come before the first, so that the place is a nominal time.
func (a *API) listFires(ctx context.Context, in *struct {
	OfSchedule
	Paged
}) (*page[perdure.Fire], error) {
	which := whose(ctx) + "fires " + string(in.ID)
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
	fires, err := a.cfg.Engine.ScheduleFires(ctx, in.ID, most)
	if err != nil {
		return nil, err
	}
	for place != nil && len(fires) > 0 && !fires[0].Nominal.Before(last) {
		fires = fires[1:]
	}
	return pageOf(fires, limit, func(f perdure.Fire) string { return a.cursors.write(which, f.Nominal.UTC().Format(time.RFC3339Nano)) }), nil
}

// triggerSchedule fires. A request with an idempotency key that was begun before answers with the fire of then.
func (a *API) triggerSchedule(ctx context.Context, in *OfSchedule, _ scheduleAct) (*oneFire, error) {
	req := requestOf(ctx)
	if req.again {
		fires, err := a.cfg.Engine.ScheduleFires(ctx, in.ID, 0)
		if err != nil {
			return nil, err
		}
		for _, f := range fires {
			if f.ByHand(req.actor) && !f.Actual.Before(req.at) {
				return &oneFire{Body: f}, nil
			}
		}
	}
	f, err := a.cfg.Engine.TriggerSchedule(ctx, in.ID, req.actor)
	return &oneFire{Body: f}, err
}

// backfillSchedule fires. A request with an idempotency key that was begun before answers with its fires of then, too.
func (a *API) backfillSchedule(ctx context.Context, in *OfSchedule, b backfilling) (*page[perdure.Fire], error) {
	if b.From.IsZero() || b.To.IsZero() {
		return nil, invalid("/from", "from and to are required")
	}
	req := requestOf(ctx)
	var before []perdure.Fire
	if req.again && !b.DryRun {
		fires, err := a.cfg.Engine.ScheduleFires(ctx, in.ID, 0)
		if err != nil {
			return nil, err
		}
		for _, f := range fires {
			if f.Backfilled(req.actor) && !f.Actual.Before(req.at) && !f.Nominal.Before(b.From) && !f.Nominal.After(b.To) {
				before = append([]perdure.Fire{f}, before...)
			}
		}
	}
	fires, err := a.cfg.Engine.Backfill(ctx, in.ID, engine.Stretch{From: b.From, To: b.To, DryRun: b.DryRun, By: req.actor})
	if err != nil {
		return nil, err
	}
	fires = append(before, fires...)
	return pageOf(fires, len(fires), nil), nil
}
