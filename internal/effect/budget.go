package effect

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/store"
)

// reserveStep reserves the cost of the reason step that events start, if they start one. If a
// budget refuses, the refusal replaces the events: the step does not start, and the root ends the
// turn.
func (s *step) reserveStep(events []perdure.Event) ([]perdure.Event, error) {
	for _, event := range events {
		started, ok := event.Fact.(perdure.ReasonStarted)
		if !ok {
			continue
		}
		some, err := s.tx.Budgets().Any()
		if err != nil || !some {
			return events, err
		}
		refused, err := s.reserve(budget.StepWork(started.ExecID), s.e.generation.EstimateUse(s.session, started.Model), true)
		if err != nil || refused == nil {
			return events, err
		}
		return []perdure.Event{s.fact(meter.RefusalFact(*refused, s.now))}, nil
	}
	return events, nil
}

// reserve reserves with all budgets of the session.
func (s *step) reserve(work string, uses meter.WorkUsage, step bool) (*budget.Refusal, error) {
	return s.e.core.Meter.Reserve(s.tx, meter.Request{
		Owner: meter.OwnerOf(s.session), Work: work, Uses: uses, Step: step,
		Waives: func(id perdure.BudgetID) bool { return s.session.Waives(id, s.now) },
	})
}

// reserveCall reserves the cost of a call. If a budget refuses, the call gets an error as its
// result, and the root ends the turn once the other calls have ended.
func (s *step) reserveCall(c perdure.ClaimCall) (affordable bool, err error) {
	some, err := s.tx.Budgets().Any()
	if err != nil || !some {
		return err == nil, err
	}
	refused, err := s.reserve(budget.CallWork(c.Call.ID), taskrecord.CallUses(c.Call.Name, len(c.Call.Args)), false)
	if err != nil || refused == nil {
		return err == nil, err
	}
	answer := perdure.RefusedByBudget(c.Call.ID, refused.Why)
	event := c.Event
	event.Fact = perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: answer.Status(), Result: answer}
	return false, s.append([]perdure.Event{s.fact(meter.RefusalFact(*refused, s.now)), event})
}

// releaseReservation releases the reservation of a call that does not start after all.
func (s *step) releaseReservation(id perdure.CallID) error {
	return s.settleBill(meter.Bill{Owner: meter.OwnerOf(s.session), Work: budget.CallWork(id), Release: true})
}

// fact returns an event of the runtime.
func (s *step) fact(f perdure.Fact) perdure.Event {
	event := perdure.Event{Session: s.d.ID, Actor: "runtime", Fact: f}
	if s.session.Turn != nil {
		event.Turn = s.session.Turn.ID
	}
	return event
}

// countStep replaces the reservation of a model call with what it really used. work names the
// reservation of a model call that is not a step.
func (s *step) countStep(events []perdure.Event, work string) error {
	some, err := s.tx.Budgets().Any()
	if err != nil || !some {
		return err
	}
	var bill *perdure.Generation
	text := false
	for _, event := range events {
		switch f := event.Fact.(type) {
		case perdure.OutputCompleted:
			text = text || len(f.Message.Parts) > 0
		case perdure.Generation:
			bill = &f
		case perdure.ReasonCompleted:
			if err := s.settleBill(s.stepBill(budget.StepWork(f.ExecID), bill, text)); err != nil {
				return err
			}
			bill = nil
		}
	}
	if bill != nil && work != "" { // a summary of the dropped part of a conversation
		return s.settleBill(s.stepBill(work, bill, bill.Error == ""))
	}
	return nil
}

// stepBill is what a model call used. A call that failed without text and without usage used
// nothing. A call that reports no usage, or an impossible one, is charged the estimate.
func (s *step) stepBill(work string, bill *perdure.Generation, text bool) meter.Bill {
	b := meter.Bill{Owner: meter.OwnerOf(s.session), Work: work}
	if bill == nil {
		b.Release = true
		return b
	}
	b.Uses = meter.WorkUsage{Model: bill.Model, Usage: bill.Usage, Duration: time.Duration(bill.DurationMS) * time.Millisecond}
	asked := s.session.Agent.Model
	if s.session.Turn != nil {
		asked = s.session.Turn.Model
	}
	b.Uses.Model = s.e.core.Meter.Priced(bill.Model, asked, s.now)
	if !meter.Known(bill.Usage) {
		if bill.Error != "" && !text && bill.Usage == (perdure.Usage{}) {
			b.Uses.Usage, b.Release = perdure.Usage{}, true
			return b
		}
		b.UsageUnknown, b.Uses.Usage = true, s.e.generation.EstimateUse(s.session, "").Usage
	}
	return b
}

// settleBill counts a bill, and records the facts that follow from it.
func (s *step) settleBill(b meter.Bill) error {
	facts, err := s.e.core.Meter.Settle(s.tx, b)
	if err != nil || len(facts) == 0 {
		return err
	}
	var events []perdure.Event
	for _, fact := range facts {
		events = append(events, s.fact(fact))
	}
	return s.append(events)
}

// countCall replaces the reservation of a foreground call with what it really used.
func (s *step) countCall(o *core.Settlement) error {
	some, err := s.tx.Budgets().Any()
	if err != nil || !some {
		return err
	}
	uses := meter.WorkUsage{Bytes: int64(len(o.Result.Result))}
	if s.session.Turn != nil {
		for _, c := range s.session.Turn.Calls {
			if c.ID == o.Key.Call {
				uses.Tool, uses.Duration, uses.Bytes = c.Name, s.now.Sub(c.StartedAt), uses.Bytes+int64(len(c.Args))
			}
		}
	}
	if uses.Tool == "" { // the turn has continued without it
		row, err := s.tx.Calls().Get(o.Key)
		if err != nil {
			return err
		}
		uses.Tool = row.Tool
	}
	return s.settleBill(meter.Bill{Owner: meter.OwnerOf(s.session), Work: budget.CallWork(o.Key.Call), Uses: uses})
}

// recordBudget updates the rows that follow from a budget fact or the end of a turn. A subagent's
// work ends with its turn, so a halted subagent is not recorded for automatic resumption.
func (s *step) recordBudget(fact perdure.Fact) error {
	switch f := fact.(type) {
	case perdure.BudgetPaused:
		return s.recordHalt(f.BudgetID)
	case perdure.BudgetExhausted:
		return s.recordHalt(f.BudgetID)
	case perdure.BudgetResumed:
		return s.recordHalt("")
	}
	return s.e.core.Meter.ReleaseSteps(s.tx, meter.OwnerOf(s.session))
}

func (s *step) recordHalt(id perdure.BudgetID) error {
	if s.session.Lineage != nil {
		return nil
	}
	return s.tx.Budgets().PutHalt(store.BudgetHalt{Session: s.d.ID, Budget: id})
}

// resumeAfterBudget resumes a session that was halted by a budget, if the budgets now allow it.
func (s *step) resumeAfterBudget() error {
	if s.session.Halt == nil || s.session.Turn != nil || s.session.Lineage != nil {
		return nil
	}
	may, err := s.e.core.Meter.MayResume(s.tx.Reader(), s.session)
	if err != nil || !may {
		return err
	}
	return s.append([]perdure.Event{s.fact(perdure.BudgetResumed{BudgetID: s.session.Halt.BudgetID, By: "runtime"})})
}
