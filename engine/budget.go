package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
)

// Budgets manages spending limits (BU1 to BU4).
type Budgets interface {
	// Set adds a budget, or changes limit, soft limit and action of the budget with the same
	// subject, currency and period. A changed budget keeps its start and what it has counted.
	// Sessions that the budget had stopped resume if it now allows them to. The id and the times of
	// b are ignored. Invalid: the budget is not valid; the error says why. NotFound: its session
	// does not exist.
	Set(ctx context.Context, b budget.Budget, by string) (budget.Standing, error)
	// List lists budgets by id, each with its current standing.
	List(ctx context.Context, filter BudgetFilter) ([]budget.Standing, error)
	// Remove removes a budget and its ledger. Sessions that it had stopped resume. NotFound:
	// no such budget.
	Remove(ctx context.Context, id perdure.BudgetID) error
	// Entries returns the last entries of the ledger of a budget, oldest first; limit 0 means
	// all. NotFound: no such budget.
	Entries(ctx context.Context, id perdure.BudgetID, limit int) ([]budget.Entry, error)
	// Check reports the standing of every budget that applies to a session. NotFound: no
	// such session.
	Check(ctx context.Context, id perdure.SessionID) (budget.Report, error)
	// Costs sums up the usage recorded in the journals, grouped and split as q says.
	// Invalid: no such group or split.
	Costs(ctx context.Context, q CostQuery) (CostReport, error)
}

// BudgetFilter narrows a list of budgets. The zero value lists all.
type BudgetFilter struct {
	Scope   budget.Scope // empty: every scope
	Subject string       // empty: every subject
}

// CostQuery selects and groups usage. The zero value selects all usage, grouped by session.
type CostQuery struct {
	Group   string            // session, turn, agent, model, tool, schedule or day (UTC); empty: session
	Session perdure.SessionID // includes its subagents; empty: all sessions
	Since   time.Time         // zero: from the beginning
	Until   time.Time         // exclusive; zero: to the end
	// Split makes a line for each part of a member: for each model or tool. Empty: one line.
	Split string
}

// CostReport is the result of a CostQuery.
type CostReport struct {
	Group  string     `json:"group"`
	AsOf   string     `json:"prices_as_of"` // the date of the price table
	Items  []CostLine `json:"items"`
	Total  CostLine   `json:"total"`
	Source string     `json:"source"` // what the figures are computed from
}

// CostLine is the usage of one member of the group, or of one part of it.
type CostLine struct {
	Key          string `json:"key"`
	Part         string `json:"part,omitempty"` // with a split: the model or tool
	ModelCalls   int64  `json:"model_calls"`
	InputTokens  int64  `json:"input_tokens"`
	CachedTokens int64  `json:"cached_tokens"` // of the input
	OutputTokens int64  `json:"output_tokens"`
	ToolCalls    int64  `json:"tool_calls"`
	Milliseconds int64  `json:"duration_ms"` // spent in models and tools
	// Cost is the known cost by currency. It excludes the calls that Unpriced counts.
	Cost map[budget.Currency]budget.Amount `json:"cost"`
	// Unpriced counts the model calls without a known price. If it is not 0, the total cost is not
	// known.
	Unpriced int64    `json:"unpriced"`
	Models   []string `json:"unpriced_models,omitempty"` // the models of those calls
	// FailedCalls counts the model calls that ended with an error, as before a retry. They are also
	// in the other figures, as their cost is in Cost.
	FailedCalls int64                             `json:"failed_model_calls,omitempty"`
	FailedCost  map[budget.Currency]budget.Amount `json:"failed_cost,omitempty"`
	// FailedUnpriced counts those of them without a known price.
	FailedUnpriced int64 `json:"failed_unpriced,omitempty"`
}

// Cost is what the model and tool calls of a session cost, as a line of a CostReport by session has
// it. Its subagents are not part of it: they have rows of their own.
type Cost struct {
	// Amounts is the known cost by currency. It excludes the calls that Unpriced counts.
	Amounts map[budget.Currency]budget.Amount `json:"amounts"`
	// Unpriced counts the model calls without a known price. If it is not 0, the cost is not known.
	Unpriced int64 `json:"unpriced"`
}
