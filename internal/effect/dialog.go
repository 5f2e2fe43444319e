package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// dialog is how one execution talks (7.4, TK15). Either call or run is set.
type dialog struct {
	e    *Effects
	call *callRun // a call of the foreground, which leaves it to ask
	run  *taskRun

	mu    sync.Mutex
	asked int           // guarded by mu; questions so far
	one   chan struct{} // guarded by mu; capacity 1: a task has one question at a time (7.1); nil before the first
}

var _ tool.Dialog = (*dialog)(nil)

// task is the task that talks. Conflict: the call cannot become one.
func (d *dialog) task() (perdure.Task, error) {
	if d.run != nil {
		return d.run.task, nil
	}
	task, _ := d.call.asTask()
	if task.ID == "" && d.call.leave(perdure.DetachedByAsking) {
		task, _ = d.call.asTask()
	}
	if task.ID == "" {
		return task, fmt.Errorf("%w: a call that does not leave its turn cannot ask anybody", perdure.Conflict)
	}
	return task, nil
}

// Ask implements tool.Dialog.
func (d *dialog) Ask(ctx context.Context, q tool.Question) (tool.Reply, error) {
	task, err := d.task()
	if err != nil {
		return tool.Reply{}, fmt.Errorf("ask: %w", err)
	}
	d.mu.Lock()
	if d.one == nil {
		d.one = make(chan struct{}, 1)
	}
	one := d.one
	d.asked++
	n := d.asked
	d.mu.Unlock()
	select {
	case one <- struct{}{}:
		defer func() { <-one }()
	case <-ctx.Done():
		return tool.Reply{}, fmt.Errorf("ask: %w", context.Cause(ctx))
	}
	asked, err := d.e.put(ctx, task, q, n)
	if err != nil {
		return tool.Reply{}, fmt.Errorf("ask: %w", err)
	}
	if asked.differs { // the answer that is there is one to something else (AP3)
		return tool.Reply{Text: perdure.TextNotMatching, By: "runtime"}, nil
	}
	work := d.e.workOf(task.ID)
	d.e.cfg.Runner.Pause(work)
	d.e.cfg.Freed()
	began := time.Now()
	reply, err := d.e.hear(ctx, task, asked)
	d.e.cfg.Runner.Resume(work)
	if err != nil && perdure.CauseOf(ctx) == "" { // the tool does not wait any longer, and its work goes on
		d.e.withdraw(task, asked.id)
	}
	if err == nil {
		err = d.e.postpone(ctx, task, time.Since(began))
	}
	if err != nil {
		return tool.Reply{}, fmt.Errorf("ask: %w", err)
	}
	return reply, nil
}

// question is a question that was put.
type question struct {
	id    perdure.RequestID
	after int64 // seq of the session's journal: what comes later may answer it
	// differs says that it was answered, by an attempt before, as the question for another approval.
	differs bool
}

// withdraw takes a question back for which nobody waits any more, with its approval.
func (e *Effects) withdraw(task perdure.Task, asked perdure.RequestID) {
	ctx, cancel := settleContext(context.Background())
	defer cancel()
	err := e.work.InTx(ctx, func(tx store.Tx) error {
		now, err := tx.Task(task.Session, task.ID)
		if err != nil || now.Attempt != task.Attempt || now.InputRequest == nil || now.InputRequest.ID != asked {
			return err
		}
		if err := e.voidApprovals(tx, now, "runtime", ""); err != nil {
			return err
		}
		_, err = e.updateTask(tx, now, perdure.TaskUpdate{Attempt: now.Attempt, State: perdure.TaskRunning})
		return err
	})
	if err != nil {
		e.cfg.Log.Warn("a question was not withdrawn", "task", task.ID, "error", err)
	}
}

