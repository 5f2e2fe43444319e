package access

import (
	"context"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// CreateSchedule creates a schedule of a session. Conflict: another session has the id.
func (g *Guard) CreateSchedule(ctx context.Context, s perdure.Schedule) (perdure.Schedule, error) {
	ctx, err := g.session(ctx, Write, s.Session)
	if err != nil {
		return perdure.Schedule{}, err
	}
	if _, asks := PrincipalFrom(ctx); asks && s.ID != "" {
		known, err := g.inner.Schedule(ctx, s.ID)
		if err == nil && known.Session != s.Session {
			return perdure.Schedule{}, idTaken("schedule", string(s.ID))
		}
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return perdure.Schedule{}, err
		}
	}
	return g.inner.CreateSchedule(ctx, s)
}

// Schedule returns a schedule.
func (g *Guard) Schedule(ctx context.Context, id perdure.ScheduleID) (perdure.Schedule, error) {
	ctx, err := g.schedule(ctx, Read, id)
	if err != nil {
		return perdure.Schedule{}, err
	}
	return g.inner.Schedule(ctx, id)
}

// Schedules lists the schedules of a session, or of the principal's org.
func (g *Guard) Schedules(ctx context.Context, id perdure.SessionID) ([]perdure.Schedule, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return nil, err
	}
	list, err := g.inner.Schedules(ctx, id)
	return ownOnly(ctx, g, list, err, func(s perdure.Schedule) perdure.SessionID { return s.Session })
}

// NextFires returns the next fires of a schedule.
func (g *Guard) NextFires(ctx context.Context, id perdure.ScheduleID, n int) ([]engine.NextFire, error) {
	ctx, err := g.schedule(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.NextFires(ctx, id, n)
}

// ScheduleFires lists the recorded fires of a schedule.
func (g *Guard) ScheduleFires(ctx context.Context, id perdure.ScheduleID, limit int) ([]perdure.Fire, error) {
	ctx, err := g.schedule(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.ScheduleFires(ctx, id, limit)
}

// PauseSchedule disables a schedule.
func (g *Guard) PauseSchedule(ctx context.Context, id perdure.ScheduleID, by, why string) (perdure.Schedule, error) {
	ctx, err := g.schedule(ctx, Write, id)
	if err != nil {
		return perdure.Schedule{}, err
	}
	return g.inner.PauseSchedule(ctx, id, by, why)
}

// ResumeSchedule enables a schedule.
func (g *Guard) ResumeSchedule(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Schedule, error) {
	ctx, err := g.schedule(ctx, Write, id)
	if err != nil {
		return perdure.Schedule{}, err
	}
	return g.inner.ResumeSchedule(ctx, id, by)
}

// TriggerSchedule fires a schedule at once.
func (g *Guard) TriggerSchedule(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Fire, error) {
	ctx, err := g.schedule(ctx, Write, id)
	if err != nil {
		return perdure.Fire{}, err
	}
	return g.inner.TriggerSchedule(ctx, id, by)
}

// DeleteSchedule removes a schedule and its fires.
func (g *Guard) DeleteSchedule(ctx context.Context, id perdure.ScheduleID, by string) error {
	ctx, err := g.schedule(ctx, Write, id)
	if err != nil {
		return err
	}
	return g.inner.DeleteSchedule(ctx, id, by)
}

// Backfill fires each nominal time of a past period that has no fire yet.
func (g *Guard) Backfill(ctx context.Context, id perdure.ScheduleID, of engine.TimeRange) ([]perdure.Fire, error) {
	ctx, err := g.schedule(ctx, Write, id)
	if err != nil {
		return nil, err
	}
	return g.inner.Backfill(ctx, id, of)
}
