package budget

import (
	"fmt"
	"time"
)

// warnBelow is the percentage of the limit at which a budget warns.
const warnBelow = 20

// Account is a budget with its bookings. Spent is the sum of its entries after From, and Reserved
// the sum of its holds.
type Account struct {
	Budget
	Spent    Amount    `json:"spent"`
	Reserved Amount    `json:"reserved"`
	From     time.Time `json:"from,omitzero"`    // earlier entries do not count any more; zero: all count
	Unpriced int64     `json:"unpriced"`         // entries after From with an unknown price
	Warned   bool      `json:"warned,omitempty"` // the warning of this period was recorded
}

// Available returns the limit without what was spent or is reserved. It may be negative.
func (a Account) Available() Amount { return a.Limit.Less(a.Spent).Less(a.Reserved) }

// Balance returns the limit without what was spent. It may be negative.
func (a Account) Balance() Amount { return a.Limit.Less(a.Spent) }

// NextWindow returns the start of the window that contains now, and whether it is later than the
// account's own. If so, the entries between the two no longer count.
func (a Account) NextWindow(now time.Time) (from time.Time, later bool) {
	from, _ = a.Period.Window(now, a.CreatedAt)
	from = from.Truncate(time.Microsecond)
	return from, from.After(a.From)
}

// InWindow returns the account in a later window, without the entries that no longer count.
func (a Account) InWindow(from time.Time, expired Total) Account {
	a.From, a.Spent, a.Unpriced = from, a.Spent.Less(expired.Amount), a.Unpriced-expired.Unpriced
	if a.Period.kind != rolling || !a.low() {
		a.Warned = false
	}
	return a
}

// WithEntry returns the account after an entry was added.
func (a Account) WithEntry(e Entry) Account {
	if !a.From.IsZero() && !e.At.After(a.From) {
		return a // its window is over
	}
	a.Spent = a.Spent.Plus(e.Amount)
	if e.Unpriced {
		a.Unpriced++
	}
	return a
}

// low reports whether a fifth of the limit or less is left.
func (a Account) low() bool {
	return a.Balance() <= a.Limit/100*warnBelow+a.Limit%100*warnBelow/100
}

// WarningDue reports whether a warning is due.
func (a Account) WarningDue() bool { return !a.Warned && a.Limit > 0 && a.low() }

// ResetsAt returns when the next period begins; zero: there is no such moment.
func (a Account) ResetsAt(now time.Time) time.Time {
	_, until := a.Period.Window(now, a.CreatedAt)
	return until
}

// Total is the sum of entries.
type Total struct {
	Amount   Amount
	Unpriced int64
}

// Need is the most that work needs of a currency.
type Need struct {
	Amount   Amount
	Unpriced string // the model or tool with an unknown price; empty: Amount is known
}

// Refusal says why work must not start.
type Refusal struct {
	Account  Account
	Soft     bool   // a person can let the work start
	Unpriced string // the model or tool with an unknown price, if that is the reason
	Why      string // one sentence
}

// Refuses returns why work must not start, or nil. Work needs a part of the limit that is neither
// spent nor reserved. Of several works that start at the same time, at most one can therefore
// exceed the limit, and by at most what it reserves. step says that the work is a step of a
// session, for which the soft limit counts. waived says that a person let the session exceed the
// limits that a person can waive.
func (a Account) Refuses(need Need, step, waived bool) *Refusal {
	if a.Action == Warn {
		return nil
	}
	_, of := a.Subject.Plain()
	name := fmt.Sprintf("budget %s of %s %s", a.ID, of.Scope, of.ID)
	switch {
	case a.Action == Pause && waived:
		return nil
	case a.Available() <= 0:
		why := fmt.Sprintf("the %s is used up: %s of %s %s", name, a.Spent, a.Limit, a.Currency)
		if a.Reserved > 0 {
			why += fmt.Sprintf(", and %s reserved", a.Reserved)
		}
		return &Refusal{Account: a, Soft: a.Action == Pause, Why: why}
	case waived:
		return nil
	case need.Unpriced != "":
		why := fmt.Sprintf("the %s is in %s, and the price of %s is not known", name, a.Currency, need.Unpriced)
		return &Refusal{Account: a, Soft: true, Unpriced: need.Unpriced, Why: why}
	case step && a.Soft > 0 && a.Spent.Plus(a.Reserved) >= a.Soft:
		why := fmt.Sprintf("the soft limit of the %s is passed: %s of %s %s", name, a.Spent, a.Soft, a.Currency)
		return &Refusal{Account: a, Soft: true, Why: why}
	}
	return nil
}