// put makes a question durable, unless it was put before: the nth question of a task is one question, whatever attempt
// asks it.
func (e *Effects) put(ctx context.Context, task perdure.Task, q tool.Question, n int) (asked question, err error) {
	err = e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		session, err := tx.Session(task.Session)
		if err != nil {
			return err
		}
		asked = question{id: perdure.DeriveID[perdure.RequestID](session.Secret, task.CreatedAt, string(task.ID), strconv.Itoa(n)), after: session.LastSeq}
		approvalID := perdure.DeriveID[perdure.ApprovalID](session.Secret, task.CreatedAt, string(asked.id))
		if _, answered, err := answerTo(tx, task.ID, asked.id); err != nil || answered {
			if err == nil && len(q.Permissions) > 0 {
				a, err := tx.Approval(approvalID)
				asked.differs = err != nil || !a.Binds(task.Tool, task.ArgsHash, q.Permissions)
			}
			return err
		}
		if err := e.voidApprovals(tx, task, "runtime", approvalID); err != nil { // of a question that this one takes the place of
			return err
		}
		request := perdure.InputRequest{ID: asked.id, Kind: "question", Prompt: q.Prompt, Expected: q.Expected}
		var more []perdure.Fact
		if len(q.Permissions) > 0 {
			request.Kind = "approval"
			approval := e.approvalOf(task, q.Permissions, q.Prompt, tx.Now())
			approval.ID = approvalID
			if q.Expires > 0 {
				approval.ExpiresAt = tx.Now().Add(q.Expires)
			}
			known, err := tx.Approval(approvalID)
			switch {
			case errors.Is(err, perdure.NotFound):
				if err := tx.PutApproval(approval); err != nil {
					return err
				}
				more = append(more, perdure.ApprovalRequested{Approval: approval})
			case err != nil:
				return err
			case known.State != perdure.ApprovalOpen || !known.Binds(task.Tool, task.ArgsHash, q.Permissions): // another attempt asked for something else
				asked.differs = true
				return nil
			}
		}
		said := perdure.TaskMessage{ID: NewID[perdure.TaskMessageID](), Task: task.ID, Direction: perdure.Outbound, Text: q.Prompt, CreatedAt: tx.Now()}
		more = append(more, e.notice(task, said, string(asked.id)))
		change, err := e.updateTask(tx, task, perdure.TaskUpdate{Attempt: task.Attempt, InputRequest: &request}, more...)
		switch {
		case err != nil:
			return err
		case change.Answer != perdure.Updated:
			return perdure.CauseSuperseded
		}
		return tx.AddTaskMessage(said)
	})
	e.cfg.Wake(task.Session) // the question may start a turn (DL7)
	return asked, err
}

// notice is the fact that a task spoke, with what the model reads of it (DL7).
func (e *Effects) notice(task perdure.Task, m perdure.TaskMessage, request string) perdure.TaskMessageSent {
	sent := perdure.TaskMessageSent{Message: m, Wake: task.Wake}
	if task.Delivery != perdure.ToLoop {
		return sent
	}
	text := fmt.Sprintf("Background run says something.\n- task_id: %s\n- tool: %s\n- message: %s", task.ID, task.Tool, m.PlainText())
	if request != "" {
		text = fmt.Sprintf("Background run waits for an answer.\n- task_id: %s\n- tool: %s\n- request_id: %s\n- question: %s", task.ID, task.Tool, request, m.PlainText())
	}
	sent.Notice = perdure.Message{ID: NewMessageID(), Role: perdure.RoleNotification, Parts: []perdure.Part{{Type: perdure.PartText, Text: text, Untrusted: true}}, At: m.CreatedAt}
	if request != "" {
		sent.Notice.Metadata = map[string]string{perdure.MetaTask: string(task.ID), perdure.MetaRequest: request}
	}
	return sent
}

// answerTo finds the answer to a question.
func answerTo(r store.Reader, id perdure.TaskID, request perdure.RequestID) (m perdure.TaskMessage, found bool, err error) {
	messages, err := r.TaskMessages(id, "", 0)
	for _, m := range messages {
		if m.Direction == perdure.Inbound && m.InReplyTo == request {
			return m, true, err
		}
	}
	return m, false, err
}

