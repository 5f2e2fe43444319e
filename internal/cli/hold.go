package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// holdError returns why a message is not answered and how to continue; nil: it is being answered,
// or a person can still be asked here. A pause by a person or by a budget ends only with a command,
// so a run does not wait for it.
func (c *conversation) holdError(ctx context.Context) error {
	c.stream.mu.Lock()
	hold, paused := engine.HoldOf(c.stream.fold), pauseLine(c.stream.fold)
	c.stream.mu.Unlock()
	switch {
	case hold == nil:
		return nil
	case hold.Code == engine.HeldByPerson:
		return &userError{
			code: exitApproval, message: fmt.Sprintf("%s is paused %s", c.stream.id, paused),
			hint: sessionText{c.a}.resumeLine(c.stream.id) + "\ncontinues it; messages sent before that wait",
		}
	case hold.Budget != nil:
		return sessionText{c.a}.budgetHoldError(ctx, c.eng.Budgets(), c.stream.id, *hold)
	}
	return nil
}

// budgetHoldError returns the error of a run whose session a budget stopped. A soft limit needs a
// decision of a person; any other limit is a conflict.
func (a sessionText) budgetHoldError(ctx context.Context, eng engine.Budgets, id perdure.SessionID, hold engine.Hold) error {
	n, run := *hold.Budget, "\n"+program+" run "+a.storeFlags()+"--session "+string(id)
	f := &userError{code: exitConflict,
		message: fmt.Sprintf("%s is paused by a budget, and its messages wait: %s", id, hold.Detail)}
	all, err := eng.List(ctx, engine.BudgetFilter{})
	i := slices.IndexFunc(all, func(s budget.Standing) bool { return s.ID == n.BudgetID })
	known := err == nil && i >= 0
	if known && n.Unpriced == "" { // the current figures are newer than those of the pause
		f.message = fmt.Sprintf("%s is paused by a budget, and its messages wait: %s", id, budgetLine(all[i]))
	}
	switch {
	case hold.Code == engine.HeldBySoftBudget:
		f.code, f.hint = exitApproval,
			program+" budget resume "+a.storeFlags()+string(id)+run+"\ncontinue beyond the soft limit"
	case known:
		f.hint = a.raiseBudgetLine(all[i]) + run + "\nraise the limit and continue"
	default: // the budget is deleted, or not readable for this caller
		f.hint = program + " budget show " + a.storeFlags() + run +
			"\nshow the budgets, and continue when one has something left"
	}
	if !n.ResetsAt.IsZero() {
		f.hint += "\nits next period begins " + moment(n.ResetsAt, a.now())
	}
	return f
}

// budgetLine says how much of a budget is spent.
func budgetLine(s budget.Standing) string {
	soft := ""
	if s.Soft > 0 {
		soft = fmt.Sprintf(", with a soft limit of %s", s.Soft)
	}
	return fmt.Sprintf("spent %s of %s %s%s, of budget %s of %s %s", spent(s), s.Limit, s.Currency, soft, s.ID, s.Scope,
		s.Subject.ID)
}

// raiseBudgetLine returns the command that doubles a limit and keeps all other settings of the
// budget.
func (a sessionText) raiseBudgetLine(s budget.Standing) string {
	limit := max(2*s.Limit, s.Spent+s.Limit)
	if limit <= s.Spent { // a budget of zero
		limit = s.Spent + budget.Amount(1_000_000)
	}
	line := fmt.Sprintf("%s budget set %s%s %s --limit %s --currency %s", program, a.storeFlags(), s.Scope,
		quote(s.Subject.ID), limit, quote(string(s.Currency)))
	if s.Soft > 0 {
		line += " --soft " + s.Soft.String()
	}
	if !s.Period.IsZero() {
		line += " --period " + quote(s.Period.String())
	}
	return line + " --action " + string(s.Action)
}

// explainHold says why a message that was only handed over is not answered yet.
func (c *conversation) explainHold(ctx context.Context) {
	if err := c.holdError(ctx); err != nil {
		c.a.reportError(err)
		return
	}
	c.stream.mu.Lock()
	fold := c.stream.fold.Clone()
	c.stream.mu.Unlock()
	if hold := engine.HoldOf(fold); hold != nil {
		newProgressPrinter(c.a, fold).printHold(fold)
	}
}

// printHold shows what the session was already waiting for when this run began, because no event of
// it follows.
func (v *progressPrinter) printHold(s *perdure.Session) {
	if v.openQuestions == nil {
		for _, p := range openApprovals(s) {
			v.approval(p)
		}
	}
	if s.Turn != nil {
		for _, c := range s.Turn.Calls {
			if c.Phase == perdure.CallAwaitingClient {
				v.print("!", yellow, "%s waits for the client to answer call %s", c.Name, c.ID)
			}
		}
	}
	for _, t := range s.OpenTasks() {
		if t.State == perdure.TaskAwaitingInput {
			delete(v.states, t.ID)
			v.state(t)
		}
	}
}

// openApprovals returns the open approvals in the order of their requests; those that were
// requested at once are in the order of their calls.
func openApprovals(s *perdure.Session) []perdure.Approval {
	position := func(p perdure.Approval) int {
		if s.Turn == nil {
			return -1
		}
		return slices.IndexFunc(s.Turn.Calls, func(c perdure.TurnCall) bool { return c.ID == p.Call })
	}
	return slices.SortedFunc(maps.Values(s.Approvals), func(a, b perdure.Approval) int {
		return cmp.Or(a.RequestedAt.Compare(b.RequestedAt), cmp.Compare(position(a), position(b)),
			strings.Compare(string(a.ID), string(b.ID)))
	})
}
