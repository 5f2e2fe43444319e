package environment

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// toolEvents records the events that one execution of a call reports.
type toolEvents struct {
	core *core.Core
	by   tool.Call
	sink tool.Sink     // an event is a sign of life
	left *atomic.Int64 // events that the execution may still record
}

var _ tool.Events = toolEvents{}

func (en *Environment) eventsFor(by tool.Call, sink tool.Sink) tool.Events {
	e := toolEvents{core: en.core, by: by, sink: tool.Env{Sink: sink}.Report(), left: new(atomic.Int64)}
	e.left.Store(tool.MaxEventsOfCall)
	return e
}

// Emit appends the event to the journal, fenced by the ledger row of the call: an execution that
// another worker has taken over, or that has ended, records nothing more.
func (e toolEvents) Emit(ctx context.Context, name string, data any) error {
	body, err := tool.CheckEvent(name, data)
	if err != nil {
		return err
	}
	if e.left.Add(-1) < 0 {
		return fmt.Errorf("%w: the event %s of call %s was not recorded, because an execution may emit at most %d events",
			perdure.Limit, name, e.by.ID, tool.MaxEventsOfCall)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fact := perdure.ToolEvent{CallID: e.by.ID, Tool: e.by.Tool, Name: name, Data: body}
	wait, cancel := core.SettleContext(ctx)
	defer cancel()
	err = e.core.Work.InTx(wait, func(tx store.Tx) error {
		row, err := tx.Calls().Get(perdure.CallKey{Session: e.by.Session, Call: e.by.ID})
		if err != nil {
			return err
		}
		if row.State != perdure.CallRunning || row.Worker != e.core.Worker || row.Executions != e.by.Execution {
			return fmt.Errorf("%w: the call has ended, or another worker owns it", perdure.Lost)
		}
		by := e.by
		by.Task, by.Attempt = row.Task, row.Attempt // it may have become a task meanwhile
		return tx.Journal().Append(by.Session, []perdure.Event{sessionfile.Event(by, "", tx.Now(), fact)})
	})
	if err != nil {
		return fmt.Errorf("emit %s: %w", fact.EventType(), err)
	}
	e.sink.Heartbeat()
	e.core.ReportActivity(e.by.Session)
	return nil
}
