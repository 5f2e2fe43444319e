package access

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

//go:generate go run ./gen

// Guard is an engine that checks the principal first: every operation requires a scope, and every
// object that is named by an id must belong to the principal's org. An object of another org is
// reported as missing, with the same error as the engine's (ER2).
//
// The table operations.txt says which scope an operation requires and whose object it names; most
// methods are generated from it. Guard embeds no engine, so a new operation of the port does not
// compile until the table has it.
//
// Without a principal in the context it only forwards to the engine.
type Guard struct {
	inner   engine.Engine
	owners  Owners
	machine MachineAccess
	log     *slog.Logger
}

var _ engine.Engine = (*Guard)(nil)

// NewGuard returns a Guard for an engine. It logs requests for objects of another org; log may be
// nil.
func NewGuard(inner engine.Engine, owners Owners, machine MachineAccess, log *slog.Logger) *Guard {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Guard{inner, owners, machine, log}
}

// authorizeScope checks a scope. It returns a context in which the engine works for the principal.
func (g *Guard) authorizeScope(ctx context.Context, s Scope) (context.Context, Principal, bool, error) {
	p, asks := PrincipalFrom(ctx)
	if !asks {
		return ctx, p, false, nil
	}
	// A response shows the object that was changed, so Write and Approve include the reads of their
	// own methods. The API does not let such a principal read anything else.
	acts := s == Read && (p.May(Write) || p.May(Approve))
	if err := p.Check(s); err != nil && !acts {
		return ctx, p, true, err
	}
	return engine.WithOwner(ctx, engine.Owner{Org: p.Org, User: p.User}), p, true, nil
}

// scoped checks a scope for an operation that names no object.
func (g *Guard) scoped(ctx context.Context, s Scope) (context.Context, error) {
	ctx, _, _, err := g.authorizeScope(ctx, s)
	return ctx, err
}

// missing returns the error of the engine for an unknown id.
func missing(kind, id string) error { return fmt.Errorf("%s %s: %w", kind, id, perdure.NotFound) }

// session checks a scope, and that a session belongs to the principal's org.
func (g *Guard) session(ctx context.Context, s Scope, id perdure.SessionID) (context.Context, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, s)
	if err != nil || !asks {
		return ctx, err
	}
	own, err := g.owns(ctx, p, id)
	if err == nil && !own {
		err = missing("session", string(id))
	}
	return ctx, err
}

// owns reports whether a session exists and belongs to the principal's org.
func (g *Guard) owns(ctx context.Context, p Principal, id perdure.SessionID) (bool, error) {
	found, err := g.owners.Owners(ctx, id)
	owner, there := found[id]
	if there && owner.Org != p.Org {
		g.log.Warn("request for an object of another org", "principal", p.ID, "org", p.Org, "session", id)
	}
	return there && owner.Org == p.Org, err
}

// foreign reports whether a session exists and belongs to another org.
func (g *Guard) foreign(ctx context.Context, id perdure.SessionID) (bool, error) {
	p, asks := PrincipalFrom(ctx)
	if !asks {
		return false, nil
	}
	found, err := g.owners.Owners(ctx, id)
	owner, there := found[id]
	return there && owner.Org != p.Org, err
}

// sessionObject is an object with an id that belongs to a session.
type sessionObject struct {
	kind, id string
	find     func(context.Context) (perdure.SessionID, error) // the session
}

// authorizeObject checks a scope, and that an object belongs to a session of the principal's org.
func (g *Guard) authorizeObject(ctx context.Context, s Scope, t sessionObject) (context.Context, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, s)
	if err != nil || !asks {
		return ctx, err
	}
	session, err := t.find(ctx)
	if err != nil {
		return ctx, err
	}
	own, err := g.owns(ctx, p, session)
	if err == nil && !own {
		err = missing(t.kind, t.id)
	}
	return ctx, err
}

func (g *Guard) task(ctx context.Context, s Scope, id perdure.TaskID) (context.Context, error) {
	return g.authorizeObject(ctx, s, sessionObject{"task", string(id), func(ctx context.Context) (perdure.SessionID, error) {
		t, err := g.inner.Tasks().Get(ctx, id)
		return t.Session, err
	}})
}

func (g *Guard) approval(ctx context.Context, s Scope, id perdure.ApprovalID) (context.Context, error) {
	return g.authorizeObject(ctx, s, sessionObject{"approval", string(id), func(ctx context.Context) (perdure.SessionID, error) {
		a, err := g.inner.Approvals().Get(ctx, id)
		return a.Session, err
	}})
}

func (g *Guard) schedule(ctx context.Context, s Scope, id perdure.ScheduleID) (context.Context, error) {
	return g.authorizeObject(ctx, s, sessionObject{"schedule", string(id), func(ctx context.Context) (perdure.SessionID, error) {
		found, err := g.inner.Schedules().Get(ctx, id)
		return found.Session, err
	}})
}

// ownOnly filters a list by the principal's org.
func ownOnly[T any](ctx context.Context, g *Guard, list []T, err error, of func(T) perdure.SessionID) ([]T, error) {
	p, asks := PrincipalFrom(ctx)
	if err != nil || !asks {
		return list, err
	}
	ids := make([]perdure.SessionID, 0, len(list))
	for _, item := range list {
		ids = append(ids, of(item))
	}
	owners, err := g.owners.Owners(ctx, ids...)
	var own []T
	for _, item := range list {
		if owners[of(item)].Org == p.Org {
			own = append(own, item)
		}
	}
	return own, err
}

// subject converts the subject of a budget to its stored form, and checks that it belongs to the
// principal's org.
func (g *Guard) subject(ctx context.Context, p Principal, s budget.Subject) (budget.Subject, error) {
	switch s.Scope {
	case budget.Org:
		s.ID = cmp.Or(s.ID, p.Org)
		if s.ID != p.Org {
			return s, missing("org", s.ID)
		}
	case budget.Session:
		own, err := g.owns(ctx, p, perdure.SessionID(s.ID))
		if err == nil && !own {
			err = missing("session", s.ID)
		}
		return s, err
	}
	return s.StoredIn(p.Org), nil
}

// standings filters budgets by the principal's org, and converts their subjects back.
func (g *Guard) standings(ctx context.Context, p Principal, all []budget.Standing) ([]budget.Standing, error) {
	var sessions []perdure.SessionID
	for _, s := range all {
		if s.Scope == budget.Session {
			sessions = append(sessions, perdure.SessionID(s.Subject.ID))
		}
	}
	owners, err := g.owners.Owners(ctx, sessions...)
	var own []budget.Standing
	for _, s := range all {
		org, plain := s.Subject.Plain()
		if s.Scope == budget.Session {
			org = owners[perdure.SessionID(s.Subject.ID)].Org
		}
		if org == p.Org {
			s.Subject = plain
			own = append(own, s)
		}
	}
	return own, err
}
