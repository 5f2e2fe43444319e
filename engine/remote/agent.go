package remote

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
)

// List lists the agents that sessions can be created from.
func (e engineAgents) List(ctx context.Context) ([]engine.AgentEntry, error) {
	return list[engine.AgentEntry](ctx, e.Engine, request{what: "agents", path: "/v1/agents"}, 0)
}

// Get returns an agent.
func (e engineAgents) Get(ctx context.Context, id string) (a engine.AgentEntry, err error) {
	return a, e.named(ctx, request{what: "agent", path: "/v1/agents/"}, id, &a)
}

// Effective resolves an agent as a session created now would have it.
func (e engineAgents) Effective(ctx context.Context, id string) (a engine.EffectiveAgent, err error) {
	return a, e.named(ctx, request{what: "effective agent", path: "/v1/agents/", suffix: "/effective"}, id, &a)
}

// Versions returns every stored version of an agent, newest first.
func (e engineAgents) Versions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	return versions[engine.AgentEntry](ctx, e.Engine, request{what: "agent", path: "/v1/agents/"}, id, limit)
}

// Put adds an agent to the store or replaces a stored one.
func (e engineAgents) Put(ctx context.Context, w engine.AgentWrite) (a engine.AgentEntry, err error) {
	if w.Name == "" { // an empty name cannot be part of the path
		return a, fmt.Errorf("put agent: %w", engine.CheckAgentName(w.Name))
	}
	body := struct {
		ID      perdure.AgentID   `json:"id,omitempty"`
		Harness perdure.HarnessID `json:"harness_id,omitempty"`
		agent.Overlay
	}{w.ID, w.Harness, w.Overlay}
	r := request{
		what: fmt.Sprintf("put agent %.80q", w.Name), path: "/v1/agents/" + keySegment(w.Name), body: body, put: true,
		header: map[string]string{ifNoneMatch: "*"},
	}
	if w.Version != 0 {
		if r.header, err = e.versionCondition(ctx, "agent", w.Name, w.Version); err != nil {
			return a, err
		}
	}
	_, err = e.call(ctx, r, &a)
	return a, err
}

// Delete marks a stored agent as deleted.
func (e engineAgents) Delete(ctx context.Context, id string, version int64) (err error) {
	if id == "" {
		return fmt.Errorf("delete agent: %w", perdure.NotFound)
	}
	r := request{what: fmt.Sprintf("delete agent %.80q", id), path: "/v1/agents/" + keySegment(id), remove: true}
	if version != 0 {
		if r.header, err = e.versionCondition(ctx, "agent", id, version); err != nil {
			return err
		}
	}
	_, err = e.call(ctx, r, nil)
	return err
}

// List lists harnesses.
func (e engineHarnesses) List(ctx context.Context) ([]engine.HarnessEntry, error) {
	return list[engine.HarnessEntry](ctx, e.Engine, request{what: "harnesses", path: "/v1/harnesses"}, 0)
}

// Get returns a harness.
func (e engineHarnesses) Get(ctx context.Context, id string) (h engine.HarnessEntry, err error) {
	return h, e.named(ctx, request{what: "harness", path: "/v1/harnesses/"}, id, &h)
}

// Versions returns every stored version of a harness, newest first.
func (e engineHarnesses) Versions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	return versions[engine.HarnessEntry](ctx, e.Engine, request{what: "harness", path: "/v1/harnesses/"}, id, limit)
}

// Put adds or replaces a harness.
func (e engineHarnesses) Put(ctx context.Context, w engine.HarnessWrite) (h engine.HarnessEntry, err error) {
	if w.Name == "" { // an empty name cannot be part of the path
		return h, fmt.Errorf("put harness: %w", engine.CheckAgentName(w.Name))
	}
	body := struct {
		ID     perdure.HarnessID `json:"id,omitempty"`
		Parent perdure.HarnessID `json:"parent_id,omitempty"`
		agent.Overlay
	}{w.ID, w.Parent, w.Overlay}
	r := request{
		what: fmt.Sprintf("put harness %.80q", w.Name), path: "/v1/harnesses/" + keySegment(w.Name), body: body,
		put: true, header: map[string]string{ifNoneMatch: "*"},
	}
	if w.Version != 0 {
		if r.header, err = e.versionCondition(ctx, "harness", w.Name, w.Version); err != nil {
			return h, err
		}
	}
	_, err = e.call(ctx, r, &h)
	return h, err
}

