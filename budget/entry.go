package budget

import (
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// Hold is what is reserved of a budget for work that has begun. Of each budget and work there is one.
type Hold struct {
	Budget  perdure.BudgetID  `json:"budget_id"`
	Session perdure.SessionID `json:"session_id"`
	Work    string            `json:"work"` // what of the session: see WorkOf…
	Amount  Amount            `json:"amount"`
	At      time.Time         `json:"at"`
}

// The kinds of an entry.
const (
	Charge = "charge" // work ended
	Set    = "set"    // the budget was set: Amount is its limit from then on, and is not spent
)

// Entry is a line of the ledger of a budget. It is added once and never changed.
type Entry struct {
	Budget   perdure.BudgetID  `json:"budget_id"`
	Kind     string            `json:"kind"` // charge or set
	Session  perdure.SessionID `json:"session_id,omitempty"`
	Work     string            `json:"work"` // of a charge: once for each budget and session
	Name     string            `json:"name"` // of the model or tool; of a setting, who did it
	Amount   Amount            `json:"amount"`
	Estimate bool              `json:"estimate,omitempty"` // nobody said what it used: what was reserved counts
	Unpriced bool              `json:"unpriced,omitempty"` // its price is not known: Amount says nothing of it
	At       time.Time         `json:"at"`
}

// WorkOfStep names a question to a model.
func WorkOfStep(id perdure.ExecID) string { return "step " + string(id) }

// WorkOfSum is the name of the question that sums up what a conversation leaves out.
func WorkOfSum(id perdure.EventID) string { return "step sum " + string(id) }

// IsStep reports whether work is a question to a model.
func IsStep(work string) bool { return strings.HasPrefix(work, "step ") }

// PartOf reports whether work is done for other work, and is over when that is: what a call asks a model, for one.
func PartOf(part, work string) bool { return strings.HasPrefix(part, work+" ") }

// WorkOfCall names a call of a tool.
func WorkOfCall(id perdure.CallID) string { return "call " + string(id) }
