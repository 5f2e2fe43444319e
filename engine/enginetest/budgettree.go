package enginetest

import (
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

const lookAtIt = `
rules:
  - when: {user_contains: look at it, not_called: note}
    calls: [{name: note, args: {text: child}}]
    usage: {input_tokens: 100}
  - when: {user_contains: look at it}
    text: looked
    usage: {input_tokens: 100}
  - when: {user_contains: go, not_called: spawn_subagent}
    calls: [{name: spawn_subagent, args: {name: scout, task: look at it}}]
    usage: {input_tokens: 100}
  - when: {user_contains: go}
    text: done
    usage: {input_tokens: 100}
`

// budgetShared pins BU1: usage of a child counts for the root's budget, and its ledger names the
// child.
func budgetShared(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: lookAtIt})
	b := s.cap(budget.Tokens, "100000")
	calls := s.cap(budget.Calls, "100")

	s.say("go")
	s.rest()

	got := s.standing(b.ID)
	lines, err := s.eng.Budgets().Entries(s.ctx, b.ID, 0)
	by := map[perdure.SessionID]budget.Amount{}
	for _, line := range lines {
		if line.Kind == budget.Charge {
			by[line.Session] = by[line.Session].Plus(line.Amount)
		}
	}
	if err != nil || len(by) != 2 || by[s.id] != budget.Whole(200) || got.Spent != budget.Whole(400) {
		t.Errorf("%s spent, by session %v, %v; want 200 of the root and 200 of its child; journal:\n%s",
			got.Spent, by, err, s.journalText())
	}
	if got := s.standing(calls.ID); got.Spent != budget.Whole(2) {
		t.Errorf("%s calls, want the root's and the child's", got.Spent)
	}
}

// budgetOfAgent pins that subagents do not circumvent the budget of an agent.
func budgetOfAgent(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: lookAtIt, Agent: perdure.Agent{Name: "boss"}})
	b := s.cap(budget.ModelCalls, "2",
		func(b *budget.Budget) { b.Subject = budget.Subject{Scope: budget.Agent, ID: "boss"} })

	s.say("go")

	s.sealedBy(1)
	task := s.onlyTask()
	if task.State != perdure.TaskFailed || task.Error == nil || task.Error.Kind != perdure.ErrorRejected ||
		!strings.Contains(task.Error.Message, "budget") {
		t.Errorf("the subagent's record is %s, %+v; want failed, rejected, for the budget; journal:\n%s",
			task.State, task.Error, s.journalText())
	}
	if got := s.standing(b.ID); got.Spent != budget.Whole(2) {
		t.Errorf("%s model calls, want 2: one of the root, one of its child", got.Spent)
	}
}

// budgetOfRuns counts a background run, and refuses a run when the budget is exhausted.
func budgetOfRuns(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {last_role: notification}
    text: home
steps:
  - calls: [{name: spawn_background, args: {tool: bg_note, args: {text: a}}}, {name: spawn_background, args: {tool: bg_note, args: {text: b}}}]
  - text: on
    repeat: true
`})
	b := s.cap(budget.Calls, "3")

	s.say("go")
	s.rest()

	if got := s.standing(b.ID); got.Spent != budget.Whole(3) {
		t.Errorf("%s calls, want 3: two orders and one run; journal:\n%s", got.Spent, s.journalText())
	}
	var refused string
	for _, f := range facts[perdure.ToolCompleted](s) {
		refused += f.Result.Error
	}
	if n := len(s.Effects("bg_note")); n != 1 || !strings.Contains(refused, "used up") {
		t.Errorf("%d runs had their effect, the second was answered with %q; want one, and a refusal", n, refused)
	}
}

// budgetUnpriced pins that an unknown price stops a budget of money, and is reported as unknown.
func budgetUnpriced(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes, Agent: perdure.Agent{Model: "nobodys-model"}})
	b := s.cap(budget.USD, "5")

	s.say("go")

	s.sealedBy(1)
	paused := facts[perdure.BudgetPaused](s)
	if len(paused) != 1 || paused[0].Unpriced != "nobodys-model" || len(facts[perdure.Generation](s)) != 0 {
		t.Errorf("got %+v and %d model calls, want a pause before the first one that names the model",
			paused, len(facts[perdure.Generation](s)))
	}
	if err := s.eng.Sessions().Resume(s.ctx, s.id, "operator"); err != nil {
		t.Fatalf("ResumeSession: %v", err)
	}
	nth[perdure.TurnCompleted](s, 1, nil)
	s.rest()

	if got := s.standing(b.ID); got.Unpriced != 4 || got.Spent != 0 {
		t.Errorf("%s spent and %d model calls without a price, want 4", got.Spent, got.Unpriced)
	}
	report, err := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Group: "model"})
	if err != nil || len(report.Items) != 2 || report.Total.Unpriced != 4 || len(report.Total.Models) != 1 ||
		len(report.Total.Cost) != 0 || report.Total.ToolCalls != 3 {
		t.Errorf("Costs: %+v, %v; want four model calls without a known price, and three tool calls", report, err)
	}
}

// budgetAfterCrash kills the engine while a model call, and then a tool call, has a reservation.
func budgetAfterCrash(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
steps:
  - {calls: [{name: hold_note, args: {text: a}}], usage: {input_tokens: 700, output_tokens: 300}}
  - {text: done, usage: {input_tokens: 700, output_tokens: 300}, repeat: true}
`})
	tokens, calls := s.cap(budget.Tokens, "50000"), s.cap(budget.Calls, "5")
	s.say("go")
	s.Entered(t, "hold_note", 1)
	s.crash()
	s.Entered(t, "hold_note", 2)
	s.Release("hold_note")

	s.rest()

	if got := s.standing(tokens.ID); got.Spent != budget.Whole(2000) {
		t.Errorf("%s tokens spent, want 2,000", got.Spent)
	}
	if got := s.standing(calls.ID); got.Spent != budget.Whole(1) {
		t.Errorf("%s calls spent, want 1: it was run twice, and is one call", got.Spent)
	}
}