// Delete marks a harness as deleted.
func (e engineHarnesses) Delete(ctx context.Context, id string, version int64) (err error) {
	if id == "" {
		return fmt.Errorf("delete harness: %w", perdure.NotFound)
	}
	r := request{what: fmt.Sprintf("delete harness %.80q", id), path: "/v1/harnesses/" + keySegment(id), remove: true}
	if version != 0 {
		if r.header, err = e.versionCondition(ctx, "harness", id, version); err != nil {
			return err
		}
	}
	_, err = e.call(ctx, r, nil)
	return err
}

// versionCondition returns the header with the condition that an agent or harness still has a
// version. Conflict: it has another one.
func (e *Engine) versionCondition(ctx context.Context, noun, id string, version int64) (map[string]string, error) {
	var now struct {
		Source  string `json:"source"`
		Version int64  `json:"version"`
	}
	what := fmt.Sprintf("%s %.80q", noun, id)
	path := map[string]string{"agent": "/v1/agents/", "harness": "/v1/harnesses/"}[noun]
	header, err := e.call(ctx, request{what: what, path: path + keySegment(id)}, &now)
	switch {
	case err != nil:
		return nil, err
	case now.Source != engine.AgentFromConfig && now.Version != version:
		return nil, fmt.Errorf("%s: %w: version %d was read, but the current version is %d; read it again",
			what, perdure.Conflict, version, now.Version)
	}
	return map[string]string{ifMatch: header.Get("ETag")}, nil
}

// CreateFromAgent creates a session from a stored or configured agent.
func (e engineSessions) CreateFromAgent(ctx context.Context, o engine.AgentSessionRequest) (s engine.Session, err error) {
	if o.ID == "" {
		o.ID = perdure.FormatID[perdure.SessionID](uuid.Must(uuid.NewV7()))
	}
	body := struct {
		ID       perdure.SessionID `json:"id"`
		Agent    string            `json:"agent_id"`
		Title    string            `json:"title,omitempty"`
		Labels   perdure.Labels    `json:"labels,omitzero"`
		Model    string            `json:"model,omitempty"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}{o.ID, o.Agent, o.Title, o.Labels, o.Model, o.Metadata}
	_, err = e.call(ctx, request{
		what: fmt.Sprintf("start a session of agent %.80q", o.Agent), path: "/v1/sessions", body: body,
	}, &s)
	return s, err
}

// versions lists the stored versions of a named object.
func versions[T any](ctx context.Context, e *Engine, r request, name string, limit int) ([]T, error) {
	r.what = fmt.Sprintf("versions of %s %.80q", r.what, name)
	if name == "" {
		return nil, fmt.Errorf("%s: %w", r.what, perdure.NotFound)
	}
	r.path += keySegment(name) + "/versions"
	return list[T](ctx, e, r, max(limit, 0))
}

// named requests a named object. NotFound: the name is empty.
func (e *Engine) named(ctx context.Context, r request, name string, into any) error {
	r.what = fmt.Sprintf("%s %.80q", r.what, name)
	if name == "" {
		return fmt.Errorf("%s: %w", r.what, perdure.NotFound)
	}
	r.path += keySegment(name) + r.suffix
	_, err := e.call(ctx, r, into)
	return err
}

// List lists the MCP servers whose tools agents may use.
func (e engineConnections) List(ctx context.Context) ([]engine.Connection, error) {
	return list[engine.Connection](ctx, e.Engine, request{what: "connections", path: "/v1/connections"}, 0)
}

// Test connects to a server again. It waits until the server answers or ctx ends.
func (e engineConnections) Test(ctx context.Context, name string) (c engine.Connection, err error) {
	return c, e.named(ctx, request{
		what: "test connection", path: "/v1/connections/", suffix: "/test", body: struct{}{}, noTimeout: true,
	}, name, &c)
}

// Providers lists the configured model providers.
func (e engineConnections) Providers(ctx context.Context) ([]engine.Provider, error) {
	return list[engine.Provider](ctx, e.Engine, request{what: "providers", path: "/v1/providers"}, 0)
}
