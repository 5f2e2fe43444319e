package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

type budgetCommand struct {
	Set    budgetSet     `cmd:"" help:"Cap what a session, an agent, a user or everybody may spend. Of a subject, a currency and a period there is one budget: setting it again changes its limit, and what stands on it stays."`
	Show   budgetShow    `cmd:"" help:"Show the budgets and what stands on them."`
	Ledger budgetLedger  `cmd:"" help:"Show the ledger of a budget: each line was added once and is never changed."`
	Resume sessionResume `cmd:"" help:"Let a session go on that a budget paused: beyond its soft limit, or although a price is not known."`
	Remove budgetRemove  `cmd:"" help:"Remove a budget with its ledger."`
}

type budgetSet struct {
	Scope    string `arg:"" help:"session, agent, user or org." enum:"session,agent,user,org"`
	Subject  string `arg:"" optional:"" help:"Which one: a session by its id, a unique beginning of it, its title, or last; an agent by its id or name; a user. Of org it may be left out."`
	Limit    string `help:"A decimal number, at most six digits behind the point." placeholder:"N" required:""`
	Currency string `help:"usd, tokens, calls (of tools), model_calls, seconds, bytes, or another currency of the prices." placeholder:"NAME" default:"usd"`
	Soft     string `help:"Beyond it the session pauses, and a person may let it go on." placeholder:"N"`
	Period   string `help:"In which the limit holds: none, every 24h, rolling 24h, or hour, day, week, month or year, with a zone behind it." placeholder:"PERIOD" default:"none"`
	Action   string `help:"At the limit: warn only says so, pause lets a person say yes, stop waits until something is left." enum:"warn,pause,stop" default:"stop"`
	DryRun   bool   `help:"Only say what would be done."`
	output
}

