package taskrun

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Dialog lets one execution ask questions and exchange messages.
type Dialog struct {
	tasks *Tasks
	by    Asker

	mu         sync.Mutex
	nQuestions int // guarded by mu; number of questions asked
	// asking is a semaphore of capacity 1: a task has one open question at a time. Guarded by mu;
	// nil before the first question.
	asking chan struct{}
}

var _ tool.Dialog = (*Dialog)(nil)

// Ask implements tool.Dialog.
func (d *Dialog) Ask(ctx context.Context, q tool.Question) (tool.Reply, error) {
	task, err := d.by.AskingTask()
	if err != nil {
		return tool.Reply{}, fmt.Errorf("ask: %w", err)
	}
	d.mu.Lock()
	if d.asking == nil {
		d.asking = make(chan struct{}, 1)
	}
	one := d.asking
	d.nQuestions++
	n := d.nQuestions
	d.mu.Unlock()
	select {
	case one <- struct{}{}:
		defer func() { <-one }()
	case <-ctx.Done():
		return tool.Reply{}, fmt.Errorf("ask: %w", context.Cause(ctx))
	}
	asked, err := d.tasks.recordQuestion(ctx, task, q, n)
	if err != nil {
		return tool.Reply{}, fmt.Errorf("ask: %w", err)
	}
	if asked.differs { // the stored answer is for another question
		return tool.Reply{Text: perdure.TextNotMatching, By: "runtime"}, nil
	}
	work := d.tasks.records.WorkID(task.ID)
	d.tasks.core.Runner.Pause(work)
	d.tasks.core.StartQueued()
	began := time.Now()
	reply, err := d.tasks.awaitAnswer(ctx, task, asked)
	d.tasks.core.Runner.Resume(work)
	if err != nil && perdure.CauseOf(ctx) == "" { // the tool stopped waiting, but its work continues
		d.tasks.withdraw(task, asked.id)
	}
	if err == nil {
		err = d.tasks.extendDeadline(ctx, task, time.Since(began))
	}
	if err != nil {
		return tool.Reply{}, fmt.Errorf("ask: %w", err)
	}
	return reply, nil
}

// SendToSession implements tool.Dialog.
func (d *Dialog) SendToSession(ctx context.Context, m perdure.TaskMessage) error {
	task, err := d.by.AskingTask()
	if err != nil {
		return fmt.Errorf("tell: %w", err)
	}
	err = d.tasks.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		m.ID, m.Task, m.Direction, m.CreatedAt = core.NewID[perdure.TaskMessageID](), task.ID, perdure.Outbound, tx.Now()
		change, err := d.tasks.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt}, d.tasks.records.MessageNotice(task, m, ""))
		if err == nil && change.Answer != perdure.Updated {
			return perdure.CauseSuperseded
		}
		if err != nil {
			return err
		}
		return tx.Tasks().AddMessage(m)
	})
	d.tasks.core.Wake(task.Session)
	if err != nil {
		return fmt.Errorf("tell: %w", err)
	}
	return nil
}

// Inbox implements tool.Dialog.
func (d *Dialog) Inbox(ctx context.Context, after perdure.TaskMessageID,
	limit int) (inbox []perdure.TaskMessage, err error) {
	task, err := d.by.AskingTask()
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	_, err = d.tasks.WaitTasks(ctx, []perdure.SessionID{task.Session},
		func(ctx context.Context) ([]perdure.Task, bool, error) {
			err := d.tasks.core.Store.View(ctx, func(r store.Reader) error {
				messages, err := r.Tasks().Messages(task.ID, after, 0)
				inbox = nil
				for _, m := range messages {
					if m.Direction == perdure.Inbound && m.InReplyTo == "" && (limit == 0 || len(inbox) < limit) {
						inbox = append(inbox, m)
					}
				}
				return err
			})
			return nil, len(inbox) > 0, err
		})
	if ctx.Err() != nil {
		err = nil // no message came
	}
	return inbox, err
}

// Asker is an execution that asks questions.
type Asker interface {
	// AskingTask returns the task that asks. A foreground call becomes a task in order to ask.
	// Conflict: it cannot.
	AskingTask() (perdure.Task, error)
}

// NewDialog returns the dialog of an execution.
func (ts *Tasks) NewDialog(by Asker) *Dialog { return &Dialog{tasks: ts, by: by} }

// question is a question that was recorded.
type question struct {
	id    perdure.RequestID
	after int64 // journal sequence number; later events may contain the answer
	// differs says that the request was answered already, but with other permissions, by an earlier
	// attempt. The answer must not be used for this question.
	differs bool
}

// withdraw closes a question that nobody waits for any more, with its approval.
func (ts *Tasks) withdraw(task perdure.Task, asked perdure.RequestID) {
	ctx, cancel := core.SettleContext(context.Background())
	defer cancel()
	err := ts.core.Work.InTx(ctx, func(tx store.Tx) error {
		now, err := tx.Tasks().Get(task.Session, task.ID)
		if err != nil || now.Attempt != task.Attempt || now.InputRequest == nil || now.InputRequest.ID != asked {
			return err
		}
		if err := ts.records.VoidApprovals(tx, now, "runtime", ""); err != nil {
			return err
		}
		_, err = ts.records.Update(tx, now, perdure.TaskUpdate{Attempt: now.Attempt, State: perdure.TaskRunning})
		return err
	})
	if err != nil {
		ts.core.Log.Warn("question not withdrawn", "task", task.ID, "error", err)
	}
}

