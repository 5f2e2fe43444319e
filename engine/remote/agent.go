package remote

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
)

// Agents lists the agents that sessions can be created from.
func (e *Engine) Agents(ctx context.Context) ([]engine.AgentEntry, error) {
	return list[engine.AgentEntry](ctx, e, request{what: "agents", path: "/v1/agents"}, 0)
}

// Agent returns an agent.
func (e *Engine) Agent(ctx context.Context, id string) (a engine.AgentEntry, err error) {
	return a, e.named(ctx, request{what: "agent", path: "/v1/agents/"}, id, &a)
}

// EffectiveAgent resolves an agent as a session created now would have it.
func (e *Engine) EffectiveAgent(ctx context.Context, id string) (a engine.EffectiveAgent, err error) {
	return a, e.named(ctx, request{what: "effective agent", path: "/v1/agents/", suffix: "/effective"}, id, &a)
}

// AgentVersions returns every stored version of an agent, newest first.
func (e *Engine) AgentVersions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	return versions[engine.AgentEntry](ctx, e, request{what: "agent", path: "/v1/agents/"}, id, limit)
}

// PutAgent adds an agent to the store or replaces a stored one.
func (e *Engine) PutAgent(ctx context.Context, w engine.AgentWrite) (a engine.AgentEntry, err error) {
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

// DeleteAgent marks a stored agent as deleted.
func (e *Engine) DeleteAgent(ctx context.Context, id string, version int64) (err error) {
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

// Harnesses lists harnesses.
func (e *Engine) Harnesses(ctx context.Context) ([]engine.HarnessEntry, error) {
	return list[engine.HarnessEntry](ctx, e, request{what: "harnesses", path: "/v1/harnesses"}, 0)
}

// Harness returns a harness.
func (e *Engine) Harness(ctx context.Context, id string) (h engine.HarnessEntry, err error) {
	return h, e.named(ctx, request{what: "harness", path: "/v1/harnesses/"}, id, &h)
}

// HarnessVersions returns every stored version of a harness, newest first.
func (e *Engine) HarnessVersions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	return versions[engine.HarnessEntry](ctx, e, request{what: "harness", path: "/v1/harnesses/"}, id, limit)
}

// PutHarness adds or replaces a harness.
func (e *Engine) PutHarness(ctx context.Context, w engine.HarnessWrite) (h engine.HarnessEntry, err error) {
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

// DeleteHarness marks a harness as deleted.
func (e *Engine) DeleteHarness(ctx context.Context, id string, version int64) (err error) {
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

// StartAgentSession creates a session from a stored or configured agent.
func (e *Engine) StartAgentSession(ctx context.Context, o engine.AgentSessionRequest) (s engine.Session, err error) {
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
