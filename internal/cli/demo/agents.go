package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/chaos"
)

// parts is in how many parts the work of the agents comes.
const parts = 6

// What the agents may spend, in tokens: too little for all of them, and enough.
const (
	smallBudget = 45_000
	largeBudget = 450_000
)

// Agents is the demo of subagents: one hands out the parts of its work, all spend from its budget, and what the budget stopped is
// handed out again once there is more.
type Agents struct{ Show }

// cast is what was seen of the subagents. Its methods are called one after another.
type cast struct {
	Agents
	last  map[perdure.TaskID]perdure.TaskState // as it was told
	names []string                             // of those that were stopped
	home  map[string]int                       // answers that came home, by the part
}

// agentsReport is the verdict on the demo.
type agentsReport struct {
	chaos.Report
	Answers map[string]int `json:"answers_by_part"`
	Stopped int            `json:"stopped_by_budget"` // subagents
	Spent   budget.Amount  `json:"spent_tokens"`
	Before  budget.Amount  `json:"spent_before_more"` // of the first limit
}

// Run runs the demo in a fresh directory and prints its story and its verdict.
func (d Agents) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if err := d.prepare(); err != nil {
		return err
	}
	seen := &cast{Agents: d, last: map[perdure.TaskID]perdure.TaskState{}, home: map[string]int{}}
	var report agentsReport
	record, err := d.perform(ctx, PlayAgents, func(ctx context.Context, s *scene) (err error) {
		report.Before, report.Spent, err = seen.act(ctx, s)
		return err
	}, func(chaos.Journal) []chaos.Order { return nil })
	if err != nil {
		return err
	}
	report.Report, report.Answers, report.Stopped = chaos.Judge(record, chaos.Run{}), seen.home, len(seen.names)
	for part := 1; part <= parts; part++ {
		if n := seen.home[partName(part)]; n != 1 {
			report.Violations = append(report.Violations, chaos.Violation{Text: fmt.Sprintf("%s came home %d times", partName(part), n)})
			report.OK = false
		}
	}
	if err := d.verdict(report); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("%w: its data is kept in %s", errBroken, d.Dir)
	}
	return d.leave()
}

// act hands out the work, gives more when the budget has stopped it, and hands out again what was stopped.
func (c *cast) act(ctx context.Context, s *scene) (before, spent budget.Amount, err error) {
	c.line("perdure %s · scripted model, no network · data %s", c.Version, c.Dir)
	c.line("  one agent hands out %d parts of its work; all of them spend from its budget of %d tokens, too little for %d", parts, smallBudget, parts)
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
	c.line("✓ %s somebody looked, and set the limit to %d: the agent goes on by itself", clock(), largeBudget)
	if err := s.play(ctx, audience{tell: c.tell}); err != nil {
		return before, 0, err
	}
	for _, name := range c.names {
		if err := c.say(ctx, s, name+", once more"); err != nil {
			return before, 0, err
		}
	}
	found, err := s.eng.CheckBudgets(ctx, s.id)
	for _, b := range found.Budgets {
		spent = b.Spent
	}
	return before, spent, err
}

// say sends a message, and tells what follows from it.
func (c *cast) say(ctx context.Context, s *scene, text string) error {
	c.line("> %s", text)
	if err := s.eng.Send(ctx, s.id, perdure.Text(text)); err != nil {
		return err
	}
	return s.play(ctx, audience{tell: c.tell})
}

// limit sets the budget of the session, which is that of its subagents.
func (c *cast) limit(ctx context.Context, s *scene, tokens int64) (budget.Standing, error) {
	return s.eng.SetBudget(ctx, budget.Budget{
		Subject: budget.Subject{Scope: budget.Session, ID: string(s.id)}, Currency: budget.Tokens, Limit: budget.Whole(tokens), Action: budget.Stop,
	}, "demo")
}

// tell tells of one event of the agent that hands out.
func (c *cast) tell(event perdure.Event) error {
	switch f := event.Fact.(type) {
	case perdure.TaskUpdated:
		c.task(f.Task)
	case perdure.BudgetExhausted:
		c.line("✗ %s the budget stops what was to begin: of %s tokens %s are left, and others reserved those", clock(), f.Limit, f.Balance)
	case perdure.BudgetResumed:
		c.line("    there is something left again")
	case perdure.TaskDelivered:
		c.line("    %d delivered", len(f.TaskIDs))
	}
	return nil
}

// task tells how a subagent stands, each state once.
func (c *cast) task(t perdure.Task) {
	if t.Kind != perdure.KindSubagent || c.last[t.ID] == t.State {
		return
	}
	c.last[t.ID] = t.State
	part, _, _ := strings.Cut(t.DisplayName, ",")
	switch t.State {
	case perdure.TaskSucceeded:
		c.home[part]++
		c.line("✓ %s %s is home: %s", clock(), t.DisplayName, t.Result)
	case perdure.TaskFailed:
		c.names = append(c.names, part)
		why := t.Error.Message
		if _, spent, ok := strings.Cut(why, "is used up: "); ok {
			why = "the budget is used up: " + spent
		}
		c.line("✗ %s %s was stopped: %s", clock(), t.DisplayName, why)
	}
}

// verdict prints what came home, and at what price.
func (d Agents) verdict(r agentsReport) error {
	if d.JSON {
		return d.encode(r)
	}
	fmt.Fprintln(d.Out)
	d.violations(r.Report)
	fmt.Fprintf(d.Out, "%d parts · %d subagents · %d came home · %d stopped by the budget, and handed out again · spent %s tokens of %d, then %s of %d\n",
		parts, r.Sessions-1, len(r.Answers), r.Stopped, r.Before, smallBudget, r.Spent, largeBudget)
	return d.counts(r.Report)
}

func partName(number int) string { return fmt.Sprintf("part %d", number) }
