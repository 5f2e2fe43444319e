package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/taskport"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/store"
)

func (e hostTasks) Get(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) (perdure.Task, error) { return r.Tasks().Get("", id) })
}

// List lists tasks in the order of their creation.
func (e hostTasks) List(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.Task, error) { return r.Tasks().List(store.TaskFilter{Session: id}) })
}

// maxTasksRead is how many records a list with a limit reads at a time.
const maxTasksRead = 500

// ListWhere lists the tasks that match a query.
func (e hostTasks) ListWhere(ctx context.Context, q engine.TaskQuery) (found []perdure.Task, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		found = nil
		filter := store.TaskFilter{Session: q.Session, States: q.States, Newest: q.Newest, After: q.After, Limit: min(q.Limit, maxTasksRead)}
		visible := ownSessions(ctx, r)
		if q.After != "" {
			if _, err := r.Tasks().Get("", q.After); err != nil {
				return err
			}
		}
		for {
			some, err := r.Tasks().List(filter)
			if err != nil {
				return err
			}
			for _, t := range some {
				mine, err := visible(t.Session)
				if err != nil {
					return err
				}
				if !mine || !q.Matches(t) {
					continue
				}
				if found = append(found, t); len(found) == q.Limit {
					return nil
				}
			}
			if filter.Limit == 0 || len(some) < filter.Limit {
				return nil
			}
			filter.After, filter.Limit = some[len(some)-1].ID, maxTasksRead
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return found, nil
}

func (e hostTasks) Log(ctx context.Context, id perdure.TaskID, offset int64, max int) (log engine.Log, err error) {
	err = e.view(ctx, func(r store.Reader) error {
		chunks, from, end, err := taskport.LogFrom(r, id, offset, max)
		if err != nil {
			return err
		}
		log = engine.Log{Offset: from, Next: from, End: end}
		for _, c := range chunks {
			log.Chunks = append(log.Chunks, engine.Chunk(c))
			log.Next = c.Offset + int64(len(c.Bytes))
		}
		return nil
	})
	return log, err
}

func (e hostTasks) Processes(ctx context.Context, id perdure.TaskID) (perdure.TaskProcesses, error) {
	return e.effects.Processes().Of(ctx, id)
}

func (e hostTasks) Cancel(ctx context.Context, id perdure.TaskID, by, why string) (perdure.CancelReceipt, error) {
	return e.effects.Tasks().Cancel(ctx, id, taskrecord.CancelIntent{By: by, Why: why})
}

// Force is Cancel without a grace period.
func (e hostTasks) Force(ctx context.Context, id perdure.TaskID, by, why string) (perdure.CancelReceipt, error) {
	return e.effects.Tasks().Cancel(ctx, id, taskrecord.CancelIntent{By: by, Why: why, Force: true})
}

// Resolve records an operator's resolution of a task whose outcome is unknown.
func (e hostTasks) Resolve(ctx context.Context, id perdure.TaskID, word engine.Resolution) error {
	if word.Answer.Outcome() == "" {
		return fmt.Errorf("resolve task %s: %w answer %q: it must be happened, did_not_happen or run_again",
			id, perdure.Invalid, word.Answer)
	}
	err := e.effects.Tasks().Resolve(ctx, id, taskrun.Resolution{
		Answer: word.Answer, Result: word.Result, By: word.By, Note: word.Note,
	})
	e.scheduler.StartQueued()
	return err
}

// errEnded ends the watch of a task that has ended.
var errEnded = errors.New("ended")

// watchAfter is how long a wait for a task lasts before it watches the journal of the task's
// session. A watch wakes the waiter for every event of the session. Most calls that somebody waits
// for end sooner, and their end is signalled in this process.
const watchAfter = 50 * time.Millisecond

func (e hostTasks) Wait(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	end, err := e.waitEnd(ctx, id)
	return end.Task, err
}

// waitEnd is Tasks.Wait, with the result of a host call if it ended in this process.
func (e *Host) waitEnd(ctx context.Context, id perdure.TaskID) (end taskrun.TaskEnd, err error) {
	ended, leave := e.effects.Tasks().AwaitEnd(id)
	defer leave()
	here := e.effects.Tasks().IsRunning(id)
	if here { // the end is usually signalled before anything has to be read
		if end, err = e.awaitTask(ctx, end, ended); err != nil || waitIsOver(end.Task) {
			return end, waitError(id, err)
		}
	}
	var after int64 // later events may change the task
	err = e.view(ctx, func(r store.Reader) error {
		if end.Task, err = r.Tasks().Get("", id); err != nil {
			return err
		}
		row, err := r.Sessions().Get(end.Task.Session)
		after = row.LastSeq
		return err
	})
	if err == nil && !here && !waitIsOver(end.Task) {
		end, err = e.awaitTask(ctx, end, ended)
	}
	if err == nil && !waitIsOver(end.Task) {
		end.Task, err = e.watchTask(ctx, end.Task, after)
	}
	return end, waitError(id, err)
}

// waitError wraps the error of a wait for a task.
func waitError(id perdure.TaskID, err error) error {
	if err != nil {
		return fmt.Errorf("wait for task %s: %w", id, err)
	}
	return nil
}

// waitIsOver reports whether a wait for a task is over.
func waitIsOver(t perdure.Task) bool { return t.State.Terminal() || t.AwaitsInput() }

// awaitTask waits for up to watchAfter for the end of a task in this process.
func (e *Host) awaitTask(
	ctx context.Context, known taskrun.TaskEnd, ended <-chan taskrun.TaskEnd,
) (taskrun.TaskEnd, error) {
	moment := time.NewTimer(watchAfter)
	defer moment.Stop()
	select {
	case end := <-ended:
		return end, nil
	case <-moment.C:
		return known, nil
	case <-ctx.Done():
		return known, ctx.Err()
	}
}

// watchTask watches the journal of a task's session until the task has ended or awaits input.
func (e *Host) watchTask(ctx context.Context, task perdure.Task, after int64) (perdure.Task, error) {
	id := task.ID
	err := e.cfg.Store.Watch(ctx, task.Session, after, func(f store.Frame) (err error) {
		if f.Event == nil || f.Event.Task != id {
			return nil
		}
		if task, err = e.Tasks().Get(ctx, id); err == nil && waitIsOver(task) {
			err = errEnded
		}
		return err
	})
	if errors.Is(err, errEnded) {
		err = nil
	}
	return task, err
}
