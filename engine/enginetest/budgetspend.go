package enginetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// spending is an agent whose model calls cost 1.4 usd each at the prices below: 500,000 input
// tokens, 200,000 cached ones, and 30,000 output tokens.
const spending = `
steps:
  - {calls: [{name: note, args: {text: a}}], usage: {input_tokens: 700000, cached_tokens: 200000, output_tokens: 30000}}
  - {calls: [{name: note, args: {text: b}}], usage: {input_tokens: 700000, cached_tokens: 200000, output_tokens: 30000}}
  - {calls: [{name: note, args: {text: c}}], usage: {input_tokens: 700000, cached_tokens: 200000, output_tokens: 30000}}
  - {text: done, usage: {input_tokens: 700000, cached_tokens: 200000, output_tokens: 30000}, repeat: true}
`

const spendingPrices = `{
  "as_of": "2026-11-01",
  "models": [{"model": "dear", "input": "2", "cached": "0.5", "output": "10"}],
  "tools": [{"tool": "note", "call": "0.250001"}]
}`

// budgetOfMoney spends dollars at known prices: the limit stops work before it starts, the ledger
// and the report lose no digit, and models without a price are reported separately.
func budgetOfMoney(t *testing.T, open Harness) {
	prices, err := budget.ParseTable([]byte(spendingPrices))
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, open, Setup{Script: spending, Prices: &prices, Agent: perdure.Agent{Model: "dear"}})
	b := s.cap(budget.USD, "4")

	s.say("go")

	s.sealedBy(1) // 1.4, a call, 1.4, a call, 1.4; the third call is refused
	if asked, called := len(facts[perdure.Generation](s)), len(s.Effects("note")); asked != 3 || called != 2 {
		t.Errorf("%d questions and %d calls, want 3 and 2; journal:\n%s", asked, called, s.journalText())
	}
	out := facts[perdure.BudgetExhausted](s)
	if len(out) != 1 || out[0].Currency != "usd" || out[0].Limit != "4" || out[0].Balance != "-0.700002" {
		t.Errorf("got %+v, want usd exhausted, limit 4 and -0.700002 left", out)
	}
	if got := s.standing(b.ID); got.Spent.String() != "4.700002" || got.State != budget.Exhausted || got.Unpriced != 0 {
		t.Errorf("got %+v, want 4.700002 spent", got)
	}
	lines, err := s.eng.Budgets().Entries(s.ctx, b.ID, 0)
	var amounts []string
	for _, line := range lines {
		if line.Kind == budget.Charge {
			amounts = append(amounts, line.Amount.String())
		}
	}
	if slices.Reverse(amounts); err != nil ||
		!slices.Equal(amounts, []string{"1.4", "0.250001", "1.4", "0.250001", "1.4"}) {
		t.Errorf("the ledger says %v, %v", amounts, err)
	}
	report, err := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Group: "model"})
	text, broken := json.Marshal(report)
	if err != nil || broken != nil || !strings.Contains(string(text), `"usd":"4.2"`) ||
		!strings.Contains(string(text), `"usd":"4.700002"`) || report.AsOf != "2026-11-01" ||
		report.Total.Unpriced != 0 {
		t.Errorf("Costs: %s, %v, %v; want decimal strings: 4.2 of the model, 4.700002 in all", text, err, broken)
	}
	s.splitCosts()
	s.turnCosts()
	other, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{Model: "nobodys"})
	if err == nil {
		_, err = s.eng.Send(s.ctx, other.ID, perdure.Text("go"))
	}
	if err == nil {
		err = s.eng.Sessions().WaitIdle(s.ctx, other.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	report, err = s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Session: other.ID})
	if err != nil || report.Total.Unpriced != 4 || len(report.Total.Models) != 1 ||
		!strings.Contains(report.Total.Models[0], "nobodys") {
		t.Errorf("Costs: %+v, %v; want four calls of a model without a known price", report.Total, err)
	}
	s.listedCosts(other.ID)
}

