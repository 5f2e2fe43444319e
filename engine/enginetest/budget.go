package enginetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// budgetLaws pins BU1 to BU4.
func budgetLaws() []law {
	return []law{
		{"stops_before_the_call", budgetStopsBeforeTheCall},
		{"stops_before_the_question", budgetStopsBeforeTheQuestion},
		{"counts_what_the_answer_bills", budgetCounts},
		{"counts_the_estimate_where_nothing_is_said", budgetEstimates},
		{"soft_limit_pauses_and_resume_goes_on", budgetPauses},
		{"a_top_up_goes_on", budgetToppedUp},
		{"strictest_wins", budgetStrictest},
		{"is_shared_down_the_tree", budgetShared},
		{"caps_an_agent_and_its_subagents", budgetOfAgent},
		{"runs_in_the_background_count", budgetOfRuns},
		{"an_unknown_price_is_not_nothing", budgetUnpriced},
		{"money_is_spent_and_told_to_the_millionth", budgetOfMoney},
		{"nothing_leaks_after_a_crash", budgetAfterCrash},
		{"nothing_leaks_after_a_crash_in_a_question", budgetAfterQuestion},
		{"a_stopped_session_fires_nothing", budgetWithholdsFires},
		{"a_fire_that_is_refused_is_skipped", budgetRefusesFire},
		{"is_set_listed_and_removed", budgetKept},
	}
}

// cap sets a budget for the session.
func (s *scene) cap(c budget.Currency, limit string, more ...func(*budget.Budget)) budget.Standing {
	s.t.Helper()
	b := budget.Budget{
		Subject: budget.Subject{Scope: budget.Session, ID: string(s.id)}, Currency: c, Limit: amount(s.t, limit),
	}
	for _, change := range more {
		change(&b)
	}
	set, err := s.eng.Budgets().Set(s.ctx, b, "user")
	if err != nil {
		s.t.Fatalf("SetBudget: %v", err)
	}
	return set
}

func amount(t *testing.T, text string) budget.Amount {
	t.Helper()
	a, err := budget.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// standing reads a budget and checks that nothing has leaked: the account equals the sum of its
// ledger, and nothing is reserved while the session is idle.
func (s *scene) standing(id perdure.BudgetID) budget.Standing {
	s.t.Helper()
	all, err := s.eng.Budgets().List(s.ctx, engine.BudgetFilter{})
	if err != nil {
		s.t.Fatalf("Budgets: %v", err)
	}
	for _, b := range all {
		if b.ID != id {
			continue
		}
		lines, err := s.eng.Budgets().Entries(s.ctx, id, 0)
		if err != nil {
			s.t.Fatalf("BudgetEntries: %v", err)
		}
		var sum budget.Amount
		for _, line := range lines {
			if line.Kind == budget.Charge {
				sum = sum.Plus(line.Amount)
			}
		}
		if sum != b.Spent || b.Reserved != 0 {
			s.t.Errorf("budget %s: spent %s, its ledger says %s; reserved %s, want 0; journal:\n%s",
				id, b.Spent, sum, b.Reserved, s.journalText())
		}
		return b
	}
	s.t.Fatalf("budget %s is not listed", id)
	return budget.Standing{}
}

// status returns the status in the session's row.
func (s *scene) status() perdure.SessionStatus {
	s.t.Helper()
	session, err := s.eng.Sessions().Get(s.ctx, s.id)
	if err != nil {
		s.t.Fatal(err)
	}
	return session.Status
}

// sealedBy checks that the session is idle and paused, and that a budget has sealed n turns.
func (s *scene) sealedBy(n int) {
	s.t.Helper()
	s.rest()
	sealed := facts[perdure.TurnSealed](s)
	if len(sealed) != n || len(sealed) > 0 && (sealed[n-1].Reason != "budget" || sealed[n-1].Detail == "") ||
		s.status() != perdure.SessionPaused {
		s.t.Fatalf("sealed %+v, session %s; want %d turns sealed by a budget, and the session paused; journal:\n%s",
			sealed, s.status(), n, s.journalText())
	}
}

const fourNotes = `
steps:
  - {calls: [{name: note, args: {text: a}}], usage: {input_tokens: 700, output_tokens: 300}}
  - {calls: [{name: note, args: {text: b}}], usage: {input_tokens: 700, output_tokens: 300}}
  - {calls: [{name: note, args: {text: c}}], usage: {input_tokens: 700, output_tokens: 300}}
  - {text: done, usage: {input_tokens: 700, output_tokens: 300}, repeat: true}
`

func budgetStopsBeforeTheCall(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes})
	b := s.cap(budget.Calls, "2")

	s.say("go")

	s.sealedBy(1)
	if got := len(s.Effects("note")); got != 2 {
		t.Errorf("%d effects under a budget of 2 calls", got)
	}
	refused := facts[perdure.ToolCompleted](s)[2]
	if refused.Result.ErrorKind != perdure.ErrorRejected || !strings.Contains(refused.Result.Error, "used up") ||
		len(s.ledger()) != 2 {
		t.Errorf("the third call is answered with %+v, and the ledger has %d calls; want a refusal, and no claim",
			refused, len(s.ledger()))
	}
	out := facts[perdure.BudgetExhausted](s)
	if len(out) != 1 || out[0].BudgetID != b.ID || out[0].Balance != "0" || out[0].Limit != "2" ||
		out[0].Currency != "calls" {
		t.Errorf("got %+v, want one budget.exhausted with a balance of 0", out)
	}
	if got := s.standing(b.ID); got.Spent != budget.Whole(2) || got.State != budget.Exhausted || got.PercentLeft != 0 {
		t.Errorf("got %+v, want 2 spent, exhausted", got)
	}
}

