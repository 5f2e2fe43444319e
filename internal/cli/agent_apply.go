package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli/output"
)

type agentVersions struct {
	Agent string `arg:"" help:"Id, unique id prefix, or name."`
	versionList
}

// Run lists the versions of an agent.
func (c *agentVersions) Run(ctx context.Context, a *app) error {
	return listVersions(ctx, a, c.versionList, func(eng Engine) ([]engine.AgentEntry, error) {
		id, err := a.agent(ctx, eng, c.Agent)
		if err != nil {
			return nil, err
		}
		return eng.Agents().Versions(ctx, id, c.Limit)
	}, func(one engine.AgentEntry) agentVersion {
		return agentVersion{one.Version, one.Status, one.By, one.UpdatedAt, one.Overlay}
	})
}

type agentApply struct {
	File string `arg:"" help:"YAML or JSON file with the name of the agent and the fields of its overlay; - reads stdin."`
	actFlags
}

// agentFile is the full definition of an agent in a file.
type agentFile struct {
	Name      string            `json:"name"`
	HarnessID perdure.HarnessID `json:"harness_id,omitempty"`
	Harness   string            `json:"harness,omitempty"` // the same, by name
	agent.Overlay
}

// readLayer reads the definition of an agent or a harness.
func readLayer(a *app, file string, said any, named func() (string, error)) (err error) {
	var text []byte
	if file == "-" {
		var typed string
		typed, err = a.readInput()
		text = []byte(typed)
	} else if text, err = os.ReadFile(file); err != nil {
		return usageError("cannot read the file: "+err.Error(), "name a file that this user can read, or use - to read stdin")
	}
	if err == nil {
		err = output.Read(text, said)
	}
	if err == nil {
		var name string
		if name, err = named(); err == nil && name == "" {
			err = fmt.Errorf("%w: the name is missing", perdure.Invalid)
		}
	}
	if errors.Is(err, perdure.Invalid) {
		return &userError{err: perdure.Invalid, message: file + ": " + err.Error(),
			hint: "docs/reference/agents.md describes the fields of agents and harnesses"}
	}
	return err
}

// standsOn returns the harness that a file names by id or by name; empty: none.
func standsOn(ctx context.Context, eng Engine, id perdure.HarnessID, name string) (perdure.HarnessID, error) {
	switch {
	case name == "":
		return id, nil
	case id != "":
		return "", usageError("the harness is given by id and by name", "remove one of them")
	}
	one, err := eng.Harnesses().Get(ctx, name)
	return one.ID, err
}

// Run creates or updates an agent. The write names the version that was read, so that it never
// overwrites a concurrent change.
func (c *agentApply) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.AgentEntry{}); err != nil {
		return err
	}
	var said agentFile
	if err := readLayer(a, c.File, &said, func() (string, error) { return said.Name, said.Check() }); err != nil {
		return err
	}
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) (err error) {
		if said.HarnessID, err = standsOn(ctx, eng, said.HarnessID, said.Harness); err != nil {
			return err
		}
		old, err := eng.Agents().Get(ctx, said.Name)
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return err
		}
		if old.Source == engine.AgentFromConfig {
			return &userError{err: perdure.Conflict,
				message: said.Name + " is an agent of mcp.json and cannot be changed here",
				hint:    "change it in mcp.json, or use another name"}
		}
		changes, err := said.changes(old)
		if err != nil {
			return err
		}
		switch {
		case c.DryRun && old.ID == "":
			a.message("would create the agent %s", a.oneLine(said.Name, 300))
			return engine.CheckAgentName(said.Name)
		case len(changes) == 0 && old.ID != "":
			a.message("%s is up to date: version %d is unchanged", a.oneLine(said.Name, 300), old.Version)
			return c.showForPrograms(ctx, a, old.ID, old)
		case c.DryRun:
			a.message("would change %s of %s", a.oneLine(strings.Join(changes, ", "), 300), a.oneLine(said.Name, 300))
			return nil
		}
		one, err := eng.Agents().Put(ctx,
			engine.AgentWrite{Name: said.Name, Version: old.Version, Harness: said.HarnessID, Overlay: said.Overlay})
		if err != nil {
			return err
		}
		if old.ID == "" {
			a.message("created %s: %s", a.oneLine(one.Name, 300), one.ID)
		} else {
			a.message("changed %s of %s: now version %d", a.oneLine(strings.Join(changes, ", "), 300), a.oneLine(one.Name, 300),
				one.Version)
		}
		if _, err := eng.Agents().Effective(ctx, one.ID); err != nil {
			a.message("%s a session of this agent cannot start now: %s", a.colors.stderr.mark(dim, "note:"),
				a.oneLine(err.Error(), 300))
		}
		return c.show(ctx, a, outputObject{one.ID, one, func() { a.fields(agentText{a}.agentFields(one)...) }})
	})
}

// changes returns the names of the fields that differ from the stored agent.
func (f agentFile) changes(kept engine.AgentEntry) ([]string, error) {
	changed, err := changedFields(f.Overlay, kept.Overlay)
	if f.HarnessID != kept.Harness {
		changed = append([]string{"harness_id"}, changed...)
	}
	return changed, err
}

// changedFields returns the names of the fields that differ from the stored overlay.
func changedFields(overlay agent.Overlay, kept json.RawMessage) (changed []string, err error) {
	text, err := json.Marshal(agent.Fold(overlay))
	if err != nil {
		return nil, err
	}
	said, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := perdure.DecodeKnownJSON(text, &said); err != nil {
		return nil, err
	}
	if len(kept) > 0 {
		if err := perdure.DecodeKnownJSON(kept, &is); err != nil {
			return nil, err
		}
	}
	all := maps.Clone(said)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(said[name], is[name]) {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

type agentDelete struct {
	Agent string `arg:"" help:"Id, unique id prefix, or name."`
	deleteFlags
}

// Run deletes an agent.
func (c *agentDelete) Run(ctx context.Context, a *app) error {
	return c.flags().act(ctx, a, deletedOutput{}, func(eng Engine) error {
		id, err := a.agent(ctx, eng, c.Agent)
		if err != nil {
			return err
		}
		one, err := eng.Agents().Get(ctx, id)
		switch {
		case err != nil:
			return err
		case one.Source == engine.AgentFromConfig:
			return &userError{err: perdure.Conflict, message: one.Name + " is an agent of mcp.json and cannot be deleted here",
				hint: "remove it from mcp.json"}
		case one.Status == string(agent.Deleted):
			return &userError{err: perdure.NotFound, message: one.ID + " is already deleted"}
		case c.DryRun:
			a.message("would delete %s, %s", one.ID, a.oneLine(one.Name, 300))
			return nil
		}
		if err := a.confirm(ctx, c.Yes,
			fmt.Sprintf("delete the agent %s? Turns of its sessions stop.", one.Name)); err != nil {
			return err
		}
		if err := eng.Agents().Delete(ctx, id, one.Version); err != nil {
			return err
		}
		a.message("deleted %s, %s; its versions are kept", id, a.oneLine(one.Name, 300))
		return c.showForPrograms(ctx, a, id, deletedOutput{id, true})
	})
}
