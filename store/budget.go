package store

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
)

// BudgetFilter narrows a list of budgets. The zero value lists all.
type BudgetFilter struct {
	ID       perdure.BudgetID // empty: any
	Subjects []budget.Subject // those of any of these, at most MaxSubjects; nil: of everybody
}

// MaxSubjects is how many subjects a filter may name.
const MaxSubjects = 12

// HoldFilter narrows a list of holds. The zero value lists all.
type HoldFilter struct {
	Session perdure.SessionID // empty: of all sessions
	Work    string            // empty: any
}

// EntryFilter narrows a list of entries.
type EntryFilter struct {
	Budget perdure.BudgetID // whose ledger it is
	Limit  int              // the last ones; 0: all
}

// BudgetHalt is a session that a budget keeps from going on.
type BudgetHalt struct {
	Session perdure.SessionID
	Budget  perdure.BudgetID
}

// BudgetReader reads budgets and their ledgers.
type BudgetReader interface {
	// Budgeted reports whether there is any budget at all. It costs next to nothing where a session was locked before.
	Budgeted() (bool, error)
	// Budgets lists accounts by id. In a transaction they are locked in that order until its end, and so is the question for an
	// id that is not there: of two that would add it, one comes after the other. Ask once for all that is needed.
	Budgets(filter BudgetFilter) ([]budget.Account, error)
	// BudgetHolds lists holds by session, work and budget.
	BudgetHolds(filter HoldFilter) ([]budget.Hold, error)
	// BudgetEntries lists the ledger of a budget in the order in which it was written.
	BudgetEntries(filter EntryFilter) ([]budget.Entry, error)
	// BudgetSum adds up the charges of a budget after a moment, up to and with another; a zero one is no bound.
	BudgetSum(id perdure.BudgetID, after, upTo time.Time) (budget.Sum, error)
	// BudgetHalts lists the sessions that budgets keep from going on, by session.
	BudgetHalts() ([]BudgetHalt, error)
}

// BudgetWriter writes budgets. Whoever writes what stands on a budget has read its account in the same transaction. The
// budgets of a session go with it, and so do its holds and its halt; its entries in the ledgers of others stay.
type BudgetWriter interface {
	// PutBudget adds an account, or replaces the one of its id.
	PutBudget(a budget.Account) error
	// RemoveBudget removes a budget with its holds and its ledger. NotFound: there is none.
	RemoveBudget(id perdure.BudgetID) error
	// PutHold adds a hold, or replaces the one of its budget, session and work.
	PutHold(h budget.Hold) error
	// RemoveHold says whether a hold of this budget, session and work was there.
	RemoveHold(h budget.Hold) (bool, error)
	// AddEntry adds a line to the ledger, and says whether it did: of a budget, a session and its work there is one, which is
	// never changed.
	AddEntry(e budget.Entry) (bool, error)
	// PutHalt notes which budget keeps a session from going on. An empty one: none does.
	PutHalt(h BudgetHalt) error
}
