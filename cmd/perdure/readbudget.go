package main

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// readerBudgets implements engine.Budgets for reader.
type readerBudgets struct {
	engine.Budgets
	*reader
}

// Budgets implements engine.Engine.
func (r *reader) Budgets() engine.Budgets { return readerBudgets{r.remoteEngine.Budgets(), r} }

// List implements engine.Engine.
func (r readerBudgets) List(ctx context.Context, f engine.BudgetFilter) ([]budget.Standing, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]budget.Standing,
		error) {
		return eng.Budgets().List(ctx, f)
	})
}

// Entries implements engine.Engine.
func (r readerBudgets) Entries(ctx context.Context, id perdure.BudgetID, limit int) ([]budget.Entry, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]budget.Entry, error) {
		return eng.Budgets().Entries(ctx, id, limit)
	})
}

// Check implements engine.Engine.
func (r readerBudgets) Check(ctx context.Context, id perdure.SessionID) (budget.Report, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (budget.Report,
		error) {
		return eng.Budgets().Check(ctx, id)
	})
}

// Costs implements engine.Engine.
func (r readerBudgets) Costs(ctx context.Context, q engine.CostQuery) (engine.CostReport, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (engine.CostReport,
		error) {
		return eng.Budgets().Costs(ctx, q)
	})
}

// readerAudit implements engine.Audit for reader.
type readerAudit struct {
	engine.Audit
	*reader
}

// Audit implements engine.Engine.
func (r *reader) Audit() engine.Audit { return readerAudit{r.remoteEngine.Audit(), r} }

// List implements engine.Audit.
func (r readerAudit) List(ctx context.Context, q engine.AuditQuery) ([]engine.AuditEntry, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.AuditEntry,
		error) {
		return eng.Audit().List(ctx, q)
	})
}

// readerTokens implements engine.Tokens for reader.
type readerTokens struct {
	engine.Tokens
	*reader
}

// Tokens implements engine.Engine.
func (r *reader) Tokens() engine.Tokens { return readerTokens{r.remoteEngine.Tokens(), r} }

// List implements engine.Tokens.
func (r readerTokens) List(ctx context.Context) ([]engine.Token, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]engine.Token, error) { return eng.Tokens().List(ctx) })
}
