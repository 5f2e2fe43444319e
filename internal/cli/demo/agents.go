package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/chaos"
)

// parts is the number of parts of the work.
const parts = 6

// The token budgets of the agents: too little for all parts, and enough.
const (
	smallBudget = 45_000
	largeBudget = 450_000
)

// Agents is the demo of subagents: an agent delegates the parts of its work, all agents spend from
// its budget, and the parts that the budget stopped are delegated again after it is raised.
type Agents struct{ Options }

// agentsRun records what happened to the subagents. Its methods are called one after another.
type agentsRun struct {
	Agents
	last      map[perdure.TaskID]perdure.TaskState // last state that was printed
	names     []string                             // of the stopped subagents
	delivered map[string]int                       // number of delivered answers, by part
}

// agentsReport is the report of the demo.
type agentsReport struct {
	chaos.Report
	Answers map[string]int `json:"answers_by_part"`
	Stopped int            `json:"stopped_by_budget"` // subagents
	Spent   budget.Amount  `json:"spent_tokens"`
	Before  budget.Amount  `json:"spent_before_more"` // of the first limit
}

// Run runs the demo in a fresh directory and prints its story and its report.
func (d Agents) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if err := d.prepare(); err != nil {
		return err
	}
	seen := &agentsRun{Agents: d, last: map[perdure.TaskID]perdure.TaskState{}, delivered: map[string]int{}}
	var report agentsReport
	record, err := d.runScenario(ctx, ScenarioAgents, func(ctx context.Context, s *runtime) (err error) {
		report.Before, report.Spent, err = seen.run(ctx, s)
		return err
	}, func(chaos.Journal) []chaos.Order { return nil })
	if err != nil {
		return err
	}
	report.Report, report.Answers, report.Stopped = chaos.Evaluate(record, chaos.Run{}), seen.delivered, len(seen.names)
	for part := 1; part <= parts; part++ {
		if n := seen.delivered[partName(part)]; n != 1 {
			report.Violations = append(report.Violations,
				chaos.Violation{Text: fmt.Sprintf("%s was delivered %d times", partName(part), n)})
			report.OK = false
		}
	}
	if err := d.verdict(report); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("%w; its data is kept in %s", errBroken, d.Dir)
	}
	return d.finish(ctx, ScenarioAgents)
}

// run delegates the work, raises the budget after it has stopped the work, and delegates the
// stopped parts again.
func (c *agentsRun) run(ctx context.Context, s *runtime) (before, spent budget.Amount, err error) {
	c.line("perdure %s · scripted model, no network · data %s", c.Version, c.Dir)
	c.line("  an agent delegates %d parts of its work; all spend from its budget of %d tokens, which is too little for %d", parts, smallBudget, parts)
	if _, err := c.limit(ctx, s, smallBudget); err != nil {
		return 0, 0, err
	}
	if err := c.say(ctx, s, "count the words of six parts"); err != nil {
		return 0, 0, err
	}
	standing, err := c.limit(ctx, s, largeBudget)
	if err != nil {
		return 0, 0, err
	}
	before = standing.Spent
	c.line("✓ %s the limit is raised to %d: the agent continues", clock(), largeBudget)
	if err := s.follow(ctx, handlers{onEvent: c.printEvent}); err != nil {
		return before, 0, err
	}
	for _, name := range c.names {
		if err := c.say(ctx, s, name+", second try"); err != nil {
			return before, 0, err
		}
	}
	found, err := s.eng.Budgets().Check(ctx, s.id)
	for _, b := range found.Budgets {
		spent = b.Spent
	}
	return before, spent, err
}

// say sends a message, and prints what follows.
func (c *agentsRun) say(ctx context.Context, s *runtime, text string) error {
	c.line("> %s", text)
	if _, err := s.eng.Send(ctx, s.id, perdure.Text(text)); err != nil {
		return err
	}
	return s.follow(ctx, handlers{onEvent: c.printEvent})
}

// limit sets the budget of the session, which its subagents share.
func (c *agentsRun) limit(ctx context.Context, s *runtime, tokens int64) (budget.Standing, error) {
	return s.eng.Budgets().Set(ctx, budget.Budget{
		Subject: budget.Subject{Scope: budget.Session, ID: string(s.id)}, Currency: budget.Tokens,
		Limit: budget.Whole(tokens), Action: budget.Stop,
	}, "demo")
}

// printEvent prints an event of the delegating agent.
func (c *agentsRun) printEvent(event perdure.Event) error {
	switch f := event.Fact.(type) {
	case perdure.TaskUpdated:
		c.task(f.Task)
	case perdure.BudgetExhausted:
		c.line("✗ %s the budget stops new work: of %s tokens %s are left, which are reserved by running work", clock(),
			f.Limit, f.Balance)
	case perdure.BudgetResumed:
		c.line("    the budget has tokens left again")
	case perdure.TaskDelivered:
		c.line("    %d delivered", len(f.TaskIDs))
	}
	return nil
}

// task prints the state of a subagent, once per state.
func (c *agentsRun) task(t perdure.Task) {
	if t.Kind != perdure.KindSubagent || c.last[t.ID] == t.State {
		return
	}
	c.last[t.ID] = t.State
	part, _, _ := strings.Cut(t.DisplayName, ",")
	switch t.State {
	case perdure.TaskSucceeded:
		c.delivered[part]++
		c.line("✓ %s %s is done: %s", clock(), t.DisplayName, t.Result)
	case perdure.TaskFailed:
		c.names = append(c.names, part)
		why := t.Error.Message
		if _, spent, ok := strings.Cut(why, "is used up: "); ok {
			why = "the budget is used up: " + spent
		}
		c.line("✗ %s %s was stopped: %s", clock(), t.DisplayName, why)
	}
}

// verdict prints the delivered parts and the tokens spent.
func (d Agents) verdict(r agentsReport) error {
	if d.JSON {
		return d.encode(r)
	}
	fmt.Fprintln(d.Out)
	d.violations(r.Report)
	fmt.Fprintf(d.Out, "%d parts · %d subagents · %d delivered · %d stopped by the budget and delegated again · spent %s tokens of %d, then %s of %d\n",
		parts, r.Sessions-1, len(r.Answers), r.Stopped, r.Before, smallBudget, r.Spent, largeBudget)
	return d.counts(r.Report)
}

func partName(number int) string { return fmt.Sprintf("part %d", number) }
