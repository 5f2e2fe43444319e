package subagent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// started reports whether the subagent of a call exists.
func (p *Port) started(ctx context.Context, key perdure.CallKey) (bool, error) {
	handle, err := store.Read(ctx, p.subagents.core.Store, func(r store.Reader) (store.Spawn, error) {
		return r.Spawns().Get(key)
	})
	switch {
	case errors.Is(err, perdure.NotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("start subagent: %w", err)
	}
	return handle.State != store.SpawnPending, nil
}

// childAgent returns the agent of the subagent and its initial files. It has no permission that its
// parent does not have.
func (p *Port) childAgent(ctx context.Context, o tool.SubagentRequest) (agent perdure.Agent, files []tool.InitialFile, err error) {
	wanted := core.ResolvedAgent{Agent: p.Owner.Agent}
	if o.Agent != "" {
		if wanted, err = p.namedAgent(ctx, o.Agent); err != nil {
			return agent, nil, err
		}
	}
	if len(o.Schema) > 0 {
		if fault := tool.CheckSchema(o.Schema); fault != "" {
			return agent, nil, &tool.Denied{Result: tool.Failf("result_schema is not a valid JSON Schema: %s", fault)}
		}
	}
	parent := p.Owner.Agent
	if parent.Tools == nil && wanted.Agent.Tools != nil { // tools that must be chosen are not in the default set
		parent.Tools = p.subagents.core.Tools.Defaults()
	}
	agent = parent.Child(wanted.Agent)
	agent.Title = o.Name
	agent.Metadata = p.Owner.Agent.Metadata // of the host, for example its workspace
	return agent, wanted.Files, nil
}

// namedAgent finds an agent. If it cannot be used, the model reads why, and which agents there are.
func (p *Port) namedAgent(ctx context.Context, name string) (found core.ResolvedAgent, err error) {
	directory := p.subagents.core.Agents
	if directory == nil {
		return found, noAgent(name, nil)
	}
	found, err = directory.Resolve(ctx, p.Owner.Session, name)
	switch {
	case err == nil, ctx.Err() != nil:
		return found, err
	case errors.Is(err, perdure.NotFound), errors.Is(err, perdure.Conflict), errors.Is(err, perdure.Invalid):
	default:
		return found, fmt.Errorf("start subagent: %w", err)
	}
	all, listed := directory.List(ctx, p.Owner.Session)
	if listed != nil {
		return found, fmt.Errorf("start subagent: %w", listed)
	}
	for _, one := range all {
		if one.Name == name { // it is there, and a part of it is not
			return found, &tool.Denied{Result: tool.Failf("No subagent was started: %s.", err)}
		}
	}
	return found, noAgent(name, all)
}

// namedAgents is how many agents a refusal names.
const namedAgents = 50

// noAgent refuses an agent that the session may not name.
func noAgent(name string, all []core.NamedAgent) error {
	text := fmt.Sprintf("There is no agent %.80q. No agents can be named here: leave agent out for an agent like yourself.", name)
	if len(all) > 0 {
		var names []string
		for _, one := range all[:min(len(all), namedAgents)] {
			names = append(names, one.Name)
		}
		if more := len(all) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		text = fmt.Sprintf("There is no agent %.80q. Name one of these, or leave agent out for an agent like yourself: %s.",
			name, strings.Join(names, ", "))
	}
	return &tool.Denied{Result: tool.Error(text)}
}

// seedHostFiles writes the initial files if the host has the files of sessions. A crash can leave
// them behind without a session; the same call writes the same files again.
func (p *Port) seedHostFiles(ctx context.Context, b *childSpec) error {
	if p.subagents.core.Ports.Files == nil || len(b.files) == 0 {
		return nil
	}
	files, _ := p.subagents.core.Ports.Files(b.child)
	if files == nil {
		return fmt.Errorf("start subagent: initial files: %w: the files of the session cannot be opened", perdure.Unavailable)
	}
	for _, readOnly := range []bool{true, false} { // read-only files, which a host may refuse, come before any other write
		for _, f := range b.files {
			if f.IsReadOnly != readOnly {
				continue
			}
			if err := tool.SeedFile(ctx, files, f); err != nil {
				return fmt.Errorf("start subagent: initial file %s: %w", f.Path, err)
			}
		}
	}
	b.files = nil
	return nil
}
