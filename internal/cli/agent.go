package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
)

type agentCommand struct {
	List agentList `cmd:"" aliases:"ls" help:"List agents, both stored ones and those of mcp.json."`
	Show agentShow `cmd:"" help:"Show an agent as stored, or with everything it inherits."`

	Versions agentVersions `cmd:"" help:"List the versions of an agent."`
	Apply    agentApply    `cmd:"" help:"Create or update an agent from a file."`
	Delete   agentDelete   `cmd:"" aliases:"rm" help:"Delete a stored agent. Turns of its sessions stop."`
}

type agentList struct {
	Source string `help:"Only agents from this source: given (mcp.json) or kept (stored)." placeholder:"SOURCE" enum:",given,kept" default:""`
	outputFlags
}

// Run lists agents.
func (c *agentList) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		all, err := eng.Agents().List(ctx)
		if err != nil {
			return err
		}
		var some []engine.AgentEntry
		for _, one := range all {
			if c.Source == "" || one.Source == c.Source {
				some = append(some, one)
			}
		}
		return outputList[engine.AgentEntry]{
			noun: "agents", head: []string{"AGENT", "NAME", "SOURCE", "STATUS", "VERSION", "DESCRIPTION"},
			name: func(one engine.AgentEntry) string { return one.ID },
			row: func(one engine.AgentEntry) []cell {
				return []cell{{one.ID, bold}, {text: one.Name}, {text: one.Source}, {text: one.Status},
					{text: fmt.Sprint(one.Version)}, {text: one.Description}}
			},
		}.print(ctx, a, c.outputFlags, some)
	})
}

type agentShow struct {
	Agent     string `arg:"" help:"Id, unique id prefix, or name."`
	Effective bool   `help:"Include everything inherited from harnesses and capabilities."`
	outputFlags
}

// Run shows an agent.
func (c *agentShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		id, err := a.agent(ctx, eng, c.Agent)
		if err != nil {
			return err
		}
		if c.Effective {
			one, err := eng.Agents().Effective(ctx, id)
			if err != nil {
				return err
			}
			return c.show(ctx, a, outputObject{id, one, func() { a.fields(effectiveFields(id, one)...) }})
		}
		one, err := eng.Agents().Get(ctx, id)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{id, one, func() { a.fields(agentText{a}.agentFields(one)...) }})
	})
}

func (a agentText) agentFields(one engine.AgentEntry) []field {
	return []field{
		{"agent", cell{one.ID, bold}}, {"name", cell{text: one.Name}}, {"source", cell{text: one.Source}},
		{"status", cell{text: one.Status}},
		{"description", cell{text: one.Description}}, {"harness", cell{text: string(one.Harness)}},
		{"overlay", cell{text: string(one.Overlay)}},
		{"version", cell{text: fmt.Sprint(one.Version)}}, {"by", cell{text: one.By}},
		{"changed", cell{text: moment(one.UpdatedAt, a.now())}},
	}
}

// agent finds an agent by what the user typed.
func (a *app) agent(ctx context.Context, eng Engine, typed string) (string, error) {
	all, err := eng.Agents().List(ctx)
	if err != nil {
		return "", err
	}
	one, err := pick(a.kind("agent"), typed, all, func(one engine.AgentEntry) candidate {
		return definitionCandidate(one.ID, one.Name, one.Source+", ", one.Status)
	})
	return one.ID, err
}

// definitionCandidate describes an agent or a harness. A deleted one is found only by its id.
func definitionCandidate(id, name, origin, status string) candidate {
	if status == string(agent.Deleted) {
		return candidate{id: id, description: name + ", " + status}
	}
	return candidate{id: id, name: name, description: name + ", " + origin + status}
}

func effectiveFields(id string, one engine.EffectiveAgent) []field {
	tools := "all"
	if one.Agent.Tools != nil {
		tools = strings.Join(one.Agent.Tools, " ")
	}
	return []field{
		{"agent", cell{id, bold}}, {"name", cell{text: one.Agent.Name}}, {"model", cell{text: one.Agent.Model}},
		{"instructions", cell{text: one.Agent.Instructions}},
		{"tools", cell{text: tools}}, {"capabilities", cell{text: strings.Join(one.Agent.Capabilities, " ")}},
		{"files", cell{text: strings.Join(one.Files, " ")}},
	}
}
