package perdure

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// BudgetNotice says where a budget stands. Amounts are decimal numbers in the budget's currency, as text, so that none is
// ever rounded on its way.
type BudgetNotice struct {
	BudgetID  BudgetID  `json:"budget_id"`
	Scope     string    `json:"scope"`   // session, agent, user or org
	Subject   string    `json:"subject"` // which one of them
	Currency  string    `json:"currency"`
	Limit     string    `json:"limit"`
	Balance   string    `json:"balance"` // what is left; below zero, when the last work cost more than was left
	SoftLimit string    `json:"soft_limit,omitempty"`
	ResetsAt  time.Time `json:"resets_at,omitzero"` // when its period begins anew; zero: never by itself
	Unpriced  string    `json:"unpriced,omitempty"` // the model or tool whose price is not known, where that is why
	Why       string    `json:"why,omitempty"`      // in a sentence
}

// BudgetWarning says that little of a budget is left (BU3). It stops nothing.
type BudgetWarning struct {
	BudgetNotice
}

// BudgetPaused says that a budget has a person look before the session goes on: its soft limit is passed, or nobody knows
// what the next step costs (BU3). The turn is sealed, and nothing more begins until budget.resumed.
type BudgetPaused struct {
	BudgetNotice
}

// BudgetExhausted says that something was to begin and nothing was left for it (BU3). The turn is sealed, and nothing more
// begins until budget.resumed.
type BudgetExhausted struct {
	BudgetNotice
}

// BudgetResumed lets a session go on that a budget had stopped: there is something left again, or a person says so.
type BudgetResumed struct {
	BudgetID BudgetID  `json:"budget_id"`
	By       string    `json:"by"`
	Waived   bool      `json:"waived,omitempty"` // the soft limit does not stop this session any more
	Until    time.Time `json:"until,omitzero"`   // of a waiver: when the budget's period ends; zero: for good
}

// decodeBudget reads the facts of budgets.
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

// SealBudget is the reason of a turn that a budget ended.
const SealBudget = "budget"

// Halt is what keeps a session from going on.
type Halt struct {
	BudgetNotice
	Soft bool `json:"soft,omitempty"` // a person may let it go on as it is
}

// word says why a delivery is held. nil: by a person.
func (h *Halt) word() string {
	if h == nil || h.Soft {
		return "paused"
	}
	return SealBudget
}

// Payers are the agents on whose budgets the subagents of a session count: its own, and those above it.
func (a Agent) Payers(l *Lineage) (names []string) {
	if l != nil {
		names = slices.Clone(l.Payers)
	}
	for _, name := range []string{string(a.ID), a.Name} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Waiver is a person's word that a soft limit does not stop a session.
type Waiver struct {
	Budget BudgetID  `json:"budget_id"`
	Until  time.Time `json:"until,omitzero"` // zero: for good
}

// Waives reports whether a person lets the session go on beyond the soft limit of a budget.
func (s *Session) Waives(id BudgetID, now time.Time) bool {
	for _, w := range s.Waived {
		if w.Budget == id && (w.Until.IsZero() || now.Before(w.Until)) {
			return true
		}
	}
	return false
}

// applyBudget folds the facts of budgets, with or without a turn.
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

// resting is the status of a session without a turn.
func (s *Session) resting() SessionStatus {
	if s.Halt != nil {
		return SessionPaused
	}
	return SessionIdle
}

// sealed notes that a turn was cut short by a budget: it goes on once there is something left. The work of a subagent is
// over with its turn, so nothing of it does.
func (s *Session) sealed(f TurnSealed) { s.Cut = f.Reason == SealBudget && s.Lineage == nil }

// halted reports whether the turn is to end because of a budget: at a point where the model would be asked.
func (s *Session) halted() bool {
	return s.Halt != nil && (s.Turn.Phase == PhaseReady || s.Turn.Phase == PhaseReasoned)
}

// decideHalted ends the turn that a budget stopped.
func (s *Session) decideHalted(m Moment) []Command {
	end := TurnSealed{Reason: SealBudget, Detail: s.Halt.Why, Usage: s.Turn.Usage}
	return s.record(append(s.closeOutput(m), s.endTurn(m, end)...))
}

// decidePaused lets a session rest that a budget or a person stopped. Messages wait; a wake waits as a notification (DL8).
func (s *Session) decidePaused(m Moment) []Command {
	if s.wantsTurn() && !s.Held {
		return s.record([]Event{s.event(m, DeliveryHeld{Why: s.Halt.word()})})
	}
	return []Command{Rest{}}
}

// textUnpaid answers a call for which nothing is left.
func textUnpaid(why string) string {
	return fmt.Sprintf("not executed: %s", strings.TrimSuffix(why, "."))
}

// Unpaid answers a call that did not start because of a budget.
func Unpaid(id CallID, why string) ToolResult { return Refused(id, ErrorRejected, textUnpaid(why)) }
