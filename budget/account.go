package budget

import (
	"fmt"
	"time"
)

// warnBelow is the part of a limit, in hundredths, with which a budget warns (BU3).
const warnBelow = 20

// Account is a budget and what stands on it. Spent is what its entries after From add up to, and Reserved what its holds do.
type Account struct {
	Budget
	Spent    Amount    `json:"spent"`
	Reserved Amount    `json:"reserved"`
	From     time.Time `json:"from,omitzero"`    // what was spent until then does not count any more; zero: all counts
	Unpriced int64     `json:"unpriced"`         // entries after From whose price is not known
	Warned   bool      `json:"warned,omitempty"` // it was said in this period that little is left
}

// Left is what neither was spent nor is reserved; it may be below zero.
func (a Account) Left() Amount { return a.Limit.Less(a.Spent).Less(a.Reserved) }

// Balance is what was not spent; it may be below zero.
func (a Account) Balance() Amount { return a.Limit.Less(a.Spent) }

// Moves is the start of the window that now is in, and whether that is a later one than the account has. Then what was spent
// between the two does not count any more.
func (a Account) Moves(now time.Time) (from time.Time, later bool) {
	from, _ = a.Period.Window(now, a.CreatedAt)
	from = from.Truncate(time.Microsecond)
	return from, from.After(a.From)
}

// Moved is the account in a later window, without what does not count any more.
func (a Account) Moved(from time.Time, gone Sum) Account {
	a.From, a.Spent, a.Unpriced = from, a.Spent.Less(gone.Amount), a.Unpriced-gone.Unpriced
	if a.Period.kind != rolling || !a.low() {
		a.Warned = false
	}
	return a
}

// Charged is the account with an entry on it.
func (a Account) Charged(e Entry) Account {
	if !a.From.IsZero() && !e.At.After(a.From) {
		return a // of a window that is over
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

// Warns reports whether it is to be said now that little is left.
func (a Account) Warns() bool { return !a.Warned && a.Limit > 0 && a.low() }

// ResetsAt is when the period begins anew; zero: not at one moment.
func (a Account) ResetsAt(now time.Time) time.Time {
	_, until := a.Period.Window(now, a.CreatedAt)
	return until
}

// Sum is what entries add up to.
type Sum struct {
	Amount   Amount
	Unpriced int64
}

// Need is what work needs of one currency at most.
type Need struct {
	Amount   Amount
	Unpriced string // whose price nobody knows; empty: Amount is right
}

// Refusal is why work may not begin.
type Refusal struct {
	Account  Account
	Soft     bool   // a person may let it go on
	Unpriced string // whose price is not known, where that is why
	Why      string // in a sentence
}

// Refuses says why work with a need may not begin, or nil. Something has to be left that is neither spent nor reserved, so of
// many at once at most one goes beyond the limit, and that by no more than it reserves (BU2). step: it is a step of a session,
// where a soft limit counts; waived: a person let the session go on beyond what a person may.
func (a Account) Refuses(need Need, step, waived bool) *Refusal {
	if a.Action == Warn {
		return nil
	}
	_, of := a.Subject.Of()
	whose := fmt.Sprintf("budget %s of %s %s", a.ID, of.Scope, of.ID)
	switch {
	case a.Action == Pause && waived:
		return nil
	case a.Left() <= 0:
		why := fmt.Sprintf("the %s is used up: %s of %s %s", whose, a.Spent, a.Limit, a.Currency)
		if a.Reserved > 0 {
			why += fmt.Sprintf(", and %s reserved", a.Reserved)
		}
		return &Refusal{Account: a, Soft: a.Action == Pause, Why: why}
	case waived:
		return nil
	case need.Unpriced != "":
		why := fmt.Sprintf("the %s is in %s, and the price of %s is not known", whose, a.Currency, need.Unpriced)
		return &Refusal{Account: a, Soft: true, Unpriced: need.Unpriced, Why: why}
	case step && a.Soft > 0 && a.Spent.Plus(a.Reserved) >= a.Soft:
		why := fmt.Sprintf("the soft limit of the %s is passed: %s of %s %s", whose, a.Spent, a.Soft, a.Currency)
		return &Refusal{Account: a, Soft: true, Why: why}
	}
	return nil
}
