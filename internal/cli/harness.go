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
	List     harnessList     `cmd:"" aliases:"ls" help:"List harnesses."`
	Show     harnessShow     `cmd:"" help:"Show a harness."`
	Versions harnessVersions `cmd:"" help:"List the versions of a harness."`
	Apply    harnessApply    `cmd:"" help:"Create or update a harness from a file."`
	Delete   harnessDelete   `cmd:"" aliases:"rm" help:"Delete a harness that is not in use."`
}

type harnessList struct {
	outputFlags
}

// Run lists harnesses.
func (c *harnessList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Harnesses().List(ctx)
		if err != nil {
			return err
		}
		return outputList[engine.HarnessEntry]{
			noun: "harnesses", head: []string{"HARNESS", "NAME", "STATUS", "VERSION", "PARENT"},
			name: func(one engine.HarnessEntry) string { return string(one.ID) },
			row: func(one engine.HarnessEntry) []cell {
				return []cell{{string(one.ID), bold}, {text: one.Name}, {text: one.Status},
					{text: fmt.Sprint(one.Version)}, {text: string(one.Parent)}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

type harnessShow struct {
	Harness string `arg:"" help:"Id, unique id prefix, or name."`
	outputFlags
}

// Run shows a harness.
func (c *harnessShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		one, err := a.harness(ctx, eng, c.Harness)
		if err != nil {
			return err
		}
		return c.show(ctx, a, agentText{a}.shownHarness(one))
	})
}

func (a agentText) shownHarness(one engine.HarnessEntry) outputObject {
	return outputObject{string(one.ID), one, func() {
		a.fields(
			field{"harness", cell{string(one.ID), bold}}, field{"name", cell{text: one.Name}},
			field{"status", cell{text: one.Status}}, field{"parent", cell{text: string(one.Parent)}},
			field{"overlay", cell{text: string(one.Overlay)}}, field{"version", cell{text: fmt.Sprint(one.Version)}},
			field{"by", cell{text: one.By}}, field{"changed", cell{text: moment(one.UpdatedAt, a.now())}},
		)
	}}
}

// harness finds a harness by what the user typed.
func (a *app) harness(ctx context.Context, eng Engine, typed string) (engine.HarnessEntry, error) {
	all, err := eng.Harnesses().List(ctx)
	if err != nil {
		return engine.HarnessEntry{}, err
	}
	one, err := pick(a.kind("harness"), typed, all, func(one engine.HarnessEntry) candidate {
		return definitionCandidate(string(one.ID), one.Name, "", one.Status)
	})
	if err != nil {
		return one, err
	}
	return eng.Harnesses().Get(ctx, string(one.ID))
}

type harnessVersions struct {
	Harness string `arg:"" help:"Id, unique id prefix, or name."`
	versionList
}

// Run lists the versions of a harness.
func (c *harnessVersions) Run(ctx context.Context, a *app) error {
	return listVersions(ctx, a, c.versionList, func(eng Engine) ([]engine.HarnessEntry, error) {
		one, err := a.harness(ctx, eng, c.Harness)
		if err != nil {
			return nil, err
		}
		return eng.Harnesses().Versions(ctx, string(one.ID), c.Limit)
	}, func(one engine.HarnessEntry) agentVersion {
		return agentVersion{one.Version, one.Status, one.By, one.UpdatedAt, one.Overlay}
	})
}

type harnessApply struct {
	File string `arg:"" help:"YAML or JSON file with the name, the parent and the fields of the overlay; - reads stdin."`
	actFlags
}

// harnessFile is the full definition of a harness in a file.
type harnessFile struct {
	Name     string            `json:"name"`
	ParentID perdure.HarnessID `json:"parent_id,omitempty"`
	Parent   string            `json:"parent,omitempty"` // the same, by name
	agent.Overlay
}

// Run creates or updates a harness. The write names the version that was read, so that it never
// overwrites a concurrent change.
func (c *harnessApply) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.HarnessEntry{}); err != nil {
		return err
	}
	var said harnessFile
	if err := readLayer(a, c.File, &said, func() (string, error) { return said.Name, said.Check() }); err != nil {
		return err
	}
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) (err error) {
		if said.ParentID, err = standsOn(ctx, eng, said.ParentID, said.Parent); err != nil {
			return err
		}
		old, err := eng.Harnesses().Get(ctx, said.Name)
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
			a.message("would create the harness %s", a.oneLine(said.Name, 300))
			return engine.CheckAgentName(said.Name)
		case len(changes) == 0 && old.ID != "":
			a.message("%s is up to date: version %d is unchanged", a.oneLine(said.Name, 300), old.Version)
			return c.showForPrograms(ctx, a, string(old.ID), old)
		case c.DryRun:
			a.message("would change %s of %s", a.oneLine(strings.Join(changes, ", "), 300), a.oneLine(said.Name, 300))
			return nil
		}
		one, err := eng.Harnesses().Put(ctx,
			engine.HarnessWrite{Name: said.Name, Version: old.Version, Parent: said.ParentID, Overlay: said.Overlay})
		if err != nil {
			return err
		}
		if old.ID == "" {
			a.message("created %s: %s", a.oneLine(one.Name, 300), one.ID)
		} else {
			a.message("changed %s of %s: now version %d; existing sessions are not changed",
				a.oneLine(strings.Join(changes, ", "), 300), a.oneLine(one.Name, 300), one.Version)
		}
		return c.show(ctx, a, agentText{a}.shownHarness(one))
	})
}

type harnessDelete struct {
	Harness string `arg:"" help:"Id, unique id prefix, or name."`
	deleteFlags
}

// Run deletes a harness.
func (c *harnessDelete) Run(ctx context.Context, a *app) error {
	return c.flags().act(ctx, a, deletedOutput{}, func(eng Engine) error {
		one, err := a.harness(ctx, eng, c.Harness)
		switch {
		case err != nil:
			return err
		case one.Status == string(agent.Deleted):
			return &userError{err: perdure.NotFound, message: string(one.ID) + " is already deleted"}
		case c.DryRun:
			a.message("would delete %s, %s, if it is not in use", one.ID, a.oneLine(one.Name, 300))
			return nil
		}
		if err := a.confirm(ctx, c.Yes, fmt.Sprintf("delete the harness %s?", one.Name)); err != nil {
			return err
		}
		if err := eng.Harnesses().Delete(ctx, string(one.ID), one.Version); err != nil {
			return err
		}
		a.message("deleted %s, %s; its versions are kept", one.ID, a.oneLine(one.Name, 300))
		return c.showForPrograms(ctx, a, string(one.ID), deletedOutput{string(one.ID), true})
	})
}