func budgetStopsBeforeTheQuestion(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes})
	b := s.cap(budget.Tokens, "1500")

	s.say("go")

	s.sealedBy(1)
	if got := len(facts[perdure.Generation](s)); got != 2 {
		t.Errorf("%d model calls of 1,000 tokens under a budget of 1,500, want 2: "+
			"the second starts while something is left", got)
	}
	if got := s.standing(b.ID); got.Spent != budget.Whole(2000) || got.Balance.String() != "-500" {
		t.Errorf("got %+v, want 2,000 spent", got)
	}
	if warned := facts[perdure.BudgetWarning](s); len(warned) != 1 {
		t.Errorf("%d warnings, want 1", len(warned))
	}
}

func budgetCounts(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes})
	tokens, questions, calls := s.cap(budget.Tokens, "1000000"), s.cap(budget.ModelCalls, "50"), s.cap(budget.Calls,
		"50")
	seconds, bytes := s.cap(budget.Seconds, "3600"), s.cap(budget.Bytes, "1000000")

	s.say("go")
	s.rest()

	for id, want := range map[perdure.BudgetID]int64{tokens.ID: 4000, questions.ID: 4, calls.ID: 3} {
		if got := s.standing(id); got.Spent != budget.Whole(want) || got.State != budget.Active {
			t.Errorf("%s: %s spent, %s; want %d, active", got.Currency, got.Spent, got.State, want)
		}
	}
	if got := s.standing(bytes.ID); got.Spent <= 0 {
		t.Errorf("no bytes were counted")
	}
	s.standing(seconds.ID)
	report, err := s.eng.Budgets().Check(s.ctx, s.id)
	if err != nil || report.State != budget.Active || len(report.Budgets) != 5 {
		t.Errorf("CheckBudgets: %+v, %v", report, err)
	}
}

func budgetEstimates(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: "steps: [{text: no usage, usage: {}, repeat: true}]"})
	b := s.cap(budget.Tokens, "1000000")

	s.say("go")
	s.rest()

	got := s.standing(b.ID)
	lines, err := s.eng.Budgets().Entries(s.ctx, b.ID, 1)
	if err != nil || got.Spent < budget.Whole(4096) || !lines[0].Estimate {
		t.Errorf("got %s spent, %+v, %v; want what was reserved, as an estimate", got.Spent, lines, err)
	}
}

func budgetPauses(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes})
	b := s.cap(budget.Tokens, "100000", func(b *budget.Budget) { b.Soft = budget.Whole(1500) })

	s.say("go")
	s.sealedBy(1)
	paused := facts[perdure.BudgetPaused](s)
	if len(paused) != 1 || paused[0].SoftLimit != "1500" || len(s.Effects("note")) != 2 {
		t.Errorf("got %+v and %d effects, want one budget.paused after the second call", paused, len(s.Effects("note")))
	}
	if report, err := s.eng.Budgets().Check(s.ctx, s.id); err != nil || report.State != budget.Paused {
		t.Errorf("CheckBudgets: %+v, %v; want paused", report, err)
	}

	s.say("are you there?") // is acknowledged and waits
	s.rest()
	if n := s.turns(); n != 1 {
		t.Errorf("%d turns in a paused session, want 1", n)
	}
	if err := s.eng.Sessions().Resume(s.ctx, s.id, "operator"); err != nil {
		t.Fatalf("ResumeSession: %v", err)
	}
	s.turnEnds(2)
	s.rest()

	if s.final() != "done" || len(s.Effects("note")) != 3 || s.status() != perdure.SessionIdle {
		t.Errorf("it ended with %q after %d effects, %s; journal:\n%s",
			s.final(), len(s.Effects("note")), s.status(), s.journalText())
	}
	if err := s.eng.Sessions().Resume(s.ctx, s.id, "operator"); !errors.Is(err, perdure.Conflict) {
		t.Errorf("resume of a session that is not stopped: %v, want Conflict", err)
	}
	s.standing(b.ID)
}

