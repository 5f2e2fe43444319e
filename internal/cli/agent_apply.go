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
	"github.com/perdure/perdure/internal/cli/form"
)

type agentVersions struct {
	Agent string `arg:"" help:"Its id, or a unique beginning of it, or its name."`
	versions
}

// Run lists what an agent was.
func (c *agentVersions) Run(ctx context.Context, a *app) error {
	return listVersions(ctx, a, c.versions, func(eng Engine) ([]engine.AgentEntry, error) {
		id, err := a.agent(ctx, eng, c.Agent)
		if err != nil {
			return nil, err
		}
		return eng.AgentVersions(ctx, id, c.Limit)
	}, func(one engine.AgentEntry) version {
		return version{one.Version, one.Status, one.By, one.UpdatedAt, one.Overlay}
	})
}

type agentApply struct {
	File   string `arg:"" help:"What it is to be, as YAML or JSON: its name, and the fields of its overlay. - reads it from stdin."`
	DryRun bool   `help:"Only say what would be done."`
	output
}

// agentFile is what a file says of an agent: all of it, and nothing else.
type agentFile struct {
	Name      string            `json:"name"`
	HarnessID perdure.HarnessID `json:"harness_id,omitempty"`
	Harness   string            `json:"harness,omitempty"` // the same, by its name
	agent.Overlay
}

// readLayer reads what a file says of an agent or a harness.
func readLayer(a *app, file string, said any, named func() (string, error)) (err error) {
	var text []byte
	if file == "-" {
		var typed string
		typed, err = a.readInput()
		text = []byte(typed)
	} else if text, err = os.ReadFile(file); err != nil {
		return misuse("the file cannot be read: "+err.Error(), "")
	}
	if err == nil {
		err = form.Read(text, said)
	}
	if err == nil {
		var name string
		if name, err = named(); err == nil && name == "" {
			err = fmt.Errorf("%w: it has no name", perdure.Invalid)
		}
	}
	if errors.Is(err, perdure.Invalid) {
		return &fault{err: perdure.Invalid, what: file + ": " + err.Error(), todo: "docs/reference/agents.md says what an agent and a harness may say"}
	}
	return err
}

// standsOn is the harness that a file names, by its id or by its name; none is none.
func standsOn(ctx context.Context, eng Engine, id perdure.HarnessID, name string) (perdure.HarnessID, error) {
	switch {
	case name == "":
		return id, nil
	case id != "":
		return "", misuse("it is named by its id and by its name", "leave one of them out")
	}
	one, err := eng.Harness(ctx, name)
	return one.ID, err
}

// Run keeps an agent as a file says. What was read is what is written over: nobody's change is lost.
func (c *agentApply) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.AgentEntry{}); err != nil {
		return err
	}
	var said agentFile
	if err := readLayer(a, c.File, &said, func() (string, error) { return said.Name, said.Check() }); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) (err error) {
		if said.HarnessID, err = standsOn(ctx, eng, said.HarnessID, said.Harness); err != nil {
			return err
		}
		old, err := eng.Agent(ctx, said.Name)
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return err
		}
		if old.Source == engine.AgentGiven {
			return &fault{err: perdure.Conflict, what: said.Name + " is an agent of mcp.json, and is not kept", todo: "change it there, or give this one another name"}
		}
		changes, err := said.changes(old)
		if err != nil {
			return err
		}
		switch {
		case c.DryRun && old.ID == "":
			a.say("would make the agent %s", a.line(said.Name, 300))
			return engine.CheckAgentName(said.Name)
		case len(changes) == 0 && old.ID != "":
			a.say("%s is so already: version %d is unchanged", a.line(said.Name, 300), old.Version)
			return c.quietly(ctx, a, old.ID, old)
		case c.DryRun:
			a.say("would change %s of %s", a.line(strings.Join(changes, ", "), 300), a.line(said.Name, 300))
			return nil
		}
		one, err := eng.PutAgent(ctx, engine.AgentWrite{Name: said.Name, Version: old.Version, Harness: said.HarnessID, Overlay: said.Overlay})
		if err != nil {
			return err
		}
		if old.ID == "" {
			a.say("made %s: %s", a.line(one.Name, 300), one.ID)
		} else {
			a.say("changed %s of %s: it is version %d", a.line(strings.Join(changes, ", "), 300), a.line(one.Name, 300), one.Version)
		}
		if _, err := eng.EffectiveAgent(ctx, one.ID); err != nil {
			a.say("%s no session of it could begin now: %s", a.paint.talk.mark(dim, "note:"), a.line(err.Error(), 300))
		}
		return c.show(ctx, a, shown{one.ID, one, func() { a.fields(a.agentFields(one)...) }})
	})
}

// changes are the fields that an agent says otherwise than it is kept, by name.
func (f agentFile) changes(kept engine.AgentEntry) ([]string, error) {
	changed, err := changedFields(f.Overlay, kept.Overlay)
	if f.HarnessID != kept.Harness {
		changed = append([]string{"harness_id"}, changed...)
	}
	return changed, err
}

// changedFields are those that an overlay says otherwise than it is kept, by name.
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
	Agent  string `arg:"" help:"Its id, or a unique beginning of it, or its name."`
	DryRun bool   `help:"Only say what would be done."`
	Yes    bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run deletes an agent.
func (c *agentDelete) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		id, err := a.agent(ctx, eng, c.Agent)
		if err != nil {
			return err
		}
		one, err := eng.Agent(ctx, id)
		switch {
		case err != nil:
			return err
		case one.Source == engine.AgentGiven:
			return &fault{err: perdure.Conflict, what: one.Name + " is an agent of mcp.json, and is not kept", todo: "take it out there"}
		case one.Status == string(agent.Deleted):
			return &fault{err: perdure.NotFound, what: one.ID + " is deleted already"}
		case c.DryRun:
			a.say("would delete %s, %s", one.ID, a.line(one.Name, 300))
			return nil
		}
		if err := a.confirm(ctx, c.Yes, fmt.Sprintf("delete the agent %s? Turns of sessions that were made of it stop.", one.Name)); err != nil {
			return err
		}
		if err := eng.DeleteAgent(ctx, id, one.Version); err != nil {
			return err
		}
		a.say("deleted %s, %s; its versions stay", id, a.line(one.Name, 300))
		return c.quietly(ctx, a, id, gone{id, true})
	})
}