// recordQuestion records a question, unless it was recorded before: the nth question of a task is
// one question, whichever attempt asks it.
func (ts *Tasks) recordQuestion(ctx context.Context, task perdure.Task, q tool.Question, n int) (asked question, err error) {
	err = ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		session, err := tx.Sessions().Get(task.Session)
		if err != nil {
			return err
		}
		asked = question{id: perdure.DeriveID[perdure.RequestID](session.Secret, task.CreatedAt, string(task.ID),
			strconv.Itoa(n)), after: session.LastSeq}
		approvalID := perdure.DeriveID[perdure.ApprovalID](session.Secret, task.CreatedAt, string(asked.id))
		if _, answered, err := taskrecord.AnswerTo(tx.Reader(), task.ID, asked.id); err != nil || answered {
			if err == nil && len(q.Permissions) > 0 {
				a, err := tx.Approvals().Get(approvalID)
				asked.differs = err != nil || !a.Binds(task.Tool, task.ArgsHash, q.Permissions)
			}
			return err
		}
		if err := ts.records.VoidApprovals(tx, task, "runtime", approvalID); err != nil { // of a question that this one replaces
			return err
		}
		request := perdure.InputRequest{ID: asked.id, Kind: "question", Prompt: q.Prompt, Expected: q.Expected}
		var more []perdure.Fact
		if len(q.Permissions) > 0 {
			request.Kind = "approval"
			approval, err := ts.records.ApprovalOf(tx, task, q.Permissions, q.Prompt)
			if err != nil {
				return err
			}
			approval.ID = approvalID
			if q.Expires > 0 {
				approval.ExpiresAt = tx.Now().Add(q.Expires)
			}
			known, err := tx.Approvals().Get(approvalID)
			switch {
			case errors.Is(err, perdure.NotFound):
				if err := tx.Approvals().Put(approval); err != nil {
					return err
				}
				more = append(more, perdure.ApprovalRequested{Approval: approval})
			case err != nil:
				return err
			case known.State != perdure.ApprovalOpen || !known.Binds(task.Tool, task.ArgsHash, q.Permissions):
				// another attempt asked for other permissions
				asked.differs = true
				return nil
			}
		}
		said := perdure.TaskMessage{ID: core.NewID[perdure.TaskMessageID](), Task: task.ID, Direction: perdure.Outbound,
			Text: q.Prompt, CreatedAt: tx.Now()}
		more = append(more, ts.records.MessageNotice(task, said, string(asked.id)))
		change, err := ts.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt, InputRequest: &request},
			more...)
		switch {
		case err != nil:
			return err
		case change.Answer != perdure.Updated:
			return perdure.CauseSuperseded
		}
		return tx.Tasks().AddMessage(said)
	})
	ts.core.Wake(task.Session) // the question may start a turn
	return asked, err
}

// awaitAnswer waits until a question is answered and the task has a slot again.
func (ts *Tasks) awaitAnswer(ctx context.Context, task perdure.Task, q question) (reply tool.Reply, err error) {
	done := errors.New("answered")
	look := func(ctx context.Context) error {
		return ts.core.Store.View(ctx, func(r store.Reader) error {
			m, answered, err := taskrecord.AnswerTo(r, task.ID, q.id)
			if err != nil || !answered {
				return err
			}
			now, err := r.Tasks().Get(task.Session, task.ID)
			if err != nil || now.State != perdure.TaskRunning {
				return err
			}
			reply = replyOf(m)
			return done
		})
	}
	err = look(context.WithoutCancel(ctx)) // an answer that is there counts even after a cancel
	if err == nil {
		err = ts.core.Store.Watch(ctx, task.Session, q.after, func(f store.Frame) error {
			if f.Event == nil || f.Event.Task != task.ID {
				return nil
			}
			return look(ctx)
		})
	}
	switch cause := perdure.CauseOf(ctx); {
	case errors.Is(err, done):
		return reply, nil
	case cause != "":
		return reply, cause
	}
	return reply, err
}

// replyOf is an answer in the form that a tool reads.
func replyOf(m perdure.TaskMessage) tool.Reply {
	reply := tool.Reply{Text: m.Text, Data: m.Data, By: m.By}
	var v VerdictOnTask
	if len(m.Data) > 0 && perdure.DecodeJSON(m.Data, &v) == nil {
		reply.Approved = v.Approved
	}
	return reply
}

// VerdictOnTask is the message that a task receives when it asked for an approval while it ran.
type VerdictOnTask struct {
	Approved bool                  `json:"approved"`
	State    perdure.ApprovalState `json:"state"`
	Note     string                `json:"note"`
}

// extendDeadline extends the task's deadline by the time it waited for the answer.
func (ts *Tasks) extendDeadline(ctx context.Context, task perdure.Task, waited time.Duration) error {
	return ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		now, err := tx.Tasks().Get(task.Session, task.ID)
		if err != nil || now.DeadlineAt.IsZero() || waited < time.Millisecond {
			return err
		}
		change, err := ts.records.Update(tx, now, perdure.TaskUpdate{Attempt: task.Attempt,
			DeadlineAt: now.DeadlineAt.Add(waited)})
		if err == nil && change.Answer == perdure.UpdateLost {
			err = perdure.CauseSuperseded
		}
		return err
	})
}

// LinkRemote records the id of a remote task on a task, fenced by the attempt. Lost: another
// attempt owns the task.
func (ts *Tasks) LinkRemote(ctx context.Context, task perdure.Task, id string) error {
	err := ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		now, err := taskrecord.Owned(tx.Reader(), task)
		if err != nil || now.Links.RemoteTask == id {
			return err
		}
		change, err := ts.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt,
			Links: perdure.Links{RemoteTask: id}})
		if err == nil && change.Answer == perdure.UpdateLost {
			err = perdure.Lost
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("link task %s with remote task %s: %w", task.ID, id, err)
	}
	return nil
}
