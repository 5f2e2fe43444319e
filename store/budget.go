package store

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
)

// BudgetFilter narrows a list of budgets. The zero value lists all.
type BudgetFilter struct {
	ID       perdure.BudgetID // empty: any
	Subjects []budget.Subject // of any of these, at most MaxSubjects; nil: of all
}

// MaxSubjects is the largest number of subjects in a filter.
const MaxSubjects = 12

// HoldFilter narrows a list of holds. The zero value lists all.
type HoldFilter struct {
	Session perdure.SessionID // empty: of all sessions
	Work    string            // empty: any
}

// EntryFilter narrows a list of entries.
type EntryFilter struct {
	Budget perdure.BudgetID // whose ledger it is
	Limit  int              // the newest ones; 0: all
}

// BudgetHalt is a session that is halted by a budget.
type BudgetHalt struct {
	Session perdure.SessionID
	Budget  perdure.BudgetID
}

// BudgetReader reads budgets and their ledgers.
type BudgetReader interface {
	// Any reports whether there is any budget. It is nearly free if a session was locked
	// before.
	Any() (bool, error)
	// List lists accounts by id. A transaction locks them in that order until its end. It also
	// locks an id that does not exist, so that of two transactions that add it, one waits for the
	// other. Ask once for all accounts that are needed, or transactions may deadlock.
	List(filter BudgetFilter) ([]budget.Account, error)
	// Holds lists holds by session, work and budget.
	Holds(filter HoldFilter) ([]budget.Hold, error)
	// Entries lists the ledger of a budget, in the order of writing.
	Entries(filter EntryFilter) ([]budget.Entry, error)
	// Sum adds up the charges of a budget after one time, up to and including another; a zero
	// time is no bound.
	Sum(id perdure.BudgetID, after, upTo time.Time) (budget.Total, error)
	// Halts lists the halted sessions, by session.
	Halts() ([]BudgetHalt, error)
}

// BudgetWriter writes budgets. A caller that changes anything of a budget has read its account in
// the same transaction. The budgets of a session are removed with it, and so are its holds and its
// halt; its entries in other ledgers stay.
type BudgetWriter interface {
	// Put adds an account, or replaces the one with its id.
	Put(a budget.Account) error
	// Remove removes a budget with its holds and its ledger. NotFound: there is none.
	Remove(id perdure.BudgetID) error
	// PutHold adds a hold, or replaces the one of its budget, session and work.
	PutHold(h budget.Hold) error
	// RemoveHold removes the hold of this budget, session and work, and reports whether there was
	// one.
	RemoveHold(h budget.Hold) (bool, error)
	// AddEntry adds a line to the ledger, and reports whether it did. There is one line for each
	// budget, session and work, and it is never changed.
	AddEntry(e budget.Entry) (bool, error)
	// PutHalt records which budget halts a session; empty: none.
	PutHalt(h BudgetHalt) error
}
