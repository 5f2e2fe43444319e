package effect

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/store"
)

// What work is reckoned with before it begins, where nobody can know it better.
const (
	reckonedAnswer = 30 * time.Second // of a question to a model
	reckonedCall   = 10 * time.Second // of a call of a tool
	reckonedResult = 4 << 10          // bytes of a result
	bytesPerToken  = 4
)

// who is the owner, as budgets know it.
func (o *owner) who() meter.Who {
	return meter.Who{Session: o.session, Agent: o.agent, Lineage: o.lineage}
}

// afford reserves for the question to the model that events begin, if they begin one. Where a budget refuses, what says so
// takes their place: the question is not begun, and the root ends the turn.
func (s *step) afford(events []perdure.Event) ([]perdure.Event, error) {
	for _, event := range events {
		begun, ok := event.Fact.(perdure.ReasonStarted)
		if !ok {
			continue
		}
		some, err := s.tx.Budgeted()
		if err != nil || !some {
			return events, err
		}
		refused, err := s.reserve(budget.WorkOfStep(begun.ExecID), s.e.mayUse(s.session, begun.Model), true)
		if err != nil || refused == nil {
			return events, err
		}
		return []perdure.Event{s.fact(meter.Told(*refused, s.now))}, nil
	}
	return events, nil
}

// affordSum reserves for the question that sums up what a conversation leaves out, and returns the name of the reservation, which goes
// with the turn. Nothing may be asked where a budget refuses.
func (e *Effects) affordSum(ctx context.Context, s *perdure.Session, asked string, bytes int) (work string, refused *budget.Refusal, err error) {
	work = budget.WorkOfSum(NewID[perdure.EventID]())
	err = e.work.InTx(ctx, func(tx store.Tx) error {
		refused = nil
		some, err := tx.Budgeted()
		if err != nil || !some {
			return err
		}
		if _, err := tx.Session(s.ID); err != nil {
			return err
		}
		refused, err = e.meter.Reserve(tx, meter.Order{
			Who: meter.WhoOf(s), Work: work, Step: true,
			Uses:   meter.Uses{Model: e.meter.ModelOf(asked), Usage: perdure.Usage{InputTokens: int64(bytes / bytesPerToken), OutputTokens: summaryTokens}, Took: reckonedAnswer},
			Waives: func(id perdure.BudgetID) bool { return s.Waives(id, tx.Now()) },
		})
		return err
	})
	return work, refused, err
}

// mayUse is what the next question to the model uses at most.
func (e *Effects) mayUse(s *perdure.Session, model string) meter.Uses {
	req := e.request(s, perdure.CallModel{Attempt: 1})
	size := len(req.System)
	for _, t := range req.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	in := int64(size/bytesPerToken + perdure.EstimateTokens(req.Messages) + perdure.EstimateTokens(s.Queue) + perdure.EstimateTokens(s.Notices))
	return meter.Uses{
		Model: e.meter.ModelOf(model), Usage: perdure.Usage{InputTokens: in, OutputTokens: int64(e.meter.Answer())}, Took: reckonedAnswer,
	}
}

// reserve asks all budgets of the session.
func (s *step) reserve(work string, uses meter.Uses, step bool) (*budget.Refusal, error) {
	return s.e.meter.Reserve(s.tx, meter.Order{
		Who: meter.WhoOf(s.session), Work: work, Uses: uses, Step: step,
		Waives: func(id perdure.BudgetID) bool { return s.session.Waives(id, s.now) },
	})
}

