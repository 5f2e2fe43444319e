package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type valueCommand struct {
	Get    valueGet    `cmd:"" help:"Print a value that a session keeps."`
	Set    valueSet    `cmd:"" help:"Write a value."`
	List   valueList   `cmd:"" help:"List the values of a session, without their texts."`
	Delete valueDelete `cmd:"" help:"Remove a value."`
}

type valueGet struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Name    string `arg:"" help:"Under which it is kept."`
	output
}

// Run prints a value: for people its text, and nothing else.
func (c *valueGet) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		v, err := eng.Value(ctx, s.ID, c.Name)
		if err != nil {
			return a.noValue(s, "value", c.Name, err)
		}
		return c.show(ctx, a, shown{v.Key, v, func() { fmt.Fprintln(a.out, a.text(v.Text)) }})
	})
}

// noValue says where to look for a name that is not there.
func (a *app) noValue(s engine.Session, noun, name string, err error) error {
	if !errors.Is(err, perdure.NotFound) {
		return err
	}
	return &fault{err: err, what: fmt.Sprintf("%s keeps no %s %q", s.ID, noun, name), todo: program + " " + noun + " list " + a.place() + string(s.ID) + "  shows them"}
}

type valueSet struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Name    string `arg:"" help:"Under which it is kept."`
	Text    string `arg:"" help:"What it is; @FILE reads it from a file, - from stdin. Whoever reads the session may read it."`
	New     bool   `help:"Only if nothing is kept under it."`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// Run writes a value.
func (c *valueSet) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Value{}); err != nil {
		return err
	}
	text, err := a.argument(c.Text)
	if err != nil {
		return err
	}
	return a.inSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			a.say("would write %s to %s in %s", count(len(text), "byte"), a.line(c.Name, cellChars), s.ID)
			return nil
		}
		v, err := eng.SetValue(ctx, s.ID, engine.ValueWrite{Key: c.Name, Text: text, New: c.New})
		if c.New && errors.Is(err, perdure.Conflict) {
			return &fault{
				err: err, what: err.Error(),
				todo: "without --new it is written over; " + program + " value get " + a.place() + string(s.ID) + " " + quote(c.Name) + "  shows what is there",
			}
		}
		if err != nil {
			return err
		}
		a.say("%s has %s, in its version %d", a.line(v.Key, cellChars), count(len(text), "byte"), v.Version)
		return c.quietly(ctx, a, v.Key, v)
	})
}

type valueList struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Prefix  string `help:"Only those whose names begin so." placeholder:"TEXT"`
	output
}

// Run lists values.
func (c *valueList) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Values(ctx, s.ID, c.Prefix)
		if err != nil {
			return err
		}
		now := a.now()
		return listing[engine.ValueStat]{
			noun: "values", head: []string{"NAME", "VERSION", "CHANGED"},
			name: func(v engine.ValueStat) string { return v.Key },
			row: func(v engine.ValueStat) []cell {
				return []cell{{v.Key, bold}, {text: fmt.Sprint(v.Version)}, {text: ago(v.UpdatedAt, now)}}
			},
		}.print(ctx, a, c.output, all)
	})
}

type valueDelete struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Name    string `arg:"" help:"Under which it is kept."`
	DryRun  bool   `help:"Only say what would be done."`
	Yes     bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run removes a value.
func (c *valueDelete) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.inSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		return removal{a, c.output, c.DryRun, c.Yes}.of(ctx, "value", c.Name, func() error {
			return a.noValue(s, "value", c.Name, eng.RemoveValue(ctx, s.ID, c.Name, nil))
		})
	})
}

// removal is how a named thing is removed.
type removal struct {
	a        *app
	out      output
	dry, yes bool
}

// of asks, removes, and says so.
func (r removal) of(ctx context.Context, noun, name string, remove func() error) error {
	what := noun + " " + r.a.line(name, cellChars)
	if r.dry {
		r.a.say("would remove the %s", what)
		return nil
	}
	if err := r.a.confirm(ctx, r.yes, "remove the "+what+" for ever?"); err != nil {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	r.a.say("removed the %s", what)
	return r.out.quietly(ctx, r.a, name, gone{name, true})
}
