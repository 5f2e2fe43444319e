package engine

import (
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// HoldCode says in a word what keeps a session from answering.
type HoldCode string

// The codes of a [Hold].
const (
	HeldByPerson     HoldCode = "paused"           // a person paused it
	HeldBySoftBudget HoldCode = "budget_paused"    // a budget, and a person may let it go on
	HeldByBudget     HoldCode = "budget_exhausted" // a budget, until something is left again
	HeldByApproval   HoldCode = "approval"         // calls of its turn wait for a person's yes or no
	HeldByClient     HoldCode = "client_result"    // calls of its turn wait for the client's results, or for a connection that it sets up
)

// Hold says why nothing that is said to a session is answered until somebody acts. It is durable all the same.
type Hold struct {
	Code      HoldCode              `json:"code"`
	Detail    string                `json:"detail"`              // for people, in a sentence
	Budget    *perdure.BudgetNotice `json:"budget,omitempty"`    // the budget, as it stood when it stopped the session
	Approvals []perdure.ApprovalID  `json:"approvals,omitempty"` // that are open, of the turn
	Calls     []perdure.CallID      `json:"calls,omitempty"`     // that wait for the client
}

// HoldOf says what keeps a session from answering; nil: nothing does. Who waits for several things is told of the one that
// has to come first: a person's pause, a budget, and then what the turn waits for.
func HoldOf(s *perdure.Session) *Hold {
	switch {
	case s.Paused != nil:
		return &Hold{Code: HeldByPerson, Detail: "it is paused by " + s.Paused.By + behind(s.Paused.Reason)}
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

// holdOfCalls is HoldOf for a turn that acts: as long as one of its calls runs or may start, it goes on.
func holdOfCalls(s *perdure.Session) *Hold {
	h := &Hold{}
	var asked, wanted []string
	for _, c := range s.Turn.Calls {
		switch c.Phase {
		case perdure.CallAsking:
			h.Approvals, asked = append(h.Approvals, c.Approval), append(asked, c.Name)
		case perdure.CallRequested:
			h.Calls, wanted = append(h.Calls, c.ID), append(wanted, c.Name)
		case perdure.CallDone:
		default:
			return nil
		}
	}
	switch {
	case len(asked) > 0:
		h.Code, h.Detail = HeldByApproval, "a person is asked whether "+names(asked)+" may run"
	case len(wanted) > 0:
		h.Code, h.Detail = HeldByClient, "the client is to answer "+names(wanted)
	default:
		return nil
	}
	return h
}

// names lists names, each once.
func names(all []string) string {
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

func behind(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
