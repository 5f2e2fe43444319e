package access

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// idTaken returns the error for an id that belongs to another org. It reveals nothing else.
func idTaken(kind, id string) error {
	return fmt.Errorf("%s %s: %w: the id is taken", kind, id, perdure.Conflict)
}

// mayCreate checks whether the principal may create a session of an agent.
func (g guardedSessions) mayCreate(ctx context.Context, agent perdure.Agent) (context.Context, Principal, bool, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Write)
	if err == nil {
		err = errors.Join(g.machine.allow(ctx, agent.Model, agent.Metadata), mayGrant(ctx, agent.Permissions))
	}
	return ctx, p, asks, err
}

// notOfKey refuses a chosen id that belongs to a key. Only Ensure makes such ids, for the
// principal's own org, so that no org can take the ids of another org's keys.
func notOfKey(ctx context.Context, id perdure.SessionID) error {
	if _, asks := PrincipalFrom(ctx); asks && id.HasKey() {
		return fmt.Errorf("%w session id %s: it has the form of an id that belongs to a key. "+
			"Give the key instead of the id, or choose another id", perdure.Invalid, id)
	}
	return nil
}

func (g guardedSessions) Create(ctx context.Context, agent perdure.Agent) (engine.Session, error) {
	ctx, _, _, err := g.mayCreate(ctx, agent)
	if err != nil {
		return engine.Session{}, err
	}
	return g.inner.Sessions().Create(ctx, agent)
}

// Ensure finds or creates a session of the principal's org.
func (g guardedSessions) Ensure(ctx context.Context, key string, agent perdure.Agent) (engine.Session, error) {
	ctx, _, _, err := g.mayCreate(ctx, agent)
	if err != nil {
		return engine.Session{}, err
	}
	return g.inner.Sessions().Ensure(ctx, key, agent)
}

// CreateAs creates a session of the principal's org. It does not reveal a session of another
// org, even one with the same id and agent.
func (g guardedSessions) CreateAs(ctx context.Context, id perdure.SessionID, agent perdure.Agent) (engine.Session, error) {
	ctx, p, asks, err := g.mayCreate(ctx, agent)
	if err == nil {
		err = notOfKey(ctx, id)
	}
	if err != nil {
		return engine.Session{}, err
	}
	if other, err := g.foreign(ctx, id); err != nil || other {
		return engine.Session{}, orTaken(err, "session", string(id))
	}
	s, err := g.inner.Sessions().CreateAs(ctx, id, agent)
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

func (g guardedSessions) Get(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return engine.Session{}, err
	}
	s, err := g.inner.Sessions().Get(ctx, id)
	if err == nil && asks && s.Org != p.Org {
		return engine.Session{}, missing("session", string(id))
	}
	return s, err
}

func (g guardedSessions) Fork(ctx context.Context, id perdure.SessionID, f engine.Fork) (engine.Session, error) {
	ctx, err := g.session(ctx, Write, id)
	if err == nil {
		err = notOfKey(ctx, f.ID)
	}
	if err != nil {
		return engine.Session{}, err
	}
	if other, err := g.foreign(ctx, f.ID); err != nil || other {
		return engine.Session{}, orTaken(err, "session", string(f.ID))
	}
	return g.inner.Sessions().Fork(ctx, id, f)
}

// Import adds a session to the principal's org. It requires the scope admin, because the file
// itself states what was approved.
func (g guardedSessions) Import(ctx context.Context, r io.Reader, how engine.Import) (engine.Session, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Admin)
	if err != nil {
		return engine.Session{}, err
	}
	how.Check = g.machine.imported(ctx)
	return g.inner.Sessions().Import(ctx, r, how)
}

// Send adds a message to a session.
func (g *Guard) Send(ctx context.Context, id perdure.SessionID, message perdure.Message) (engine.Sent, error) {
	ctx, err := g.session(ctx, Write, id)
	if err == nil {
		err = g.machine.allow(ctx, message.Model, nil)
	}
	if err != nil {
		return engine.Sent{}, err
	}
	return g.inner.Send(ctx, id, message)
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

// Wait waits until a call of a session has ended or awaits input.
func (g guardedHostCalls) Wait(ctx context.Context, id perdure.SessionID, made engine.HostCall) (engine.HostCall, error) {
	var err error
	if made.Task != nil { // the engine checks that the task belongs to the session
		ctx, err = g.task(ctx, Read, made.Task.ID)
	} else {
		ctx, err = g.session(ctx, Read, id)
	}
	if err != nil {
		return made, err
	}
	return g.inner.HostCalls().Wait(ctx, id, made)
}

// CancelWhere requests the end of many tasks of the principal's org.
func (g guardedTasks) CancelWhere(ctx context.Context, o engine.BulkCancel) (engine.Bulk, error) {
	ctx, _, asks, err := g.authorizeScope(ctx, Write)
	if err != nil {
		return engine.Bulk{}, err
	}
	if asks {
		all, err := g.inner.Tasks().List(ctx, o.Filter.Session)
		own, err := ownOnly(ctx, g.Guard, all, err, func(t perdure.Task) perdure.SessionID { return t.Session })
		if err != nil {
			return engine.Bulk{}, err
		}
		o.AllowedSessions = map[perdure.SessionID]bool{}
		for _, t := range own {
			o.AllowedSessions[t.Session] = true
		}
	}
	return g.inner.Tasks().CancelWhere(ctx, o)
}

// Create creates a schedule of a session. Conflict: another session has the id.
func (g guardedSchedules) Create(ctx context.Context, s perdure.Schedule) (perdure.Schedule, error) {
	ctx, err := g.session(ctx, Write, s.Session)
	if err != nil {
		return perdure.Schedule{}, err
	}
	if _, asks := PrincipalFrom(ctx); asks && s.ID != "" {
		known, err := g.inner.Schedules().Get(ctx, s.ID)
		if err == nil && known.Session != s.Session {
			return perdure.Schedule{}, idTaken("schedule", string(s.ID))
		}
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return perdure.Schedule{}, err
		}
	}
	return g.inner.Schedules().Create(ctx, s)
}
