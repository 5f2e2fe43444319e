package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
)

// Budgets cap what may be spent (BU1 to BU4).
type Budgets interface {
	// SetBudget adds a budget, or changes limit, soft limit and action of the one of its subject, currency and period. It counts
	// from when it was set first. Sessions that it had stopped, and that may go on now, do. The id and the moments of b do not
	// count. Invalid: what is wrong with it. NotFound: it is for a session that is not there.
	SetBudget(ctx context.Context, b budget.Budget, by string) (budget.Standing, error)
	// Budgets lists budgets by id, as they stand now.
	Budgets(ctx context.Context, filter BudgetFilter) ([]budget.Standing, error)
	// RemoveBudget removes a budget with its ledger. Sessions that it had stopped go on. NotFound: there is none.
	RemoveBudget(ctx context.Context, id perdure.BudgetID) error
	// BudgetEntries returns the last lines of the ledger of a budget, oldest first; limit 0 means all. NotFound: there is no
	// such budget.
	BudgetEntries(ctx context.Context, id perdure.BudgetID, limit int) ([]budget.Entry, error)
	// CheckBudgets says how all budgets of a session stand. NotFound: no such session.
	CheckBudgets(ctx context.Context, id perdure.SessionID) (budget.Report, error)
}

// BudgetFilter narrows a list of budgets. The zero value lists all.
type BudgetFilter struct {
	Scope   budget.Scope // empty: every scope
	Subject string       // empty: every subject
}

// Costs says what was used and what that cost.
type Costs interface {
	// Costs adds up what the journals say, by a group. Invalid: no such group.
	Costs(ctx context.Context, q CostQuery) (CostReport, error)
}

// CostQuery is what is asked for. The zero value asks for all, by session.
type CostQuery struct {
	Group   string            // session, agent, model, tool, schedule or day (UTC); empty: session
	Session perdure.SessionID // with its subagents; empty: all
	Since   time.Time         // zero: since ever
}

// CostReport is what was used.
type CostReport struct {
	Group  string     `json:"group"`
	AsOf   string     `json:"prices_as_of"` // the day of the table of prices
	Items  []CostLine `json:"items"`
	Total  CostLine   `json:"total"`
	Source string     `json:"source"` // what it is reckoned from
}

// CostLine is what was used by one of a group.
type CostLine struct {
	Key          string `json:"key"`
	ModelCalls   int64  `json:"model_calls"`
	InputTokens  int64  `json:"input_tokens"`
	CachedTokens int64  `json:"cached_tokens"` // of the input
	OutputTokens int64  `json:"output_tokens"`
	ToolCalls    int64  `json:"tool_calls"`
	Milliseconds int64  `json:"duration_ms"` // of models and tools
	// Cost is what is known of the cost, by currency. What Unpriced counts is not in it.
	Cost map[budget.Currency]budget.Amount `json:"cost"`
	// Unpriced is how many model calls have no known price: the cost is not known while there are any.
	Unpriced int64    `json:"unpriced"`
	Models   []string `json:"unpriced_models,omitempty"` // of these models
}
