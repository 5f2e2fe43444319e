package remote

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// Agents lists the agents that sessions can be made of.
func (e *Engine) Agents(ctx context.Context) ([]engine.AgentEntry, error) {
	return list[engine.AgentEntry](ctx, e, request{what: "agents", path: "/v1/agents"}, 0)
}

// Agent returns an agent.
func (e *Engine) Agent(ctx context.Context, id string) (a engine.AgentEntry, err error) {
	return a, e.named(ctx, request{what: "agent", path: "/v1/agents/"}, id, &a)
}

// EffectiveAgent is an agent as a session that begins now would have it.
func (e *Engine) EffectiveAgent(ctx context.Context, id string) (a engine.EffectiveAgent, err error) {
	return a, e.named(ctx, request{what: "effective agent", path: "/v1/agents/", under: "/effective"}, id, &a)
}

// named asks for what is reached by a name. Without one there is nothing.
func (e *Engine) named(ctx context.Context, r request, name string, into any) error {
	r.what = fmt.Sprintf("%s %.80q", r.what, name)
	if name == "" {
		return fmt.Errorf("%s: %w", r.what, perdure.NotFound)
	}
	r.path += keySegment(name) + r.under
	_, err := e.call(ctx, r, into)
	return err
}