func budgetToppedUp(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes})
	b := s.cap(budget.ModelCalls, "2")
	s.say("go")
	s.sealedBy(1)
	if err := s.eng.Sessions().Resume(s.ctx, s.id, "operator"); !errors.Is(err, perdure.Conflict) {
		t.Errorf("resume with an exhausted budget: %v, want Conflict", err)
	}

	again := s.cap(budget.ModelCalls, "10")

	s.turnEnds(2)
	s.rest()
	resumed := facts[perdure.BudgetResumed](s)
	if again.ID != b.ID || len(resumed) != 1 || resumed[0].BudgetID != b.ID || s.final() != "done" ||
		s.status() != perdure.SessionIdle {
		t.Errorf("got %+v, %q, %s; want one budget.resumed, and the work done; journal:\n%s",
			resumed, s.final(), s.status(), s.journalText())
	}
	if causes := facts[perdure.TurnStarted](s); causes[1].Cause != perdure.CauseResume {
		t.Errorf("the cause of the second turn is %q, want resume", causes[1].Cause)
	}
	s.standing(b.ID)
}

func budgetStrictest(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes})
	wide := s.cap(budget.ModelCalls, "3", func(b *budget.Budget) { b.Subject = budget.Subject{Scope: budget.Org} })
	paused := s.cap(budget.ModelCalls, "1",
		func(b *budget.Budget) { b.Action = budget.Pause; b.Period = period(t, "day") })
	hard := s.cap(budget.ModelCalls, "1")
	warns := s.cap(budget.ModelCalls, "1",
		func(b *budget.Budget) { b.Action = budget.Warn; b.Period = period(t, "every 1h") })

	s.say("go")
	s.sealedBy(1)

	out := facts[perdure.BudgetExhausted](s)
	if len(out) != 1 || out[0].BudgetID != hard.ID || len(facts[perdure.BudgetPaused](s)) != 0 {
		t.Errorf("got %+v, want the hard limit of the session", out)
	}
	for _, id := range []perdure.BudgetID{wide.ID, paused.ID, hard.ID, warns.ID} {
		if got := s.standing(id); got.Spent != budget.Whole(1) {
			t.Errorf("%s %s: %s spent, want 1 on each", got.Scope, got.Period, got.Spent)
		}
	}
}

func period(t *testing.T, text string) budget.Period {
	t.Helper()
	p, err := budget.ParsePeriod(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func budgetKept(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: fourNotes})
	b := s.cap(budget.USD, "12.5",
		func(b *budget.Budget) { b.Period = period(t, "month Europe/Berlin"); b.Soft = amount(t, "10") })
	got := s.standing(b.ID)
	if got.Limit.String() != "12.5" || got.Period.String() != "month Europe/Berlin" || got.ResetsAt.IsZero() ||
		got.Soft.String() != "10" || got.Action != budget.Stop {
		t.Errorf("got %+v", got)
	}
	monthly := func(b *budget.Budget) { b.Period = period(t, "month Europe/Berlin") }
	if again := s.cap(budget.USD, "20", monthly); again.ID != b.ID || !again.CreatedAt.Equal(b.CreatedAt) {
		t.Errorf("set again it is %+v, want the same one", again)
	}
	lines, err := s.eng.Budgets().Entries(s.ctx, b.ID, 0)
	if err != nil || len(lines) != 2 || lines[1].Kind != budget.Set || lines[1].Amount != budget.Whole(20) ||
		lines[0].Name != "user" {
		t.Errorf("the ledger says %+v, %v; want two settings", lines, err)
	}
	for name, wrong := range map[string]budget.Budget{
		"scope":    {Subject: budget.Subject{Scope: "team", ID: "a"}, Currency: budget.USD},
		"currency": {Subject: budget.Subject{Scope: budget.User, ID: "a"}, Currency: "US Dollar"},
		"soft":     {Subject: budget.Subject{Scope: budget.User, ID: "a"}, Currency: budget.USD, Limit: 1, Soft: 2},
		"action":   {Subject: budget.Subject{Scope: budget.User, ID: "a"}, Currency: budget.USD, Action: "explode"},
	} {
		if _, err := s.eng.Budgets().Set(s.ctx, wrong, "user"); !errors.Is(err, perdure.Invalid) {
			t.Errorf("a wrong %s: %v, want Invalid", name, err)
		}
	}
	missing := budget.Budget{
		Subject:  budget.Subject{Scope: budget.Session, ID: "session_00000000000000000000000000000001"},
		Currency: budget.Calls,
	}
	if _, err := s.eng.Budgets().Set(s.ctx, missing, "user"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a missing session: %v, want NotFound", err)
	}
	if err := s.eng.Budgets().Remove(s.ctx, b.ID); err != nil {
		t.Errorf("RemoveBudget: %v", err)
	}
	if err := s.eng.Budgets().Remove(s.ctx, b.ID); !errors.Is(err, perdure.NotFound) {
		t.Errorf("RemoveBudget again: %v, want NotFound", err)
	}
	if report, err := s.eng.Budgets().Check(s.ctx, s.id); err != nil || report.State != budget.NoBudgets ||
		len(report.Budgets) != 0 {
		t.Errorf("CheckBudgets: %+v, %v; want no_budgets", report, err)
	}
}
