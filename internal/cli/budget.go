package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

type budgetCommand struct {
	Set    budgetSet     `cmd:"" help:"Create a budget, or change its limit. There is one budget per subject, currency and period; its balance is kept."`
	Show   budgetShow    `cmd:"" help:"Show budgets and what was spent."`
	Ledger budgetLedger  `cmd:"" help:"Show the ledger of a budget. It is append-only."`
	Resume sessionResume `cmd:"" help:"Resume a session that a budget paused, at its soft limit or because of an unknown price."`
	Remove budgetRemove  `cmd:"" aliases:"rm,delete" help:"Remove a budget and its ledger."`
}

type budgetSet struct {
	Scope    string `arg:"" help:"Scope: session, agent, user or org." enum:"session,agent,user,org"`
	Subject  string `arg:"" optional:"" help:"Subject: a session by id, unique id prefix, title or last; an agent by id or name; or a user. Optional for org."`
	Limit    string `help:"Limit: a decimal number with at most six decimal places." placeholder:"N" required:""`
	Currency string `help:"Currency: usd, tokens, calls (of tools), model_calls, seconds, bytes, or another currency of the price table." placeholder:"NAME" default:"usd"`
	Soft     string `help:"Soft limit: beyond it the session pauses until a user resumes it." placeholder:"N"`
	Period   string `help:"Period of the limit: none, every 24h, rolling 24h, or hour, day, week, month or year, optionally followed by a time zone." placeholder:"PERIOD" default:"none"`
	Action   string `help:"Action at the limit: warn (only a warning), pause (until a user resumes the session) or stop (until something is left)." enum:"warn,pause,stop" default:"stop"`
	actFlags
}

// budget parses the flags. The subject is not looked up yet.
func (c *budgetSet) budget() (b budget.Budget, err error) {
	b = budget.Budget{Subject: budget.Subject{Scope: budget.Scope(c.Scope), ID: c.Subject},
		Currency: budget.Currency(c.Currency), Action: budget.Action(c.Action)}
	wrong := func(flag string, err error) error {
		return usageError(fmt.Sprintf("--%s: %s", flag, strings.TrimPrefix(err.Error(), string(perdure.Invalid)+" ")),
			program+" budget set --help  describes the values")
	}
	if b.Limit, err = budget.Parse(c.Limit); err != nil {
		return b, wrong("limit", err)
	}
	if c.Soft != "" {
		if b.Soft, err = budget.Parse(c.Soft); err != nil {
			return b, wrong("soft", err)
		}
	}
	if b.Period, err = budget.ParsePeriod(c.Period); err != nil {
		return b, wrong("period", err)
	}
	return b, nil
}

// Run sets a budget.
func (c *budgetSet) Run(ctx context.Context, a *app) error {
	b, err := c.budget()
	if err != nil {
		return err
	}
	return c.act(ctx, a, budget.Standing{}, func(eng Engine) error {
		if b.Scope == budget.Session {
			s, err := a.session(ctx, eng, c.Subject)
			if err != nil {
				return err
			}
			b.Subject.ID = string(s.ID)
		}
		if c.DryRun {
			a.message("would limit %s %s to %s %s, %s", b.Scope, a.oneLine(b.Subject.ID, cellChars), b.Limit, b.Currency,
				during(b.Period))
			return nil
		}
		set, err := eng.Budgets().Set(ctx, b, operator)
		if err != nil {
			return err
		}
		a.message("%s %s can spend %s %s, %s", set.Scope, a.oneLine(set.Subject.ID, cellChars), set.Limit, set.Currency,
			during(set.Period))
		return c.show(ctx, a, outputObject{string(set.ID), set, func() { a.fields(budgetText{a}.budgetFields(set)...) }})
	})
}

// during describes the period of a limit.
func during(p budget.Period) string {
	if p.IsZero() {
		return "in total"
	}
	return "in each period of " + p.String()
}

// budgetFields returns all fields of a budget.
func (a budgetText) budgetFields(s budget.Standing) []field {
	now := a.now()
	fields := []field{
		{"budget", cell{string(s.ID), bold}},
		{"subject", cell{text: string(s.Scope) + " " + s.Subject.ID}},
		{"state", cell{string(s.State), stateColor(s.State)}},
		{"limit", cell{text: s.Limit.String() + " " + string(s.Currency)}},
		{"spent", cell{text: spent(s)}},
		{"reserved", cell{text: s.Reserved.String()}},
		{"left", cell{text: fmt.Sprintf("%s (%d %%)", s.Balance, s.PercentLeft)}},
	}
	if s.Soft > 0 {
		fields = append(fields, field{"soft limit", cell{text: s.Soft.String()}})
	}
	fields = append(fields, field{"period", cell{text: s.Period.String()}},
		field{"at the limit", cell{text: string(s.Action)}})
	if !s.ResetsAt.IsZero() {
		fields = append(fields, field{"resets", cell{text: moment(s.ResetsAt, now)}})
	}
	return fields
}

