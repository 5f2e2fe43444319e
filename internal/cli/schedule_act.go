package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// onSchedule finds a schedule in an engine that may change it.
func (a *app) onSchedule(ctx context.Context, typed string, dry bool, fn func(Engine, perdure.Schedule) error) error {
	return a.with(ctx, writing(dry), func(eng Engine) error {
		s, err := a.schedule(ctx, eng, typed)
		if err != nil {
			return err
		}
		return fn(eng, s)
	})
}

type scheduleTrigger struct {
	Schedule string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	DryRun   bool   `help:"Only say what would be done."`
	output
}

// Run fires a schedule now.
func (c *scheduleTrigger) Run(ctx context.Context, a *app) error {
	if err := c.suits(perdure.Fire{}); err != nil {
		return err
	}
	return a.onSchedule(ctx, c.Schedule, c.DryRun, func(eng Engine, s perdure.Schedule) error {
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return fmt.Errorf("schedule %s: %w", s.ID, err)
		}
		if c.DryRun {
			a.say("would fire %s now: it %s", s.ID, a.line(does(s.Action), 2*cellChars))
			return nil
		}
		f, err := eng.TriggerSchedule(ctx, s.ID, operator)
		if err != nil {
			return err
		}
		a.say("where nobody works on it, it goes on with: %s run %s--session %s", program, a.place(), s.Session)
		return c.show(ctx, a, shown{string(f.Task) + string(f.Message), f, func() { a.tellFire(f, zone) }})
	})
}

type schedulePause struct {
	Schedule string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	Why      string `help:"Why; it stands in the journal." placeholder:"TEXT"`
	DryRun   bool   `help:"Only say what would be done."`
	output
}

// Run pauses a schedule.
func (c *schedulePause) Run(ctx context.Context, a *app) error {
	if err := c.suits(scheduled{}); err != nil {
		return err
	}
	return a.onSchedule(ctx, c.Schedule, c.DryRun, func(eng Engine, s perdure.Schedule) error {
		if c.DryRun {
			a.say("would pause %s, which is %s", s.ID, a.line(stateOf(s), 200))
			return nil
		}
		s, err := eng.PauseSchedule(ctx, s.ID, operator, c.Why)
		if err != nil {
			return err
		}
		return c.showSchedule(ctx, a, s)
	})
}

type scheduleResume struct {
	Schedule string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	DryRun   bool   `help:"Only say what would be done."`
	output
}

// Run resumes a schedule.
func (c *scheduleResume) Run(ctx context.Context, a *app) error {
	if err := c.suits(scheduled{}); err != nil {
		return err
	}
	return a.onSchedule(ctx, c.Schedule, c.DryRun, func(eng Engine, s perdure.Schedule) error {
		if c.DryRun {
			a.say("would resume %s, which is %s", s.ID, a.line(stateOf(s), 200))
			return nil
		}
		s, err := eng.ResumeSchedule(ctx, s.ID, operator)
		if err != nil {
			return err
		}
		return c.showSchedule(ctx, a, s)
	})
}

type scheduleBackfill struct {
	Schedule string    `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	From     time.Time `required:"" help:"The first moment of the stretch, RFC 3339." placeholder:"TIME"`
	To       time.Time `help:"The last one. Default: now." placeholder:"TIME"`
	DryRun   bool      `help:"Only say which fires it would make."`
	Yes      bool      `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run says how many fires there are to be, asks, and makes them.
func (c *scheduleBackfill) Run(ctx context.Context, a *app) error {
	if err := c.suits(perdure.Fire{}); err != nil {
		return err
	}
	return a.onSchedule(ctx, c.Schedule, c.DryRun, func(eng Engine, s perdure.Schedule) error {
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return fmt.Errorf("schedule %s: %w", s.ID, err)
		}
		stretch := engine.Stretch{From: c.From, To: c.To, DryRun: true, By: operator}
		if stretch.To.IsZero() {
			stretch.To = time.Now().Add(-time.Second)
		}
		fires, err := eng.Backfill(ctx, s.ID, stretch)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would fire %d times", len(fires))
		} else if len(fires) > 0 {
			if err := a.confirm(ctx, c.Yes, fmt.Sprintf("fire %d times?", len(fires))); err != nil {
				return err
			}
			stretch.DryRun = false
			if fires, err = eng.Backfill(ctx, s.ID, stretch); err != nil {
				return err
			}
			a.say("fired %d times", len(fires))
		}
		list := listing[perdure.Fire]{noun: "times without a fire", name: func(f perdure.Fire) string { return f.Nominal.UTC().Format(time.RFC3339) }, tell: func(all []perdure.Fire) {
			for _, f := range all {
				a.tellFire(f, zone)
			}
		}}
		return list.print(ctx, a, c.output, fires)
	})
}

type scheduleDelete struct {
	Schedule string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	DryRun   bool   `help:"Only say what would be done."`
	Yes      bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run deletes a schedule.
func (c *scheduleDelete) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.onSchedule(ctx, c.Schedule, c.DryRun, func(eng Engine, s perdure.Schedule) error {
		if c.DryRun {
			a.say("would delete %s, with the record of its %d fires", s.ID, s.Count)
			return nil
		}
		if err := a.confirm(ctx, c.Yes, fmt.Sprintf("delete %s, with the record of its %d fires?", s.ID, s.Count)); err != nil {
			return err
		}
		if err := eng.DeleteSchedule(ctx, s.ID, operator); err != nil {
			return err
		}
		a.say("deleted %s", s.ID)
		return c.quietly(ctx, a, string(s.ID), gone{string(s.ID), true})
	})
}
