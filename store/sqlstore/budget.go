package sqlstore

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/store"
)

const (
	accountColumns = `id, scope, subject, currency, limit_um, soft_um, period, action, spent_um, reserved_um, unpriced, warned,
	from_us, created_us, updated_us`
	holdColumns  = `budget_id, session_id, work, amount_um, at_us`
	entryColumns = `budget_id, session_id, work, kind, name, amount_um, estimate, unpriced, at_us`
)

// The statements of budgets. Everything about a budget is written under the lock of its row.
const (
	anyBudget    = `EXISTS (SELECT 1 FROM budget)`
	selectAny    = `SELECT ` + anyBudget
	selectBudget = `SELECT ` + accountColumns + ` FROM budget WHERE id = $1`
	listBudgets  = `SELECT ` + accountColumns + ` FROM budget ORDER BY id`
	listOwned    = `SELECT ` + accountColumns +
		` FROM budget WHERE owner IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ORDER BY id`
	putBudget = `INSERT INTO budget (owner, ` + accountColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
		ON CONFLICT (id) DO UPDATE SET limit_um = excluded.limit_um, soft_um = excluded.soft_um, action = excluded.action,
			spent_um = excluded.spent_um, reserved_um = excluded.reserved_um, unpriced = excluded.unpriced, warned = excluded.warned,
			from_us = excluded.from_us, created_us = excluded.created_us, updated_us = excluded.updated_us`
	removeBudget        = `DELETE FROM budget WHERE id = $1`
	removeBudgetHolds   = `DELETE FROM budget_hold WHERE budget_id = $1`
	removeBudgetEntries = `DELETE FROM budget_entry WHERE budget_id = $1`

	listHolds = `SELECT ` + holdColumns + ` FROM budget_hold WHERE ($1 = '' OR session_id = $1) AND ($2 OR work = $3)
		ORDER BY session_id, work, budget_id`
	listWorkHolds = `SELECT ` + holdColumns + ` FROM budget_hold WHERE session_id = $1 AND work = $2 ORDER BY budget_id`
	putHold       = `INSERT INTO budget_hold (` + holdColumns + `) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (session_id, work, budget_id) DO UPDATE SET amount_um = excluded.amount_um, at_us = excluded.at_us`
	removeHold = `DELETE FROM budget_hold WHERE session_id = $1 AND work = $2 AND budget_id = $3`

	listEntries = `SELECT ` + entryColumns + ` FROM budget_entry WHERE budget_id = $1 ORDER BY position DESC LIMIT $2`
	addEntry    = `INSERT INTO budget_entry (` + entryColumns + `, position) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,
		(SELECT COALESCE(MAX(position), 0) + 1 FROM budget_entry WHERE budget_id = $1)) ON CONFLICT (budget_id, session_id, work) DO NOTHING`
	sumEntries = `SELECT CAST(COALESCE(SUM(amount_um), 0) AS BIGINT), CAST(COALESCE(SUM(CASE WHEN unpriced THEN 1 ELSE 0 END), 0) AS BIGINT)
		FROM budget_entry WHERE budget_id = $1 AND kind = 'charge' AND at_us > $2 AND at_us <= $3`

	listHalts  = `SELECT session_id, budget_id FROM budget_halt ORDER BY session_id`
	putHalt    = `INSERT INTO budget_halt (session_id, budget_id) VALUES ($1, $2) ON CONFLICT (session_id) DO UPDATE SET budget_id = excluded.budget_id`
	removeHalt = `DELETE FROM budget_halt WHERE session_id = $1`

	releaseSessionHolds = `UPDATE budget SET reserved_um = reserved_um
		- (SELECT COALESCE(SUM(amount_um), 0) FROM budget_hold WHERE budget_id = budget.id AND session_id = $1)
		WHERE id IN (SELECT budget_id FROM budget_hold WHERE session_id = $1)`
	removeSessionHolds = `DELETE FROM budget_hold WHERE session_id = $1`
)

// Any reports whether there is any budget. Sessions.Lock and Sessions.Acquire read it along with
// the session, which saves a statement.
func (tx budgetStore) Any() (bool, error) {
	if tx.budgeted != nil {
		return *tx.budgeted, nil
	}
	some, err := one(tx.Tx, truth, selectAny)
	if err != nil {
		return false, fmt.Errorf("look for budgets: %w", err)
	}
	tx.budgeted = &some
	return some, nil
}

// noteBudgeted records whether the statement that locked a session found any budget. A statement
// that waited for the lock read the budgets as of before it waited. So where transactions can wait
// for each other, "none" is not recorded: Any reads it again, under the lock.
func (tx *Tx) noteBudgeted(some bool) {
	if some || tx.alone() {
		tx.budgeted = &some
	}
}

// List lists accounts by id, locked in that order.
func (tx budgetStore) List(filter store.BudgetFilter) (found []budget.Account, err error) {
	switch {
	case len(filter.Subjects) > store.MaxSubjects:
		err = fmt.Errorf("%w: %d subjects, at most %d", perdure.Invalid, len(filter.Subjects), store.MaxSubjects)
	case filter.ID != "":
		var a budget.Account
		if a, err = oneOrNone(tx.Tx, scanAccount, selectBudget, filter.ID); missing(err) {
			return nil, nil
		}
		if filter.Subjects == nil || slices.Contains(filter.Subjects, a.Subject) {
			found = append(found, a)
		}
	case filter.Subjects == nil:
		found, err = list(tx.Tx, scanAccount, tx.locked(listBudgets))
	default:
		args := make([]any, store.MaxSubjects)
		for i := range args {
			args[i] = []byte{} // matches no owner
		}
		for i, s := range filter.Subjects {
			args[i] = ownerOf(s)
		}
		found, err = list(tx.Tx, scanAccount, tx.locked(listOwned), args...)
	}
	return wrapped(found, err, "list budgets")
}

// ownerOf encodes a subject as one value.
func ownerOf(s budget.Subject) []byte { return []byte(string(s.Scope) + ":" + s.ID) }

// Holds lists holds by session, work and budget.
func (tx budgetStore) Holds(filter store.HoldFilter) (found []budget.Hold, err error) {
	if filter.Session != "" && filter.Work != "" {
		found, err = list(tx.Tx, scanHold, listWorkHolds, filter.Session, bytesOf(filter.Work))
	} else {
		found, err = list(tx.Tx, scanHold, listHolds, filter.Session, filter.Work == "", bytesOf(filter.Work))
	}
	return wrapped(found, err, "list holds")
}

func (tx budgetStore) Entries(filter store.EntryFilter) ([]budget.Entry, error) {
	found, err := list(tx.Tx, scanEntry, listEntries, filter.Budget, orAll(filter.Limit))
	if err != nil {
		return nil, fmt.Errorf("list the ledger of budget %s: %w", filter.Budget, err)
	}
	slices.Reverse(found)
	return found, nil
}

func (tx budgetStore) Sum(id perdure.BudgetID, after, upTo time.Time) (budget.Total, error) {
	last := int64(math.MaxInt64)
	if !upTo.IsZero() {
		last = micros(upTo)
	}
	sum, err := one(tx.Tx, scanSum, sumEntries, id, micros(after), last)
	return wrapped(sum, err, "sum up budget %s", id)
}

func (tx budgetStore) Halts() ([]store.BudgetHalt, error) {
	found, err := list(tx.Tx, scanHalt, listHalts)
	return wrapped(found, err, "list halted sessions")
}

func (tx budgetStore) Put(a budget.Account) error {
	_, err := tx.exec(putBudget, ownerOf(a.Subject), a.ID, a.Scope, bytesOf(a.Subject.ID), a.Currency, int64(a.Limit),
		int64(a.Soft), a.Period.String(), a.Action, int64(a.Spent), int64(a.Reserved), a.Unpriced, a.Warned,
		micros(a.From), micros(a.CreatedAt), micros(a.UpdatedAt))
	if err != nil {
		return fmt.Errorf("put budget %s: %w", a.ID, err)
	}
	tx.budgeted = nil
	return nil
}

// Remove removes a budget with its holds and its ledger.
func (tx budgetStore) Remove(id perdure.BudgetID) error {
	n, err := tx.exec(removeBudget, id)
	if err == nil && n == 0 {
		err = perdure.NotFound
	}
	for _, statement := range []string{removeBudgetHolds, removeBudgetEntries} {
		if err == nil {
			_, err = tx.exec(statement, id)
		}
	}
	if err != nil {
		return fmt.Errorf("remove budget %s: %w", id, err)
	}
	tx.budgeted = nil
	return nil
}

func (tx budgetStore) PutHold(h budget.Hold) error {
	if _, err := tx.exec(putHold, h.Budget, h.Session, bytesOf(h.Work), int64(h.Amount), micros(h.At)); err != nil {
		return fmt.Errorf("hold of budget %s: %w", h.Budget, err)
	}
	return nil
}

func (tx budgetStore) RemoveHold(h budget.Hold) (bool, error) {
	n, err := tx.exec(removeHold, h.Session, bytesOf(h.Work), h.Budget)
	return wrapped(n > 0, err, "remove hold of budget %s", h.Budget)
}

// AddEntry adds a line to the ledger once.
func (tx budgetStore) AddEntry(e budget.Entry) (bool, error) {
	n, err := tx.exec(addEntry, e.Budget, e.Session, bytesOf(e.Work), e.Kind, bytesOf(e.Name), int64(e.Amount),
		e.Estimate, e.Unpriced, micros(e.At))
	return wrapped(n > 0, err, "add to the ledger of budget %s", e.Budget)
}

// PutHalt records which budget halts a session.
func (tx budgetStore) PutHalt(h store.BudgetHalt) (err error) {
	if h.Budget == "" {
		_, err = tx.exec(removeHalt, h.Session)
	} else {
		_, err = tx.exec(putHalt, h.Session, h.Budget)
	}
	return wrap(err, "record halt of session %s", h.Session)
}

// removeBudgets removes what a session has of budgets.
func (tx *Tx) removeBudgets(id perdure.SessionID) error {
	own := budget.Subject{Scope: budget.Session, ID: string(id)}
	if _, err := tx.exec(removeHalt, id); err != nil { // also if the budget itself was removed
		return err
	}
	some, err := tx.Budgets().Any()
	if err != nil || !some {
		return err
	}
	for _, statement := range []string{releaseSessionHolds, removeSessionHolds} {
		if _, err := tx.exec(statement, id); err != nil {
			return err
		}
	}
	accounts, err := tx.Budgets().List(store.BudgetFilter{Subjects: []budget.Subject{own}})
	for _, a := range accounts {
		if err == nil {
			err = tx.Budgets().Remove(a.ID)
		}
	}
	return err
}

func scanAccount(r row) (a budget.Account, err error) {
	var subject []byte
	var period string
	var from, created, updated int64
	err = r.Scan(&a.ID, &a.Scope, &subject, &a.Currency, &a.Limit, &a.Soft, &period, &a.Action, &a.Spent, &a.Reserved,
		&a.Unpriced, &a.Warned,
		&from, &created, &updated)
	if err != nil {
		return a, err
	}
	a.Subject.ID, a.From, a.CreatedAt, a.UpdatedAt = string(subject), moment(from), moment(created), moment(updated)
	if a.Period, err = budget.ParsePeriod(period); err != nil {
		return a, fmt.Errorf("budget %s: its stored period is not readable: %w", a.ID, err)
	}
	return a, nil
}

func scanHold(r row) (h budget.Hold, err error) {
	var work []byte
	var at int64
	err = r.Scan(&h.Budget, &h.Session, &work, &h.Amount, &at)
	h.Work, h.At = string(work), moment(at)
	return h, err
}

func scanEntry(r row) (e budget.Entry, err error) {
	var work, name []byte
	var at int64
	err = r.Scan(&e.Budget, &e.Session, &work, &e.Kind, &name, &e.Amount, &e.Estimate, &e.Unpriced, &at)
	e.Work, e.Name, e.At = string(work), string(name), moment(at)
	return e, err
}

func scanSum(r row) (s budget.Total, err error) {
	err = r.Scan(&s.Amount, &s.Unpriced)
	return s, err
}

func scanHalt(r row) (h store.BudgetHalt, err error) {
	err = r.Scan(&h.Session, &h.Budget)
	return h, err
}
