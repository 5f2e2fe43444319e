package meter_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"pgregory.net/rapid"
)

// TestMeterLaws does random work on random budgets: sessions, subagents, reservations that are
// settled, released or settled twice, arbitrary usage, and passing time. After every step each
// account equals its ledger and its holds within its period, and spending exceeds the limit by at
// most what one piece of work used (S22).
func TestMeterLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC)
		st := memory.New(memory.Config{Now: func() time.Time { return now }})
		defer st.Close()
		m := meter.New(meter.Config{Answer: 50})
		in := func(fn func(store.Tx) error) {
			if err := st.InTx(t.Context(), fn); err != nil {
				rt.Fatal(err)
			}
		}
		period, err := budget.ParsePeriod(rapid.SampledFrom([]string{"none", "every 1h", "rolling 1h",
			"day Europe/Berlin"}).Draw(rt, "period"))
		if err != nil {
			rt.Fatal(err)
		}
		in(func(tx store.Tx) error {
			for n, s := range []budget.Subject{{Scope: budget.Session, ID: "root"},
				{Scope: budget.Session, ID: "child"}, {Scope: budget.Org, ID: budget.DefaultOrg}} {
				b := budget.Budget{ID: id(n + 1), Subject: s, Currency: budget.Tokens, Limit: budget.Whole(300),
					Action: budget.Stop, Period: period, CreatedAt: now}
				a := budget.Account{Budget: b}
				a.From, _ = a.NextWindow(now)
				if err := tx.Budgets().Put(a); err != nil {
					return err
				}
			}
			return nil
		})
		root := meter.Owner{Session: "root"}
		child := meter.Owner{Session: "child", Lineage: &perdure.Lineage{Parent: "root", Root: "root"}}
		type begun struct {
			who  meter.Owner
			work string
		}
		open := map[string]begun{} // by session and work
		steps := rapid.IntRange(1, 40).Draw(rt, "steps")
		for n := range steps {
			who := root
			if rapid.Bool().Draw(rt, "child") {
				who = child
			}
			work := budget.StepWork(perdure.ExecID(string(rune('a' + rapid.IntRange(0, 5).Draw(rt, "work")))))
			used := perdure.Usage{InputTokens: rapid.Int64Range(-5, 60).Draw(rt, "in"),
				OutputTokens: rapid.Int64Range(-5, 60).Draw(rt, "out")}
			switch rapid.IntRange(0, 3).Draw(rt, "do") {
			case 0, 1:
				work += string(rune('0' + n%10)) // another attempt
				uses := meter.WorkUsage{Usage: perdure.Usage{InputTokens: 50, OutputTokens: 50}}
				in(func(tx store.Tx) error {
					no, err := m.Reserve(tx, meter.Request{Owner: who, Work: work, Uses: uses})
					if err == nil && no == nil {
						open[string(who.Session)+" "+work] = begun{who, work}
					}
					return err
				})
			case 2:
				for key, o := range open {
					b := meter.Bill{Owner: o.who, Work: o.work, Uses: meter.WorkUsage{Usage: used},
						UsageUnknown: !meter.Known(used), Release: used.InputTokens == 7}
					if b.UsageUnknown {
						b.Uses.Usage = perdure.Usage{InputTokens: 60, OutputTokens: 60}
					}
					in(func(tx store.Tx) error { _, err := m.Settle(tx, b); return err })
					if used.OutputTokens%2 == 0 { // the answer of a commit was lost
						in(func(tx store.Tx) error { _, err := m.Settle(tx, b); return err })
					}
					delete(open, key)
					break
				}
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(rt, "minutes")) * time.Minute)
			}
			check(t, rt, st, len(open))
		}
	})
}

// check compares each account with its ledger and its holds.
func check(t *testing.T, rt *rapid.T, st store.Store, open int) {
	err := st.View(t.Context(), func(r store.Reader) error {
		accounts, err := r.Budgets().List(store.BudgetFilter{})
		if err != nil {
			return err
		}
		holds, err := r.Budgets().Holds(store.HoldFilter{})
		for _, a := range accounts {
			stored, _ := r.Budgets().Sum(a.ID, a.From, time.Time{})
			var held budget.Amount
			for _, h := range holds {
				if h.Budget == a.ID {
					held = held.Plus(h.Amount)
				}
			}
			if a.Spent != stored.Amount || a.Reserved != held {
				rt.Fatalf("%s: spent %s, its ledger says %s; reserved %s, its holds say %s", a.Subject.ID, a.Spent,
					stored.Amount, a.Reserved, held)
			}
			a, wrong := meter.Current(r, a)
			if wrong != nil {
				return wrong
			}
			from, _ := a.Period.Window(r.Now(), a.CreatedAt)
			if sum, _ := r.Budgets().Sum(a.ID, from, time.Time{}); a.Spent != sum.Amount {
				rt.Fatalf("%s: %s in this period, its ledger says %s", a.Subject.ID, a.Spent, sum.Amount)
			}
			if most := a.Limit.Plus(budget.Whole(120)); a.Spent.Plus(a.Reserved) > most && a.Period.IsZero() {
				rt.Fatalf("%s: %s spent and %s reserved under a limit of %s", a.Subject.ID, a.Spent, a.Reserved,
					a.Limit)
			}
		}
		if open == 0 && len(holds) != 0 {
			rt.Fatalf("%d holds are left", len(holds))
		}
		return err
	})
	if err != nil {
		rt.Fatal(err)
	}
}

// TestKnown: a provider may report any usage (BU3).
func TestKnown(t *testing.T) {
	t.Parallel()
	for u, want := range map[perdure.Usage]bool{
		{InputTokens: 1}:                   true,
		{OutputTokens: 1}:                  true,
		{}:                                 false,
		{InputTokens: -1, OutputTokens: 5}: false,
		{InputTokens: 1 << 62}:             false,
		{CachedTokens: 5}:                  false,
	} {
		if meter.Known(u) != want {
			t.Errorf("%+v: got %t", u, !want)
		}
	}
}
