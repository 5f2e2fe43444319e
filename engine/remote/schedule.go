package remote

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func schedulePath(id perdure.ScheduleID) string { return "/v1/schedules/" + segment(id) }

// CreateSchedule makes a schedule of a session and enables it. One without an id is given one here, so that a second try finds
// the schedule of the first. Its owner is for the server to say.
func (e *Engine) CreateSchedule(ctx context.Context, s perdure.Schedule) (made perdure.Schedule, err error) {
	if s.ID == "" {
		s.ID = perdure.FormatID[perdure.ScheduleID](uuid.Must(uuid.NewV7()))
	}
	body := struct {
		ID          perdure.ScheduleID     `json:"id"`
		Session     perdure.SessionID      `json:"session_id"`
		Title       string                 `json:"title,omitempty"`
		Description string                 `json:"description,omitempty"`
		Cron        string                 `json:"cron_expression,omitempty"`
		At          time.Time              `json:"scheduled_at,omitzero"`
		Zone        string                 `json:"timezone,omitempty"`
		Missed      perdure.MissedPolicy   `json:"missed,omitempty"`
		Window      time.Duration          `json:"missed_window_ns,omitempty"`
		Overlap     perdure.OverlapPolicy  `json:"overlap,omitempty"`
		Jitter      time.Duration          `json:"jitter_ns,omitempty"`
		Action      perdure.ScheduleAction `json:"action"`
	}{s.ID, s.Session, s.Title, s.Description, s.Cron, s.At, s.Zone, s.Missed, s.Window, s.Overlap, s.Jitter, s.Action}
	_, err = e.call(ctx, request{what: "create schedule " + string(s.ID), path: "/v1/schedules", body: body, actor: s.Owner}, &made)
	return made, err
}

// Schedule returns a schedule.
func (e *Engine) Schedule(ctx context.Context, id perdure.ScheduleID) (s perdure.Schedule, err error) {
	_, err = e.call(ctx, request{what: "schedule " + string(id), path: schedulePath(id)}, &s)
	return s, err
}

// Schedules lists the schedules of a session, or of all for an empty id, in the order of their making.
func (e *Engine) Schedules(ctx context.Context, id perdure.SessionID) ([]perdure.Schedule, error) {
	r := request{what: "schedules", path: "/v1/schedules", query: url.Values{}}
	if id != "" {
		r.what = "schedules of " + string(id)
		r.query.Set("session", string(id))
	}
	return list[perdure.Schedule](ctx, e, r, 0)
}

// NextFires returns the next n fires of a schedule.
func (e *Engine) NextFires(ctx context.Context, id perdure.ScheduleID, n int) ([]engine.NextFire, error) {
	if n <= 0 {
		_, err := e.Schedule(ctx, id)
		return nil, err
	}
	r := request{what: "next fires of " + string(id), path: schedulePath(id) + "/next", query: url.Values{"n": {strconv.Itoa(min(n, maxNextFires))}}}
	return whole[engine.NextFire](ctx, e, r)
}

// maxNextFires is how many fires to come the wire allows at once, as the engine does.
const maxNextFires = 100

// ScheduleFires lists what became of nominal times, the latest first.
func (e *Engine) ScheduleFires(ctx context.Context, id perdure.ScheduleID, limit int) ([]perdure.Fire, error) {
	return list[perdure.Fire](ctx, e, request{what: "fires of " + string(id), path: schedulePath(id) + "/fires"}, limit)
}

// PauseSchedule disables a schedule.
func (e *Engine) PauseSchedule(ctx context.Context, id perdure.ScheduleID, by, why string) (s perdure.Schedule, err error) {
	_, err = e.call(ctx, request{what: "pause schedule " + string(id), path: schedulePath(id) + "/pause", body: reason{why}, actor: by}, &s)
	return s, err
}

// ResumeSchedule enables a schedule from now on.
func (e *Engine) ResumeSchedule(ctx context.Context, id perdure.ScheduleID, by string) (s perdure.Schedule, err error) {
	_, err = e.call(ctx, request{what: "resume schedule " + string(id), path: schedulePath(id) + "/resume", body: struct{}{}, actor: by}, &s)
	return s, err
}

// TriggerSchedule fires at once. Sent again because the answer was lost, it is the same fire.
func (e *Engine) TriggerSchedule(ctx context.Context, id perdure.ScheduleID, by string) (f perdure.Fire, err error) {
	_, err = e.call(ctx, request{what: "trigger schedule " + string(id), path: schedulePath(id) + "/trigger", body: struct{}{}, actor: by}, &f)
	return f, err
}

// DeleteSchedule removes a schedule with its fires. Sent again because the answer was lost, it has the same answer.
func (e *Engine) DeleteSchedule(ctx context.Context, id perdure.ScheduleID, by string) error {
	_, err := e.call(ctx, request{what: "delete schedule " + string(id), path: schedulePath(id), remove: true, actor: by}, nil)
	return err
}

// Backfill fires each nominal time of a stretch of the past for which nothing fired.
func (e *Engine) Backfill(ctx context.Context, id perdure.ScheduleID, of engine.Stretch) ([]perdure.Fire, error) {
	body := struct {
		From   time.Time `json:"from"`
		To     time.Time `json:"to"`
		DryRun bool      `json:"dry_run,omitempty"`
	}{of.From, of.To, of.DryRun}
	return whole[perdure.Fire](ctx, e, request{what: "backfill schedule " + string(id), path: schedulePath(id) + "/backfill", body: body, actor: of.By})
}
