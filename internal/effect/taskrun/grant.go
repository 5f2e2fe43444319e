package taskrun

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// Left says how a task was left by a run under a grant. The zero value: somebody has to run it.
type Left struct {
	Grant   int64          // the last one that was used
	Ended   bool           // the task has ended
	Waits   bool           // it waits for a person, a schedule or a subagent, and nobody has to run it
	Full    bool           // it is queued, because its session or this process has no slot
	Home    perdure.HomeID // where it must continue; nothing was taken
	Present bool           // Home is that of its owner, which is alive
}

// Grants runs tasks under grants.
type Grants struct{ *Tasks }

// Grants returns what runs these tasks under grants.
func (ts *Tasks) Grants() Grants { return Grants{ts} }

// granted is a task as a grant finds it.
type granted struct {
	task    perdure.Task
	filesAt perdure.HomeID // the other home at which the files of its session are; empty: none
	Left
}

// Run runs a task under a grant until it has ended, waits, or is owned elsewhere, or ctx ends. If
// the task runs in this process already, it only uses the grant, and waits with the same result.
// The grant is used in the commit that takes the task.
//
// StaleGrant: a later grant was used; nothing was taken. NotFound: no such task.
func (ts Grants) Run(ctx context.Context, id perdure.TaskID, g core.Grant) (Left, error) {
	found, here, err := ts.takeGranted(ctx, id, g)
	if err == nil && here {
		if err = ts.follow(ctx, found.task); err == nil {
			found, err = ts.readGranted(ctx, id)
		}
	}
	if err != nil {
		return found.Left, fmt.Errorf("run task %s: %w", id, err)
	}
	return found.Left, nil
}

// takeGranted takes a task under a grant. here says that its work runs in this process now.
func (ts Grants) takeGranted(
	ctx context.Context, id perdure.TaskID, g core.Grant,
) (found granted, here bool, err error) {
	unlock, err := ts.granting.lock(ctx, id)
	if err != nil {
		return found, false, err
	}
	defer unlock()
	if found, err = ts.readGranted(ctx, id); err != nil || found.Ended {
		return found, false, err
	}
	t := found.task
	switch {
	case ts.runsHere(t):
		if err = ts.useGrant(ctx, t, g); err == nil && t.State == perdure.TaskQueued {
			if err = ts.giveSlot(ctx, t); err == nil {
				found, err = ts.readGranted(ctx, id)
			}
		}
		return found, true, err
	case found.Present && !g.Evict:
		return found, false, nil
	case found.Waits:
		return found, false, nil
	case t.Links.ChildSession != "":
		if err = ts.useGrant(ctx, t, g); err == nil {
			err = ts.takeOverTask(ctx, t, g)
		}
		found.Waits = err == nil
		return found, false, err
	case t.State == perdure.TaskQueued && !ts.records.StartedElsewhere(t):
		if found.filesAt != "" {
			return found, false, nil
		}
		err = ts.startGranted(ctx, t, g)
	default:
		err = ts.takeOverTask(ctx, t, g)
	}
	if errors.Is(err, core.AtAnotherHome) {
		err = nil // the task waits for its home, as found says
	}
	if err == nil {
		found, err = ts.readGranted(ctx, id)
	}
	return found, err == nil && ts.runsHere(found.task), err
}

// taskLocks keeps two grants of the same task in one process apart: the second one finds what the
// first one did. Each channel has capacity 1, and is full while it is locked: a lock is held while
// the store reads and writes, so waiting for it ends with a context.
type taskLocks [64]chan struct{}

func newTaskLocks() (l taskLocks) {
	for i := range l {
		l[i] = make(chan struct{}, 1)
	}
	return l
}

