package foreground

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Answer records the client's result of a client-side call. Sending the same result again
// succeeds. NotFound: no such call. Conflict: the call does not wait for the client, or has a
// different result. Invalid: the result is not valid JSON.
func (cs *Calls) Answer(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error {
	waits, err := cs.asksClient(ctx, key)
	if err == nil {
		result, err = cs.clientResult(key, result, waits)
	}
	if err != nil {
		return fmt.Errorf("answer call %s: %w", key, err)
	}
	return cs.giveAnswer(ctx, key, by, result)
}

// AnswerConnected answers a call that waits for a connection which is there now. The runtime gives
// the result, so it is not untrusted.
func (cs *Calls) AnswerConnected(ctx context.Context, key perdure.CallKey, result perdure.ToolResult) error {
	result.CallID = key.Call
	return cs.giveAnswer(ctx, key, "runtime", result)
}

// giveAnswer commits the result of a call that the client answers.
func (cs *Calls) giveAnswer(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error {
	err := cs.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		s, err := cs.core.Fold(tx.Reader(), key.Session)
		if err != nil {
			return err
		}
		c, given := s.Requested(key.Call)
		switch {
		case given != nil && sameResult(*given, result):
			return nil
		case given != nil:
			return fmt.Errorf("%w: call %s already has a different result", perdure.Conflict, key)
		case c == nil:
			return fmt.Errorf("call %s: %w", key, perdure.NotFound)
		}
		events := []perdure.Event{{Session: key.Session, Actor: by, Turn: s.Turn.ID, Call: key.Call,
			Fact: perdure.ToolCompleted{
				CallID: key.Call, Name: c.Name, Status: result.Status(),
				Result: result, DurationMS: core.Elapsed(c.StartedAt, tx.Now()).Milliseconds(),
				Narration: cs.environment.Narration(core.CallerOf(s).Calls(tool.Call{Session: key.Session, Turn: s.Turn.ID,
					ID: key.Call, Tool: c.Name, Args: c.Args, Class: c.Class}), result, false),
			}}}
		core.Stamp(events, tx.Now())
		return tx.Journal().Append(key.Session, events)
	})
	if !core.RefusedWrite(err) {
		cs.core.Wake(key.Session) // also if the answer of the commit was lost
	}
	if err != nil {
		return fmt.Errorf("answer call %s: %w", key, err)
	}
	return nil
}

// asksClient reports whether a call waits for the client. Only then may its answer be written to
// the file of the call's output. NotFound: no such call.
func (cs *Calls) asksClient(ctx context.Context, key perdure.CallKey) (waits bool, err error) {
	err = cs.core.Store.View(ctx, func(r store.Reader) error {
		s, err := cs.core.Fold(r, key.Session)
		if err != nil {
			return err
		}
		c, given := s.Requested(key.Call)
		if waits = c != nil; !waits && given == nil {
			return fmt.Errorf("call %s: %w", key, perdure.NotFound)
		}
		return nil
	})
	return waits, err
}

// clientResult is the record of a client's answer, truncated like every result. What a client says
// about the effects of our own tools is dropped.
func (cs *Calls) clientResult(key perdure.CallKey, r perdure.ToolResult, keep bool) (perdure.ToolResult, error) {
	shorten := func(key perdure.CallKey, r perdure.ToolResult) perdure.ToolResult {
		return cs.environment.TruncateResult(key, r, nil)
	}
	if !keep { // the result is only compared, so no file is written
		shorten = func(key perdure.CallKey, r perdure.ToolResult) perdure.ToolResult {
			return tool.Cut(r, cs.core.Limits.ResultBytes, tool.OutputPath(key.Call))
		}
	}
	if r.Error != "" {
		failed := perdure.Failed(key.Call, perdure.ErrorTool, r.Error)
		failed.Untrusted = true
		return shorten(key, failed), nil
	}
	if len(r.Result) == 0 {
		r.Result = json.RawMessage("null")
	}
	if !json.Valid(r.Result) {
		return r, fmt.Errorf("%w result: it is not valid JSON", perdure.Invalid)
	}
	// the source of a client's result is not known
	record := perdure.ToolResult{CallID: key.Call, Result: r.Result, Images: r.Images, Untrusted: true}
	if record = tool.CheckImages(record); keep {
		record = cs.environment.StoreImages(key, record)
	}
	return shorten(key, record), nil
}

// sameResult reports whether two results are equal, however their JSON is formatted.
func sameResult(a, b perdure.ToolResult) bool {
	return sameJSON(a.Result, b.Result) && a.Error == b.Error && a.ErrorKind == b.ErrorKind
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	first, errA := strictjson.Canonical(a)
	second, errB := strictjson.Canonical(b)
	return errA == nil && errB == nil && bytes.Equal(first, second)
}

// Resolve resolves a foreground call of unknown outcome. The model gets a notification with its
// next request. Conflict: the outcome is not unknown. Invalid: ResolveRunAgain, because the turn
// that waited for the call has continued without it; a new message lets the model ask again.
func (cs *Calls) Resolve(ctx context.Context, key perdure.CallKey, w taskrun.Resolution) error {
	if w.Answer == perdure.ResolveRunAgain {
		return fmt.Errorf("resolve %s: %w: the turn has continued without this call; resolve it as did_not_happen, "+
			"and ask the agent to call the tool again", key, perdure.Invalid)
	}
	err := cs.core.Store.InTx(ctx, func(tx store.Tx) error {
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
	cs.core.Wake(key.Session)
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
