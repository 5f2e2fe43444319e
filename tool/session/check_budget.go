package session

import (
	"context"
	_ "embed" // the text that the model reads
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/tool"
)

// BudgetCapability is the capability of check_budget.
const BudgetCapability = "budget"

const checkBudgetName = "check_budget"

//go:embed check_budget.md
var checkBudgetText string

type checkBudgetIn struct{}

type checkBudgetOut struct {
	State   budget.State  `json:"state" jsonschema:"active, warning, paused, exhausted or no_budgets: the state of the most critical budget"`
	Budgets []shownBudget `json:"budgets"`
}

// shownBudget is one budget as shown to a model.
type shownBudget struct {
	Scope       budget.Scope    `json:"scope"`
	Currency    budget.Currency `json:"currency"`
	State       budget.State    `json:"state"`
	Limit       string          `json:"limit"`
	Balance     string          `json:"balance"`
	SoftLimit   string          `json:"soft_limit,omitempty"`
	PercentLeft int             `json:"percent_left"`
	Period      string          `json:"period"`
	ResetsAt    time.Time       `json:"resets_at,omitzero"`
	Unpriced    int64           `json:"unpriced,omitempty" jsonschema:"Usage without a known price; the balance does not include it"`
}

// CheckBudget returns the tool that reports what the session may still spend (BU4).
func CheckBudget() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        checkBudgetName,
		DisplayName: "Check Budget",
		Narration:   tool.Narration{Started: "Checking the budget", Completed: "Checked the budget[: {result.state}]", Failed: "Could not check the budget"},
		Description: strings.TrimSpace(checkBudgetText),
		Class:       perdure.Pure,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, OpenWorld: new(bool), CapabilityID: BudgetCapability},
	}, checkBudget)
}

func checkBudget(ctx context.Context, _ checkBudgetIn, env tool.Env) (tool.Result, error) {
	if env.Budgets == nil {
		return tool.Missing("Budget checker", checkBudgetName+" requires it to report what may be spent."), nil
	}
	report, err := env.Budgets.CheckBudgets(ctx)
	if err != nil {
		return tool.Result{}, fmt.Errorf("check budgets: %w", err)
	}
	out := checkBudgetOut{State: report.State, Budgets: []shownBudget{}}
	for _, s := range report.Budgets {
		shown := shownBudget{
			Scope: s.Scope, Currency: s.Currency, State: s.State, Limit: s.Limit.String(), Balance: s.Balance.String(),
			PercentLeft: s.PercentLeft, Period: s.Period.String(), ResetsAt: s.ResetsAt, Unpriced: s.Unpriced,
		}
		if s.Soft > 0 {
			shown.SoftLimit = s.Soft.String()
		}
		out.Budgets = append(out.Budgets, shown)
	}
	return tool.Success(out), nil
}