// lock locks a task, and perhaps others, until unlock is called.
func (l *taskLocks) lock(ctx context.Context, id perdure.TaskID) (unlock func(), err error) {
	locked := l[crc32.ChecksumIEEE([]byte(id))%uint32(len(l))]
	select {
	case locked <- struct{}{}:
		return func() { <-locked }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readGranted reads a task and what a grant needs to know.
func (ts Grants) readGranted(ctx context.Context, id perdure.TaskID) (found granted, err error) {
	err = ts.core.Store.View(context.WithoutCancel(ctx), func(r store.Reader) (err error) {
		found = granted{}
		if found.task, err = r.Tasks().Get("", id); err != nil {
			return err
		}
		t := found.task
		if found.Grant, err = r.Workers().Granted(WorkOf(t)); err != nil {
			return err
		}
		found.Ended = t.State.Terminal()
		found.Waits = t.Kind == perdure.KindMonitor || t.AwaitsInput() && t.Links.ChildSession == "" && !ts.runsHere(t)
		found.Full = t.State == perdure.TaskQueued
		if t.WaitsForHome != "" && ts.core.RemainsAt(r, t.Home) == perdure.RemainsElsewhere {
			found.Home = t.WaitsForHome
		}
		row, err := r.Sessions().Get(t.Session)
		if err == nil && ts.core.FilesElsewhere(row) {
			found.Home, found.filesAt = row.Home, row.Home
		}
		if err != nil && !errors.Is(err, perdure.NotFound) {
			return err
		}
		if t.State.Live() && ts.core.OtherWorkerAlive(r, t.Worker) {
			found.Present = true
			owner, err := r.Workers().Get(t.Worker)
			if found.Home = owner.Home; err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// WorkOf returns the task as a work that is granted.
func WorkOf(t perdure.Task) store.Work { return store.Work{Session: t.Session, Task: t.ID} }

// runsHere reports whether the work of a task runs in this process, or is being started or ended.
func (ts Grants) runsHere(t perdure.Task) bool {
	if t.Worker != ts.core.Worker {
		return false
	}
	_, ending := ts.ending.Load(t.ID)
	return ending || ts.Starting.has(t.ID) || ts.core.Runner.Running(ts.records.WorkID(t.ID))
}

// endLeft ends a task that this worker has taken over, in a goroutine of its own.
func (ts Grants) endLeft(id perdure.TaskID, end func()) {
	ts.ending.Store(id, true)
	ts.core.Group.Go(func() {
		defer ts.ending.Delete(id)
		end()
	})
}

// useGrant uses a grant in a commit of its own.
func (ts Grants) useGrant(ctx context.Context, t perdure.Task, g core.Grant) error {
	return ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		return ts.core.Use(tx, g, WorkOf(t))
	})
}

// startGranted starts a queued run, if this process has a slot.
func (ts Grants) startGranted(ctx context.Context, t perdure.Task, g core.Grant) error {
	if ts.processFull() {
		return nil
	}
	claimed, err := ts.startTask(ctx, t, g)
	if err == nil && claimed.Row.Token != "" {
		ts.Tasks.Run(claimed, FreshTask)
	}
	return err
}

// errNotHere ends the watch of a task whose work is not in this process any more.
var errNotHere = errors.New("not here")

// follow waits until the work of a task is not in this process any more, and forwards cancels that
// other processes have recorded. When ctx ends, it gives the work the time of a drain, then stops
// it, so that another process can continue it.
func (ts Grants) follow(ctx context.Context, t perdure.Task) error {
	row, err := ts.core.SessionRow(context.WithoutCancel(ctx), t.Session)
	if err != nil {
		return err
	}
	look := func() error {
		now, err := ts.readGranted(ctx, t.ID)
		switch {
		case err != nil:
			return err
		case now.Ended, now.Full, now.Waits:
			return errNotHere
		case now.task.Worker != ts.core.Worker:
			ts.records.CancelWork(t.ID, perdure.CauseSuperseded)
			return errNotHere
		}
		ts.ForwardCancel(ctx, t.ID)
		return nil
	}
	if err = look(); err == nil {
		err = ts.core.Store.Watch(ctx, t.Session, row.LastSeq, func(f store.Frame) error {
			if f.Event == nil || f.Event.Task != t.ID {
				return nil
			}
			return look()
		})
	}
	if errors.Is(err, errNotHere) {
		return nil
	}
	if ctx.Err() != nil {
		ts.releaseWork(ctx, t)
		return context.Cause(ctx)
	}
	return err
}

// ForwardCancel signals the work of a task that runs in this process, if its cancel was requested.
func (ts Grants) ForwardCancel(ctx context.Context, id perdure.TaskID) {
	now, err := ts.readGranted(ctx, id)
	if err == nil && !now.Ended && now.task.CancelRequested() && ts.runsHere(now.task) {
		ts.Starting.cancel(now.task)
		ts.records.StopWork(now.task)
	}
}

// releaseWork waits for the work of a task for the time of a drain, then stops it without recording
// an end.
func (ts Grants) releaseWork(ctx context.Context, t perdure.Task) {
	drain, stop := context.WithTimeout(context.WithoutCancel(ctx), max(ts.core.Timing.Drain, 0))
	defer stop()
	ended, leave := ts.AwaitEnd(t.ID)
	defer leave()
	if !ts.runsHere(t) {
		return
	}
	select {
	case <-ended:
	case <-drain.Done():
		ts.records.CancelWork(t.ID, perdure.CauseSuperseded)
	}
}

// giveSlots gives the tasks whose work waits in this process after an answer their slots again, as
// far as there are slots.
func (ts Grants) giveSlots(ctx context.Context) error {
	var waiting []perdure.Task
	err := ts.core.Store.View(ctx, func(r store.Reader) (err error) {
		queued := []perdure.TaskState{perdure.TaskQueued}
		waiting, err = r.Tasks().List(store.TaskFilter{Worker: ts.core.Worker, States: queued})
		return err
	})
	for _, t := range waiting {
		if err != nil {
			break
		}
		if ts.runsHere(t) {
			err = ts.giveSlot(ctx, t)
		}
	}
	return err
}

// giveSlot gives a task whose work waits in this process a slot again, if one is free.
func (ts Grants) giveSlot(ctx context.Context, t perdure.Task) error {
	free, err := ts.slotFreeNow(ctx, t)
	if err == nil && free {
		err = ts.assignSlot(ctx, t)
	}
	return err
}

// slotFreeNow reports whether the session of a task and this process have a slot for it.
func (ts Grants) slotFreeNow(ctx context.Context, t perdure.Task) (free bool, err error) {
	if ts.processFull() {
		return false, nil
	}
	err = ts.core.Store.View(ctx, func(r store.Reader) (err error) {
		free, err = ts.slotFree(r, t)
		return err
	})
	return free, err
}

// Due lists the tasks of a session that wait for a scheduler; of every session if it is empty: the
// queued runs that have a slot, in order, those whose worker is dead, and those of this worker that
// were taken back from it.
func (ts Grants) Due(r store.Reader, session perdure.SessionID) (due []perdure.Task, err error) {
	live, err := r.Tasks().List(store.TaskFilter{Session: session, States: []perdure.TaskState{
		perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput}})
	if err != nil {
		return nil, err
	}
	alive := ts.core.WorkerAlive(r)
	free := map[perdure.SessionID]int{} // slots of sessions that have queued runs; -1: no limit
	for _, t := range live {
		switch {
		case t.Kind == perdure.KindMonitor, t.AwaitsInput() && t.Links.ChildSession == "":
		case t.State == perdure.TaskQueued && (t.Worker == "" || alive(t.Worker)):
			// also one whose work waits for a slot in a process, which is alive
			if _, known := free[t.Session]; !known {
				if free[t.Session], err = ts.freeSlots(r, t.Session); err != nil {
					return nil, err
				}
			}
			if !t.OutsideSessionSlots() {
				if free[t.Session] == 0 {
					continue
				}
				free[t.Session]--
			}
			due = append(due, t)
		case ts.gaveUp(t), !alive(t.Worker) && (t.WaitsForHome == "" || ts.core.RemainsAt(r, t.Home) != perdure.RemainsElsewhere):
			due = append(due, t)
		}
	}
	return due, nil
}

// gaveUp reports whether this worker owns a task, but does not run it any more.
func (ts Grants) gaveUp(t perdure.Task) bool {
	return t.Worker == ts.core.Worker && t.Links.ChildSession == "" && !ts.runsHere(t)
}

// freeSlots returns how many slots of a session are free; below 0: there is no limit.
func (ts Grants) freeSlots(r store.Reader, session perdure.SessionID) (int, error) {
	limits, err := ts.core.SessionLimits(r, session)
	if err != nil || !limitsSlots(limits.SlotsPerSession, limits.Overflow) {
		return -1, err
	}
	running, err := r.Tasks().Count(perdure.TaskRunning, session)
	if err != nil || len(running) == 0 {
		return limits.SlotsPerSession, err
	}
	return max(0, limits.SlotsPerSession-running[0].Slots()), nil
}
