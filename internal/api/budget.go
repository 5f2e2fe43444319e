package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// newBudget is the body of a budget's setting. Amounts are decimal numbers, as text.
type newBudget struct {
	Currency budget.Currency `json:"currency" doc:"usd, tokens, calls, model_calls, seconds, bytes, or another currency of the table of prices."`
	Limit    string          `json:"limit" doc:"A decimal number, at most six digits behind the point."`
	Soft     string          `json:"soft,omitempty" doc:"Beyond it the session pauses, and a person may let it go on."`
	Period   string          `json:"period,omitempty" doc:"none, every 24h, rolling 24h, or hour, day, week, month or year, with a zone behind it: month Europe/Berlin."`
	Action   budget.Action   `json:"action,omitempty" enum:"warn,pause,stop" doc:"At the limit; stop when it is not said."`
}

// of is the body as a budget of a subject.
func (n newBudget) of(s budget.Subject) (b budget.Budget, err error) {
	b = budget.Budget{Subject: s, Currency: n.Currency, Action: n.Action}
	if b.Limit, err = budget.Parse(n.Limit); err != nil {
		return b, invalid("/limit", "%s", err)
	}
	if n.Soft != "" {
		if b.Soft, err = budget.Parse(n.Soft); err != nil {
			return b, invalid("/soft", "%s", err)
		}
	}
	if b.Period, err = budget.ParsePeriod(n.Period); err != nil {
		return b, invalid("/period", "%s", err)
	}
	return b, nil
}

// ofSubject is the path of a subject's budgets.
type ofSubject struct {
	Scope   budget.Scope `path:"scope" enum:"session,agent,user,org" example:"agent" doc:"What kind of thing the budgets are for."`
	Subject string       `path:"subject" example:"researcher" doc:"Which one: an id, the name of an agent, a user; of org: default."`
}

// OfBudget is the path of a budget.
type OfBudget struct {
	ID perdure.BudgetID `path:"budget" example:"bdgt_019aa0000000700080000000000000aa" doc:"The budget."`
}

type oneBudget struct{ Body budget.Standing }

type oneReport struct{ Body budget.Report }

type oneCosts struct{ Body engine.CostReport }

func (a *API) budgetOperations() {
	read(a, operation{id: "list-budgets", path: "/v1/budgets", policy: reads, summary: "List budgets, as they stand now"},
		func(ctx context.Context, in *struct {
			Scope   budget.Scope `query:"scope" enum:"session,agent,user,org" doc:"Only those of this scope."`
			Subject string       `query:"subject" doc:"Only those of this subject."`
		}) (*page[budget.Standing], error) {
			return a.listBudgets(ctx, engine.BudgetFilter{Scope: in.Scope, Subject: in.Subject})
		})
	read(a, operation{id: "get-budgets", path: "/v1/budgets/{scope}/{subject}", policy: reads, summary: "List the budgets of a subject, as they stand now", errors: []int{http.StatusNotFound}},
		func(ctx context.Context, in *ofSubject) (*page[budget.Standing], error) {
			return a.listBudgets(ctx, engine.BudgetFilter{Scope: in.Scope, Subject: in.Subject})
		})
	replace(a, operation{
		id: "set-budget", path: "/v1/budgets/{scope}/{subject}", policy: administers, summary: "Set a budget: of a subject, a currency and a period there is one",
		errors: []int{http.StatusNotFound},
	}, body[newBudget]{example: newBudget{Currency: budget.USD, Limit: "20", Soft: "15", Period: "month Europe/Berlin"}}, a.setBudget)
	erase(a, operation{
		id: "remove-budget", path: "/v1/budgets/{budget}", policy: administers, summary: "Remove a budget with its ledger", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *OfBudget) (*nothing, error) {
		err := a.cfg.Engine.RemoveBudget(ctx, in.ID)
		if errors.Is(err, perdure.NotFound) && requestOf(ctx).again {
			err = nil
		}
		return &nothing{}, err
	})
	read(a, operation{
		id: "list-budget-entries", path: "/v1/budgets/{budget}/entries", policy: reads, summary: "Read the ledger of a budget, oldest line first",
		errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *struct {
		OfBudget
		Limit int `query:"limit" minimum:"1" doc:"Only the last so many lines."`
	}) (*page[budget.Entry], error) {
		found, err := a.cfg.Engine.BudgetEntries(ctx, in.ID, in.Limit)
		return pageOf(found, len(found), nil), err
	})
	read(a, operation{
		id: "check-budgets", path: "/v1/sessions/{id}/budgets", policy: reads, summary: "Say how all budgets of a session stand", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *OfSession) (*oneReport, error) {
		report, err := a.cfg.Engine.CheckBudgets(ctx, in.ID)
		return &oneReport{Body: report}, err
	})
	read(a, operation{
		id: "get-costs", path: "/v1/costs", policy: reads, summary: "Add up what was used and what that cost",
	}, func(ctx context.Context, in *struct {
		Group   string            `query:"group" enum:"session,agent,model,tool,schedule,day" doc:"Of what there is a line each; session when it is not said. A schedule's are the turns that its fires began, and those that its runs began when they came home."`
		Session perdure.SessionID `query:"session" doc:"Only this session and its subagents."`
		Since   time.Time         `query:"since" doc:"Only what was used from this moment on."`
	}) (*oneCosts, error) {
		report, err := a.cfg.Engine.Costs(ctx, engine.CostQuery{Group: in.Group, Session: in.Session, Since: in.Since})
		return &oneCosts{Body: report}, err
	})
}

func (a *API) listBudgets(ctx context.Context, f engine.BudgetFilter) (*page[budget.Standing], error) {
	found, err := a.cfg.Engine.Budgets(ctx, f)
	return pageOf(found, len(found), nil), err
}

func (a *API) setBudget(ctx context.Context, in *ofSubject, body newBudget) (*oneBudget, error) {
	b, err := body.of(budget.Subject{Scope: in.Scope, ID: in.Subject})
	if err != nil {
		return nil, err
	}
	set, err := a.cfg.Engine.SetBudget(ctx, b, requestOf(ctx).actor)
	return &oneBudget{Body: set}, err
}
