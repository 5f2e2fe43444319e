package main

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// Budgets implements engine.Engine.
func (r *reader) Budgets(ctx context.Context, f engine.BudgetFilter) ([]budget.Standing, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]budget.Standing,
		error) {
		return eng.Budgets(ctx, f)
	})
}

// BudgetEntries implements engine.Engine.
func (r *reader) BudgetEntries(ctx context.Context, id perdure.BudgetID, limit int) ([]budget.Entry, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]budget.Entry, error) {
		return eng.BudgetEntries(ctx, id, limit)
	})
}

// CheckBudgets implements engine.Engine.
func (r *reader) CheckBudgets(ctx context.Context, id perdure.SessionID) (budget.Report, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (budget.Report,
		error) {
		return eng.CheckBudgets(ctx, id)
	})
}

// Costs implements engine.Engine.
func (r *reader) Costs(ctx context.Context, q engine.CostQuery) (engine.CostReport, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (engine.CostReport,
		error) {
		return eng.Costs(ctx, q)
	})
}

// Audit implements engine.Audits.
func (r *reader) Audit(ctx context.Context, q engine.AuditQuery) ([]engine.AuditEntry, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.AuditEntry,
		error) {
		return eng.Audit(ctx, q)
	})
}

// Tokens implements engine.Tokens.
func (r *reader) Tokens(ctx context.Context) ([]engine.Token, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]engine.Token, error) { return eng.Tokens(ctx) })
}
