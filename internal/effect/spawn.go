package effect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// spawnOrder is a background run as it was asked for, with its ids.
type spawnOrder struct {
	session *perdure.Session
	call    tool.Call // the call that asks
	target  tool.Tool
	spawn   tool.Spawn
	task    perdure.Task // without what only the store knows
}

// spawn starts a background run of a tool, or queues it: the record, its claim and its event are one
// commit. The ids are derived, so that the same call spawns once, however often it runs (TK1, BG4).
func (e *Effects) spawn(ctx context.Context, o spawnOrder) (tool.Spawned, error) {
	row, err := e.sessionRow(ctx, o.session.ID)
	if err != nil {
		return tool.Spawned{}, fmt.Errorf("spawn %s: %w", o.spawn.Tool, err)
	}
	task := o.named(row.Secret)
	if err := e.prepareTask(ctx, task, 1); err != nil {
		return tool.Spawned{}, fmt.Errorf("spawn %s: %w", o.spawn.Tool, err)
	}
	var claimed perdure.Call
	var spawned tool.Spawned
	err = e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		var err error
		spawned, claimed, err = e.spawnIn(tx, task)
		return err
	})
	e.cfg.Wake(o.session.ID)
	e.cfg.Freed() // a place may have become free before the run stood in the queue
	if err != nil && !e.owns(ctx, claimed) {
		return tool.Spawned{}, fmt.Errorf("spawn %s: %w", o.spawn.Tool, err)
	}
	if claimed.Token != "" {
		e.runTask(spawned.Task, claimed, freshTask)
	}
	return spawned, nil
}

// owns reads back whether a claim was committed whose answer was lost (LG5).
func (e *Effects) owns(ctx context.Context, claimed perdure.Call) bool {
	if claimed.Token == "" {
		return false
	}
	ctx, cancel := settleContext(ctx)
	defer cancel()
	var row perdure.Call
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		row, err = r.Call(claimed.Key)
		return err
	})
	return err == nil && row.Token == claimed.Token
}

// named gives the task its derived ids.
func (o spawnOrder) named(secret perdure.Secret) perdure.Task {
	t := o.task
	at := callTime(o.session, o.call.ID)
	t.ID = perdure.DeriveID[perdure.TaskID](secret, at, string(o.session.ID), string(o.call.ID))
	t.Run = perdure.DeriveID[perdure.RunID](secret, at, string(o.session.ID), string(o.call.ID))
	return t
}

// spawnIn adds the task where there is a place, or queues it where the policy allows (BG16, BG17).
func (e *Effects) spawnIn(tx store.Tx, task perdure.Task) (tool.Spawned, perdure.Call, error) {
	if stored, err := tx.Task(task.Session, task.ID); err == nil {
		return tool.Spawned{Task: stored}, perdure.Call{}, nil // a replay
	}
	free, position, err := e.place(tx, task.Session)
	if err != nil {
		return tool.Spawned{}, perdure.Call{}, err
	}
	task.State, task.Attempt, task.Delivered = perdure.TaskQueued, 1, perdure.NotDelivered
	task.CreatedAt, task.UpdatedAt = tx.Now(), tx.Now()
	var claimed perdure.Call
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", e.cfg.Worker, 1
		task.StartedAt, task.HeartbeatAt = task.CreatedAt, task.CreatedAt
		task.DeadlineAt = task.CreatedAt.Add(e.deadlineOf(task.Tool))
	}
	events := []perdure.Event{taskEvent(task, perdure.TaskCreated{Task: task})}
	stamp(events, tx.Now())
	if err := tx.Append(task.Session, events); err != nil {
		return tool.Spawned{}, claimed, err
	}
	if _, _, err := tx.CreateTask(task); err != nil {
		return tool.Spawned{}, claimed, err
	}
	if free {
		if claimed, err = e.claimTask(tx, task); err != nil {
			return tool.Spawned{}, claimed, err
		}
		position = 0
	}
	return tool.Spawned{Task: task, Position: position}, claimed, nil
}

// place says whether a run of a session may start now, and otherwise at which position it would queue.
// Limit: neither. The caps are counted in the store, and what has not really returned counts too (BG16).
func (e *Effects) place(tx store.Reader, session perdure.SessionID) (free bool, position int, err error) {
	running, err := tx.Tasks(store.TaskFilter{Session: session, States: []perdure.TaskState{perdure.TaskRunning}})
	if err != nil {
		return false, 0, err
	}
	queued, err := tx.Tasks(store.TaskFilter{Session: session, States: []perdure.TaskState{perdure.TaskQueued}})
	if err != nil {
		return false, 0, err
	}
	ofSession, ofProcess := e.cfg.Dispatcher.Places(session)
	sessionFull := e.cfg.PerSession > 0 && max(len(running), ofSession) >= e.cfg.PerSession
	processFull := e.cfg.PerProcess > 0 && ofProcess >= e.cfg.PerProcess
	switch {
	case !sessionFull && !processFull && len(queued) == 0:
		return true, 0, nil
	case e.cfg.Overflow != OverflowReject && (e.cfg.QueueLength == 0 || len(queued) < e.cfg.QueueLength):
		return false, len(queued) + 1, nil
	case processFull && !sessionFull:
		return false, 0, &noPlace{fmt.Sprintf("Worker is already running the maximum %d active background runs. Try again after an existing run finishes.", e.cfg.PerProcess)}
	default:
		return false, 0, &noPlace{fmt.Sprintf("Maximum %d active background runs per session. Wait for an existing run to finish before starting another.", e.cfg.PerSession)}
	}
}

// noPlace is a cap that is reached, in the words that the model reads (8.1 rows 19, 20).
type noPlace struct{ text string }

// Error returns the words.
func (n *noPlace) Error() string { return n.text }