// spent formats the spent amount. Work without a known price is listed separately, since it is not
// free.
func spent(s budget.Standing) string {
	if s.Unpriced > 0 {
		return fmt.Sprintf("%s, plus %s of unknown price", s.Spent, count(int(s.Unpriced), "item"))
	}
	return s.Spent.String()
}

func stateColor(s budget.State) color {
	switch s {
	case budget.Active:
		return green
	case budget.Exhausted:
		return red
	}
	return yellow
}

type budgetShow struct {
	Scope   string `arg:"" optional:"" help:"Scope: session, agent, user or org. Default: all." enum:",session,agent,user,org" default:""`
	Subject string `arg:"" optional:"" help:"Only budgets of this subject."`
	outputFlags
}

// budgets describes how budgets are listed.
func budgets() outputList[budget.Standing] {
	return outputList[budget.Standing]{
		noun: "budgets",
		head: []string{"BUDGET", "SUBJECT", "STATE", "SPENT", "LIMIT", "CURRENCY", "PERIOD"},
		name: func(s budget.Standing) string { return string(s.ID) },
		row: func(s budget.Standing) []cell {
			return []cell{
				{string(s.ID), bold}, {text: string(s.Scope) + " " + s.Subject.ID},
				{string(s.State), stateColor(s.State)}, {text: spent(s)},
				{text: s.Limit.String()}, {text: string(s.Currency)}, {text: s.Period.String()},
			}
		},
	}
}

// Run lists budgets.
func (c *budgetShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		filter := engine.BudgetFilter{Scope: budget.Scope(c.Scope), Subject: c.Subject}
		if filter.Scope == budget.Session && c.Subject != "" {
			s, err := a.session(ctx, eng, c.Subject)
			if err != nil {
				return err
			}
			filter.Subject = string(s.ID)
		}
		found, err := eng.Budgets().List(ctx, filter)
		if err != nil {
			return err
		}
		return budgets().print(ctx, a, c.outputFlags, found)
	})
}

type budgetLedger struct {
	Budget string `arg:"" help:"Id or unique id prefix."`
	Limit  int    `help:"Number of last entries; 0 for all." default:"50"`
	outputFlags
}

// Run shows the entries of a ledger.
func (c *budgetLedger) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		b, err := a.budget(ctx, eng, c.Budget)
		if err != nil {
			return err
		}
		found, err := eng.Budgets().Entries(ctx, b.ID, c.Limit)
		if err != nil {
			return err
		}
		now := a.now()
		return outputList[budget.Entry]{
			noun: "entries",
			head: []string{"AT", "KIND", "AMOUNT", "NAME", "SESSION", "WORK"},
			name: func(e budget.Entry) string { return e.Work },
			row: func(e budget.Entry) []cell {
				amount := e.Amount.String()
				switch {
				case e.Unpriced:
					amount = "unknown"
				case e.Estimate:
					amount += " (estimate)"
				}
				return []cell{{text: moment(e.At, now)}, {text: e.Kind}, {text: amount}, {text: e.Name},
					{text: string(e.Session)}, {text: e.Work}}
			},
		}.print(ctx, a, c.outputFlags, found)
	})
}

type budgetRemove struct {
	Budget string `arg:"" help:"Id or unique id prefix."`
	deleteFlags
}

// Run removes a budget.
func (c *budgetRemove) Run(ctx context.Context, a *app) error {
	return c.flags().act(ctx, a, deletedOutput{}, func(eng Engine) error {
		b, err := a.budget(ctx, eng, c.Budget)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("remove %s, which limits %s %s to %s %s, and its ledger", b.ID, b.Scope,
			a.oneLine(b.Subject.ID, cellChars), b.Limit, b.Currency)
		if ok, err := c.confirmed(ctx, a, what, what+"?"); !ok {
			return err
		}
		if err := eng.Budgets().Remove(ctx, b.ID); err != nil {
			return err
		}
		a.message("removed %s and its ledger", b.ID)
		return c.showForPrograms(ctx, a, string(b.ID), deletedOutput{string(b.ID), true})
	})
}

// budget finds a budget by what the user typed.
func (a *app) budget(ctx context.Context, eng Engine, typed string) (budget.Standing, error) {
	all, err := eng.Budgets().List(ctx, engine.BudgetFilter{})
	if err != nil {
		return budget.Standing{}, fmt.Errorf("list budgets: %w", err)
	}
	return pick(a.kind("budget"), typed, all, func(b budget.Standing) candidate {
		return candidate{id: string(b.ID), description: string(b.Scope) + " " + b.Subject.ID}
	})
}
