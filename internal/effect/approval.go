package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// approvalOf is the question whether a task may do something.
func (e *Effects) approvalOf(task perdure.Task, permissions []perdure.Permission, why string, now time.Time) perdure.Approval {
	a := perdure.Approval{
		Session: task.Session, Call: task.Call, Task: task.ID, Tool: task.Tool, Args: task.Spec.Arguments, ArgsHash: task.ArgsHash, Class: task.Class,
		Permissions: permissions, Kind: "task", Why: orElse(permissions[0].Reason, why), Summary: task.DisplayName, RequestedAt: now, State: perdure.ApprovalOpen,
	}
	if e.cfg.ApprovalExpiry > 0 {
		a.ExpiresAt = now.Add(e.cfg.ApprovalExpiry)
	}
	return a
}

// DecideApproval records a person's verdict, once: the first that is committed wins (AP9). What waits for it goes on.
// NotFound: no such approval. Conflict: it is closed, or the person saw other arguments. Invalid: the verdict itself.
func (e *Effects) DecideApproval(ctx context.Context, id perdure.ApprovalID, v perdure.Verdict) (perdure.Approval, error) {
	var a perdure.Approval
	err := e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if a, err = tx.Approval(id); err != nil {
			return err
		}
		resolved, err := a.Resolve(v, tx.Now())
		if err != nil {
			return err
		}
		a, err = e.resolveApproval(tx, a, resolved)
		return err
	})
	if a.ID != "" && !refusedWrite(err) {
		e.decided(ctx, a) // also when the answer of the commit was lost
	}
	if err != nil {
		return a, fmt.Errorf("decide approval %s: %w", id, err)
	}
	return a, nil
}

// refusedWrite reports an error after which nothing can have been committed.
func refusedWrite(err error) bool {
	return errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Conflict) || errors.Is(err, perdure.Invalid)
}

// decided wakes what waited for an approval.
func (e *Effects) decided(ctx context.Context, a perdure.Approval) {
	if a.Task != "" {
		e.movedOn(ctx, a.Task)
		return
	}
	e.cfg.Wake(a.Session)
}

// resolveApproval closes an approval with what follows from it, in the caller's transaction.
func (e *Effects) resolveApproval(tx store.Tx, a perdure.Approval, r perdure.ApprovalResolved) (perdure.Approval, error) {
	if a.Task != "" && r.NewArgs != nil {
		return a, fmt.Errorf("%w verdict: the arguments of a background run cannot be replaced; deny it and let the model ask again", perdure.Invalid)
	}
	if r.NewArgs != nil {
		if _, err := perdure.CanonicalJSON(r.NewArgs); err != nil {
			return a, fmt.Errorf("%w verdict: the arguments: %w", perdure.Invalid, err)
		}
		if !veil.Kept(a.Args, r.NewArgs) {
			return a, fmt.Errorf("%w verdict: the arguments: %s stands for a value that nobody shows: give that value, or leave the argument as it was", perdure.Invalid, veil.KnownMark)
		}
		if t, ok := e.tool(a.Tool); ok {
			r.NewArgs, _ = e.taken(perdure.CallKey{Session: a.Session, Call: a.Call}, t, r.NewArgs)
		}
	}
	events := []perdure.Event{{Session: a.Session, Actor: r.By, Call: a.Call, Task: a.Task, Fact: r}}
	stamp(events, tx.Now())
	if err := tx.Append(a.Session, events); err != nil {
		return a, err
	}
	a = a.Resolved(r, tx.Now())
	if a.Task != "" {
		if err := e.answerTask(tx, a); err != nil {
			return a, err
		}
	}
	return a, tx.PutApproval(a)
}

