package engine

import (
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// HoldCode names the reason why a session does not answer.
type HoldCode string

// The codes of a [Hold].
const (
	HeldByPerson     HoldCode = "paused"           // a person paused the session
	HeldBySoftBudget HoldCode = "budget_paused"    // a soft limit is reached; a person may resume the session
	HeldByBudget     HoldCode = "budget_exhausted" // a budget is exhausted
	HeldByApproval   HoldCode = "approval"         // calls of the turn wait for an approval
	HeldByClient     HoldCode = "client_result"    // calls of the turn wait for results or a connection from the client
)

// Hold says why a session answers no message until somebody acts. Messages are stored durably in
// the meantime.
type Hold struct {
	Code      HoldCode              `json:"code"`
	Detail    string                `json:"detail"`              // a clause for people
	Budget    *perdure.BudgetNotice `json:"budget,omitempty"`    // the budget as it was when it stopped the session
	Approvals []perdure.ApprovalID  `json:"approvals,omitempty"` // the open approvals of the turn
	Calls     []perdure.CallID      `json:"calls,omitempty"`     // the calls that wait for the client
}

// HoldOf returns what keeps a session from answering; nil means nothing. Of several reasons it
// returns the one that must be resolved first: a pause, then a budget, then what the turn waits
// for.
func HoldOf(s *perdure.Session) *Hold {
	switch {
	case s.Paused != nil:
		return &Hold{Code: HeldByPerson, Detail: "it is paused by " + s.Paused.By + reasonSuffix(s.Paused.Reason)}
	case s.Halt != nil && s.Turn == nil:
		code := HeldByBudget
		if s.Halt.Soft {
			code = HeldBySoftBudget
		}
		notice := s.Halt.BudgetNotice
		return &Hold{Code: code, Detail: strings.TrimSuffix(notice.Why, "."), Budget: &notice}
	case s.Turn != nil && s.Turn.Phase == perdure.PhaseActing:
		return holdOfCalls(s)
	}
	return nil
}

// holdOfCalls is HoldOf for a turn in an act step. The turn is not held while one of its calls runs
// or can start.
func holdOfCalls(s *perdure.Session) *Hold {
	h := &Hold{}
	var asked, wanted []string
	for _, c := range s.Turn.Calls {
		switch c.Phase {
		case perdure.CallAwaitingApproval:
			h.Approvals, asked = append(h.Approvals, c.Approval), append(asked, c.Name)
		case perdure.CallAwaitingClient:
			h.Calls, wanted = append(h.Calls, c.ID), append(wanted, c.Name)
		case perdure.CallDone:
		default:
			return nil
		}
	}
	switch {
	case len(asked) > 0:
		h.Code, h.Detail = HeldByApproval, "a person must approve or deny "+names(asked)
	case len(wanted) > 0:
		h.Code, h.Detail = HeldByClient, "the client must answer "+names(wanted)
	default:
		return nil
	}
	return h
}

// names joins the sorted, distinct names.
func names(all []string) string {
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

func reasonSuffix(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