// hear waits until a question is answered and the task has a place again (TK15).
func (e *Effects) hear(ctx context.Context, task perdure.Task, q question) (reply tool.Reply, err error) {
	done := errors.New("answered")
	look := func(ctx context.Context) error {
		return e.cfg.Store.View(ctx, func(r store.Reader) error {
			m, answered, err := answerTo(r, task.ID, q.id)
			if err != nil || !answered {
				return err
			}
			now, err := r.Task(task.Session, task.ID)
			if err != nil || now.State != perdure.TaskRunning {
				return err
			}
			reply = replyOf(m)
			return done
		})
	}
	err = look(context.WithoutCancel(ctx)) // an answer that is there counts also after a cancel
	if err == nil {
		err = e.cfg.Store.Watch(ctx, task.Session, q.after, func(f store.Frame) error {
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

// replyOf is an answer as the tool reads it.
func replyOf(m perdure.TaskMessage) tool.Reply {
	reply := tool.Reply{Text: m.Text, Data: m.Data, By: m.By}
	var v verdictOnTask
	if len(m.Data) > 0 && perdure.DecodeJSON(m.Data, &v) == nil {
		reply.Approved = v.Approved
	}
	return reply
}

// postpone moves the task's deadline by the time that it waited.
func (e *Effects) postpone(ctx context.Context, task perdure.Task, waited time.Duration) error {
	return e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		now, err := tx.Task(task.Session, task.ID)
		if err != nil || now.DeadlineAt.IsZero() || waited < time.Millisecond {
			return err
		}
		change, err := e.updateTask(tx, now, perdure.TaskUpdate{Attempt: task.Attempt, DeadlineAt: now.DeadlineAt.Add(waited)})
		if err == nil && change.Answer == perdure.UpdateLost {
			err = perdure.CauseSuperseded
		}
		return err
	})
}

// Tell implements tool.Dialog.
func (d *dialog) Tell(ctx context.Context, m perdure.TaskMessage) error {
	task, err := d.task()
	if err != nil {
		return fmt.Errorf("tell: %w", err)
	}
	err = d.e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		m.ID, m.Task, m.Direction, m.CreatedAt = NewID[perdure.TaskMessageID](), task.ID, perdure.Outbound, tx.Now()
		change, err := d.e.updateTask(tx, task, perdure.TaskUpdate{Attempt: task.Attempt}, d.e.notice(task, m, ""))
		if err == nil && change.Answer != perdure.Updated {
			return perdure.CauseSuperseded
		}
		if err != nil {
			return err
		}
		return tx.AddTaskMessage(m)
	})
	d.e.cfg.Wake(task.Session)
	if err != nil {
		return fmt.Errorf("tell: %w", err)
	}
	return nil
}

