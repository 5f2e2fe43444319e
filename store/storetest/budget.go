package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
)

func budgetLaws() []law {
	return []law{
		{"is_kept_as_it_is", budgetKept},
		{"knows_whether_there_is_any", budgetAny},
		{"is_seen_by_who_waited_for_the_session", budgetSeenAfterWait},
		{"are_found_by_subject_and_in_order", budgetsBySubject},
		{"has_one_hold_for_a_piece_of_work", budgetHolds},
		{"has_a_ledger_that_is_only_added_to", budgetLedger},
		{"sums_what_lies_between_two_moments", budgetSums},
		{"locks_what_it_reads", budgetConcurrent},
		{"notes_who_is_stopped", budgetHalts},
		{"goes_with_its_session", budgetGoes},
		{"is_removed_with_its_ledger", budgetRemoved},
	}
}

func budgetID(n int) perdure.BudgetID { return perdure.BudgetID(fmt.Sprintf("bdgt_%032x", n)) }

// account returns a budget of calls.
func account(n int, scope budget.Scope, subject string) budget.Account {
	return budget.Account{Budget: budget.Budget{
		ID: budgetID(n), Subject: budget.Subject{Scope: scope, ID: subject}, Currency: budget.Calls,
		Limit: budget.Whole(300), Action: budget.Stop,
		CreatedAt: moment(1), UpdatedAt: moment(2),
	}}
}

func (s *subject) putBudgets(all ...budget.Account) {
	s.Helper()
	s.write(func(tx store.Tx) error {
		for _, a := range all {
			if err := tx.Budgets().Put(a); err != nil {
				return err
			}
		}
		return nil
	})
}

// budgetSeenAfterWait pins that a transaction that waited for a session sees the budget that was
// set meanwhile, whichever way it locks the session.
func budgetSeenAfterWait(s *subject) {
	for name, lock := range map[string]func(store.Tx, perdure.SessionID) error{
		"Lock": func(tx store.Tx, id perdure.SessionID) error {
			_, err := tx.Sessions().Lock(id, 0)
			return err
		},
		"Acquire": func(tx store.Tx, id perdure.SessionID) error {
			_, err := tx.Sessions().Acquire(id, "w")
			return err
		},
	} {
		id := s.session()
		own := account(1, budget.Session, string(id))
		get := func(tx store.Tx) error {
			_, err := tx.Sessions().Get(id)
			return err
		}
		var some bool
		s.waits(get, func(tx store.Tx) error { return tx.Budgets().Put(own) },
			func(tx store.Tx) (err error) {
				if err := lock(tx, id); err != nil {
					return err
				}
				some, err = tx.Budgets().Any()
				return err
			})
		if !some {
			s.Errorf("after %s: there is no budget, want the one that was set", name)
		}
		s.write(func(tx store.Tx) error { return tx.Budgets().Remove(own.ID) })
	}
}

func (s *subject) budgets(f store.BudgetFilter) (found []budget.Account) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Budgets().List(f)
		return err
	})
	return found
}

func budgetKept(s *subject) {
	period, err := budget.ParsePeriod("month Europe/Berlin")
	if err != nil {
		s.Fatal(err)
	}
	a := account(1, budget.Agent, "\x00 any\xff name:")
	a.Soft, a.Period, a.Spent, a.Reserved, a.Unpriced, a.Warned, a.From = 7, period, -3, budget.MaxAmount, 9, true, moment(5)
	s.putBudgets(a)
	s.reopen()
	s.same("a budget", s.budgets(store.BudgetFilter{}), []budget.Account{a})
	a.Limit, a.Warned, a.From = 1, false, moment(6)
	s.putBudgets(a)
	s.same("a budget, put again", s.budgets(store.BudgetFilter{ID: a.ID}), []budget.Account{a})
	s.same("one that is not there", s.budgets(store.BudgetFilter{ID: budgetID(2)}), []budget.Account(nil))
}

func budgetAny(s *subject) {
	id := s.session()
	some := func(want bool) {
		s.Helper()
		s.write(func(tx store.Tx) error {
			if _, err := tx.Sessions().Lock(id, 0); err != nil {
				return err
			}
			got, err := tx.Budgets().Any()
			if got != want {
				s.Errorf("in a transaction that locked a session: got %t, want %t", got, want)
			}
			return err
		})
		s.read(func(r store.Reader) error {
			got, err := r.Budgets().Any()
			if got != want {
				s.Errorf("in a view: got %t, want %t", got, want)
			}
			return err
		})
	}
	some(false)
	s.putBudgets(account(1, budget.Org, "o"))
	some(true)
	s.write(func(tx store.Tx) error { return tx.Budgets().Remove(budgetID(1)) })
	some(false)
}