// budget is what was typed. The subject is not looked for yet.
func (c *budgetSet) budget() (b budget.Budget, err error) {
	b = budget.Budget{Subject: budget.Subject{Scope: budget.Scope(c.Scope), ID: c.Subject}, Currency: budget.Currency(c.Currency), Action: budget.Action(c.Action)}
	wrong := func(flag string, err error) error {
		return misuse(fmt.Sprintf("--%s: %s", flag, strings.TrimPrefix(err.Error(), string(perdure.Invalid)+" ")), program+" budget set --help  tells what it takes")
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
	if err := c.suits(budget.Standing{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		if b.Scope == budget.Session {
			s, err := a.session(ctx, eng, c.Subject)
			if err != nil {
				return err
			}
			b.Subject.ID = string(s.ID)
		}
		if c.DryRun {
			a.say("would let %s %s spend %s %s, %s", b.Scope, a.line(b.Subject.ID, cellChars), b.Limit, b.Currency, during(b.Period))
			return nil
		}
		set, err := eng.SetBudget(ctx, b, operator)
		if err != nil {
			return err
		}
		a.say("%s %s may spend %s %s, %s", set.Scope, a.line(set.Subject.ID, cellChars), set.Limit, set.Currency, during(set.Period))
		return c.show(ctx, a, shown{string(set.ID), set, func() { a.fields(a.standing(set)...) }})
	})
}

// during says in which time a limit holds.
func during(p budget.Period) string {
	if p.IsZero() {
		return "for ever"
	}
	return "each period of " + p.String()
}

// standing is all of a budget.
func (a *app) standing(s budget.Standing) []field {
	now := a.now()
	fields := []field{
		{"budget", cell{string(s.ID), bold}},
		{"of", cell{text: string(s.Scope) + " " + s.Subject.ID}},
		{"state", cell{string(s.State), stateColor(s.State)}},
		{"limit", cell{text: s.Limit.String() + " " + string(s.Currency)}},
		{"spent", cell{text: spent(s)}},
		{"reserved", cell{text: s.Reserved.String()}},
		{"left", cell{text: fmt.Sprintf("%s (%d %%)", s.Balance, s.PercentLeft)}},
	}
	if s.Soft > 0 {
		fields = append(fields, field{"soft limit", cell{text: s.Soft.String()}})
	}
	fields = append(fields, field{"period", cell{text: s.Period.String()}}, field{"at the limit", cell{text: string(s.Action)}})
	if !s.ResetsAt.IsZero() {
		fields = append(fields, field{"begins anew", cell{text: moment(s.ResetsAt, now)}})
	}
	return fields
}

// spent is what stands on a budget. What has no known price is told beside it, and is never nothing.
func spent(s budget.Standing) string {
	if s.Unpriced > 0 {
		return fmt.Sprintf("%s, and %s of unknown price", s.Spent, count(int(s.Unpriced), "piece of work"))
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
	Scope   string `arg:"" optional:"" help:"session, agent, user or org. Not given: all of them." enum:",session,agent,user,org" default:""`
	Subject string `arg:"" optional:"" help:"Only those of this one."`
	output
}

// budgets is how budgets are listed.
func budgets() listing[budget.Standing] {
	return listing[budget.Standing]{
		noun: "budgets",
		head: []string{"BUDGET", "OF", "STATE", "SPENT", "LIMIT", "CURRENCY", "PERIOD"},
		name: func(s budget.Standing) string { return string(s.ID) },
		row: func(s budget.Standing) []cell {
			return []cell{
				{string(s.ID), bold}, {text: string(s.Scope) + " " + s.Subject.ID}, {string(s.State), stateColor(s.State)}, {text: spent(s)},
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
		found, err := eng.Budgets(ctx, filter)
		if err != nil {
			return err
		}
		return budgets().print(ctx, a, c.output, found)
	})
}

type budgetLedger struct {
	Budget string `arg:"" help:"Its id, or a unique beginning of it."`
	Limit  int    `help:"Only the last so many lines; 0: all." default:"50"`
	output
}

// Run shows the lines of a ledger.
func (c *budgetLedger) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		b, err := a.budget(ctx, eng, c.Budget)
		if err != nil {
			return err
		}
		found, err := eng.BudgetEntries(ctx, b.ID, c.Limit)
		if err != nil {
			return err
		}
		now := a.now()
		return listing[budget.Entry]{
			noun: "lines",
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
				return []cell{{text: moment(e.At, now)}, {text: e.Kind}, {text: amount}, {text: e.Name}, {text: string(e.Session)}, {text: e.Work}}
			},
		}.print(ctx, a, c.output, found)
	})
}

type budgetRemove struct {
	Budget string `arg:"" help:"Its id, or a unique beginning of it."`
	DryRun bool   `help:"Only say what would be done."`
	Yes    bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run removes a budget.
func (c *budgetRemove) Run(ctx context.Context, a *app) error {
	if err := c.suits(gone{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		b, err := a.budget(ctx, eng, c.Budget)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s, which caps %s %s at %s %s, with its ledger", b.ID, b.Scope, a.line(b.Subject.ID, cellChars), b.Limit, b.Currency)
		if c.DryRun {
			a.say("would remove %s", what)
			return nil
		}
		if err := a.confirm(ctx, c.Yes, "remove "+what+"?"); err != nil {
			return err
		}
		if err := eng.RemoveBudget(ctx, b.ID); err != nil {
			return err
		}
		a.say("%s is gone, with its ledger", b.ID)
		return c.quietly(ctx, a, string(b.ID), gone{string(b.ID), true})
	})
}

// budget finds a budget by what was typed.
func (a *app) budget(ctx context.Context, eng engine.Budgets, typed string) (budget.Standing, error) {
	all, err := eng.Budgets(ctx, engine.BudgetFilter{})
	if err != nil {
		return budget.Standing{}, fmt.Errorf("list budgets: %w", err)
	}
	var candidates []candidate
	for _, b := range all {
		candidates = append(candidates, candidate{id: string(b.ID), about: string(b.Scope) + " " + b.Subject.ID})
	}
	id, err := a.kind("budget").choose(typed, candidates)
	if err != nil {
		return budget.Standing{}, err
	}
	return all[slices.IndexFunc(all, func(b budget.Standing) bool { return string(b.ID) == id })], nil
}
