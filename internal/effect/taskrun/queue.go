package taskrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// restartDelay is the delay before a queued run that could not be started is tried again.
const restartDelay = 250 * time.Millisecond

// StartQueued starts queued runs while there are slots: in the order of creation within a session,
// and fairly between sessions. It returns how many runs it started. Under grants it only gives
// slots to runs of this process that were answered.
func (ts *Tasks) StartQueued(ctx context.Context) (int, error) {
	if ts.core.Granted() {
		return 0, ts.Grants().giveSlots(ctx)
	}
	started := 0
	passed := map[perdure.TaskID]bool{} // not startable now; the next call tries again
	for {
		next, err := ts.nextQueued(ctx, passed)
		if err != nil || next.ID == "" {
			return started, err
		}
		if ts.core.Runner.Running(ts.records.WorkID(next.ID)) {
			// it was answered, and waits for its slot while its work waits here
			if err := ts.assignSlot(ctx, next); err != nil {
				return started, err
			}
			passed[next.ID] = true
			continue
		}
		if ts.records.StartedElsewhere(next) {
			passed[next.ID] = true
			if ts.core.OtherWorkerAliveNow(ctx, next.Worker) { // the worker that runs it continues it
				continue
			}
			if err := ts.takeOverTask(ctx, next, core.Grant{}); err != nil && !errors.Is(err, core.AtAnotherHome) {
				if store.Broken(err) || ctx.Err() != nil {
					return started, fmt.Errorf("take over queued task %s: %w", next.ID, err)
				}
				ts.core.Log.Warn("queued task not taken over", "task", next.ID, "error", tool.Chain(err))
				time.AfterFunc(restartDelay, ts.core.StartQueued)
			}
			continue
		}
		claimed, err := ts.startTask(ctx, next, core.Grant{})
		if err != nil {
			if store.Broken(err) || ctx.Err() != nil {
				return started, fmt.Errorf("start queued task %s: %w", next.ID, err)
			}
			ts.core.Log.Warn("queued task not started", "task", next.ID, "error", tool.Chain(err))
			passed[next.ID] = true
			time.AfterFunc(restartDelay, ts.core.StartQueued)
			continue
		}
		if claimed.Row.Token == "" {
			passed[next.ID] = true // canceled in the meantime, or its slot was taken
			continue
		}
		started++
		ts.Run(claimed, FreshTask)
		ts.core.Wake(next.Session)
	}
}

// noFreeSlot reports whether this process has no slot for a run that is resumed. A detached run
// needs no slot of its session.
func (ts *Tasks) noFreeSlot(t perdure.Task, agent perdure.Agent) bool {
	ofSession, ofProcess := ts.core.Runner.SlotsInUse(t.Session)
	slots := ts.core.LimitsFor(agent).SlotsPerSession
	capped := slots > 0 && ts.core.Limits.Overflow != perdure.OverflowEvict && !t.OutsideSessionSlots()
	return capped && ofSession >= slots || ts.core.Limits.SlotsPerProcess > 0 && ofProcess >= ts.core.Limits.SlotsPerProcess
}

// assignSlot gives a task whose work waits in this process a slot again.
func (ts *Tasks) assignSlot(ctx context.Context, next perdure.Task) error {
	err := ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		_, err := ts.records.Update(tx, next, perdure.TaskUpdate{Attempt: next.Attempt, State: perdure.TaskRunning})
		return err
	})
	if err != nil && !errors.Is(err, perdure.Conflict) { // Conflict: canceled in the meantime
		return fmt.Errorf("give task %s its slot: %w", next.ID, err)
	}
	return nil
}

// startTask claims a queued run. A result without a token means that the run is no longer queued.
func (ts *Tasks) startTask(ctx context.Context, next perdure.Task, g core.Grant) (claimed Claimed, err error) {
	if err := ts.Prepare(ctx, next, next.Executions+1); err != nil {
		return claimed, err
	}
	ts.Starting.Add(next.ID)
	err = ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		if claimed, err = ts.startIn(tx, next); err == nil && claimed.Row.Token != "" {
			err = ts.core.Use(tx, g, WorkOf(next))
		}
		return err
	})
	if err != nil && ts.OwnsClaim(ctx, claimed.Row) {
		err = nil
	}
	if err != nil || claimed.Row.Token == "" {
		ts.Starting.Drop(next.ID)
	}
	return claimed, err
}