func budgetsBySubject(s *subject) {
	a, b, c := account(1, budget.User, "x"), account(2, budget.Org, "x"), account(3, budget.User, "x")
	c.Currency = budget.Tokens
	s.putBudgets(c, b, a, account(4, budget.User, "xx"), account(5, budget.Agent, "user:x"))
	s.same("of a user", s.budgets(store.BudgetFilter{Subjects: []budget.Subject{a.Subject}}), []budget.Account{a, c})
	s.same("of both", s.budgets(store.BudgetFilter{Subjects: []budget.Subject{b.Subject, a.Subject}}),
		[]budget.Account{a, b, c})
	s.same("of an unknown subject", s.budgets(store.BudgetFilter{Subjects: []budget.Subject{{Scope: budget.Session,
		ID: "x"}}}), []budget.Account(nil))
	s.same("another's id", s.budgets(store.BudgetFilter{ID: b.ID, Subjects: []budget.Subject{a.Subject}}),
		[]budget.Account(nil))
	err := s.View(s.ctx, func(r store.Reader) error {
		_, err := r.Budgets().List(store.BudgetFilter{Subjects: make([]budget.Subject, store.MaxSubjects+1)})
		return err
	})
	if !errors.Is(err, perdure.Invalid) {
		s.Errorf("too many subjects: %v, want Invalid", err)
	}
}

func budgetHolds(s *subject) {
	hold := func(n int, session perdure.SessionID, work string, amount budget.Amount) budget.Hold {
		return budget.Hold{Budget: budgetID(n), Session: session, Work: work, Amount: amount, At: moment(3)}
	}
	a, b, c := hold(1, "session_a", "call \xff", 5), hold(2, "session_a", "call \xff", 6),
		hold(1, "session_b", "call \xff", 7)
	s.putBudgets(account(1, budget.Org, "o"), account(2, budget.Org, "p"))
	s.write(func(tx store.Tx) error {
		return errors.Join(tx.Budgets().PutHold(c), tx.Budgets().PutHold(b), tx.Budgets().PutHold(hold(1, "session_a", "call \xff", 99)),
			tx.Budgets().PutHold(a))
	})
	list := func(f store.HoldFilter) (found []budget.Hold) {
		s.read(func(r store.Reader) (err error) {
			found, err = r.Budgets().Holds(f)
			return err
		})
		return found
	}
	s.same("all", list(store.HoldFilter{}), []budget.Hold{a, b, c})
	s.same("of a session", list(store.HoldFilter{Session: "session_b"}), []budget.Hold{c})
	s.same("of its work", list(store.HoldFilter{Session: "session_a", Work: "call \xff"}), []budget.Hold{a, b})
	s.same("of other work", list(store.HoldFilter{Session: "session_a", Work: "call"}), []budget.Hold(nil))
	s.write(func(tx store.Tx) error {
		first, err := tx.Budgets().RemoveHold(a)
		again, also := tx.Budgets().RemoveHold(a)
		if !first || again {
			s.Errorf("the hold existed: %t, and again: %t", first, again)
		}
		return errors.Join(err, also)
	})
	s.same("without it", list(store.HoldFilter{}), []budget.Hold{b, c})
}

func (s *subject) enter(e budget.Entry) (added bool) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		if _, err = tx.Budgets().List(store.BudgetFilter{ID: e.Budget}); err == nil {
			added, err = tx.Budgets().AddEntry(e)
		}
		return err
	})
	return added
}

func (s *subject) ledger(n, limit int) (found []budget.Entry) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Budgets().Entries(store.EntryFilter{Budget: budgetID(n), Limit: limit})
		return err
	})
	return found
}

// charge returns a line of the ledger.
func charge(n int, work string, amount budget.Amount, at time.Time) budget.Entry {
	return budget.Entry{Budget: budgetID(n), Kind: budget.Charge, Session: "session_a", Work: work, Name: "tool \xff",
		Amount: amount, At: at}
}

func budgetLedger(s *subject) {
	s.putBudgets(account(1, budget.Org, "o"))
	a, b, c := charge(1, "c", 5, moment(9)), charge(1, "a", 6, moment(3)), charge(1, "b", -7, moment(5))
	b.Estimate, c.Unpriced, c.Kind = true, true, budget.Set
	if !s.enter(a) || !s.enter(b) || !s.enter(c) {
		s.Error("a line was not added")
	}
	if changed := charge(1, "c", 50, moment(9)); s.enter(changed) {
		s.Error("work was charged twice")
	}
	s.reopen()
	s.same("the ledger", s.ledger(1, 0), []budget.Entry{a, b, c})
	s.same("its end", s.ledger(1, 2), []budget.Entry{b, c})
	s.same("another's", s.ledger(2, 0), []budget.Entry(nil))
}

