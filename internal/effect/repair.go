package effect

import (
	"cmp"
	"context"
	"errors"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

// Repair looks up the results of calls that have none in the transcript, by session and call,
// whatever turn made them. While the ledger cannot be read, it retries, and the model is not
// called. The second result is false if the engine is stopping.
func (e *Effects) Repair(ctx context.Context, s *perdure.Session, c perdure.RepairTranscript) (core.Outcome, bool) {
	for n := 1; ; n++ {
		var facts []perdure.Fact
		err := e.core.Store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
			facts = facts[:0]
			for _, b := range c.Breaches {
				fact, err := repairOf(r, s.ID, b)
				if err != nil {
					return err
				}
				facts = append(facts, fact)
			}
			return nil
		})
		if err == nil {
			var events []perdure.Event
			for _, fact := range facts {
				events = append(events, perdure.Event{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: fact})
			}
			return core.Outcome{Events: events}, true
		}
		e.core.Log.Warn("transcript not repaired", "session", s.ID, "turn", c.Turn, "error", err)
		if !core.Wait(ctx, perdure.RetryDelay(min(n, 5), 0, string(c.Turn))/10) {
			return core.Outcome{}, false
		}
	}
}

// repairOf decides how to repair one call.
func repairOf(r store.Reader, session perdure.SessionID, b perdure.Breach) (perdure.TranscriptRepaired, error) {
	id := b.Call.ID
	fact := perdure.TranscriptRepaired{CallID: id, Tool: b.Call.Name}
	give := func(action string, result perdure.ToolResult) (perdure.TranscriptRepaired, error) {
		result.CallID = id
		fact.Action, fact.Result = action, &result
		return fact, nil
	}
	row, err := r.Calls().Get(perdure.CallKey{Session: session, Call: id})
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return fact, err
	}
	fact.TurnID, fact.Tool = row.Turn, cmp.Or(fact.Tool, row.Tool)
	switch {
	case b.Dropped:
		fact.Action = perdure.RepairDropped
		return fact, nil
	case b.Result != nil: // the result is elsewhere in the transcript
		return give(perdure.RepairReplay, *b.Result)
	case err != nil:
		return give(perdure.RepairNotExecuted, perdure.Refused(id, perdure.ErrorInterrupted, perdure.TextNotExecuted))
	case row.Task != "":
		task, err := r.Tasks().Get(session, row.Task)
		if errors.Is(err, perdure.NotFound) { // the task was pruned: the ledger has what the placeholder needs
			task, err = perdure.Task{ID: row.Task, Tool: row.Tool}, nil
		}
		if err != nil {
			return fact, err
		}
		return give(perdure.RepairPlaceholder, taskrecord.Placeholder(task, perdure.ToolDetached{CallID: id, TaskID: row.Task}))
	case row.State == perdure.CallSettled && row.Result != nil && row.Result.ErrorKind == perdure.ErrorInterrupted:
		return give(perdure.RepairInterrupted, *row.Result)
	case row.State == perdure.CallSettled && row.Result != nil:
		return give(perdure.RepairReplay, *row.Result)
	}
	// the call ran, and nothing waits for it any more
	return give(perdure.RepairUnknown, perdure.Failed(id, perdure.ErrorUnknown, perdure.TextUnknown))
}