// answerTask moves the task of a closed approval on: one that had not begun is queued or ends, and one that asked in the
// middle of its work is answered (AP6, AP10).
func (e *Effects) answerTask(tx store.Tx, a perdure.Approval) error {
	task, err := tx.Task(a.Session, a.Task)
	if err != nil || task.State != perdure.TaskAwaitingInput || task.InputRequest == nil {
		return err
	}
	approved := a.State == perdure.ApprovalApproved
	if task.Executions == 0 {
		u := perdure.TaskUpdate{Attempt: task.Attempt, State: perdure.TaskQueued, Detail: "approved"}
		if !approved {
			u = deniedTask(task, a)
		}
		_, err := e.updateTask(tx, task, u)
		return err
	}
	session, err := tx.Session(task.Session)
	if err != nil {
		return err
	}
	if a.ID != perdure.DeriveID[perdure.ApprovalID](session.Secret, task.CreatedAt, string(task.InputRequest.ID)) {
		return nil // the task asks something else by now: this verdict is none on that (AP3)
	}
	data, err := json.Marshal(verdictOnTask{Approved: approved, State: a.State, Note: a.Note})
	if err != nil {
		return err
	}
	return e.deliverTo(tx, task, perdure.TaskMessage{
		ID: NewID[perdure.TaskMessageID](), Task: task.ID, Direction: perdure.Inbound, Text: a.Note, Data: data, InReplyTo: task.InputRequest.ID, By: a.By, CreatedAt: tx.Now(),
	})
}

// verdictOnTask is the answer to a task that asked for an approval in the middle of its work.
type verdictOnTask struct {
	Approved bool                  `json:"approved"`
	State    perdure.ApprovalState `json:"state"`
	Note     string                `json:"note"`
}

// deniedTask ends a task that may not begin (AP6).
func deniedTask(task perdure.Task, a perdure.Approval) perdure.TaskUpdate {
	text := orElse(a.Note, perdure.TextDenied)
	if a.State == perdure.ApprovalExpired {
		text = perdure.TextExpired
	}
	return perdure.TaskUpdate{
		Attempt: task.Attempt, State: perdure.TaskFailed, Detail: "denied", Summary: text, Error: &perdure.TaskError{Kind: perdure.ErrorDenied, Message: text},
	}
}

// voidApprovals closes what a task asked for and does not wait for any more, all but one.
func (e *Effects) voidApprovals(tx store.Tx, task perdure.Task, by string, except perdure.ApprovalID) error {
	open, err := tx.Approvals(store.ApprovalFilter{Session: task.Session, State: perdure.ApprovalOpen, Call: task.Call})
	if err != nil {
		return err
	}
	for _, a := range open {
		if a.Task != task.ID || a.ID == except {
			continue
		}
		resolved := perdure.ApprovalResolved{Approval: a.ID, State: perdure.ApprovalVoid, By: by}
		events := []perdure.Event{{Session: a.Session, Actor: by, Call: a.Call, Task: a.Task, Fact: resolved}}
		stamp(events, tx.Now())
		if err := tx.Append(a.Session, events); err != nil {
			return err
		}
		if err := tx.PutApproval(a.Resolved(resolved, tx.Now())); err != nil {
			return err
		}
	}
	return nil
}

