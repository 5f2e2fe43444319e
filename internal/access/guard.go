package access

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// Guard is an engine that looks at who asks, before anything else does: every method asks for a scope, and everything that is
// reached by an id has to be of the principal's org. What is another org's is not there, in the words of the engine (ER2). It
// embeds no engine, so that a new method is not let through unguarded: it does not compile.
//
// Without a principal in the context it is the engine.
type Guard struct {
	inner   engine.Engine
	owners  Owners
	machine Machine
	log     *slog.Logger
}

var _ engine.Engine = (*Guard)(nil)

// NewGuard returns an engine with a guard in front of it. It logs who asks for what is another org's; log nil: nowhere.
func NewGuard(inner engine.Engine, owners Owners, machine Machine, log *slog.Logger) *Guard {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Guard{inner, owners, machine, log}
}

// enter checks a scope, and returns a context for the engine in which it works for the principal.
func (g *Guard) enter(ctx context.Context, s Scope) (context.Context, Principal, bool, error) {
	p, asks := From(ctx)
	if !asks {
		return ctx, p, false, nil
	}
	acts := s == Read && (p.May(Write) || p.May(Approve)) // an answer shows what was acted on; that nobody reads only, its way in sees to
	if err := p.Check(s); err != nil && !acts {
		return ctx, p, true, err
	}
	return engine.For(ctx, engine.Owner{Org: p.Org, User: p.User}), p, true, nil
}

// missing is what an engine says of an id that it does not know.
func missing(kind, id string) error { return fmt.Errorf("%s %s: %w", kind, id, perdure.NotFound) }

// session checks a scope and that a session is the principal's org's.
func (g *Guard) session(ctx context.Context, s Scope, id perdure.SessionID) (context.Context, error) {
	ctx, p, asks, err := g.enter(ctx, s)
	if err != nil || !asks {
		return ctx, err
	}
	own, err := g.owns(ctx, p, id)
	if err == nil && !own {
		err = missing("session", string(id))
	}
	return ctx, err
}

// owns reports whether a session is there and the principal's org's.
func (g *Guard) owns(ctx context.Context, p Principal, id perdure.SessionID) (bool, error) {
	found, err := g.owners.Owners(ctx, id)
	owner, there := found[id]
	if there && owner.Org != p.Org {
		g.log.Warn("a token asked for what is another org's", "principal", p.ID, "org", p.Org, "session", id)
	}
	return there && owner.Org == p.Org, err
}

// foreign reports whether a session is there and another org's.
func (g *Guard) foreign(ctx context.Context, id perdure.SessionID) (bool, error) {
	p, asks := From(ctx)
	if !asks {
		return false, nil
	}
	found, err := g.owners.Owners(ctx, id)
	owner, there := found[id]
	return there && owner.Org != p.Org, err
}

// thing is something that belongs to a session and has an id.
type thing struct {
	kind, id string
	find     func(context.Context) (perdure.SessionID, error) // the session
}

// reach checks a scope and that a thing belongs to a session of the principal's org.
func (g *Guard) reach(ctx context.Context, s Scope, t thing) (context.Context, error) {
	ctx, p, asks, err := g.enter(ctx, s)
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
	return g.reach(ctx, s, thing{"task", string(id), func(ctx context.Context) (perdure.SessionID, error) {
		t, err := g.inner.Task(ctx, id)
		return t.Session, err
	}})
}

func (g *Guard) approval(ctx context.Context, s Scope, id perdure.ApprovalID) (context.Context, error) {
	return g.reach(ctx, s, thing{"approval", string(id), func(ctx context.Context) (perdure.SessionID, error) {
		a, err := g.inner.Approval(ctx, id)
		return a.Session, err
	}})
}

func (g *Guard) schedule(ctx context.Context, s Scope, id perdure.ScheduleID) (context.Context, error) {
	return g.reach(ctx, s, thing{"schedule", string(id), func(ctx context.Context) (perdure.SessionID, error) {
		found, err := g.inner.Schedule(ctx, id)
		return found.Session, err
	}})
}

// ours keeps what belongs to sessions of the principal's org.
func ours[T any](ctx context.Context, g *Guard, list []T, err error, of func(T) perdure.SessionID) ([]T, error) {
	p, asks := From(ctx)
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

// subject is a budget's subject as it is kept for the principal's org, when it is theirs.
func (g *Guard) subject(ctx context.Context, p Principal, s budget.Subject) (budget.Subject, error) {
	switch s.Scope {
	case budget.Org:
		if s.ID == "" {
			s.ID = p.Org
		}
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
	return s.In(p.Org), nil
}

// standings keeps the budgets of the principal's org, as they are called there.
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
		org, plain := s.Subject.Of()
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
