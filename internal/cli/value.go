package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type valueCommand struct {
	Get    valueGet    `cmd:"" help:"Print a value."`
	Set    valueSet    `cmd:"" help:"Set a value."`
	List   valueList   `cmd:"" aliases:"ls" help:"List the values of a session, without their content."`
	Delete valueDelete `cmd:"" aliases:"rm" help:"Delete a value."`
}

type valueGet struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Name    string `arg:"" help:"Name of the value."`
	outputFlags
}

// Run prints a value: on a terminal its text, and nothing else.
func (c *valueGet) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		v, err := eng.Values().Get(ctx, s.ID, c.Name)
		if err != nil {
			return a.valueNotFound(s, "value", c.Name, err)
		}
		return c.show(ctx, a, outputObject{v.Key, v, func() { fmt.Fprintln(a.out, a.text(v.Text)) }})
	})
}

// valueNotFound says how to list names when one does not exist.
func (a *app) valueNotFound(s engine.Session, noun, name string, err error) error {
	if !errors.Is(err, perdure.NotFound) {
		return err
	}
	return &userError{err: err, message: fmt.Sprintf("%s has no %s %q", s.ID, noun, name),
		hint: program + " " + noun + " list " + a.storeFlags() + string(s.ID) + "  shows them"}
}

type valueSet struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Name    string `arg:"" help:"Name of the value."`
	Text    string `arg:"" help:"Content; @FILE reads it from a file, - from stdin. Everyone who can read the session can read it."`
	New     bool   `help:"Fail if the name already exists."`
	actFlags
}

// Run sets a value.
func (c *valueSet) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.Value{}); err != nil {
		return err
	}
	text, err := a.argument(c.Text)
	if err != nil {
		return err
	}
	return a.onSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			a.message("would write %s to %s in %s", count(len(text), "byte"), a.oneLine(c.Name, cellChars), s.ID)
			return nil
		}
		v, err := eng.Values().Set(ctx, s.ID, engine.ValueWrite{Key: c.Name, Text: text, New: c.New})
		if c.New && errors.Is(err, perdure.Conflict) {
			return &userError{
				err: err, message: err.Error(),
				hint: "without --new it is overwritten; " + program + " value get " + a.storeFlags() + string(s.ID) + " " +
					quote(c.Name) + "  shows what is there",
			}
		}
		if err != nil {
			return err
		}
		a.message("set %s to %s, version %d", a.oneLine(v.Key, cellChars), count(len(text), "byte"), v.Version)
		return c.showForPrograms(ctx, a, v.Key, v)
	})
}

type valueList struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Prefix  string `help:"Only names with this prefix." placeholder:"TEXT"`
	outputFlags
}

// Run lists values.
func (c *valueList) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Values().List(ctx, s.ID, c.Prefix)
		if err != nil {
			return err
		}
		now := a.now()
		return outputList[engine.ValueStat]{
			noun: "values", head: []string{"NAME", "VERSION", "CHANGED"},
			name: func(v engine.ValueStat) string { return v.Key },
			row: func(v engine.ValueStat) []cell {
				return []cell{{v.Key, bold}, {text: fmt.Sprint(v.Version)}, {text: ago(v.UpdatedAt, now)}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

type valueDelete struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Name    string `arg:"" help:"Name of the value."`
	deleteFlags
}

// Run deletes a value.
func (c *valueDelete) Run(ctx context.Context, a *app) error {
	return c.flags().onSession(ctx, a, c.Session, deletedOutput{}, func(eng Engine, s engine.Session) error {
		return c.remove(ctx, a, "value", c.Name, func() error {
			return a.valueNotFound(s, "value", c.Name, eng.Values().Remove(ctx, s.ID, c.Name, nil))
		})
	})
}

// remove asks for confirmation, removes a named thing, and reports it.
func (f deleteFlags) remove(ctx context.Context, a *app, noun, name string, remove func() error) error {
	what := noun + " " + a.oneLine(name, cellChars)
	if ok, err := f.confirmed(ctx, a, "remove the "+what, "remove the "+what+" permanently?"); !ok {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	a.message("removed the %s", what)
	return f.showForPrograms(ctx, a, name, deletedOutput{name, true})
}