func budgetSums(s *subject) {
	s.putBudgets(account(1, budget.Org, "o"), account(2, budget.Org, "p"))
	for n, amount := range []budget.Amount{1, 20, 300, 4000} {
		e := charge(1, fmt.Sprint(n), amount, moment(10*(n+1)))
		e.Unpriced = n == 2
		s.enter(e)
	}
	set := charge(1, "set", 7, moment(20))
	set.Kind = budget.Set
	s.enter(set)
	for _, row := range []struct {
		after, upTo time.Time
		want        budget.Total
	}{
		{time.Time{}, time.Time{}, budget.Total{Amount: 4321, Unpriced: 1}},
		{moment(10), moment(30), budget.Total{Amount: 320, Unpriced: 1}},
		{moment(30), time.Time{}, budget.Total{Amount: 4000}},
		{moment(40), time.Time{}, budget.Total{}},
	} {
		s.read(func(r store.Reader) error {
			got, err := r.Budgets().Sum(budgetID(1), row.after, row.upTo)
			s.same("a sum", got, row.want)
			return err
		})
	}
}

// budgetConcurrent has many transactions read an account at once and add one to it. No addition is
// lost, even if the account did not exist before.
func budgetConcurrent(s *subject) {
	s.together(16, func(int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error {
			found, err := tx.Budgets().List(store.BudgetFilter{ID: budgetID(1)})
			a := account(1, budget.Org, "o")
			if len(found) > 0 {
				a = found[0]
			}
			a.Spent = a.Spent.Plus(1)
			if err == nil {
				err = tx.Budgets().Put(a)
			}
			return err
		})
	})
	if got := s.budgets(store.BudgetFilter{}); len(got) != 1 || got[0].Spent != 16 {
		s.Errorf("%+v, want one with 16", got)
	}
}

func budgetHalts(s *subject) {
	list := func() (found []store.BudgetHalt) {
		s.read(func(r store.Reader) (err error) {
			found, err = r.Budgets().Halts()
			return err
		})
		return found
	}
	a, b := store.BudgetHalt{Session: "session_a", Budget: budgetID(1)},
		store.BudgetHalt{Session: "session_b", Budget: budgetID(2)}
	s.write(func(tx store.Tx) error {
		return errors.Join(tx.Budgets().PutHalt(b), tx.Budgets().PutHalt(store.BudgetHalt{Session: "session_a", Budget: budgetID(2)}),
			tx.Budgets().PutHalt(a))
	})
	s.same("what is stopped", list(), []store.BudgetHalt{a, b})
	s.write(func(tx store.Tx) error {
		return errors.Join(tx.Budgets().PutHalt(store.BudgetHalt{Session: "session_b"}),
			tx.Budgets().PutHalt(store.BudgetHalt{Session: "session_c"}))
	})
	s.same("what is stopped then", list(), []store.BudgetHalt{a})
}

func budgetGoes(s *subject) {
	id := s.session()
	own, shared := account(1, budget.Session, string(id)), account(2, budget.Org, "o")
	shared.Reserved = 12
	s.putBudgets(own, shared)
	s.write(func(tx store.Tx) error {
		_, err := tx.Budgets().AddEntry(budget.Entry{Budget: budgetID(2), Kind: budget.Charge, Session: id, Work: "w", Amount: 3,
			At: moment(4)})
		return errors.Join(err, tx.Budgets().PutHold(budget.Hold{Budget: budgetID(2), Session: id, Work: "left", Amount: 12,
			At: moment(4)}),
			tx.Budgets().PutHalt(store.BudgetHalt{Session: id, Budget: budgetID(2)}))
	})
	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(id) })
	shared.Reserved = 0
	s.same("what is left", s.budgets(store.BudgetFilter{}), []budget.Account{shared})
	if lines := s.ledger(2, 0); len(lines) != 1 || lines[0].Session != id {
		s.Errorf("the ledger of others says %+v, want the line of the session", lines)
	}
	s.read(func(r store.Reader) error {
		holds, err := r.Budgets().Holds(store.HoldFilter{})
		halts, also := r.Budgets().Halts()
		if len(holds)+len(halts) != 0 {
			s.Errorf("%+v and %+v are left", holds, halts)
		}
		return errors.Join(err, also)
	})

	other := s.session() // its halt outlives all budgets
	s.write(func(tx store.Tx) error {
		return errors.Join(tx.Budgets().Remove(budgetID(2)),
			tx.Budgets().PutHalt(store.BudgetHalt{Session: other, Budget: budgetID(2)}))
	})
	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(other) })
	s.read(func(r store.Reader) error {
		halts, err := r.Budgets().Halts()
		if len(halts) != 0 {
			s.Errorf("%+v are left without budgets", halts)
		}
		return err
	})
}

func budgetRemoved(s *subject) {
	s.putBudgets(account(1, budget.Org, "o"), account(2, budget.Org, "p"))
	s.enter(charge(1, "w", 1, moment(3)))
	s.enter(charge(2, "w", 1, moment(3)))
	s.write(func(tx store.Tx) error {
		return errors.Join(tx.Budgets().PutHold(budget.Hold{Budget: budgetID(1), Session: "session_a", Work: "w", Amount: 1,
			At: moment(3)}), tx.Budgets().Remove(budgetID(1)))
	})
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Budgets().Remove(budgetID(1)) })
	s.same("its ledger", s.ledger(1, 0), []budget.Entry(nil))
	if len(s.ledger(2, 0)) != 1 {
		s.Error("the ledger of another budget was removed")
	}
}