// ExpireApprovals closes the approvals of tasks whose time is over. Those of foreground calls are their turns' to close.
func (e *Effects) ExpireApprovals(ctx context.Context) error {
	var due []perdure.Approval
	err := e.cfg.Store.View(ctx, func(r store.Reader) error {
		open, err := r.Approvals(store.ApprovalFilter{State: perdure.ApprovalOpen})
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
		err := e.work.InTx(ctx, func(tx store.Tx) (err error) {
			if a, err = tx.Approval(a.ID); err != nil || a.State != perdure.ApprovalOpen {
				return err
			}
			a, err = e.resolveApproval(tx, a, perdure.ApprovalResolved{Approval: a.ID, State: perdure.ApprovalExpired, By: "runtime"})
			return err
		})
		if err != nil {
			return fmt.Errorf("expire approval %s: %w", a.ID, err)
		}
		e.decided(ctx, a)
	}
	return nil
}

// JudgeCall judges a call anew whose arguments a person replaced: hooks, policy, fingerprint (AP5). What that person
// allowed with them is not asked about again.
func (e *Effects) JudgeCall(ctx context.Context, s *perdure.Session, c perdure.JudgeCall) Outcome {
	planned := e.planCall(ctx, s, perdure.ToolCall{ID: c.Call.ID, Name: c.Call.Name, Arguments: c.Call.Args}, true)
	planned.Repeats = orElse(planned.Repeats, c.Call.Repeats)
	if planned.Rewritten == nil {
		planned.Rewritten = c.Call.Args
	}
	var left []perdure.Permission
	for _, p := range planned.Permissions {
		if !c.Call.Allowed(p) {
			left = append(left, p)
		}
	}
	planned.Permissions = left
	fact := perdure.CallReplanned{Call: planned}
	return Outcome{Events: []perdure.Event{{Session: s.ID, Actor: "runtime", Turn: c.Turn, Call: c.Call.ID, Fact: fact}}}
}

// AnswerCall records the client's answer to a call that was asked for from it (AP11). The same answer again is accepted.
// NotFound: no such call. Conflict: it does not wait for the client, or was answered otherwise. Invalid: it is no JSON.
func (e *Effects) AnswerCall(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error {
	waits, err := e.asksClient(ctx, key)
	if err == nil {
		result, err = e.clientResult(key, result, waits)
	}
	if err != nil {
		return fmt.Errorf("answer call %s: %w", key, err)
	}
	err = e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		s, err := e.Fold(tx, key.Session)
		if err != nil {
			return err
		}
		c, given := s.Requested(key.Call)
		switch {
		case given != nil && sameResult(*given, result):
			return nil
		case given != nil:
			return fmt.Errorf("%w: call %s has another result", perdure.Conflict, key)
		case c == nil:
			return fmt.Errorf("call %s: %w", key, perdure.NotFound)
		}
		events := []perdure.Event{{Session: key.Session, Actor: by, Turn: s.Turn.ID, Call: key.Call, Fact: perdure.ToolCompleted{
			CallID: key.Call, Name: c.Name, Status: result.Status(), Result: result, DurationMS: elapsed(c.StartedAt, tx.Now()).Milliseconds(),
		}}}
		stamp(events, tx.Now())
		return tx.Append(key.Session, events)
	})
	if !refusedWrite(err) {
		e.cfg.Wake(key.Session) // also when the answer of the commit was lost
	}
	if err != nil {
		return fmt.Errorf("answer call %s: %w", key, err)
	}
	return nil
}

// asksClient reports whether a call waits for the client: only then may an answer write the whole of itself to the file
// of the call's output. NotFound: no such call.
func (e *Effects) asksClient(ctx context.Context, key perdure.CallKey) (waits bool, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		s, err := e.Fold(r, key.Session)
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

// clientResult is what counts of a client's answer: what the model reads of it, cut as every result is (TL16). A client says
// nothing of what our own tools did.
func (e *Effects) clientResult(key perdure.CallKey, r perdure.ToolResult, keep bool) (perdure.ToolResult, error) {
	shorten := func(key perdure.CallKey, r perdure.ToolResult) perdure.ToolResult { return e.shorten(key, r, nil) }
	if !keep { // it is only compared
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
		return r, fmt.Errorf("%w result: it is no JSON", perdure.Invalid)
	}
	record := perdure.ToolResult{CallID: key.Call, Result: r.Result, Images: r.Images, Untrusted: true} // who knows where a client has it from
	return shorten(key, tool.CheckImages(record)), nil
}

// sameResult reports whether two answers say the same; how their JSON is written does not matter.
func sameResult(a, b perdure.ToolResult) bool {
	return sameJSON(a.Result, b.Result) && a.Error == b.Error && a.ErrorKind == b.ErrorKind
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	first, errA := perdure.CanonicalJSON(a)
	second, errB := perdure.CanonicalJSON(b)
	return errA == nil && errB == nil && bytes.Equal(first, second)
}
