package budget

import (
	"math/big"
	"slices"
	"time"
)

// State is the state of a budget.
type State string

// The states, from the best to the worst.
const (
	NoBudgets State = "no_budgets"
	Active    State = "active"
	Warning   State = "warning"   // a fifth of the limit or less is left
	Paused    State = "paused"    // a person can let the session continue
	Exhausted State = "exhausted" // nothing is left
)

// Standing is an account with its state.
type Standing struct {
	Account
	State       State     `json:"state"`
	Balance     Amount    `json:"balance"`      // the limit without what was spent
	Remaining   Amount    `json:"remaining"`    // the limit without what was spent or is reserved
	PercentLeft int       `json:"percent_left"` // Balance in percent of the limit, rounded down; 0 to 100
	ResetsAt    time.Time `json:"resets_at,omitzero"`
}

// Standing returns the account with its state. waived says that a person let the session in
// question exceed the limits that a person can waive.
func (a Account) Standing(now time.Time, waived bool) Standing {
	s := Standing{Account: a, State: Active, Balance: a.Balance(), Remaining: a.Available(), ResetsAt: a.ResetsAt(now)}
	if a.Limit > 0 && s.Balance > 0 {
		percent := new(big.Int).Mul(big.NewInt(int64(min(s.Balance, a.Limit))), big.NewInt(100))
		s.PercentLeft = int(percent.Div(percent, big.NewInt(int64(a.Limit))).Int64())
	}
	if a.low() {
		s.State = Warning
	}
	switch {
	case a.Action == Warn:
	case s.Balance <= 0 && a.Action == Stop:
		s.State = Exhausted
	case waived:
	case s.Balance <= 0 || a.Soft > 0 && a.Spent >= a.Soft:
		s.State = Paused
	}
	return s
}

// Report describes all budgets of a session.
type Report struct {
	State   State      `json:"state"` // the worst state of its budgets
	Budgets []Standing `json:"budgets"`
}

// NewReport returns the report about the given budgets.
func NewReport(all []Standing) Report {
	worst := []State{NoBudgets, Active, Warning, Paused, Exhausted}
	r := Report{State: NoBudgets, Budgets: all}
	if r.Budgets == nil {
		r.Budgets = []Standing{}
	}
	for _, s := range all {
		if slices.Index(worst, s.State) > slices.Index(worst, r.State) {
			r.State = s.State
		}
	}
	return r
}
