// Package approval records the decisions of persons, and lets the work that waits for them
// continue.
//
// It may import the root and store, of internal: secretargs and strictjson, and of internal/effect:
// core, secrets, taskrecord, taskrun and toolset.
//
// The one thing to know: the first committed decision wins.
package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/store"
)

// Approvals closes approvals.
type Approvals struct {
	core    *core.Core
	toolset *toolset.Toolset
	secrets *secrets.Secrets
	records *taskrecord.Records
	tasks   *taskrun.Tasks
}

// New returns the approvals of calls and tasks.
func New(p taskrun.Parts, tasks *taskrun.Tasks) *Approvals {
	return &Approvals{core: p.Core, toolset: p.Toolset, secrets: p.Secrets, records: p.Records, tasks: tasks}
}

// Decide records the decision of a person; the first committed decision wins. Work that
// waits for it then continues. NotFound: no such approval. Conflict: it is closed, or the person
// saw other arguments. Invalid: the decision itself is not valid.
func (ap *Approvals) Decide(ctx context.Context, id perdure.ApprovalID,
	v perdure.Verdict) (perdure.Approval, error) {
	var a perdure.Approval
	err := ap.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if a, err = tx.Approvals().Get(id); err != nil {
			return err
		}
		resolved, err := a.Resolve(v, tx.Now())
		if err != nil {
			return err
		}
		a, err = ap.resolveApproval(tx, a, resolved)
		return err
	})
	if a.ID != "" && !core.RefusedWrite(err) {
		ap.decided(ctx, a) // also if the answer of the commit was lost
	}
	if err != nil {
		return a, fmt.Errorf("decide approval %s: %w", id, err)
	}
	return a, nil
}

// decided wakes the work that waited for an approval.
func (ap *Approvals) decided(ctx context.Context, a perdure.Approval) {
	if a.Task != "" {
		ap.tasks.ResumeAnswered(ctx, a.Task)
		return
	}
	ap.core.Wake(a.Session)
}

// resolveApproval closes an approval and applies the consequences, in the caller's transaction.
func (ap *Approvals) resolveApproval(tx store.Tx, a perdure.Approval,
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
		if t, ok := ap.toolset.Find(a.Tool); ok {
			r.NewArgs, _ = ap.secrets.Extract(perdure.CallKey{Session: a.Session, Call: a.Call}, t, r.NewArgs)
		}
	}
	events := []perdure.Event{{Session: a.Session, Actor: r.By, Call: a.Call, Task: a.Task, Fact: r}}
	core.Stamp(events, tx.Now())
	if err := tx.Journal().Append(a.Session, events); err != nil {
		return a, err
	}
	a = a.Resolved(r, tx.Now())
	if a.Task != "" {
		if err := ap.answerTask(tx, a); err != nil {
			return a, err
		}
	}
	return a, tx.Approvals().Put(a)
}

// answerTask advances the task of a closed approval. A task that has not started is queued or ends;
// a task that asked while it ran receives the decision as a message.
func (ap *Approvals) answerTask(tx store.Tx, a perdure.Approval) error {
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
		_, err := ap.records.Update(tx, task, u)
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
	return ap.records.AddToInbox(tx, task, perdure.TaskMessage{
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

// Expire closes the expired approvals of tasks. The driver of a session closes those of
// its foreground calls.
func (ap *Approvals) Expire(ctx context.Context) error {
	var due []perdure.Approval
	err := ap.core.Store.View(ctx, func(r store.Reader) error {
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
		err := ap.core.Work.InTx(ctx, func(tx store.Tx) (err error) {
			if a, err = tx.Approvals().Get(a.ID); err != nil || a.State != perdure.ApprovalOpen {
				return err
			}
			a, err = ap.resolveApproval(tx, a, perdure.ApprovalResolved{Approval: a.ID, State: perdure.ApprovalExpired,
				By: "runtime"})
			return err
		})
		if err != nil {
			return fmt.Errorf("expire approval %s: %w", a.ID, err)
		}
		ap.decided(ctx, a)
	}
	return nil
}
