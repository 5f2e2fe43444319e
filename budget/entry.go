package budget

import (
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// Hold is the amount that a budget reserves for running work. There is one for each budget and
// work.
type Hold struct {
	Budget  perdure.BudgetID  `json:"budget_id"`
	Session perdure.SessionID `json:"session_id"`
	Work    string            `json:"work"` // unique in the session: see WorkOfStep, WorkOfSum and WorkOfCall
	Amount  Amount            `json:"amount"`
	At      time.Time         `json:"at"`
}

// The kinds of an entry.
const (
	Charge = "charge" // work ended
	Set    = "set"    // the budget was changed: Amount is its new limit, not spent
)

// Entry is a line in the ledger of a budget. It is never changed.
type Entry struct {
	Budget   perdure.BudgetID  `json:"budget_id"`
	Kind     string            `json:"kind"` // charge or set
	Session  perdure.SessionID `json:"session_id,omitempty"`
	Work     string            `json:"work"` // of a charge: at most one for each budget and session
	Name     string            `json:"name"` // of the model or tool; of a set, the person who did it
	Amount   Amount            `json:"amount"`
	Estimate bool              `json:"estimate,omitempty"` // the real usage is unknown, so the reserved amount counts
	Unpriced bool              `json:"unpriced,omitempty"` // the price is unknown, so Amount is no real cost
	At       time.Time         `json:"at"`
}

// StepWork is the name of a model call.
func StepWork(id perdure.ExecID) string { return "step " + string(id) }

// SummaryWork is the name of the model call that summarises what leaves the context.
func SummaryWork(id perdure.EventID) string { return "step sum " + string(id) }

// IsStep reports whether work is a model call.
func IsStep(work string) bool { return strings.HasPrefix(work, "step ") }

// PartOf reports whether work belongs to other work and ends with it, such as the model calls of a
// tool.
func PartOf(part, work string) bool { return strings.HasPrefix(part, work+" ") }

// CallWork is the name of a call of a tool.
func CallWork(id perdure.CallID) string { return "call " + string(id) }
