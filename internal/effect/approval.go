package effect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// DecideApproval records the decision of a person; the first committed decision wins. Work that
// waits for it then continues. NotFound: no such approval. Conflict: it is closed, or the person
// saw other arguments. Invalid: the decision itself is not valid.
func (e *Effects) DecideApproval(ctx context.Context, id perdure.ApprovalID,
	v perdure.Verdict) (perdure.Approval, error) {
	var a perdure.Approval
	err := e.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if a, err = tx.Approvals().Get(id); err != nil {
			return err
		}
		resolved, err := a.Resolve(v, tx.Now())
		if err != nil {
			return err
		}
		a, err = e.resolveApproval(tx, a, resolved)
		return err
	})
	if a.ID != "" && !core.RefusedWrite(err) {
		e.decided(ctx, a) // also if the answer of the commit was lost
	}
	if err != nil {
		return a, fmt.Errorf("decide approval %s: %w", id, err)
	}
	return a, nil
}

// decided wakes the work that waited for an approval.
func (e *Effects) decided(ctx context.Context, a perdure.Approval) {
	if a.Task != "" {
		e.tasks.ResumeAnswered(ctx, a.Task)
		return
	}
	e.core.Wake(a.Session)
}

// resolveApproval closes an approval and applies the consequences, in the caller's transaction.
func (e *Effects) resolveApproval(tx store.Tx, a perdure.Approval,
	r perdure.ApprovalResolved) (perdure.Approval, error) {
	if a.Task != "" && r.NewArgs != nil {
		return a, fmt.Errorf("%w verdict: the arguments of a background run cannot be replaced; deny it and let the "+
			"model ask again", perdure.Invalid)
	}
	if r.NewArgs != nil {
		if _, err := strictjson.Canonical(r.NewArgs); err != nil {
			return a, fmt.Errorf("%w verdict: the arguments: %w", perdure.Invalid, err)
		}
		if !secretargs.MarksIntact(a.Args, r.NewArgs) {
			return a, fmt.Errorf("%w verdict: the arguments: %s stands for a secret value that is never shown: send "+
				"the value itself, or leave the argument unchanged", perdure.Invalid, secretargs.KnownMark)
		}
		if t, ok := e.toolset.Find(a.Tool); ok {
			r.NewArgs, _ = e.secrets.Extract(perdure.CallKey{Session: a.Session, Call: a.Call}, t, r.NewArgs)
		}
	}
	events := []perdure.Event{{Session: a.Session, Actor: r.By, Call: a.Call, Task: a.Task, Fact: r}}
	core.Stamp(events, tx.Now())
	if err := tx.Journal().Append(a.Session, events); err != nil {
		return a, err
	}
	a = a.Resolved(r, tx.Now())
	if a.Task != "" {
		if err := e.answerTask(tx, a); err != nil {
			return a, err
		}
	}
	return a, tx.Approvals().Put(a)
}

// answerTask advances the task of a closed approval. A task that has not started is queued or ends;
// a task that asked while it ran receives the decision as a message.
func (e *Effects) answerTask(tx store.Tx, a perdure.Approval) error {
	task, err := tx.Tasks().Get(a.Session, a.Task)
	if err != nil || task.State != perdure.TaskAwaitingInput || task.InputRequest == nil {
		return err
	}
	approved := a.State == perdure.ApprovalApproved
	if task.Executions == 0 {
		u := perdure.TaskUpdate{Attempt: task.Attempt, State: perdure.TaskQueued, Detail: "approved"}
		if !approved {
			u = deniedTask(task, a)
		}
		_, err := e.records.Update(tx, task, u)
		return err
	}
	session, err := tx.Sessions().Get(task.Session)
	if err != nil {
		return err
	}
	if a.ID != perdure.DeriveID[perdure.ApprovalID](session.Secret, task.CreatedAt, string(task.InputRequest.ID)) {
		return nil // the task has asked something else since: this decision does not answer that
	}
	data, err := json.Marshal(taskrun.VerdictOnTask{Approved: approved, State: a.State, Note: a.Note})
	if err != nil {
		return err
	}
	return e.records.AddToInbox(tx, task, perdure.TaskMessage{
		ID: core.NewID[perdure.TaskMessageID](), Task: task.ID, Direction: perdure.Inbound, Text: a.Note, Data: data,
		InReplyTo: task.InputRequest.ID, By: a.DecidedBy, CreatedAt: tx.Now(),
	})
}

// deniedTask ends a task that may not start.
func deniedTask(task perdure.Task, a perdure.Approval) perdure.TaskUpdate {
	text := cmp.Or(a.Note, perdure.TextDenied)
	if a.State == perdure.ApprovalExpired {
		text = perdure.TextExpired
	}
	return perdure.TaskUpdate{
		Attempt: task.Attempt, State: perdure.TaskFailed, Detail: "denied", Summary: text,
		Error: &perdure.TaskError{Kind: perdure.ErrorDenied, Message: text},
	}
}

// ExpireApprovals closes the expired approvals of tasks. The driver of a session closes those of
// its foreground calls.
func (e *Effects) ExpireApprovals(ctx context.Context) error {
	var due []perdure.Approval
	err := e.core.Store.View(ctx, func(r store.Reader) error {
		open, err := r.Approvals().List(store.ApprovalFilter{State: perdure.ApprovalOpen})
		due = nil
		for _, a := range open {
			if a.Task != "" && a.Expired(r.Now()) {
				due = append(due, a)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("expire approvals: %w", err)
	}
	for _, a := range due {
		err := e.core.Work.InTx(ctx, func(tx store.Tx) (err error) {
			if a, err = tx.Approvals().Get(a.ID); err != nil || a.State != perdure.ApprovalOpen {
				return err
			}
			a, err = e.resolveApproval(tx, a, perdure.ApprovalResolved{Approval: a.ID, State: perdure.ApprovalExpired,
				By: "runtime"})
			return err
		})
		if err != nil {
			return fmt.Errorf("expire approval %s: %w", a.ID, err)
		}
		e.decided(ctx, a)
	}
	return nil
}

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
