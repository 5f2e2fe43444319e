package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

func (e hostSchedules) Create(ctx context.Context, s perdure.Schedule) (perdure.Schedule, error) {
	return e.createSchedule(ctx, s, nil)
}

// createSchedule creates a schedule in one commit (SC23, BG6). With a call that requests one, it
// also creates the monitor. A repeated call finds its schedule again.
func (e hostSchedules) createSchedule(
	ctx context.Context, s perdure.Schedule, asker *core.ScheduleCall,
) (made perdure.Schedule, err error) {
	rules := e.cfg.Timekeeping.Schedules
	if s.ID == "" {
		s.ID = core.NewID[perdure.ScheduleID]()
	} else if _, err := perdure.ParseID[perdure.ScheduleID](string(s.ID)); err != nil {
		return perdure.Schedule{}, fmt.Errorf("create schedule: %w", err)
	}
	s = perdure.Schedule{
		ID: s.ID, Session: s.Session, Owner: s.Owner, Title: s.Title, Description: s.Description, Cron: s.Cron,
		At: s.At.UTC(), Zone: s.Zone, Missed: s.Missed, Window: s.Window, Overlap: s.Overlap, Jitter: s.Jitter,
		Action: s.Action,
	}.WithDefaults(rules)
	if s.At.IsZero() {
		s.At = time.Time{}
	}
	err = s.Check()
	if err == nil {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			made, err = e.createIn(tx, s, asker)
			return err
		})
	}
	if err != nil {
		return perdure.Schedule{}, fmt.Errorf("create schedule: %w", err)
	}
	e.scheduler.Replan()
	e.scheduler.Wake(made.Session)
	return made, nil
}

func (e hostSchedules) createIn(tx store.Tx, s perdure.Schedule, asker *core.ScheduleCall) (perdure.Schedule, error) {
	row, err := tx.Sessions().Get(s.Session)
	if err != nil {
		return s, err
	}
	if asker != nil {
		if err := asker.Fence(tx.Reader()); err != nil {
			return s, err
		}
		s.ID = perdure.DeriveID[perdure.ScheduleID](row.Secret, asker.At, string(s.Session), string(asker.Call))
	}
	if known, err := tx.Schedules().Get(s.ID); err == nil || !errors.Is(err, perdure.NotFound) {
		if err == nil && asker == nil && !s.Same(known) {
			err = fmt.Errorf("%w: the id %s belongs to another schedule", perdure.Conflict, s.ID)
		}
		return known, err // a repeated request
	}
	if row.Parent != "" {
		return s, fmt.Errorf("%w schedule: a subagent cannot have schedules, because its work ends; "+
			"create it in the root session", perdure.Invalid)
	}
	if asker != nil && asker.Monitor {
		s.Monitor = perdure.DeriveID[perdure.TaskID](row.Secret, asker.At, string(s.Session), string(asker.Call))
	}
	timing, err := checkTiming(s, tx.Now(), e.cfg.Timekeeping.Schedules)
	if err == nil {
		err = e.effects.Schedules().CanSchedule(tx.Reader(), s)
	}
	if err != nil {
		return s, err
	}
	s.CreatedAt, s.UpdatedAt = tx.Now(), tx.Now()
	s = s.Arm(timing, tx.Now())
	if err := e.append(tx, s.Session,
		perdure.Event{Actor: s.Owner, Fact: perdure.ScheduleCreated{Schedule: s}}); err != nil {
		return s, err
	}
	if err := tx.Schedules().Put(s, e.caps()); err != nil {
		return s, err
	}
	if s.Monitor != "" {
		_, err = e.effects.Records().MonitorOf(tx, s, perdure.CallKey{Session: s.Session, Call: asker.Call}, asker.Turn)
	}
	return s, err
}

func (e hostSchedules) caps() store.ScheduleCaps {
	return store.ScheduleCaps{Session: e.cfg.Timekeeping.Schedules.PerSession, Org: e.cfg.Timekeeping.Schedules.PerOrg}
}

func (e hostSchedules) Get(ctx context.Context, id perdure.ScheduleID) (perdure.Schedule, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) (perdure.Schedule, error) { return r.Schedules().Get(id) })
}

func (e hostSchedules) List(ctx context.Context, id perdure.SessionID) ([]perdure.Schedule, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.Schedule, error) {
		return r.Schedules().List(store.ScheduleFilter{Session: id})
	})
}

// Fires lists the recorded fires, latest first.
func (e hostSchedules) Fires(
	ctx context.Context, id perdure.ScheduleID, limit int,
) ([]perdure.Fire, error) {
	if err := engine.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("fires of schedule %s: %w", id, err)
	}
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.Fire, error) {
		if _, err := r.Schedules().Get(id); err != nil {
			return nil, err
		}
		return r.Schedules().Fires(id, limit)
	})
}

