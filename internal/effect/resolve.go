package effect

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
)

// ResolveCall resolves a foreground call of unknown outcome. The model gets a notification with its
// next request. Conflict: the outcome is not unknown. Invalid: ResolveRunAgain, because the turn
// that waited for the call has continued without it; a new message lets the model ask again.
func (e *Effects) ResolveCall(ctx context.Context, key perdure.CallKey, w taskrun.Resolution) error {
	if w.Answer == perdure.ResolveRunAgain {
		return fmt.Errorf("resolve %s: %w: the turn has continued without this call; resolve it as did_not_happen, "+
			"and ask the agent to call the tool again", key, perdure.Invalid)
	}
	err := e.core.Store.InTx(ctx, func(tx store.Tx) error {
		row, err := tx.Calls().Get(key)
		if err != nil {
			return err
		}
		if row.Task != "" {
			return fmt.Errorf("%w: this call is a task; resolve %s instead", perdure.Conflict, row.Task)
		}
		if row.State != perdure.CallUnknown {
			return fmt.Errorf("%w: the call is %s, not unknown", perdure.Conflict, row.State)
		}
		result := w.Record(key.Call)
		row.State, row.Result = perdure.CallSettled, &result
		event := perdure.Event{Session: key.Session, Actor: w.By, Turn: row.Turn, Call: key.Call,
			Fact: perdure.ToolResolved{
				CallID: key.Call, Answer: w.Answer, Outcome: w.Answer.Outcome(), Result: w.Result,
				By: w.By, Note: w.Note, Message: resolvedNotice(row, w),
			}}
		events := []perdure.Event{event}
		core.Stamp(events, tx.Now())
		if err := tx.Journal().Append(key.Session, events); err != nil {
			return err
		}
		return tx.Calls().Resolve(row, w.By)
	})
	e.core.Wake(key.Session)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", key, err)
	}
	return nil
}

// resolvedNotice tells the model how an operator resolved a call.
func resolvedNotice(row perdure.Call, w taskrun.Resolution) perdure.Message {
	text := fmt.Sprintf("The outcome of call %s of %s is now known: it %s.", row.Key.Call, row.Tool,
		map[perdure.ResolveAnswer]string{
			perdure.ResolveHappened: "happened", perdure.ResolveDidNotHappen: taskrun.TextDidNotHappen,
		}[w.Answer])
	if len(w.Result) > 0 {
		text += "\n- result: " + perdure.Summarise(w.Result)
	}
	return perdure.Message{
		ID: core.NewMessageID(), Role: perdure.RoleNotification, Parts: []perdure.Part{{Type: perdure.PartText, Text: text}},
	}
}