// listedCosts checks the costs of sessions in a list: that of the session of the scene, and that of
// one with four calls of a model without a known price.
func (s *scene) listedCosts(unpriced perdure.SessionID) {
	s.t.Helper()
	listed, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{Costs: true, IDs: []perdure.SessionID{
		s.id, unpriced, s.id, "session_00000000000000000000000000000009"}})
	if err != nil || len(listed) != 2 || listed[0].ID != unpriced || listed[1].ID != s.id {
		s.t.Fatalf("got %+v, %v; want two sessions, newest first", listed, err)
	}
	if c := listed[0].Cost; c == nil || c.Unpriced != 4 {
		s.t.Errorf("got %+v, want four calls without a known price", c)
	}
	if c := listed[1].Cost; c == nil || c.Unpriced != 0 || c.Amounts[budget.USD].String() != "4.700002" {
		s.t.Errorf("got %+v, want 4.700002", c)
	}
	if plain, err := s.eng.Sessions().ListWhere(s.ctx, engine.SessionFilter{IDs: []perdure.SessionID{s.id}}); err != nil || len(plain) != 1 || plain[0].Cost != nil {
		s.t.Errorf("got %+v, %v; want no cost unless it is asked for", plain, err)
	}
	if one, err := s.eng.Sessions().Get(s.ctx, s.id); err != nil || one.Cost != nil {
		s.t.Errorf("got %+v, %v; want no cost outside of a list", one.Cost, err)
	}
}

// turnCosts checks that each turn has a line, and that they add up to the cost of the session.
func (s *scene) turnCosts() {
	s.t.Helper()
	report, err := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Group: "turn", Session: s.id})
	sum, turns := budget.Amount(0), map[string]bool{}
	for _, line := range report.Items {
		sum, turns[line.Key] = sum.Plus(line.Cost[budget.USD]), true
	}
	for _, e := range s.events() {
		if f, ok := e.Fact.(perdure.TurnStarted); ok && !turns[string(f.TurnID)] {
			s.t.Errorf("turn %s has no line in %+v", f.TurnID, report.Items)
		}
	}
	if err != nil || len(turns) == 0 || turns["(none)"] || sum.String() != "4.700002" || sum != report.Total.Cost[budget.USD] {
		s.t.Errorf("got %s in %+v, %v; want 4.700002, each part in its turn", sum, report.Items, err)
	}
	none, err := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Session: "session_00000000000000000000000000000009"})
	if err != nil || len(none.Items) != 0 {
		s.t.Errorf("of no session: %+v, %v", none, err)
	}
}

// splitCosts checks that the parts of a report, and its halves in time, add up to the whole.
func (s *scene) splitCosts() {
	s.t.Helper()
	whole, err := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Group: "day", Split: "model"})
	parts := map[string]string{}
	for _, line := range whole.Items {
		parts[strings.TrimPrefix(line.Part, "scripted:")] = line.Cost[budget.USD].String() // over HTTP a provider is named
	}
	if err != nil || len(parts) != 2 || parts["dear"] != "4.2" || parts["(tools)"] != "0.500002" {
		s.t.Errorf("got %v, %v; want 4.2 of the model and 0.500002 of tools", parts, err)
	}
	var at []time.Time // of the model calls
	for _, e := range s.events() {
		if _, ok := e.Fact.(perdure.Generation); ok {
			at = append(at, e.At)
		}
	}
	middle := at[1]
	early, err := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Until: middle})
	late, failed := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Since: middle})
	sum := early.Total.Cost[budget.USD].Plus(late.Total.Cost[budget.USD])
	if err != nil || failed != nil || early.Total.ModelCalls != 1 || late.Total.ModelCalls != 2 || sum != whole.Total.Cost[budget.USD] {
		s.t.Errorf("got %+v and %+v, %v, %v; want one model call before, two from the second on, together %v",
			early.Total, late.Total, err, failed, whole.Total.Cost)
	}
	if _, err := s.eng.Budgets().Costs(s.ctx, engine.CostQuery{Split: "day"}); !errors.Is(err, perdure.Invalid) {
		s.t.Errorf("a split by day: %v", err)
	}
}

// budgetAfterQuestion kills the engine while a model call has a reservation. The next engine
// continues the call under that reservation and settles it: nothing stays reserved, and the call
// counts once.
func budgetAfterQuestion(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `steps: [{text: "a slow answer", chunk: 4, pace: 20ms, usage: {input_tokens: 700, output_tokens: 300}}]`})
	all := []budget.Standing{s.cap(budget.Tokens, "50000"), s.cap(budget.ModelCalls, "5"),
		s.cap(budget.Seconds, "3600")}
	s.say("go")
	s.until("open answer", func(e perdure.Event) bool { _, ok := e.Fact.(perdure.OutputStarted); return ok })
	now, err := s.eng.Budgets().Check(s.ctx, s.id)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range now.Budgets {
		// the response had not arrived when the budgets were read
		if len(facts[perdure.Generation](s)) == 0 && b.Reserved <= 0 {
			t.Errorf("%s: nothing is reserved during the model call", b.Currency)
		}
	}
	s.crash()
	s.rest()

	for i, want := range []int64{1000, 1} {
		if got := s.standing(all[i].ID); got.Spent != budget.Whole(want) {
			t.Errorf("%s %s spent, want %d; journal:\n%s", got.Spent, got.Currency, want, s.journalText())
		}
	}
	s.standing(all[2].ID)
}