func (e hostSchedules) NextFires(ctx context.Context, id perdure.ScheduleID, n int) ([]engine.NextFire, error) {
	var s perdure.Schedule
	var now time.Time
	err := e.view(ctx, func(r store.Reader) (err error) {
		now = r.Now()
		s, err = r.Schedules().Get(id)
		return err
	})
	if err != nil {
		return nil, err
	}
	next, err := nextFires(s, now, n)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", id, err)
	}
	return next, nil
}

// nextFires computes the next n fires of a schedule after now.
func nextFires(s perdure.Schedule, now time.Time, n int) (next []engine.NextFire, err error) {
	if s.Cron == "" {
		if s.At.Before(now) {
			return nil, nil
		}
		return []engine.NextFire{{At: s.At}}, nil
	}
	spec, zone, err := specOf(s)
	if err != nil {
		return nil, err
	}
	for _, f := range spec.Fires(now, zone, min(max(n, 0), engine.MaxNextFires)) {
		next = append(next, engine.NextFire{At: f.At, Clock: string(f.Clock), Note: f.Text})
	}
	return next, nil
}

// Preview computes the fires of a schedule that need not exist, with the rules of Create.
func (e hostSchedules) Preview(ctx context.Context, s perdure.Schedule, n int) ([]engine.NextFire, error) {
	s = perdure.Schedule{
		ID: "preview", Session: "preview", Cron: s.Cron, At: s.At, Zone: s.Zone, Jitter: s.Jitter,
		Action: perdure.ScheduleAction{Message: "preview"},
	}.WithDefaults(e.cfg.Timekeeping.Schedules)
	now, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (time.Time, error) { return r.Now(), nil })
	if err == nil {
		err = s.Check()
	}
	if err == nil {
		_, err = checkTiming(s, now, e.cfg.Timekeeping.Schedules)
	}
	var next []engine.NextFire
	if err == nil {
		next, err = nextFires(s, now, n)
	}
	if err != nil {
		return nil, fmt.Errorf("preview schedule: %w", err)
	}
	return next, nil
}

func (e hostSchedules) Pause(ctx context.Context, id perdure.ScheduleID, by, why string) (perdure.Schedule, error) {
	return e.changeSchedule(ctx, id, func(tx store.Tx, s perdure.Schedule) (perdure.Schedule, perdure.Fact, error) {
		if !s.Enabled {
			return s, nil, nil
		}
		words := "paused by " + by
		if why != "" {
			words += ": " + why
		}
		return s.Disarm(words), perdure.SchedulePaused{Schedule: id, Why: words, By: by}, nil
	})
}

func (e hostSchedules) Resume(ctx context.Context, id perdure.ScheduleID, by string) (perdure.Schedule, error) {
	return e.changeSchedule(ctx, id, func(tx store.Tx, s perdure.Schedule) (perdure.Schedule, perdure.Fact, error) {
		if s.Enabled {
			return s, nil, nil
		}
		if m, err := tx.Tasks().Get(s.Session, s.Monitor); s.Monitor != "" && (err != nil || m.State.Terminal()) {
			return s, nil, fmt.Errorf("%w: its monitor %s has ended; create a new one", perdure.Conflict, s.Monitor)
		}
		timing, err := checkTiming(s, tx.Now(), e.cfg.Timekeeping.Schedules)
		if err != nil {
			return s, nil, err
		}
		if s.Cron == "" && s.LastFire.Equal(s.At) {
			return s, nil, fmt.Errorf("%w: it has already fired", perdure.Conflict)
		}
		s = s.Arm(timing, tx.Now())
		return s, perdure.ScheduleCreated{Schedule: s}, nil
	})
}

// changeSchedule changes a schedule and appends the fact that records the change, in one commit.
// Without a fact nothing changes.
func (e hostSchedules) changeSchedule(
	ctx context.Context, id perdure.ScheduleID,
	change func(store.Tx, perdure.Schedule) (perdure.Schedule, perdure.Fact, error),
) (s perdure.Schedule, err error) {
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if s, err = taskrecord.LockSchedule(tx, "", id); err != nil {
			return err
		}
		changed, fact, err := change(tx, s)
		if err != nil || fact == nil {
			return err
		}
		changed.UpdatedAt = tx.Now()
		s = changed
		if err := e.append(tx, s.Session, perdure.Event{Actor: "user", Fact: fact}); err != nil {
			return err
		}
		return tx.Schedules().Put(s, e.caps())
	})
	if err != nil {
		return perdure.Schedule{}, fmt.Errorf("change schedule %s: %w", id, err)
	}
	e.scheduler.Replan()
	e.scheduler.Wake(s.Session)
	return s, nil
}