// Is reports Limit.
func (n *noPlace) Is(target error) bool { return target == perdure.Limit }

// claimTask claims the task's row in the effect ledger: a new one, or the one of an earlier execution.
func (e *Effects) claimTask(tx store.Tx, task perdure.Task) (perdure.Call, error) {
	fingerprint, err := perdure.Fingerprint(task.Tool, task.Spec.Arguments)
	if err != nil {
		return perdure.Call{}, err
	}
	next := perdure.Call{
		Key: task.LedgerKey(), Turn: task.Turn, Task: task.ID, Attempt: task.Attempt, Tool: task.Tool, Args: task.Spec.Arguments,
		Fingerprint: fingerprint, Class: task.Class, Token: newToken(), Worker: e.cfg.Worker,
	}
	outcome, row, err := tx.Claim(next, e.live)
	if err != nil || outcome == perdure.Claimed {
		return row, err
	}
	old := row
	row.Token, row.Worker, row.Attempt, row.Executions = next.Token, next.Worker, task.Attempt, task.Executions
	switch outcome {
	case perdure.AlreadyUnknown: // an operator said: run it again
		row.State, row.Result = perdure.CallRunning, nil
		return row, tx.ResolveCall(row, "operator")
	case perdure.ClaimAbandoned, perdure.ClaimConflict:
		return row, tx.TakeCall(old, row)
	}
	return row, fmt.Errorf("claim the run of task %s: %w: %s", task.ID, perdure.Conflict, outcome)
}

// startAgain is how long a queued run waits that could not be started.
const startAgain = 250 * time.Millisecond

// StartQueued starts queued runs where there is a place: by creation within a session, in turn between
// sessions (BG18). It says how many it started.
func (e *Effects) StartQueued(ctx context.Context) (int, error) {
	started := 0
	passed := map[perdure.TaskID]bool{} // could not be started now; the next round tries again
	for {
		next, err := e.nextQueued(ctx, passed)
		if err != nil || next.ID == "" {
			return started, err
		}
		task, claimed, err := e.startTask(ctx, next)
		if err != nil {
			if store.Broken(err) || ctx.Err() != nil {
				return started, fmt.Errorf("start queued task %s: %w", next.ID, err)
			}
			e.cfg.Log.Warn("a queued task was not started", "task", next.ID, "error", tool.Chain(err))
			passed[next.ID] = true
			time.AfterFunc(startAgain, e.cfg.Freed)
			continue
		}
		if claimed.Token == "" {
			continue // it was canceled meanwhile
		}
		started++
		e.cfg.Wake(task.Session)
		e.runTask(task, claimed, freshTask)
	}
}

// startTask claims a queued run. Without a token it is not queued any more.
func (e *Effects) startTask(ctx context.Context, next perdure.Task) (task perdure.Task, claimed perdure.Call, err error) {
	if err := e.prepareTask(ctx, next, next.Executions+1); err != nil {
		return next, claimed, err
	}
	err = e.cfg.Store.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		claimed = perdure.Call{}
		if task, err = tx.Task(next.Session, next.ID); err != nil || task.State != perdure.TaskQueued {
			return err
		}
		u := perdure.TaskUpdate{
			Attempt: task.Attempt, State: perdure.TaskRunning, Detail: "Starting", Worker: e.cfg.Worker, Execution: true,
			DeadlineAt: tx.Now().Add(e.deadlineOf(task.Tool)),
		}
		change, err := e.updateTask(tx, task, u)
		if err != nil {
			return err
		}
		task = change.Task
		claimed, err = e.claimTask(tx, task)
		return err
	})
	if err != nil && e.owns(ctx, claimed) {
		err = nil
	}
	return task, claimed, err
}

// nextQueued finds the queued run that has the next free place; the zero task if there is none.
func (e *Effects) nextQueued(ctx context.Context, passed map[perdure.TaskID]bool) (next perdure.Task, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		queued, err := r.Tasks(store.TaskFilter{States: []perdure.TaskState{perdure.TaskQueued}})
		if err != nil {
			return err
		}
		running, err := r.Tasks(store.TaskFilter{States: []perdure.TaskState{perdure.TaskRunning}})
		if err != nil {
			return err
		}
		queued = slices.DeleteFunc(queued, func(t perdure.Task) bool { return passed[t.ID] })
		next = e.fairest(queued, running)
		return nil
	})
	return next, err
}

// fairest picks the first queued run of the session with the fewest running ones and a free place.
func (e *Effects) fairest(queued, running []perdure.Task) perdure.Task {
	load := map[perdure.SessionID]int{}
	for _, t := range running {
		load[t.Session]++
	}
	best := -1
	for i, t := range queued {
		ofSession, ofProcess := e.cfg.Dispatcher.Places(t.Session)
		n := max(load[t.Session], ofSession)
		if e.cfg.PerProcess > 0 && ofProcess >= e.cfg.PerProcess || e.cfg.PerSession > 0 && n >= e.cfg.PerSession {
			continue
		}
		if best < 0 || n < max(load[queued[best].Session], 0) {
			best = i
		}
	}
	if best < 0 {
		return perdure.Task{}
	}
	return queued[best]
}

// callTime is the journaled time of the message that holds a call: the same on every replay (N4, TK1).
func callTime(s *perdure.Session, id perdure.CallID) time.Time {
	for _, m := range slices.Backward(s.Transcript) {
		for _, call := range m.Calls() {
			if call.ID == id {
				return m.At
			}
		}
	}
	return s.CreatedAt
}

func (e *Effects) deadlineOf(name string) time.Duration {
	if t, ok := e.cfg.Tools.Get(name); ok && t.Spec().Deadline > 0 {
		return t.Spec().Deadline
	}
	return tool.DefaultDeadline
}