// withheld checks that a manual fire is skipped because of a budget, with the reason, and returns
// it.
func (s *scene) withheld(id perdure.ScheduleID, why string) {
	s.t.Helper()
	fire, err := s.eng.Schedules().Trigger(s.ctx, id, "user")
	if err != nil || fire.Outcome != perdure.SkippedBudget || !strings.Contains(fire.Reason, why) ||
		fire.Task != "" || fire.Message != "" {
		s.t.Errorf("got %+v, %v; want it skipped for the budget, and %q", fire, err, why)
	}
	if kept := s.fires(id)[0]; kept.Outcome != perdure.SkippedBudget || kept.Reason != fire.Reason {
		s.t.Errorf("the row says %+v", kept) // SC16
	}
}

// budgetWithholdsFires pins SC21: in a session stopped by a budget neither a message nor a tool
// fires, the driver woken by the skip leaves the session paused, and after a higher limit both
// fire.
func budgetWithholdsFires(t *testing.T, open Harness) {
	for name, soft := range map[string]bool{"exhausted": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, open, Setup{Script: fourNotes})
			b := s.cap(budget.ModelCalls, "2", func(b *budget.Budget) {
				if soft {
					b.Limit, b.Soft = budget.Whole(50), budget.Whole(2)
				}
			})
			words := s.hourly()
			words.Action = perdure.ScheduleAction{Message: "look around"}
			speaks, runs := s.create(words), s.create(s.hourly())
			s.say("go")
			s.sealedBy(1)

			for _, id := range []perdure.ScheduleID{speaks.ID, runs.ID, speaks.ID} {
				s.withheld(id, string(b.ID))
				s.rest()
				if s.status() != perdure.SessionPaused {
					t.Errorf("after the skip the session is %s, want paused", s.status())
				}
			}
			s.cap(budget.ModelCalls, "60")
			s.turnEnds(2)
			s.rest()
			for _, id := range []perdure.ScheduleID{speaks.ID, runs.ID} {
				if fire, err := s.eng.Schedules().Trigger(s.ctx, id, "user"); err != nil || fire.Outcome != perdure.Fired {
					t.Errorf("after the higher limit: got %+v, %v", fire, err)
				}
			}
			s.rest()
			if n := len(s.Effects("bg_note")); n != 1 || s.status() != perdure.SessionIdle {
				t.Errorf("%d runs, the session %s; journal:\n%s", n, s.status(), s.journalText())
			}
			s.standing(b.ID)
		})
	}
}

// budgetRefusesFire pins SC21 for a session that is not stopped yet: if the budget refuses the run
// of a fire, the fire is skipped and does not count as a failure.
func budgetRefusesFire(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_note", "{}")})
	b := s.cap(budget.Calls, "1")
	made := s.create(s.hourly())
	first, err := s.eng.Schedules().Trigger(s.ctx, made.ID, "user")
	if err != nil || first.Outcome != perdure.Fired {
		t.Fatalf("got %+v, %v", first, err)
	}
	if _, err := s.eng.Tasks().Wait(s.ctx, first.Task); err != nil {
		t.Fatal(err)
	}
	s.rest()

	s.withheld(made.ID, "used up: 1 of 1 calls")
	after, err := s.eng.Schedules().Get(s.ctx, made.ID)
	if err != nil || after.Count != 1 || after.Failures != 0 || !after.Enabled ||
		!after.LastFire.Equal(first.Nominal.Truncate(time.Microsecond)) {
		t.Errorf("the schedule is %+v, %v; want one fire and no failure", after, err)
	}
	if s.status() == perdure.SessionPaused {
		t.Error("a run that did not start stopped its session")
	}
	s.cap(budget.Calls, "5")
	if fire, err := s.eng.Schedules().Trigger(s.ctx, made.ID, "user"); err != nil || fire.Outcome != perdure.Fired {
		t.Errorf("after the higher limit: got %+v, %v", fire, err)
	}
	s.rest()
	if got := s.standing(b.ID); got.Spent != budget.Whole(2) || len(s.Effects("bg_note")) != 2 {
		t.Errorf("%s calls counted, %d runs; want 2 of each", got.Spent, len(s.Effects("bg_note")))
	}
}
