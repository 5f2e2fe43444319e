package app

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// readerBudgets implements engine.Budgets for reader.
type readerBudgets struct {
	engine.Budgets
	readerNoun[engine.Budgets]
}

func (r *reader) Budgets() engine.Budgets {
	return readerBudgets{r.remoteEngine.Budgets(), nounOf(r, engine.Engine.Budgets)}
}

func (r readerBudgets) List(ctx context.Context, f engine.BudgetFilter) ([]budget.Standing, error) {
	return ask1(ctx, r.readerNoun, engine.Budgets.List, f)
}

func (r readerBudgets) Entries(ctx context.Context, id perdure.BudgetID, limit int) ([]budget.Entry, error) {
	return ask2(ctx, r.readerNoun, engine.Budgets.Entries, id, limit)
}

func (r readerBudgets) Check(ctx context.Context, id perdure.SessionID) (budget.Report, error) {
	return ask1(ctx, r.readerNoun, engine.Budgets.Check, id)
}

func (r readerBudgets) Costs(ctx context.Context, q engine.CostQuery) (engine.CostReport, error) {
	return ask1(ctx, r.readerNoun, engine.Budgets.Costs, q)
}

// readerAudit implements engine.Audit for reader.
type readerAudit struct {
	engine.Audit
	readerNoun[engine.Audit]
}

func (r *reader) Audit() engine.Audit {
	return readerAudit{r.remoteEngine.Audit(), nounOf(r, engine.Engine.Audit)}
}

func (r readerAudit) List(ctx context.Context, q engine.AuditQuery) ([]engine.AuditEntry, error) {
	return ask1(ctx, r.readerNoun, engine.Audit.List, q)
}

// readerTokens implements engine.Tokens for reader.
type readerTokens struct {
	engine.Tokens
	readerNoun[engine.Tokens]
}

func (r *reader) Tokens() engine.Tokens {
	return readerTokens{r.remoteEngine.Tokens(), nounOf(r, engine.Engine.Tokens)}
}

func (r readerTokens) List(ctx context.Context) ([]engine.Token, error) {
	return ask0(ctx, r.readerNoun, engine.Tokens.List)
}