// startIn gives a queued run its slot, and reads what the run needs. Of several workers that see
// the run in the queue, the first one starts it; the others find it changed. The limit of the
// session counts the runs of all workers.
func (ts *Tasks) startIn(tx store.Tx, next perdure.Task) (c Claimed, err error) {
	task, err := tx.Tasks().Get(next.Session, next.ID)
	if err != nil || task.State != perdure.TaskQueued || task.Attempt != next.Attempt {
		return c, err
	}
	if ts.core.Shared {
		if free, err := ts.slotFree(tx.Reader(), task); err != nil || !free {
			return c, err
		}
	}
	u := perdure.TaskUpdate{
		Attempt: task.Attempt, State: perdure.TaskRunning, Detail: "Starting", Worker: ts.core.Worker, StartsExecution: true, Home: ts.records.HomeOf(task),
		DeadlineAt: tx.Now().Add(ts.toolset.DeadlineOf(task)),
	}
	change, err := ts.records.Update(tx, task, u)
	if err != nil {
		return c, err
	}
	c.Task = change.Task
	if c.Owner, err = core.ReadOwner(tx.Reader(), task.Session); err != nil {
		return c, err
	}
	row, err := tx.Sessions().Get(task.Session)
	if err != nil {
		return c, err
	}
	c.Owner.Of(row)
	if c.logBytes, err = tx.Tasks().AppendLog(task.ID, c.Task.Attempt, "", nil); err != nil {
		// length of the log of earlier attempts
		return c, err
	}
	c.Row, err = ts.records.Claim(tx, c.Task)
	return c, err
}

// slotFree reports whether the session of a task has a slot for it.
func (ts *Tasks) slotFree(r store.Reader, task perdure.Task) (bool, error) {
	limits, err := ts.core.SessionLimits(r, task.Session)
	if err != nil || !limitsSlots(limits.SlotsPerSession, limits.Overflow) || task.OutsideSessionSlots() {
		return err == nil, err
	}
	running, err := r.Tasks().Count(perdure.TaskRunning, task.Session)
	full := len(running) > 0 && running[0].Slots() >= limits.SlotsPerSession
	return err == nil && !full, err
}

// limitsSlots reports whether runs wait for slots of their session.
func limitsSlots(slots int, overflow perdure.Overflow) bool {
	return slots > 0 && overflow != perdure.OverflowEvict
}

// processFull reports whether all slots of this process are in use.
func (ts *Tasks) processFull() bool {
	_, used := ts.core.Runner.SlotsInUse("")
	return ts.core.Limits.SlotsPerProcess > 0 && used >= ts.core.Limits.SlotsPerProcess
}

// nextQueued returns the queued run that gets the next free slot; the zero task: there is none. It
// counts without decoding tasks, and reads nothing if no run can start.
func (ts *Tasks) nextQueued(ctx context.Context, passed map[perdure.TaskID]bool) (next perdure.Task, err error) {
	if ts.processFull() {
		return next, nil
	}
	err = ts.core.Store.View(ctx, func(r store.Reader) error {
		queued, err := r.Tasks().Count(perdure.TaskQueued, "")
		if err != nil || len(queued) == 0 {
			return err
		}
		running, err := r.Tasks().Count(perdure.TaskRunning, "")
		if err != nil {
			return err
		}
		free, load := ts.fairOrder(queued, running)
		for _, session := range free {
			if elsewhere, err := ts.core.WorkElsewhere(r, session); elsewhere || err != nil {
				if err != nil {
					return err
				}
				continue
			}
			limits, err := ts.core.SessionLimits(r, session)
			if err != nil {
				return err
			}
			if limits.SlotsPerSession > 0 && load[session] >= limits.SlotsPerSession {
				continue // its agent allows fewer than the engine
			}
			if next, err = firstQueued(r, session, passed); err != nil || next.ID != "" {
				return err
			}
		}
		return nil
	})
	return next, err
}

// fairOrder returns the sessions that have queued runs and a free slot. Sessions with the fewest
// running tasks come first; among equals, the one that has waited longest. load counts the running
// tasks.
func (ts *Tasks) fairOrder(queued, running []store.TaskCount) (free []perdure.SessionID, load map[perdure.SessionID]int) {
	load = map[perdure.SessionID]int{}
	for _, c := range running {
		load[c.Session] = c.Slots()
	}
	for _, c := range queued {
		ofSession, _ := ts.core.Runner.SlotsInUse(c.Session)
		load[c.Session] = max(load[c.Session], ofSession)
		if ts.core.Limits.SlotsPerSession == 0 || load[c.Session] < ts.core.Limits.SlotsPerSession {
			free = append(free, c.Session)
		}
	}
	slices.SortStableFunc(free, func(a, b perdure.SessionID) int { return load[a] - load[b] })
	return free, load
}

// firstQueued returns the oldest queued run of a session that is not in passed; the zero task:
// there is none.
func firstQueued(r store.Reader, session perdure.SessionID, passed map[perdure.TaskID]bool) (perdure.Task, error) {
	filter := store.TaskFilter{Session: session, States: []perdure.TaskState{perdure.TaskQueued},
		Limit: len(passed) + 1}
	tasks, err := r.Tasks().List(filter)
	if err != nil {
		return perdure.Task{}, err
	}
	for _, t := range tasks {
		if !passed[t.ID] {
			return t, nil
		}
	}
	return perdure.Task{}, nil
}
