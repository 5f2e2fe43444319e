package taskrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Send sends a message to a task. A message with a known id is not sent again. An answer to the
// task's question also lets the task continue, in the same commit. NotFound: no such task.
// Conflict: the task has ended, needs an approval, or the question was answered already.
func (ts *Tasks) Send(ctx context.Context, id perdure.TaskID,
	m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	task, err := ts.records.Stored(ctx, perdure.Task{ID: id})
	if err == nil && task.Links.ChildSession != "" && m.InReplyTo != "" && task.State.Live() {
		return ts.answerChild(ctx, task, m)
	}
	task = perdure.Task{}
	err = ts.core.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if task, err = tx.Tasks().Get("", id); err != nil {
			return err
		}
		known, err := taskrecord.AlreadySent(tx.Reader(), id, m.ID)
		switch {
		case known || err != nil:
			return err
		case task.State.Terminal():
			return fmt.Errorf("%w: already settled: the task is %s", perdure.Conflict, task.State)
		case task.Kind == perdure.KindSubagent && m.InReplyTo == "":
			return fmt.Errorf("%w: send messages to a subagent in its own session", perdure.Conflict)
		case m.InReplyTo != "" && (task.InputRequest == nil || task.InputRequest.ID != m.InReplyTo):
			return fmt.Errorf("%w: already answered", perdure.Conflict)
		case m.InReplyTo != "" && task.InputRequest.Kind == "approval":
			return fmt.Errorf("%w: this needs an approval, not a message", perdure.Conflict)
		case m.InReplyTo != "":
			if err := checkAnswer(*task.InputRequest, m); err != nil {
				return err
			}
		}
		if m.ID == "" {
			m.ID = core.NewID[perdure.TaskMessageID]()
		}
		m.Task, m.Direction, m.CreatedAt = id, perdure.Inbound, tx.Now()
		return ts.records.AddToInbox(tx, task, m)
	})
	if task.ID != "" && !core.RefusedWrite(err) {
		ts.ResumeAnswered(ctx, task.ID) // also if the answer of the commit was lost
	}
	if err != nil {
		return "", fmt.Errorf("send to task %s: %w", id, err)
	}
	return m.ID, nil
}

// ResumeAnswered resumes a task that was answered but runs nowhere, because its process crashed
// while it waited.
func (ts *Tasks) ResumeAnswered(ctx context.Context, id perdure.TaskID) {
	var task perdure.Task
	err := ts.core.Store.View(ctx, func(r store.Reader) (err error) {
		task, err = r.Tasks().Get("", id)
		return err
	})
	starting := ts.Starting.has(id) // read before Running: the mark is dropped once the work runs
	if err == nil && ts.core.Running() && !ts.core.Granted() && task.State == perdure.TaskRunning && task.Executions > 0 && !starting &&
		!ts.core.Runner.Running(ts.records.WorkID(id)) && !ts.core.OtherWorkerAliveNow(ctx, task.Worker) {
		err = ts.takeOverTask(ctx, task, core.Grant{})
	}
	if err != nil {
		ts.core.Log.Error("answered task not resumed", "task", id, "error", tool.Chain(err))
	}
	ts.core.StartQueued()
	ts.core.Wake(task.Session)
}

// checkAnswer checks an answer against the schema of the question. Invalid: it does not match.
func checkAnswer(q perdure.InputRequest, m perdure.TaskMessage) error {
	if len(q.Expected) == 0 {
		return nil
	}
	if fault := tool.CheckJSON(q.Expected, m.Data); fault != "" {
		return fmt.Errorf("%w answer: %s", perdure.Invalid, fault)
	}
	return nil
}

// answerChild forwards the answer to a question to the session below that asked it.
func (ts *Tasks) answerChild(ctx context.Context, task perdure.Task,
	m perdure.TaskMessage) (perdure.TaskMessageID, error) {
	var waiting perdure.Task
	err := ts.core.Store.View(ctx, func(r store.Reader) error {
		open, err := r.Tasks().List(store.TaskFilter{Session: task.Links.ChildSession,
			States: []perdure.TaskState{perdure.TaskAwaitingInput}})
		for _, t := range open {
			if t.InputRequest != nil && t.InputRequest.ID == m.InReplyTo {
				waiting = t
			}
		}
		return err
	})
	switch {
	case err != nil:
		return "", err
	case waiting.ID != "":
		return ts.Send(ctx, waiting.ID, m)
	case task.InputRequest != nil && task.InputRequest.ID == m.InReplyTo && task.InputRequest.Kind == "approval":
		return "", fmt.Errorf("send to task %s: %w: this needs an approval, not a message", task.ID, perdure.Conflict)
	}
	return "", fmt.Errorf("send to task %s: %w: already answered", task.ID, perdure.Conflict)
}

// WasSent reads back whether a message is stored whose commit lost its answer. Otherwise the caller
// would send it a second time.
func (ts *Tasks) WasSent(ctx context.Context, task perdure.TaskID, id perdure.TaskMessageID, err error) (sent bool) {
	if core.RefusedWrite(err) || errors.Is(err, perdure.Lost) {
		return false
	}
	err = ts.core.ReadBack(ctx, func(r store.Reader) (err error) {
		sent, err = taskrecord.AlreadySent(r, task, id)
		return err
	})
	return sent && err == nil
}
