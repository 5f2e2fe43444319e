package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// subagentDirectory is the agents that a session may name for its subagents: those of the embedding
// program, then the configured ones, then the stored ones that are active. If two have the same
// name, the first one counts. Configured and stored agents belong to the default org, so a session
// of another org has neither.
type subagentDirectory struct{ hostAgents }

var _ core.AgentDirectory = subagentDirectory{}

// List implements core.AgentDirectory.
func (d subagentDirectory) List(ctx context.Context, session perdure.SessionID) ([]core.NamedAgent, error) {
	found := map[string]string{}
	own, err := d.inDefaultOrg(ctx, session)
	if err != nil {
		return nil, err
	}
	if own {
		kept, err := store.Read(ctx, d.cfg.Store, func(r store.Reader) ([]agent.Agent, error) {
			return r.Directory().Agents().List(agent.StatusFilter{Status: agent.Active})
		})
		if err != nil {
			return nil, err
		}
		for _, one := range kept {
			found[one.Name] = one.Overlay.Description
		}
		given, err := d.cfg.Catalogue.Providers.agents()
		if err != nil {
			return nil, err
		}
		for name, one := range given {
			found[name] = one.Description
		}
	}
	for name := range d.cfg.Catalogue.Agents {
		found[name] = ""
	}
	list := make([]core.NamedAgent, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, core.NamedAgent{Name: name, Description: found[name]})
	}
	return list, nil
}

// Resolve implements core.AgentDirectory: the agent is resolved as for a session of its own.
func (d subagentDirectory) Resolve(
	ctx context.Context, session perdure.SessionID, name string,
) (resolved core.ResolvedAgent, err error) {
	if given, ok := d.cfg.Catalogue.Agents[name]; ok {
		return core.ResolvedAgent{Agent: given}, nil
	}
	own, err := d.inDefaultOrg(ctx, session)
	if err == nil && !own {
		err = fmt.Errorf("agent %.80q: %w", name, perdure.NotFound)
	}
	if err != nil {
		return resolved, err
	}
	made, err := d.resolveAgentOrder(ctx, engine.AgentSessionRequest{Agent: name})
	if err != nil {
		return resolved, err
	}
	resolved.Agent = made.agent
	for _, f := range made.files {
		resolved.Files = append(resolved.Files, tool.InitialFile(f))
	}
	return resolved, nil
}

// inDefaultOrg reports whether a session belongs to the default org.
func (d subagentDirectory) inDefaultOrg(ctx context.Context, session perdure.SessionID) (bool, error) {
	row, err := store.Read(ctx, d.cfg.Store, func(r store.Reader) (store.Session, error) { return r.Sessions().Get(session) })
	return cmp.Or(strings.TrimSpace(row.Org), budget.DefaultOrg) == budget.DefaultOrg, err
}
