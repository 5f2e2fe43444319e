package tool

import (
	"context"

	"github.com/perdure/perdure/budget"
)

// Budgets is what the session may still spend (the port "Budget checker"; BU4). It only reports.
type Budgets interface {
	// CheckBudgets says how all budgets of the session's tree stand, the worst of them first of all.
	CheckBudgets(ctx context.Context) (budget.Report, error)
}
