package remote

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

func budgetPath(id perdure.BudgetID) string { return "/v1/budgets/" + segment(id) }

// Set adds or changes a budget. The server decides who the author is.
func (e engineBudgets) Set(ctx context.Context, b budget.Budget, by string) (set budget.Standing, err error) {
	if b.Scope == budget.Org && b.Subject.ID == "" {
		b.Subject.ID = budget.DefaultOrg
	}
	if !b.Scope.Valid() || b.Subject.ID == "" { // an empty subject cannot be part of the path
		_, err := b.WithDefaults()
		return set, fmt.Errorf("set budget: %w", err)
	}
	body := struct {
		Currency budget.Currency `json:"currency"`
		Limit    string          `json:"limit"`
		Soft     string          `json:"soft,omitempty"`
		Period   string          `json:"period,omitempty"`
		Action   budget.Action   `json:"action,omitempty"`
	}{b.Currency, b.Limit.String(), "", b.Period.String(), b.Action}
	if b.Soft != 0 {
		body.Soft = b.Soft.String()
	}
	r := request{
		what: fmt.Sprintf("set budget of %s %s", b.Scope, b.Subject.ID),
		path: "/v1/budgets/" + segment(b.Scope) + "/" + segment(b.Subject.ID), body: body, put: true, actor: by,
	}
	_, err = e.call(ctx, r, &set)
	return set, err
}

// List lists budgets with their current standing.
func (e engineBudgets) List(ctx context.Context, f engine.BudgetFilter) ([]budget.Standing, error) {
	r := request{what: "budgets", path: "/v1/budgets", query: url.Values{}}
	if f.Scope != "" {
		r.query.Set("scope", string(f.Scope))
	}
	if f.Subject != "" {
		r.query.Set("subject", f.Subject)
	}
	return unpaged[budget.Standing](ctx, e.Engine, r)
}

func (e engineBudgets) Remove(ctx context.Context, id perdure.BudgetID) error {
	_, err := e.call(ctx, request{what: "remove budget " + string(id), path: budgetPath(id), remove: true}, nil)
	return err
}

func (e engineBudgets) Entries(ctx context.Context, id perdure.BudgetID, limit int) ([]budget.Entry, error) {
	r := request{what: "the ledger of budget " + string(id), path: budgetPath(id) + "/entries", query: url.Values{}}
	if limit > 0 {
		r.query.Set("limit", strconv.Itoa(limit))
	}
	return unpaged[budget.Entry](ctx, e.Engine, r)
}

func (e engineBudgets) Check(ctx context.Context, id perdure.SessionID) (budget.Report, error) {
	return fetch[budget.Report](ctx, e.Engine, request{
		what: "check the budgets of " + string(id), path: "/v1/sessions/" + segment(id) + "/budgets",
	})
}

// Costs sums up the usage in the journals.
func (e engineBudgets) Costs(ctx context.Context, q engine.CostQuery) (engine.CostReport, error) {
	r := request{what: "costs", path: "/v1/costs", query: url.Values{}}
	if q.Group != "" {
		r.query.Set("group", q.Group)
	}
	if q.Session != "" {
		r.query.Set("session", string(q.Session))
	}
	if !q.Since.IsZero() {
		r.query.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if !q.Until.IsZero() {
		r.query.Set("until", q.Until.UTC().Format(time.RFC3339Nano))
	}
	if q.Split != "" {
		r.query.Set("split", q.Split)
	}
	return fetch[engine.CostReport](ctx, e.Engine, r)
}
