package remote

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func schedulePath(id perdure.ScheduleID) string { return "/v1/schedules/" + segment(id) }

// Create creates a schedule of a session and enables it. The client creates a missing id,
// so that a retry finds the same schedule. The server decides who the owner is.
func (e engineSchedules) Create(ctx context.Context, s perdure.Schedule) (perdure.Schedule, error) {
	s.ID = cmp.Or(s.ID, perdure.FormatID[perdure.ScheduleID](uuid.Must(uuid.NewV7())))
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
	return fetch[perdure.Schedule](ctx, e.Engine, request{
		what: "create schedule " + string(s.ID), path: "/v1/schedules", body: body, actor: s.Owner,
	})
}

func (e engineSchedules) Get(ctx context.Context, id perdure.ScheduleID) (perdure.Schedule, error) {
	return fetch[perdure.Schedule](ctx, e.Engine, request{what: "schedule " + string(id), path: schedulePath(id)})
}

// List lists the schedules of a session, or all schedules for an empty id, by creation time.
func (e engineSchedules) List(ctx context.Context, id perdure.SessionID) ([]perdure.Schedule, error) {
	r := request{what: "schedules", path: "/v1/schedules", query: url.Values{}}
	if id != "" {
		r.what = "schedules of " + string(id)
		r.query.Set("session", string(id))
	}
	return list[perdure.Schedule](ctx, e.Engine, r, 0)
}

func (e engineSchedules) NextFires(ctx context.Context, id perdure.ScheduleID, n int) ([]engine.NextFire, error) {
	if n <= 0 {
		_, err := e.Schedules().Get(ctx, id)
		return nil, err
	}
	r := request{
		what: "next fires of " + string(id), path: schedulePath(id) + "/next",
		query: url.Values{"n": {strconv.Itoa(min(n, engine.MaxNextFires))}},
	}
	return unpaged[engine.NextFire](ctx, e.Engine, r)
}

func (e engineSchedules) Preview(ctx context.Context, s perdure.Schedule, n int) ([]engine.NextFire, error) {
	r := request{what: "preview schedule", path: "/v1/schedules:preview", query: url.Values{"n": {strconv.Itoa(min(max(n, 1), engine.MaxNextFires))}}}
	for name, value := range map[string]string{"cron_expression": s.Cron, "timezone": s.Zone} {
		if value != "" {
			r.query.Set(name, value)
		}
	}
	if !s.At.IsZero() {
		r.query.Set("scheduled_at", s.At.UTC().Format(time.RFC3339Nano))
	}
	if s.Jitter != 0 {
		r.query.Set("jitter_ns", strconv.FormatInt(int64(s.Jitter), 10))
	}
	found, err := fetch[struct {
		Next []engine.NextFire `json:"next"`
	}](ctx, e.Engine, r)
	if n <= 0 {
		return nil, err
	}
	return found.Next, err
}

// Fires lists the recorded fires of a schedule, latest first.
func (e engineSchedules) Fires(ctx context.Context, id perdure.ScheduleID, limit int) ([]perdure.Fire, error) {
	return list[perdure.Fire](ctx, e.Engine, request{what: "fires of " + string(id), path: schedulePath(id) + "/fires"}, limit)
}

func (e engineSchedules) Pause(
	ctx context.Context, id perdure.ScheduleID, by, why string,
) (perdure.Schedule, error) {
	return fetch[perdure.Schedule](ctx, e.Engine, request{
		what: "pause schedule " + string(id), path: schedulePath(id) + "/pause", body: reasonBody{why}, actor: by,
	})
}

func (e engineSchedules) Resume(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Schedule, error) {
	return fetch[perdure.Schedule](ctx, e.Engine, request{
		what: "resume schedule " + string(id), path: schedulePath(id) + "/resume", body: struct{}{}, actor: by,
	})
}

// Trigger fires a schedule at once. A retry finds the same fire.
func (e engineSchedules) Trigger(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Fire, error) {
	return fetch[perdure.Fire](ctx, e.Engine, request{
		what: "trigger schedule " + string(id), path: schedulePath(id) + "/trigger", body: struct{}{}, actor: by,
	})
}

// Delete removes a schedule and its fires. A retry gets the same response.
func (e engineSchedules) Delete(ctx context.Context, id perdure.ScheduleID, by string) error {
	_, err := e.call(ctx, request{
		what: "delete schedule " + string(id), path: schedulePath(id), remove: true, actor: by,
	}, nil)
	return err
}

// Backfill fires each nominal time of a past period that has no fire yet.
func (e engineSchedules) Backfill(ctx context.Context, id perdure.ScheduleID, of engine.TimeRange) ([]perdure.Fire, error) {
	body := struct {
		From   time.Time `json:"from"`
		To     time.Time `json:"to"`
		DryRun bool      `json:"dry_run,omitempty"`
	}{of.From, of.To, of.DryRun}
	return unpaged[perdure.Fire](ctx, e.Engine, request{
		what: "backfill schedule " + string(id), path: schedulePath(id) + "/backfill", body: body, actor: of.By,
	})
}