func (e hostSchedules) Delete(ctx context.Context, id perdure.ScheduleID, by string) error {
	_, err := e.effects.Schedules().EndSchedule(ctx, "", id, taskrecord.CancelIntent{By: by, Why: "its schedule was deleted"}, true)
	e.scheduler.Replan()
	return err
}

// Trigger fires at once.
func (e hostSchedules) Trigger(ctx context.Context, id perdure.ScheduleID, by string) (fire perdure.Fire, err error) {
	s, now, err := e.scheduleNow(ctx, id)
	if err == nil {
		fire, err = e.fireManually(ctx, s, now, perdure.TriggeredReason(by))
	}
	if err != nil {
		return perdure.Fire{}, fmt.Errorf("trigger schedule %s: %w", id, err)
	}
	return fire, nil
}

func (e hostSchedules) scheduleNow(
	ctx context.Context, id perdure.ScheduleID,
) (s perdure.Schedule, now time.Time, err error) {
	return s, now, e.view(ctx, func(r store.Reader) error {
		now = r.Now()
		s, err = r.Schedules().Get(id)
		return err
	})
}

// manualFireAttempts limits how often a manual fire is decided again.
const manualFireAttempts = 5

// fireManually fires for one nominal time. The fire is decided before its transaction and again in
// it. If both differ, for example because the session was paused in between, nothing was recorded,
// and the fire is decided anew. Nobody else comes back to it, unlike to a fire that is due.
func (e hostSchedules) fireManually(
	ctx context.Context, s perdure.Schedule, nominal time.Time, reason string,
) (perdure.Fire, error) {
	now := func(r store.Reader, s perdure.Schedule, now time.Time) (perdure.ScheduleStep, error) {
		return e.timekeeper.skipIfPaused(r, s, s.Triggered(nominal, now, reason))
	}
	for range manualFireAttempts {
		want, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) (step perdure.ScheduleStep, err error) {
			if s, err = r.Schedules().Get(s.ID); err != nil {
				return step, err
			}
			return now(r, s, nominal)
		})
		if err != nil {
			return perdure.Fire{}, err
		}
		fire, err := e.timekeeper.fire(ctx, s, want, now)
		if err != nil || fire.Schedule != "" {
			return fire, err
		}
	}
	return perdure.Fire{}, fmt.Errorf("%w: schedule %s changed while it fired; try again", perdure.Conflict, s.ID)
}

// Backfill fires each nominal time of a past period that has no fire yet.
func (e hostSchedules) Backfill(ctx context.Context, id perdure.ScheduleID, of engine.TimeRange) ([]perdure.Fire, error) {
	s, now, err := e.scheduleNow(ctx, id)
	if err == nil && (of.To.After(now) || of.To.Before(of.From)) {
		err = fmt.Errorf("%w time range: its end must be in the past and not before its start", perdure.Invalid)
	}
	var missing []time.Time
	if err == nil {
		missing, err = e.unfired(ctx, s, of)
	}
	var fires []perdure.Fire
	for _, nominal := range missing {
		fire := perdure.Fire{
			Schedule: id, Session: s.Session, Nominal: nominal, Outcome: perdure.Fired,
			Reason: perdure.BackfilledReason(of.By),
		}
		if err == nil && !of.DryRun {
			fire, err = e.fireManually(ctx, s, nominal, fire.Reason)
		}
		if err != nil {
			break
		}
		fires = append(fires, fire)
	}
	if err != nil {
		return fires, fmt.Errorf("backfill schedule %s: %w", id, err)
	}
	return fires, nil
}

// unfired returns the nominal times of a period that have no fire yet.
func (e hostSchedules) unfired(ctx context.Context, s perdure.Schedule, of engine.TimeRange) (missing []time.Time, err error) {
	timing, err := timingOf(s)
	if err != nil {
		return nil, err
	}
	most := e.cfg.Timekeeping.Schedules.MaxCatchup
	err = e.view(ctx, func(r store.Reader) error {
		missing = nil
		at, ok := timing.Next(of.From.Add(-time.Microsecond))
		for ; ok && !at.After(of.To); at, ok = timing.Next(at) {
			known, err := r.Schedules().Fire(s.ID, at)
			if err == nil && !known.Outcome.Skipped() && known.Outcome != perdure.FireNotStarted {
				continue
			}
			if err != nil && !errors.Is(err, perdure.NotFound) {
				return err
			}
			if missing = append(missing, at); most > 0 && len(missing) > most {
				return fmt.Errorf("%w: more than %d fires; choose a shorter time range", perdure.Limit, most)
			}
		}
		return nil
	})
	return missing, err
}
