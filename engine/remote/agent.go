package remote

import (
	"cmp"
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

func (e engineAgents) Get(ctx context.Context, id string) (a engine.AgentEntry, err error) {
	err = e.named(ctx, request{what: "agent", path: "/v1/agents/"}, id, &a)
	return a, err
}

// Effective resolves an agent as a session created now would have it.
func (e engineAgents) Effective(ctx context.Context, id string) (a engine.EffectiveAgent, err error) {
	err = e.named(ctx, request{what: "effective agent", path: "/v1/agents/", suffix: "/effective"}, id, &a)
	return a, err
}

// Versions returns every stored version of an agent, newest first.
func (e engineAgents) Versions(ctx context.Context, id string, limit int) ([]engine.AgentEntry, error) {
	return versions[engine.AgentEntry](ctx, e.Engine, request{what: "agent", path: "/v1/agents/"}, id, limit)
}

func (e engineAgents) Put(ctx context.Context, w engine.AgentWrite) (a engine.AgentEntry, err error) {
	body := struct {
		ID      perdure.AgentID   `json:"id,omitempty"`
		Harness perdure.HarnessID `json:"harness_id,omitempty"`
		agent.Overlay
	}{w.ID, w.Harness, w.Overlay}
	err = e.putStored(ctx, stored{"agent", "/v1/agents/", w.Name, w.Version}, body, &a)
	return a, err
}

// Delete marks a stored agent as deleted.
func (e engineAgents) Delete(ctx context.Context, id string, version int64) error {
	return e.deleteStored(ctx, stored{"agent", "/v1/agents/", id, version})
}

func (e engineHarnesses) List(ctx context.Context) ([]engine.HarnessEntry, error) {
	return list[engine.HarnessEntry](ctx, e.Engine, request{what: "harnesses", path: "/v1/harnesses"}, 0)
}

func (e engineHarnesses) Get(ctx context.Context, id string) (h engine.HarnessEntry, err error) {
	err = e.named(ctx, request{what: "harness", path: "/v1/harnesses/"}, id, &h)
	return h, err
}

// Versions returns every stored version of a harness, newest first.
func (e engineHarnesses) Versions(ctx context.Context, id string, limit int) ([]engine.HarnessEntry, error) {
	return versions[engine.HarnessEntry](ctx, e.Engine, request{what: "harness", path: "/v1/harnesses/"}, id, limit)
}

func (e engineHarnesses) Put(ctx context.Context, w engine.HarnessWrite) (h engine.HarnessEntry, err error) {
	body := struct {
		ID     perdure.HarnessID `json:"id,omitempty"`
		Parent perdure.HarnessID `json:"parent_id,omitempty"`
		agent.Overlay
	}{w.ID, w.Parent, w.Overlay}
	err = e.putStored(ctx, stored{"harness", "/v1/harnesses/", w.Name, w.Version}, body, &h)
	return h, err
}

// Delete marks a harness as deleted.
func (e engineHarnesses) Delete(ctx context.Context, id string, version int64) error {
	return e.deleteStored(ctx, stored{"harness", "/v1/harnesses/", id, version})
}

// stored is an agent or a harness that is written.
type stored struct {
	noun, collection string
	name             string // or id
	version          int64  // the version that was read; 0: none
}

func (s stored) String() string { return fmt.Sprintf("%s %.80q", s.noun, s.name) }

func (s stored) path() string { return s.collection + keySegment(s.name) }

// putStored adds or replaces an agent or a harness.
func (e *Engine) putStored(ctx context.Context, s stored, body, into any) error {
	if s.name == "" { // an empty name cannot be part of the path
		return fmt.Errorf("put %s: %w", s.noun, engine.CheckAgentName(s.name))
	}
	header, err := e.versionCondition(ctx, s, map[string]string{ifNoneMatch: "*"})
	if err == nil {
		_, err = e.call(ctx, request{what: "put " + s.String(), path: s.path(), body: body, put: true, header: header}, into)
	}
	return err
}

// deleteStored marks an agent or a harness as deleted.
func (e *Engine) deleteStored(ctx context.Context, s stored) error {
	if s.name == "" {
		return fmt.Errorf("delete %s: %w", s.noun, perdure.NotFound)
	}
	header, err := e.versionCondition(ctx, s, nil)
	if err == nil {
		_, err = e.call(ctx, request{what: "delete " + s.String(), path: s.path(), remove: true, header: header}, nil)
	}
	return err
}

// versionCondition returns the header with the condition that an agent or harness still has the
// version that was read, or without, if none was read. Conflict: it has another one.
func (e *Engine) versionCondition(ctx context.Context, s stored, without map[string]string) (map[string]string, error) {
	if s.version == 0 {
		return without, nil
	}
	var now struct {
		Source  string `json:"source"`
		Version int64  `json:"version"`
	}
	header, err := e.call(ctx, request{what: s.String(), path: s.path()}, &now)
	switch {
	case err != nil:
		return nil, err
	case now.Source != engine.AgentFromConfig && now.Version != s.version:
		return nil, fmt.Errorf("%s: %w: version %d was read, but the current version is %d; read it again",
			s, perdure.Conflict, s.version, now.Version)
	}
	return map[string]string{ifMatch: header.Get("ETag")}, nil
}

// CreateFromAgent creates a session from a stored or configured agent.
func (e engineSessions) CreateFromAgent(ctx context.Context, o engine.AgentSessionRequest) (engine.Session, error) {
	o.ID = cmp.Or(o.ID, perdure.FormatID[perdure.SessionID](uuid.Must(uuid.NewV7())))
	body := struct {
		ID       perdure.SessionID `json:"id"`
		Agent    string            `json:"agent_id"`
		Title    string            `json:"title,omitempty"`
		Labels   perdure.Labels    `json:"labels,omitzero"`
		Model    string            `json:"model,omitempty"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}{o.ID, o.Agent, o.Title, o.Labels, o.Model, o.Metadata}
	return fetch[engine.Session](ctx, e.Engine, request{
		what: fmt.Sprintf("start a session of agent %.80q", o.Agent), path: "/v1/sessions", body: body, noTimeout: true,
	})
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
