package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
)

type harnessCommand struct {
	List     harnessList     `cmd:"" help:"List the harnesses that agents may stand on."`
	Show     harnessShow     `cmd:"" help:"Show a harness."`
	Versions harnessVersions `cmd:"" help:"List what a harness was, as each write left it."`
	Apply    harnessApply    `cmd:"" help:"Keep a harness as a file says, or change the one of its name."`
	Delete   harnessDelete   `cmd:"" help:"Delete a harness on which nothing stands."`
}

type harnessList struct {
	output
}

// Run lists harnesses.
func (c *harnessList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Harnesses(ctx)
		if err != nil {
			return err
		}
		return listing[engine.HarnessEntry]{
			noun: "harnesses", head: []string{"HARNESS", "NAME", "STATUS", "VERSION", "PARENT"},
			name: func(one engine.HarnessEntry) string { return string(one.ID) },
			row: func(one engine.HarnessEntry) []cell {
				return []cell{{string(one.ID), bold}, {text: one.Name}, {text: one.Status}, {text: fmt.Sprint(one.Version)}, {text: string(one.Parent)}}
			},
		}.print(ctx, a, c.output, all)
	})
}

type harnessShow struct {
	Harness string `arg:"" help:"Its id, or a unique beginning of it, or its name."`
	output
}

// Run shows a harness.
func (c *harnessShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		one, err := a.harness(ctx, eng, c.Harness)
		if err != nil {
			return err
		}
		return c.show(ctx, a, a.shownHarness(one))
	})
}

func (a *app) shownHarness(one engine.HarnessEntry) shown {
	return shown{string(one.ID), one, func() {
		a.fields(
			field{"harness", cell{string(one.ID), bold}}, field{"name", cell{text: one.Name}}, field{"status", cell{text: one.Status}}, field{"parent", cell{text: string(one.Parent)}},
			field{"overlay", cell{text: string(one.Overlay)}}, field{"version", cell{text: fmt.Sprint(one.Version)}}, field{"by", cell{text: one.By}}, field{"changed", cell{text: moment(one.UpdatedAt, a.now())}},
		)
	}}
}

// harness finds the harness that was typed. One that is deleted is found by its id alone.
func (a *app) harness(ctx context.Context, eng Engine, typed string) (engine.HarnessEntry, error) {
	all, err := eng.Harnesses(ctx)
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	var candidates []candidate
	for _, one := range all {
		switch {
		case one.Status == string(agent.Deleted):
			candidates = append(candidates, candidate{id: string(one.ID), about: one.Name + ", " + one.Status})
		default:
			candidates = append(candidates, candidate{id: string(one.ID), named: one.Name, about: one.Name + ", " + one.Status})
		}
	}
	id, err := a.kind("harness").choose(typed, candidates)
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	return eng.Harness(ctx, id)
}

type harnessVersions struct {
	Harness string `arg:"" help:"Its id, or a unique beginning of it, or its name."`
	versions
}

// Run lists what a harness was.
func (c *harnessVersions) Run(ctx context.Context, a *app) error {
	return listVersions(ctx, a, c.versions, func(eng Engine) ([]engine.HarnessEntry, error) {
		one, err := a.harness(ctx, eng, c.Harness)
		if err != nil {
			return nil, err
		}
		return eng.HarnessVersions(ctx, string(one.ID), c.Limit)
	}, func(one engine.HarnessEntry) version {
		return version{one.Version, one.Status, one.By, one.UpdatedAt, one.Overlay}
	})
}

type harnessApply struct {
	File   string `arg:"" help:"What it is to be, as YAML or JSON: its name, its parent, and the fields of its overlay. - reads it from stdin."`
	DryRun bool   `help:"Only say what would be done."`
	output
}

// harnessFile is what a file says of a harness: all of it, and nothing else.
type harnessFile struct {
	Name     string            `json:"name"`
	ParentID perdure.HarnessID `json:"parent_id,omitempty"`
	Parent   string            `json:"parent,omitempty"` // the same, by its name
	agent.Overlay
}

// Run keeps a harness as a file says. What was read is what is written over: nobody's change is lost.
func (c *harnessApply) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.HarnessEntry{}); err != nil {
		return err
	}
	var said harnessFile
	if err := readLayer(a, c.File, &said, func() (string, error) { return said.Name, said.Check() }); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) (err error) {
		if said.ParentID, err = standsOn(ctx, eng, said.ParentID, said.Parent); err != nil {
			return err
		}
		old, err := eng.Harness(ctx, said.Name)
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return err
		}
		changes, err := changedFields(said.Overlay, old.Overlay)
		if err != nil {
			return err
		}
		if said.ParentID != old.Parent {
			changes = append([]string{"parent_id"}, changes...)
		}
		switch {
		case c.DryRun && old.ID == "":
			a.say("would make the harness %s", a.line(said.Name, 300))
			return engine.CheckAgentName(said.Name)
		case len(changes) == 0 && old.ID != "":
			a.say("%s is so already: version %d is unchanged", a.line(said.Name, 300), old.Version)
			return c.quietly(ctx, a, string(old.ID), old)
		case c.DryRun:
			a.say("would change %s of %s", a.line(strings.Join(changes, ", "), 300), a.line(said.Name, 300))
			return nil
		}
		one, err := eng.PutHarness(ctx, engine.HarnessWrite{Name: said.Name, Version: old.Version, Parent: said.ParentID, Overlay: said.Overlay})
		if err != nil {
			return err
		}
		if old.ID == "" {
			a.say("made %s: %s", a.line(one.Name, 300), one.ID)
		} else {
			a.say("changed %s of %s: it is version %d; sessions that began stay as they are", a.line(strings.Join(changes, ", "), 300), a.line(one.Name, 300), one.Version)
		}
		return c.show(ctx, a, a.shownHarness(one))
	})
}

type harnessDelete struct {
	Harness string `arg:"" help:"Its id, or a unique beginning of it, or its name."`
	DryRun  bool   `help:"Only say what would be done."`
	Yes     bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run deletes a harness.
func (c *harnessDelete) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		one, err := a.harness(ctx, eng, c.Harness)
		switch {
		case err != nil:
			return err
		case one.Status == string(agent.Deleted):
			return &fault{err: perdure.NotFound, what: string(one.ID) + " is deleted already"}
		case c.DryRun:
			a.say("would delete %s, %s, if nothing stands on it", one.ID, a.line(one.Name, 300))
			return nil
		}
		if err := a.confirm(ctx, c.Yes, fmt.Sprintf("delete the harness %s?", one.Name)); err != nil {
			return err
		}
		if err := eng.DeleteHarness(ctx, string(one.ID), one.Version); err != nil {
			return err
		}
		a.say("deleted %s, %s; its versions stay", one.ID, a.line(one.Name, 300))
		return c.quietly(ctx, a, string(one.ID), gone{string(one.ID), true})
	})
}
