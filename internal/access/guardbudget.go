package access

import (
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

func (g guardedBudgets) Set(ctx context.Context, b budget.Budget, by string) (budget.Standing, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Admin)
	if err != nil {
		return budget.Standing{}, err
	}
	if asks {
		if b.Subject, err = g.subject(ctx, p, b.Subject); err != nil {
			return budget.Standing{}, err
		}
	}
	set, err := g.inner.Budgets().Set(ctx, b, by)
	if asks {
		_, set.Subject = set.Subject.Plain()
	}
	return set, err
}

func (g guardedBudgets) List(ctx context.Context, f engine.BudgetFilter) ([]budget.Standing, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return nil, err
	}
	if !asks {
		return g.inner.Budgets().List(ctx, f)
	}
	all, err := g.inner.Budgets().List(ctx, engine.BudgetFilter{Scope: f.Scope})
	if err != nil {
		return nil, err
	}
	own, err := g.standings(ctx, p, all)
	return slices.DeleteFunc(own,
		func(s budget.Standing) bool { return f.Subject != "" && f.Subject != s.Subject.ID }), err
}

// budget checks a scope, and that a budget belongs to the principal's org.
func (g *Guard) budget(ctx context.Context, s Scope, id perdure.BudgetID, what string) (context.Context, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, s)
	if err != nil || !asks {
		return ctx, err
	}
	all, err := g.inner.Budgets().List(ctx, engine.BudgetFilter{})
	if err != nil {
		return ctx, err
	}
	own, err := g.standings(ctx, p, all)
	if err == nil && !slices.ContainsFunc(own, func(s budget.Standing) bool { return s.ID == id }) {
		err = fmt.Errorf("%s %s: %w", what, id, perdure.NotFound)
	}
	return ctx, err
}

func (g guardedBudgets) Remove(ctx context.Context, id perdure.BudgetID) error {
	ctx, err := g.budget(ctx, Admin, id, "remove budget")
	if err != nil {
		return err
	}
	return g.inner.Budgets().Remove(ctx, id)
}

func (g guardedBudgets) Entries(ctx context.Context, id perdure.BudgetID, limit int) ([]budget.Entry, error) {
	ctx, err := g.budget(ctx, Read, id, "the ledger of budget")
	if err != nil {
		return nil, err
	}
	return g.inner.Budgets().Entries(ctx, id, limit)
}

func (g guardedBudgets) Check(ctx context.Context, id perdure.SessionID) (budget.Report, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return budget.Report{}, err
	}
	report, err := g.inner.Budgets().Check(ctx, id)
	if _, asks := PrincipalFrom(ctx); asks {
		for i := range report.Budgets {
			_, report.Budgets[i].Subject = report.Budgets[i].Subject.Plain()
		}
	}
	return report, err
}

// Create creates a token. A principal can grant only scopes that it has, and only Root can
// create tokens for another org.
func (g guardedTokens) Create(ctx context.Context, o engine.TokenRequest) (engine.IssuedToken, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Admin)
	if err != nil {
		return engine.IssuedToken{}, err
	}
	if asks {
		if o.Org != "" && o.Org != p.Org && p.ID != Root {
			return engine.IssuedToken{}, fmt.Errorf("%w: the token %s belongs to the org %s "+
				"and cannot create tokens for another org", perdure.Denied, p.ID, p.Org)
		}
		for _, s := range o.Scopes {
			if Scope(s).Valid() && !p.May(Scope(s)) {
				return engine.IssuedToken{}, fmt.Errorf("%w: the token %s does not have the scope %s "+
					"and cannot grant it", perdure.Denied, p.ID, s)
			}
		}
		if len(o.Scopes) == 0 && (!p.May(Read) || !p.May(Write)) {
			return engine.IssuedToken{}, fmt.Errorf("%w: the token %s cannot grant read and write; "+
				"name scopes that it has", perdure.Denied, p.ID)
		}
	}
	return g.inner.Tokens().Create(ctx, o)
}

// List lists the tokens of the principal's org. Root sees all tokens, because it can create
// tokens for any org.
func (g guardedTokens) List(ctx context.Context) ([]engine.Token, error) {
	inner, p, _, err := g.authorizeScope(ctx, Admin)
	if err != nil {
		return nil, err
	}
	if p.ID == Root {
		inner = ctx
	}
	return g.inner.Tokens().List(inner)
}

func (g guardedTokens) Revoke(ctx context.Context, id perdure.TokenID, by string) (engine.Token, error) {
	inner, p, _, err := g.authorizeScope(ctx, Admin)
	if err != nil {
		return engine.Token{}, err
	}
	if p.ID == Root {
		inner = ctx
	}
	return g.inner.Tokens().Revoke(inner, id, by)
}
