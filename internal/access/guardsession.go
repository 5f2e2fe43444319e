package access

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// idTaken returns the error for an id that belongs to another org. It reveals nothing else.
func idTaken(kind, id string) error {
	return fmt.Errorf("%s %s: %w: the id is taken", kind, id, perdure.Conflict)
}

// NewSession creates a session of the principal's org.
func (g *Guard) NewSession(ctx context.Context, agent perdure.Agent) (engine.Session, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Write)
	if err == nil {
		err = g.machine.allow(ctx, agent.Model, agent.Metadata)
	}
	if err != nil {
		return engine.Session{}, err
	}
	return g.inner.NewSession(ctx, agent)
}

// NewSessionAs creates a session of the principal's org. It does not reveal a session of another
// org, even one with the same id and agent.
func (g *Guard) NewSessionAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (engine.Session, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Write)
	if err == nil {
		err = g.machine.allow(ctx, agent.Model, agent.Metadata)
	}
	if err != nil {
		return engine.Session{}, err
	}
	if other, err := g.foreign(ctx, id); err != nil || other {
		return engine.Session{}, orTaken(err, "session", string(id))
	}
	s, err := g.inner.NewSessionAs(ctx, id, agent)
	if err == nil && asks && s.Org != p.Org { // another org was faster
		return engine.Session{}, idTaken("session", string(id))
	}
	return s, err
}

func orTaken(err error, kind, id string) error {
	if err != nil {
		return err
	}
	return idTaken(kind, id)
}

// Session returns a session.
func (g *Guard) Session(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return engine.Session{}, err
	}
	s, err := g.inner.Session(ctx, id)
	if err == nil && asks && s.Org != p.Org {
		return engine.Session{}, missing("session", string(id))
	}
	return s, err
}

// Sessions lists the sessions of the principal's org.
func (g *Guard) Sessions(ctx context.Context, limit int) ([]engine.Session, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return nil, err
	}
	return g.inner.Sessions(ctx, limit)
}

// SessionsWhere lists the sessions of the principal's org that a filter matches.
func (g *Guard) SessionsWhere(ctx context.Context, f engine.SessionFilter) ([]engine.Session, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return nil, err
	}
	return g.inner.SessionsWhere(ctx, f)
}

// DeleteSession permanently removes a session.
func (g *Guard) DeleteSession(ctx context.Context, id perdure.SessionID) error {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return err
	}
	return g.inner.DeleteSession(ctx, id)
}

// Fork creates a session of the same owner.
func (g *Guard) Fork(ctx context.Context, id perdure.SessionID, f engine.Fork) (engine.Session, error) {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return engine.Session{}, err
	}
	if other, err := g.foreign(ctx, f.ID); err != nil || other {
		return engine.Session{}, orTaken(err, "session", string(f.ID))
	}
	return g.inner.Fork(ctx, id, f)
}

// Export writes a complete session, including its confidential parts.
func (g *Guard) Export(ctx context.Context, id perdure.SessionID, w io.Writer) error {
	ctx, err := g.session(ctx, Admin, id)
	if err != nil {
		return err
	}
	return g.inner.Export(ctx, id, w)
}

// Import adds a session to the principal's org. It requires the scope admin, because the file
// itself states what was approved.
func (g *Guard) Import(ctx context.Context, r io.Reader, how engine.Import) (engine.Session, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Admin)
	if err != nil {
		return engine.Session{}, err
	}
	how.Check = g.machine.imported(ctx)
	return g.inner.Import(ctx, r, how)
}

// Send adds a message to a session.
func (g *Guard) Send(ctx context.Context, id perdure.SessionID, message perdure.Message) error {
	ctx, err := g.session(ctx, Write, id)
	if err == nil {
		err = g.machine.allow(ctx, message.Model, nil)
	}
	if err != nil {
		return err
	}
	return g.inner.Send(ctx, id, message)
}

// Interrupt requests the end of the running turn.
func (g *Guard) Interrupt(ctx context.Context, id perdure.SessionID, by, why string) error {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return err
	}
	return g.inner.Interrupt(ctx, id, by, why)
}

// PauseSession stops new work of a session until it is resumed.
func (g *Guard) PauseSession(ctx context.Context, id perdure.SessionID, by, why string) error {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return err
	}
	return g.inner.PauseSession(ctx, id, by, why)
}

// ResumeSession resumes a session. It is a decision of a person, so it requires the scope approve.
func (g *Guard) ResumeSession(ctx context.Context, id perdure.SessionID, by string) error {
	ctx, err := g.session(ctx, Approve, id)
	if err != nil {
		return err
	}
	return g.inner.ResumeSession(ctx, id, by)
}

// WaitIdle returns when the session is idle.
func (g *Guard) WaitIdle(ctx context.Context, id perdure.SessionID) error {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return err
	}
	return g.inner.WaitIdle(ctx, id)
}

// Events returns events of a session.
func (g *Guard) Events(ctx context.Context, id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.Events(ctx, id, after, limit)
}

// Follow calls fn with every event of a session. The store ends the stream when the session is
// deleted, so all frames belong to one session. Follow checks that session again at the first
// frame, because the id could have been reused after the first check.
func (g *Guard) Follow(ctx context.Context, id perdure.SessionID, after int64, fn func(engine.Frame) error) error {
	inner, err := g.session(ctx, Read, id)
	if err != nil {
		return err
	}
	sure := false
	return g.inner.Follow(inner, id, after, func(f engine.Frame) error {
		if !sure {
			if _, err := g.session(ctx, Read, id); err != nil {
				return err
			}
			sure = true
		}
		return fn(f)
	})
}

// Tools lists the tools, which all orgs share.
func (g *Guard) Tools(ctx context.Context) ([]engine.Tool, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return nil, err
	}
	return g.inner.Tools(ctx)
}

// CallTool runs a tool outside any session.
func (g *Guard) CallTool(ctx context.Context, name string, args json.RawMessage) (perdure.ToolResult, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Write)
	if err != nil {
		return perdure.ToolResult{}, err
	}
	return g.inner.CallTool(ctx, name, args)
}
