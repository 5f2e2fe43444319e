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

// newBudget is the body of a request that sets a budget. Amounts are decimal numbers, as text.
type newBudget struct {
	Currency budget.Currency `json:"currency" doc:"usd, tokens, calls, model_calls, seconds, bytes, or another currency of the price table."`
	Limit    string          `json:"limit" doc:"A decimal number with at most six decimal places."`
	Soft     string          `json:"soft,omitempty" doc:"Soft limit: above it the session is paused until a person resumes it."`
	Period   string          `json:"period,omitempty" doc:"none, every 24h, rolling 24h, or hour, day, week, month or year followed by a time zone: month Europe/Berlin."`
	Action   budget.Action   `json:"action,omitempty" enum:"warn,pause,stop" doc:"What happens at the limit; default stop."`
}

// of returns the body as a budget of subject s.
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

// ofSubject is the path of the budgets of a subject.
type ofSubject struct {
	Scope   budget.Scope `path:"scope" enum:"session,agent,user,org" example:"agent" doc:"The kind of subject."`
	Subject string       `path:"subject" example:"researcher" doc:"The id of a session, the name of an agent, a user, or an org (the default org is named default)."`
}

// OfBudget is the path of a budget.
type OfBudget struct {
	ID perdure.BudgetID `path:"budget" example:"bdgt_019aa0000000700080000000000000aa" doc:"The budget."`
}

func (a budgetHandlers) register() {
	read(a.API, operation{id: "list-budgets", path: "/v1/budgets", policy: reads, summary: "List budgets with their current standing"},
		func(ctx context.Context, in *struct {
			Scope   budget.Scope `query:"scope" enum:"session,agent,user,org" doc:"Only budgets of this scope."`
			Subject string       `query:"subject" doc:"Only budgets of this subject."`
		}) (*page[budget.Standing], error) {
			return a.listBudgets(ctx, engine.BudgetFilter{Scope: in.Scope, Subject: in.Subject})
		})
	read(a.API, operation{id: "get-budgets", path: "/v1/budgets/{scope}/{subject}", policy: reads, summary: "List the budgets of a subject with their current standing", errors: []int{http.StatusNotFound}},
		func(ctx context.Context, in *ofSubject) (*page[budget.Standing], error) {
			return a.listBudgets(ctx, engine.BudgetFilter{Scope: in.Scope, Subject: in.Subject})
		})
	replace(a.API, operation{
		id: "set-budget", path: "/v1/budgets/{scope}/{subject}", policy: administers, summary: "Set the budget of a subject, one for each currency and period",
		errors: []int{http.StatusNotFound},
	}, body[newBudget]{example: newBudget{Currency: budget.USD, Limit: "20", Soft: "15", Period: "month Europe/Berlin"}}, a.setBudget)
	erase(a.API, operation{
		id: "remove-budget", path: "/v1/budgets/{budget}", policy: administers, summary: "Remove a budget and its ledger", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *OfBudget) (*nothing, error) {
		err := a.cfg.Engine.Budgets().Remove(ctx, in.ID)
		if errors.Is(err, perdure.NotFound) && requestOf(ctx).repeated {
			err = nil
		}
		return &nothing{}, err
	})
	read(a.API, operation{
		id: "list-budget-entries", path: "/v1/budgets/{budget}/entries", policy: reads, summary: "List the ledger entries of a budget, oldest first",
		errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *struct {
		OfBudget
		Limit int `query:"limit" minimum:"1" doc:"Only this many of the latest entries."`
	}) (*page[budget.Entry], error) {
		found, err := a.cfg.Engine.Budgets().Entries(ctx, in.ID, in.Limit)
		return pageOf(found, len(found), nil), err
	})
	read(a.API, operation{
		id: "check-budgets", path: "/v1/sessions/{id}/budgets", policy: reads, summary: "Report the standing of all budgets of a session", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *OfSession) (*single[budget.Report], error) {
		return singleOf(a.cfg.Engine.Budgets().Check(ctx, in.ID))
	})
	read(a.API, operation{
		id: "get-costs", path: "/v1/costs", policy: reads, summary: "Report usage and costs",
	}, func(ctx context.Context, in *struct {
		Group   string            `query:"group" enum:"session,turn,agent,model,tool,schedule,day" doc:"One line for each of these; default session. The line of a schedule contains the turns started by its fires and by the delivery of its runs."`
		Session perdure.SessionID `query:"session" doc:"Only this session and its subagents."`
		Since   time.Time         `query:"since" doc:"Only usage from this time on."`
		Until   time.Time         `query:"until" doc:"Only usage before this time."`
		Split   string            `query:"split" enum:"model,tool" doc:"One line for each model or tool of each member of the group, named by part."`
	}) (*single[engine.CostReport], error) {
		return singleOf(a.cfg.Engine.Budgets().Costs(ctx, engine.CostQuery{
			Group: in.Group, Session: in.Session, Since: in.Since, Until: in.Until, Split: in.Split,
		}))
	})
}

func (a budgetHandlers) listBudgets(ctx context.Context, f engine.BudgetFilter) (*page[budget.Standing], error) {
	found, err := a.cfg.Engine.Budgets().List(ctx, f)
	return pageOf(found, len(found), nil), err
}

func (a budgetHandlers) setBudget(ctx context.Context, in *ofSubject, body newBudget) (*single[budget.Standing], error) {
	b, err := body.of(budget.Subject{Scope: in.Scope, ID: in.Subject})
	if err != nil {
		return nil, err
	}
	return singleOf(a.cfg.Engine.Budgets().Set(ctx, b, requestOf(ctx).actor))
}
