package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// AnswerCall records the client's result of a client-side call. Sending the same result again
// succeeds. NotFound: no such call. Conflict: the call does not wait for the client, or has a
// different result. Invalid: the result is not valid JSON.
func (e *Effects) AnswerCall(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error {
	waits, err := e.asksClient(ctx, key)
	if err == nil {
		result, err = e.clientResult(key, result, waits)
	}
	if err != nil {
		return fmt.Errorf("answer call %s: %w", key, err)
	}
	err = e.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		s, err := e.core.Fold(tx.Reader(), key.Session)
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
			}}}
		core.Stamp(events, tx.Now())
		return tx.Journal().Append(key.Session, events)
	})
	if !core.RefusedWrite(err) {
		e.core.Wake(key.Session) // also if the answer of the commit was lost
	}
	if err != nil {
		return fmt.Errorf("answer call %s: %w", key, err)
	}
	return nil
}

// asksClient reports whether a call waits for the client. Only then may its answer be written to
// the file of the call's output. NotFound: no such call.
func (e *Effects) asksClient(ctx context.Context, key perdure.CallKey) (waits bool, err error) {
	err = e.core.Store.View(ctx, func(r store.Reader) error {
		s, err := e.core.Fold(r, key.Session)
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
func (e *Effects) clientResult(key perdure.CallKey, r perdure.ToolResult, keep bool) (perdure.ToolResult, error) {
	shorten := func(key perdure.CallKey, r perdure.ToolResult) perdure.ToolResult {
		return e.environment.TruncateResult(key, r, nil)
	}
	if !keep { // the result is only compared, so no file is written
		shorten = func(key perdure.CallKey, r perdure.ToolResult) perdure.ToolResult {
			return tool.Cut(r, tool.ResultLimit, tool.OutputPath(key.Call))
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
	return shorten(key, tool.CheckImages(record)), nil
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