// affordCall reserves for a call. Where a budget refuses, the call is answered, and the root ends the turn once the others are.
func (s *step) affordCall(c perdure.ClaimCall) (affordable bool, err error) {
	some, err := s.tx.Budgeted()
	if err != nil || !some {
		return err == nil, err
	}
	refused, err := s.reserve(budget.WorkOfCall(c.Call.ID), callUses(c.Call.Name, len(c.Call.Args)), false)
	if err != nil || refused == nil {
		return err == nil, err
	}
	answer := perdure.Unpaid(c.Call.ID, refused.Why)
	event := c.Event
	event.Fact = perdure.ToolCompleted{CallID: c.Call.ID, Name: c.Call.Name, Status: answer.Status(), Result: answer}
	return false, s.append([]perdure.Event{s.fact(meter.Told(*refused, s.now)), event})
}

// giveBack releases what was reserved for a call that does not start after all.
func (s *step) giveBack(id perdure.CallID) error {
	return s.settle(meter.Bill{Who: meter.WhoOf(s.session), Work: budget.WorkOfCall(id), Release: true})
}

// fact is an event of the runtime's own.
func (s *step) fact(f perdure.Fact) perdure.Event {
	event := perdure.Event{Session: s.d.ID, Actor: "runtime", Fact: f}
	if s.session.Turn != nil {
		event.Turn = s.session.Turn.ID
	}
	return event
}

// callUses is what a call may use.
func callUses(tool string, args int) meter.Uses {
	return meter.Uses{Tool: tool, Took: reckonedCall, Bytes: int64(args + reckonedResult)}
}

// payStep puts what a question used in the place of its reservation. work is the name of one that is no step.
func (s *step) payStep(events []perdure.Event, work string) error {
	some, err := s.tx.Budgeted()
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
			if err := s.settle(s.stepBill(budget.WorkOfStep(f.ExecID), bill, text)); err != nil {
				return err
			}
			bill = nil
		}
	}
	if bill != nil && work != "" { // what is left out of the conversation was summed up
		return s.settle(s.stepBill(work, bill, bill.Error == ""))
	}
	return nil
}

// stepBill is what a question used. One that failed without a word and without a usage used nothing; one that says nothing of
// what it used, or something senseless, used what was reckoned (BU3).
func (s *step) stepBill(work string, bill *perdure.Generation, text bool) meter.Bill {
	b := meter.Bill{Who: meter.WhoOf(s.session), Work: work}
	if bill == nil {
		b.Release = true
		return b
	}
	b.Uses = meter.Uses{Model: bill.Model, Usage: bill.Usage, Took: time.Duration(bill.DurationMS) * time.Millisecond}
	asked := s.session.Agent.Model
	if s.session.Turn != nil {
		asked = s.session.Turn.Model
	}
	b.Uses.Model = s.e.meter.Priced(bill.Model, asked, s.now)
	if !meter.Known(bill.Usage) {
		if bill.Error != "" && !text && bill.Usage == (perdure.Usage{}) {
			b.Uses.Usage, b.Release = perdure.Usage{}, true
			return b
		}
		b.Unsaid, b.Uses.Usage = true, s.e.mayUse(s.session, "").Usage
	}
	return b
}

// settle pays a bill, and tells what comes of it.
func (s *step) settle(b meter.Bill) error {
	told, err := s.e.meter.Settle(s.tx, b)
	if err != nil || len(told) == 0 {
		return err
	}
	var events []perdure.Event
	for _, fact := range told {
		events = append(events, s.fact(fact))
	}
	return s.append(events)
}

// payCall puts what a foreground call used in the place of its reservation.
func (s *step) payCall(o *Settlement) error {
	some, err := s.tx.Budgeted()
	if err != nil || !some {
		return err
	}
	uses := meter.Uses{Bytes: int64(len(o.Result.Result))}
	if s.session.Turn != nil {
		for _, c := range s.session.Turn.Calls {
			if c.ID == o.Key.Call {
				uses.Tool, uses.Took, uses.Bytes = c.Name, s.now.Sub(c.StartedAt), uses.Bytes+int64(len(c.Args))
			}
		}
	}
	if uses.Tool == "" { // its turn has gone on without it
		row, err := s.tx.Call(o.Key)
		if err != nil {
			return err
		}
		uses.Tool = row.Tool
	}
	return s.settle(meter.Bill{Who: meter.WhoOf(s.session), Work: budget.WorkOfCall(o.Key.Call), Uses: uses})
}

