package taskrecord

import (
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/store"
)

// What a tool call is assumed to use before it starts.
const (
	assumedCallTime    = 10 * time.Second
	assumedResultBytes = 4 << 10 // bytes of its result
)

// CallUses is the most that a call is assumed to use.
func CallUses(tool string, args int) meter.WorkUsage {
	return meter.WorkUsage{Tool: tool, Duration: assumedCallTime, Bytes: int64(args + assumedResultBytes)}
}

// Reserve reserves the cost of a run that starts outside a step. Limit: a budget refuses; the
// error's text is for the model.
func (rs *Records) Reserve(tx store.Tx, o *core.Owner, t perdure.Task) error {
	some, err := tx.Budgets().Any()
	if err != nil || !some {
		return err
	}
	refused, err := rs.core.Meter.Reserve(tx, meter.Request{
		Owner: o.MeterOwner(), Work: budget.CallWork(t.LedgerKey().Call), Uses: CallUses(t.Tool, len(t.Spec.Arguments)),
	})
	if err == nil && refused != nil {
		err = &budgetRefusal{perdure.NoSlot{Text: "Not started: " + refused.Why + "."}, refused.Why}
	}
	return err
}

// budgetRefusal is the error of a run that a budget refused. A model sees it like a missing slot.
type budgetRefusal struct {
	perdure.NoSlot
	why string
}

// Unwrap returns the error that the model sees.
func (u *budgetRefusal) Unwrap() error { return &u.NoSlot }

// BudgetRefused returns the reason if err says that a budget refused a run.
func BudgetRefused(err error) (why string, refused bool) {
	var u *budgetRefusal
	if errors.As(err, &u) {
		return u.why, true
	}
	return "", false
}

// countTask replaces the reservation of a run with what it really used. A run that never started
// used nothing.
func (rs *Records) countTask(tx store.Tx, t perdure.Task) error {
	some, err := tx.Budgets().Any()
	if err != nil || !some {
		return err
	}
	o, err := core.ReadOwner(tx.Reader(), t.Session)
	if errors.Is(err, perdure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	work := t.LedgerKey().Call
	if t.Kind == perdure.KindSubagent && !t.FromCall() {
		// the reservation belongs to the call that started the subagent
		work = t.Call
	}
	uses := meter.WorkUsage{Tool: t.Tool, Bytes: int64(len(t.Spec.Arguments) + len(t.Summary))}
	if !t.StartedAt.IsZero() {
		uses.Duration = tx.Now().Sub(t.StartedAt)
	}
	facts, err := rs.core.Meter.Settle(tx, meter.Bill{
		Owner: o.MeterOwner(), Work: budget.CallWork(work),
		Uses: uses, Release: t.Executions == 0 && t.Kind != perdure.KindSubagent,
	})
	if err != nil || len(facts) == 0 {
		return err
	}
	var events []perdure.Event
	for _, fact := range facts {
		events = append(events, perdure.Event{Session: t.Session, Actor: "runtime", Task: t.ID, Fact: fact})
	}
	core.Stamp(events, tx.Now())
	return tx.Journal().Append(t.Session, events)
}