// Inbox implements tool.Dialog.
func (d *dialog) Inbox(ctx context.Context, after perdure.TaskMessageID, limit int) (inbox []perdure.TaskMessage, err error) {
	task, err := d.task()
	if err != nil {
		return nil, fmt.Errorf("read the inbox: %w", err)
	}
	_, err = d.e.waitTasks(ctx, []perdure.SessionID{task.Session}, func(ctx context.Context) ([]perdure.Task, bool, error) {
		err := d.e.cfg.Store.View(ctx, func(r store.Reader) error {
			messages, err := r.TaskMessages(task.ID, after, 0)
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
		err = nil // there is none
	}
	return inbox, err
}

// Send implements tool.Mail: a word of the model to a task of its session.
func (p *taskPort) Send(ctx context.Context, id string, m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	task, err := p.Task(ctx, id)
	if err != nil {
		return "", err
	}
	row, err := p.e.sessionRow(ctx, p.owner.session)
	if err != nil {
		return "", err
	}
	known := p.e.known(p.owner.session)
	m.By, m.Text = "agent", veil.Without(known, m.Text)
	m.Data, _ = veil.WithoutJSON(known, m.Data)
	m.ID = perdure.DeriveID[perdure.TaskMessageID](row.Secret, p.owner.created, string(p.owner.session), string(p.call)) // one call, one message
	if task.Links.ChildSession != "" && m.InReplyTo == "" {
		return p.e.tellChild(ctx, task.ID, m)
	}
	return p.e.SendTask(ctx, task.ID, m)
}

// sentBefore reports whether a message stands in the inbox.
func sentBefore(r store.Reader, task perdure.TaskID, id perdure.TaskMessageID) (bool, error) {
	if id == "" {
		return false, nil
	}
	messages, err := r.TaskMessages(task, "", 0)
	return slices.ContainsFunc(messages, func(m perdure.TaskMessage) bool { return m.ID == id }), err
}

// SendTask hands a message to a task; one with an id that was sent before is one message. One that answers its question moves it on, in the same commit (TK12). NotFound: no
// such task. Conflict: it has ended, waits for an approval, or the question was answered.
func (e *Effects) SendTask(ctx context.Context, id perdure.TaskID, m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	task, err := e.storedTask(ctx, perdure.Task{ID: id})
	if err == nil && task.Links.ChildSession != "" && m.InReplyTo != "" && task.State.Live() {
		return e.answerChild(ctx, task, m)
	}
	task = perdure.Task{}
	err = e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if task, err = tx.Task("", id); err != nil {
			return err
		}
		known, err := sentBefore(tx, id, m.ID)
		switch {
		case known || err != nil:
			return err
		case task.State.Terminal():
			return fmt.Errorf("%w: already settled: the task is %s", perdure.Conflict, task.State)
		case task.Kind == perdure.KindSubagent && m.InReplyTo == "":
			return fmt.Errorf("%w: a subagent is spoken to in its own session", perdure.Conflict)
		case m.InReplyTo != "" && (task.InputRequest == nil || task.InputRequest.ID != m.InReplyTo):
			return fmt.Errorf("%w: already answered", perdure.Conflict)
		case m.InReplyTo != "" && task.InputRequest.Kind == "approval":
			return fmt.Errorf("%w: this needs an approval, not a message", perdure.Conflict)
		case m.InReplyTo != "":
			if err := fits(*task.InputRequest, m); err != nil {
				return err
			}
		}
		if m.ID == "" {
			m.ID = NewID[perdure.TaskMessageID]()
		}
		m.Task, m.Direction, m.CreatedAt = id, perdure.Inbound, tx.Now()
		return e.deliverTo(tx, task, m)
	})
	if task.ID != "" && !refusedWrite(err) {
		e.movedOn(ctx, task.ID) // also when the answer of the commit was lost
	}
	if err != nil {
		return "", fmt.Errorf("send to task %s: %w", id, err)
	}
	return m.ID, nil
}

// deliverTo adds a message to a task's inbox; an answer moves it on: to running where there is a place, else it queues.
func (e *Effects) deliverTo(tx store.Tx, task perdure.Task, m perdure.TaskMessage) error {
	u := perdure.TaskUpdate{Attempt: task.Attempt}
	if m.InReplyTo != "" {
		free, _, err := e.place(tx, task.Session)
		if err != nil && !errors.Is(err, perdure.Limit) {
			return err
		}
		u.State = perdure.TaskQueued
		if free || task.Beside() {
			u.State = perdure.TaskRunning
		}
	}
	if err := tx.AddTaskMessage(m); err != nil {
		return err
	}
	_, err := e.updateTask(tx, task, u, perdure.TaskMessageReceived{Message: m})
	return err
}

// movedOn takes up a task that was answered and that nobody runs: its process died while it asked (RC16).
func (e *Effects) movedOn(ctx context.Context, id perdure.TaskID) {
	var task perdure.Task
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		task, err = r.Task("", id)
		return err
	})
	starting := e.starting.has(id) // asked first: it is dropped once the work runs
	if err == nil && e.cfg.Works() && task.State == perdure.TaskRunning && task.Executions > 0 && !starting && !e.cfg.Runner.Running(e.workOf(id)) && !e.elsewhereNow(ctx, task.Worker) {
		err = e.takeOverTask(ctx, task)
	}
	if err != nil {
		e.cfg.Log.Error("a task that was answered was not taken up", "task", id, "error", tool.Chain(err))
	}
	e.cfg.Freed()
	e.cfg.Wake(task.Session)
}

// fits checks an answer against what the question expects. Invalid: it does not fit.
func fits(q perdure.InputRequest, m perdure.TaskMessage) error {
	if len(q.Expected) == 0 {
		return nil
	}
	if fault := tool.CheckJSON(q.Expected, m.Data); fault != "" {
		return fmt.Errorf("%w answer: %s", perdure.Invalid, fault)
	}
	return nil
}
