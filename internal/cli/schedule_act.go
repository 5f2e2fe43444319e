package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type scheduleTrigger struct {
	Schedule string `arg:"" help:"Id, unique id prefix, or title."`
	actFlags
}

// Run fires a schedule now.
func (c *scheduleTrigger) Run(ctx context.Context, a *app) error {
	return c.onSchedule(ctx, a, c.Schedule, perdure.Fire{}, func(eng Engine, s perdure.Schedule) error {
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return fmt.Errorf("schedule %s: %w", s.ID, err)
		}
		if c.DryRun {
			a.message("would fire %s now: it %s", s.ID, a.oneLine(describeAction(s.Action), 2*cellChars))
			return nil
		}
		f, err := eng.Schedules().Trigger(ctx, s.ID, operator)
		if err != nil {
			return err
		}
		a.message("if no server is running, continue with: %s run %s--session %s", program, a.storeFlags(), s.Session)
		return c.show(ctx, a, outputObject{string(f.Task) + string(f.Message), f, func() { scheduleText{a}.printFire(f, zone) }})
	})
}

type schedulePause struct {
	Schedule string `arg:"" help:"Id, unique id prefix, or title."`
	Why      string `help:"Reason; it is recorded in the journal." placeholder:"TEXT"`
	actFlags
}

// Run pauses a schedule.
func (c *schedulePause) Run(ctx context.Context, a *app) error {
	return c.onSchedule(ctx, a, c.Schedule, scheduled{}, func(eng Engine, s perdure.Schedule) error {
		if c.DryRun {
			a.message("would pause %s, which is %s", s.ID, a.oneLine(stateOf(s), 200))
			return nil
		}
		s, err := eng.Schedules().Pause(ctx, s.ID, operator, c.Why)
		if err != nil {
			return err
		}
		return c.showSchedule(ctx, a, s)
	})
}

type scheduleResume struct {
	Schedule string `arg:"" help:"Id, unique id prefix, or title."`
	actFlags
}

// Run resumes a schedule.
func (c *scheduleResume) Run(ctx context.Context, a *app) error {
	return c.onSchedule(ctx, a, c.Schedule, scheduled{}, func(eng Engine, s perdure.Schedule) error {
		if c.DryRun {
			a.message("would resume %s, which is %s", s.ID, a.oneLine(stateOf(s), 200))
			return nil
		}
		s, err := eng.Schedules().Resume(ctx, s.ID, operator)
		if err != nil {
			return err
		}
		return c.showSchedule(ctx, a, s)
	})
}

type scheduleBackfill struct {
	Schedule string    `arg:"" help:"Id, unique id prefix, or title."`
	From     time.Time `required:"" help:"Start of the period, RFC 3339." placeholder:"TIME"`
	To       time.Time `help:"End of the period, RFC 3339. Default: now." placeholder:"TIME"`
	DryRun   bool      `help:"Print which fires would be made."`
	Yes      bool      `short:"y" help:"Do not ask for confirmation."`
	outputFlags
}

// Run counts the fires, asks for confirmation, and makes them.
func (c *scheduleBackfill) Run(ctx context.Context, a *app) error {
	return actFlags{c.DryRun, c.outputFlags}.onSchedule(ctx, a, c.Schedule, perdure.Fire{}, func(eng Engine, s perdure.Schedule) error {
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return fmt.Errorf("schedule %s: %w", s.ID, err)
		}
		stretch := engine.TimeRange{From: c.From, To: c.To, DryRun: true, By: operator}
		if stretch.To.IsZero() {
			stretch.To = time.Now().Add(-time.Second)
		}
		fires, err := eng.Schedules().Backfill(ctx, s.ID, stretch)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.message("would fire %d times", len(fires))
		} else if len(fires) > 0 {
			if err := a.confirm(ctx, c.Yes, fmt.Sprintf("fire %d times?", len(fires))); err != nil {
				return err
			}
			stretch.DryRun = false
			if fires, err = eng.Schedules().Backfill(ctx, s.ID, stretch); err != nil {
				return err
			}
			a.message("fired %d times", len(fires))
		}
		list := outputList[perdure.Fire]{noun: "missed fires",
			name: func(f perdure.Fire) string { return f.Nominal.UTC().Format(time.RFC3339) },
			tell: func(all []perdure.Fire) {
				for _, f := range all {
					scheduleText{a}.printFire(f, zone)
				}
			}}
		return list.print(ctx, a, c.outputFlags, fires)
	})
}

type scheduleDelete struct {
	Schedule string `arg:"" help:"Id, unique id prefix, or title."`
	deleteFlags
}

// Run deletes a schedule.
func (c *scheduleDelete) Run(ctx context.Context, a *app) error {
	return c.flags().onSchedule(ctx, a, c.Schedule, deletedOutput{}, func(eng Engine, s perdure.Schedule) error {
		what := fmt.Sprintf("delete %s and the history of its %d fires", s.ID, s.Count)
		if ok, err := c.confirmed(ctx, a, what, what+"?"); !ok {
			return err
		}
		if err := eng.Schedules().Delete(ctx, s.ID, operator); err != nil {
			return err
		}
		a.message("deleted %s", s.ID)
		return c.showForPrograms(ctx, a, string(s.ID), deletedOutput{string(s.ID), true})
	})
}
