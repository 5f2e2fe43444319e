package perdure

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// BudgetNotice describes the state of a budget. Amounts are decimal numbers in the budget's
// currency, written as text so that no encoding rounds them.
type BudgetNotice struct {
	BudgetID  BudgetID  `json:"budget_id"`
	Scope     string    `json:"scope"`   // session, agent, user or org
	Subject   string    `json:"subject"` // id of the session, agent, user or org
	Currency  string    `json:"currency"`
	Limit     string    `json:"limit"`
	Balance   string    `json:"balance"` // what is left; negative if the last work cost more than was left
	SoftLimit string    `json:"soft_limit,omitempty"`
	ResetsAt  time.Time `json:"resets_at,omitzero"` // when its next period begins; zero: never
	Unpriced  string    `json:"unpriced,omitempty"` // the model or tool without a known price, if that is the reason
	Why       string    `json:"why,omitempty"`      // one sentence
}

// BudgetWarning says that little of a budget is left. It stops nothing.
type BudgetWarning struct {
	BudgetNotice
}

// BudgetPaused says that a person must decide before the session continues: its soft limit is
// passed, or the cost of the next step is unknown. The turn is sealed, and nothing starts until
// budget.resumed.
type BudgetPaused struct {
	BudgetNotice
}

// BudgetExhausted says that work could not start because nothing is left. The turn is sealed, and
// nothing starts until budget.resumed.
type BudgetExhausted struct {
	BudgetNotice
}

// BudgetResumed lets a session continue that a budget has stopped: money is available again, or a
// person waived the soft limit.
type BudgetResumed struct {
	BudgetID BudgetID  `json:"budget_id"`
	By       string    `json:"by"`
	Waived   bool      `json:"waived,omitempty"` // the soft limit no longer stops this session
	Until    time.Time `json:"until,omitzero"`   // with Waived: when the budget's period ends; zero: without end
}

// decodeBudget decodes the payload of a budget.* event.
func decodeBudget(t EventType, data []byte) (Fact, error) {
	switch t {
	case "budget.warning":
		return decodeAs[BudgetWarning](data)
	case "budget.paused":
		return decodeAs[BudgetPaused](data)
	case "budget.exhausted":
		return decodeAs[BudgetExhausted](data)
	default:
		return decodeAs[BudgetResumed](data)
	}
}

// SealBudget is the reason of a turn that a budget has sealed.
const SealBudget = "budget"

// Halt is the state of a budget that keeps the session from continuing.
type Halt struct {
	BudgetNotice
	Soft bool `json:"soft,omitempty"` // a person can waive it
}

// heldReason is the reason of delivery.held: budget, or paused if a person has to decide. h may be
// nil.
func (h *Halt) heldReason() string {
	if h == nil || h.Soft {
		return "paused"
	}
	return SealBudget
}

// BudgetAgents returns the names and ids of the agents whose budgets also pay for the session's
// subagents: those of its ancestors and its own.
func (a Agent) BudgetAgents(l *Lineage) (names []string) {
	if l != nil {
		names = slices.Clone(l.BudgetAgents)
	}
	for _, name := range []string{string(a.ID), a.Name} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Waiver is a person's decision that a soft limit does not stop a session.
type Waiver struct {
	Budget BudgetID  `json:"budget_id"`
	Until  time.Time `json:"until,omitzero"` // zero: without end
}

// Waives reports whether a person has waived the soft limit of a budget for this session.
func (s *Session) Waives(id BudgetID, now time.Time) bool {
	for _, w := range s.Waived {
		if w.Budget == id && (w.Until.IsZero() || now.Before(w.Until)) {
			return true
		}
	}
	return false
}

// applyBudget folds the facts of budgets. They can occur with or without a turn.
func (s *Session) applyBudget(fact Fact) {
	switch f := fact.(type) {
	case BudgetPaused:
		s.Halt = &Halt{BudgetNotice: f.BudgetNotice, Soft: true}
	case BudgetExhausted:
		s.Halt = &Halt{BudgetNotice: f.BudgetNotice}
	case BudgetResumed:
		s.Halt = nil
		if f.Waived {
			s.Waived = append(s.Waived[:len(s.Waived):len(s.Waived)], Waiver{Budget: f.BudgetID, Until: f.Until})
		}
		if s.Status == SessionPaused {
			s.Status = SessionIdle
		}
	}
	if s.Halt != nil && s.Turn == nil {
		s.Status = SessionPaused
	}
}

// idleStatus is the status of a session without a turn.
func (s *Session) idleStatus() SessionStatus {
	if s.Halt != nil {
		return SessionPaused
	}
	return SessionIdle
}

// recordBudgetCut records whether a budget cut the turn short. Such a turn continues when the
// budget allows it again. A subagent has no such continuation: its work is over when its turn ends.
func (s *Session) recordBudgetCut(f TurnSealed) {
	s.CutByBudget = f.Reason == SealBudget && s.Lineage == nil
}

// budgetEndsTurn reports whether a budget ends the turn now. That is only possible before a model
// call.
func (s *Session) budgetEndsTurn() bool {
	return s.Halt != nil && (s.Turn.Phase == PhaseReady || s.Turn.Phase == PhaseReasoned)
}

// decideHalted ends a turn that a budget has stopped.
func (s *Session) decideHalted(m Moment) []Command {
	end := TurnSealed{Reason: SealBudget, Detail: s.Halt.Why, Usage: s.Turn.Usage}
	return s.record(append(s.closeOutput(m), s.endTurn(m, end)...))
}

// decidePaused decides for an idle session that a budget or a person has stopped. Messages stay in
// the queue. A delivery with wake continue is recorded as held, once, and waits as a notification.
func (s *Session) decidePaused(m Moment) []Command {
	if s.requestsTurn() && !s.DeliveryHeld {
		return s.record([]Event{s.event(m, DeliveryHeld{Why: s.Halt.heldReason()})})
	}
	return []Command{ReleaseSession{}}
}

func budgetRefusalText(why string) string {
	return fmt.Sprintf("not executed: %s", strings.TrimSuffix(why, "."))
}

// RefusedByBudget returns the result of a call that a budget did not allow to start.
func RefusedByBudget(id CallID, why string) ToolResult {
	return Refused(id, ErrorRejected, budgetRefusalText(why))
}