// noteBudget writes the rows that a fact of a budget, or the end of a turn, describes. A subagent's work is over with its turn,
// so nothing lets it go on by itself.
func (s *step) noteBudget(fact perdure.Fact) error {
	switch f := fact.(type) {
	case perdure.BudgetPaused:
		return s.halt(f.BudgetID)
	case perdure.BudgetExhausted:
		return s.halt(f.BudgetID)
	case perdure.BudgetResumed:
		return s.halt("")
	}
	return s.e.meter.ReleaseSteps(s.tx, meter.WhoOf(s.session))
}

func (s *step) halt(id perdure.BudgetID) error {
	if s.session.Lineage != nil {
		return nil
	}
	return s.tx.PutHalt(store.BudgetHalt{Session: s.d.ID, Budget: id})
}

// revive lets a session go on that a budget had stopped and that may go on by now.
func (s *step) revive() error {
	if s.session.Halt == nil || s.session.Turn != nil || s.session.Lineage != nil {
		return nil
	}
	may, err := s.e.meter.MayResume(s.tx, s.session)
	if err != nil || !may {
		return err
	}
	return s.append([]perdure.Event{s.fact(perdure.BudgetResumed{BudgetID: s.session.Halt.BudgetID, By: "runtime"})})
}

// reserveTask reserves for a run that begins outside of a step. Limit: a budget refuses, in the words that the model reads.
func (e *Effects) reserveTask(tx store.Tx, o *owner, t perdure.Task) error {
	some, err := tx.Budgeted()
	if err != nil || !some {
		return err
	}
	refused, err := e.meter.Reserve(tx, meter.Order{
		Who: o.who(), Work: budget.WorkOfCall(t.LedgerKey().Call), Uses: callUses(t.Tool, len(t.Spec.Arguments)),
	})
	if err == nil && refused != nil {
		err = &unpaid{perdure.NoSlot{Text: "Not started: " + refused.Why + "."}, refused.Why}
	}
	return err
}

// unpaid is a run that a budget refused. To a model it is one for which there is no place.
type unpaid struct {
	perdure.NoSlot
	why string
}

// Unwrap returns the words.
func (u *unpaid) Unwrap() error { return &u.NoSlot }

// Unpaid says why a budget refused a run, if that is what an error is.
func Unpaid(err error) (why string, refused bool) {
	var u *unpaid
	if errors.As(err, &u) {
		return u.why, true
	}
	return "", false
}

// payTask puts what a run used in the place of its reservation; one that never began used nothing.
func (e *Effects) payTask(tx store.Tx, t perdure.Task) error {
	some, err := tx.Budgeted()
	if err != nil || !some {
		return err
	}
	o, err := readOwner(tx, t.Session)
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	work := t.LedgerKey().Call
	if t.Kind == perdure.KindSubagent && !t.FromCall() { // it is the call that asked for it
		work = t.Call
	}
	uses := meter.Uses{Tool: t.Tool, Bytes: int64(len(t.Spec.Arguments) + len(t.Summary))}
	if !t.StartedAt.IsZero() {
		uses.Took = tx.Now().Sub(t.StartedAt)
	}
	told, err := e.meter.Settle(tx, meter.Bill{
		Who: o.who(), Work: budget.WorkOfCall(work), Uses: uses, Release: t.Executions == 0 && t.Kind != perdure.KindSubagent,
	})
	if err != nil || len(told) == 0 {
		return err
	}
	var events []perdure.Event
	for _, fact := range told {
		events = append(events, perdure.Event{Session: t.Session, Actor: "runtime", Task: t.ID, Fact: fact})
	}
	stamp(events, tx.Now())
	return tx.Append(t.Session, events)
}
