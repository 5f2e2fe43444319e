package memory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
)

// budgets is the budget part of a state.
type budgets struct {
	accounts tree[budget.Account]    // by id
	holds    tree[budget.Hold]       // by session, work and budget
	entries  tree[row[budget.Entry]] // by budget, session and work
	halts    tree[store.BudgetHalt]  // by session
}

// budgetKey joins ids and names. No id contains a NUL.
func budgetKey(parts ...string) string { return strings.Join(parts, "\x00") }

func (v budgetStore) Any() (bool, error) { return v.accounts.root != nil, nil }

func (v budgetStore) List(filter store.BudgetFilter) ([]budget.Account, error) {
	if len(filter.Subjects) > store.MaxSubjects {
		return nil, fmt.Errorf("list budgets: %w: %d subjects, at most %d", perdure.Invalid, len(filter.Subjects),
			store.MaxSubjects)
	}
	var found []budget.Account
	for _, a := range v.accounts.from("") {
		if (filter.ID == "" || filter.ID == a.ID) &&
			(filter.Subjects == nil || slices.Contains(filter.Subjects, a.Subject)) {
			found = append(found, a)
		}
	}
	return found, nil
}

// Holds lists holds by session, work and budget.
func (v budgetStore) Holds(filter store.HoldFilter) ([]budget.Hold, error) {
	var found []budget.Hold
	for _, h := range v.holds.from("") {
		if (filter.Session == "" || filter.Session == h.Session) && (filter.Work == "" || filter.Work == h.Work) {
			found = append(found, h)
		}
	}
	return found, nil
}

func (v budgetStore) Entries(filter store.EntryFilter) ([]budget.Entry, error) {
	var rows []row[budget.Entry]
	for key, r := range v.entries.from(budgetKey(string(filter.Budget), "")) {
		if !strings.HasPrefix(key, budgetKey(string(filter.Budget), "")) {
			break
		}
		rows = append(rows, r)
	}
	found := inOrder(rows)
	if filter.Limit > 0 && len(found) > filter.Limit {
		found = found[len(found)-filter.Limit:]
	}
	return found, nil
}

func (v budgetStore) Sum(id perdure.BudgetID, after, upTo time.Time) (sum budget.Total, err error) {
	all, err := v.Budgets().Entries(store.EntryFilter{Budget: id})
	for _, e := range all {
		if e.Kind != budget.Charge || !e.At.After(micro(after)) || !upTo.IsZero() && e.At.After(micro(upTo)) {
			continue
		}
		sum.Amount = sum.Amount.Plus(e.Amount)
		if e.Unpriced {
			sum.Unpriced++
		}
	}
	return sum, err
}

func (v budgetStore) Halts() (found []store.BudgetHalt, err error) {
	for _, h := range v.halts.from("") {
		found = append(found, h)
	}
	return found, nil
}

func (t budgetStore) Put(a budget.Account) error {
	a.From, a.CreatedAt, a.UpdatedAt = micro(a.From), micro(a.CreatedAt), micro(a.UpdatedAt)
	t.accounts = t.accounts.put(string(a.ID), a)
	return nil
}

// Remove removes a budget with its holds and its ledger.
func (t budgetStore) Remove(id perdure.BudgetID) error {
	if !t.accounts.has(string(id)) {
		return fmt.Errorf("remove budget %s: %w", id, perdure.NotFound)
	}
	t.accounts = t.accounts.remove(string(id))
	t.holds = without(t.holds, func(h budget.Hold) bool { return h.Budget == id })
	t.entries = without(t.entries, func(r row[budget.Entry]) bool { return r.value.Budget == id })
	return nil
}

func (t budgetStore) PutHold(h budget.Hold) error {
	h.At = micro(h.At)
	t.holds = t.holds.put(budgetKey(string(h.Session), h.Work, string(h.Budget)), h)
	return nil
}

func (t budgetStore) RemoveHold(h budget.Hold) (bool, error) {
	key := budgetKey(string(h.Session), h.Work, string(h.Budget))
	was := t.holds.has(key)
	t.holds = t.holds.remove(key)
	return was, nil
}

// AddEntry adds a line to the ledger once.
func (t budgetStore) AddEntry(e budget.Entry) (bool, error) {
	key := budgetKey(string(e.Budget), string(e.Session), e.Work)
	if t.entries.has(key) {
		return false, nil
	}
	e.At = micro(e.At)
	t.entries = t.entries.put(key, row[budget.Entry]{position: t.nextPosition(), value: e})
	return true, nil
}

// PutHalt records which budget halts a session.
func (t budgetStore) PutHalt(h store.BudgetHalt) error {
	if h.Budget == "" {
		t.halts = t.halts.remove(string(h.Session))
		return nil
	}
	t.halts = t.halts.put(string(h.Session), h)
	return nil
}

// removeBudgets removes what a session has of budgets.
func (t *tx) removeBudgets(id perdure.SessionID) {
	for key, a := range t.accounts.from("") {
		if a.Scope == budget.Session && a.Subject.ID == string(id) {
			_ = t.Budgets().Remove(perdure.BudgetID(key)) // the budget exists
		}
	}
	for key, h := range t.holds.from("") { // of work that no longer runs
		if h.Session != id {
			continue
		}
		t.holds = t.holds.remove(key)
		if a, ok := t.accounts.get(string(h.Budget)); ok {
			a.Reserved = a.Reserved.Less(h.Amount)
			t.accounts = t.accounts.put(string(h.Budget), a)
		}
	}
	t.halts = t.halts.remove(string(id))
}
