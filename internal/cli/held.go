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

// held is why nothing that is said is answered, and how to go on; nil: it is answered, or somebody may still be asked. What a
// person or a budget stops waits for a command, so no run waits for it.
func (c *conversation) held(ctx context.Context) error {
	c.stream.mu.Lock()
	hold, paused := engine.HoldOf(c.stream.fold), pauseLine(c.stream.fold)
	c.stream.mu.Unlock()
	switch {
	case hold == nil:
		return nil
	case hold.Code == engine.HeldByPerson:
		return &fault{
			code: exitApproval, what: fmt.Sprintf("%s is paused %s", c.stream.id, paused),
			todo: c.a.resumeLine(c.stream.id) + "\nlets it go on; what is said meanwhile waits",
		}
	case hold.Budget != nil:
		return c.a.unpaid(ctx, c.eng, c.stream.id, *hold)
	}
	return nil
}

// unpaid is how a run ends whose session a budget stopped. One that a person may let go on needs their word; the other one
// is a cap that is reached.
func (a *app) unpaid(ctx context.Context, eng engine.Budgets, id perdure.SessionID, hold engine.Hold) error {
	n, run := *hold.Budget, "\n"+program+" run "+a.place()+"--session "+string(id)
	f := &fault{code: exitConflict, what: fmt.Sprintf("%s is paused by a budget, and what is said to it waits: %s", id, hold.Detail)}
	all, err := eng.Budgets(ctx, engine.BudgetFilter{})
	i := slices.IndexFunc(all, func(s budget.Standing) bool { return s.ID == n.BudgetID })
	known := err == nil && i >= 0
	if known && n.Unpriced == "" { // how it stands now, which is newer than why it stopped the session
		f.what = fmt.Sprintf("%s is paused by a budget, and what is said to it waits: %s", id, standingLine(all[i]))
	}
	switch {
	case hold.Code == engine.HeldBySoftBudget:
		f.code, f.todo = exitApproval, program+" budget resume "+a.place()+string(id)+run+"\nlet it go on beyond that"
	case known:
		f.todo = a.raiseLine(all[i]) + run + "\nraise the limit, and let it go on"
	default: // it is gone meanwhile, or not for us to read
		f.todo = program + " budget show " + a.place() + run + "\nshow the budgets, and let it go on where something is left"
	}
	if !n.ResetsAt.IsZero() {
		f.todo += "\nits period begins anew " + moment(n.ResetsAt, a.now())
	}
	return f
}

// standingLine says how much is spent of what.
func standingLine(s budget.Standing) string {
	soft := ""
	if s.Soft > 0 {
		soft = fmt.Sprintf(", with a soft limit of %s", s.Soft)
	}
	return fmt.Sprintf("spent %s of %s %s%s, of budget %s of %s %s", spent(s), s.Limit, s.Currency, soft, s.ID, s.Scope, s.Subject.ID)
}

// raiseLine is the command that doubles a limit, and leaves everything else of the budget as it is.
func (a *app) raiseLine(s budget.Standing) string {
	limit := max(2*s.Limit, s.Spent+s.Limit)
	if limit <= s.Spent { // of a budget of nothing
		limit = s.Spent + budget.Amount(1_000_000)
	}
	line := fmt.Sprintf("%s budget set %s%s %s --limit %s --currency %s", program, a.place(), s.Scope, quote(s.Subject.ID), limit, quote(string(s.Currency)))
	if s.Soft > 0 {
		line += " --soft " + s.Soft.String()
	}
	if !s.Period.IsZero() {
		line += " --period " + quote(s.Period.String())
	}
	return line + " --action " + string(s.Action)
}

// sayHeld says what a message waits for that was only handed over.
func (c *conversation) sayHeld(ctx context.Context) {
	if err := c.held(ctx); err != nil {
		c.a.complain(err)
		return
	}
	c.stream.mu.Lock()
	fold := c.stream.fold.Clone()
	c.stream.mu.Unlock()
	if hold := engine.HoldOf(fold); hold != nil {
		newVoice(c.a, fold).waiting(fold)
	}
}

// waiting tells what a session waited for before this run began: no event of it comes any more.
func (v *voice) waiting(s *perdure.Session) {
	if v.asks == nil {
		for _, p := range openApprovals(s) {
			v.approval(p)
		}
	}
	if s.Turn != nil {
		for _, c := range s.Turn.Calls {
			if c.Phase == perdure.CallRequested {
				v.tell("!", yellow, "%s waits for the client's answer to call %s", c.Name, c.ID)
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

// openApprovals are those that wait for a verdict, in the order in which they were asked for: of those that were asked for at once,
// in that of their calls.
func openApprovals(s *perdure.Session) []perdure.Approval {
	place := func(p perdure.Approval) int {
		if s.Turn == nil {
			return -1
		}
		return slices.IndexFunc(s.Turn.Calls, func(c perdure.TurnCall) bool { return c.ID == p.Call })
	}
	return slices.SortedFunc(maps.Values(s.Approvals), func(a, b perdure.Approval) int {
		return cmp.Or(a.RequestedAt.Compare(b.RequestedAt), cmp.Compare(place(a), place(b)), strings.Compare(string(a.ID), string(b.ID)))
	})
}
