package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/session"
)

// standing is the port, with one budget.
type standing struct{}

func (standing) CheckBudgets(context.Context) (budget.Report, error) {
	a := budget.Account{Budget: budget.Budget{
		Subject: budget.Subject{Scope: budget.Session, ID: "session_1"}, Currency: budget.USD, Limit: budget.Whole(10), Soft: budget.Whole(9), Action: budget.Stop,
	}, Spent: budget.Whole(8)}
	return budget.NewReport([]budget.Standing{a.Standing(a.CreatedAt, false)}), nil
}

// TestCheckBudget pins the text for the model (BU4), and the text without the port (EN2).
func TestCheckBudget(t *testing.T) {
	t.Parallel()
	check := func(ports tool.Ports) string {
		call := tool.Call{Tool: "check_budget", Args: []byte(`{}`)}
		result := execute(t, []tool.Tool{session.CheckBudget()}, call, tool.Env{Ports: ports})
		return string(result.Result) + result.Error
	}
	if got, want := check(tool.Ports{}), "Budget checker not available in this context. check_budget requires it to report what may be spent."; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	want := `{"state":"warning","budgets":[{"scope":"session","currency":"usd","state":"warning","limit":"10","balance":"2","soft_limit":"9","percent_left":20,"period":"none"}]}`
	if got := check(tool.Ports{Budgets: standing{}}); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
