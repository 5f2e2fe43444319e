package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
// and fairly between sessions. It returns how many runs it started.
func (e *Effects) StartQueued(ctx context.Context) (int, error) {
	started := 0
	passed := map[perdure.TaskID]bool{} // not startable now; the next call tries again
	for {
		next, err := e.nextQueued(ctx, passed)
		if err != nil || next.ID == "" {
			return started, err
		}
		if e.core.Runner.Running(e.workID(next.ID)) {
			// it was answered, and waits for its slot while its work waits here
			if err := e.assignSlot(ctx, next); err != nil {
				return started, err
			}
			passed[next.ID] = true
			continue
		}
		if e.startedElsewhere(next) {
			passed[next.ID] = true
			if e.core.OtherWorkerAliveNow(ctx, next.Worker) { // the worker that runs it continues it
				continue
			}
			if err := e.takeOverTask(ctx, next); err != nil {
				if store.Broken(err) || ctx.Err() != nil {
					return started, fmt.Errorf("take over queued task %s: %w", next.ID, err)
				}
				e.core.Log.Warn("queued task not taken over", "task", next.ID, "error", tool.Chain(err))
				time.AfterFunc(restartDelay, e.core.SlotFreed)
			}
			continue
		}
		claimed, err := e.startTask(ctx, next)
		if err != nil {
			if store.Broken(err) || ctx.Err() != nil {
				return started, fmt.Errorf("start queued task %s: %w", next.ID, err)
			}
			e.core.Log.Warn("queued task not started", "task", next.ID, "error", tool.Chain(err))
			passed[next.ID] = true
			time.AfterFunc(restartDelay, e.core.SlotFreed)
			continue
		}
		if claimed.row.Token == "" {
			continue // canceled in the meantime
		}
		started++
		e.runTask(claimed, freshTask)
		e.core.Wake(next.Session)
	}
}

// startedElsewhere reports a queued task that another worker started. Either it was answered and
// found no slot, or it was taken over without a slot and still has to be judged. If the other
// worker is dead, the effect class decides what becomes of it, as for all interrupted work. A task
// without a worker may simply start: an operator let it run again, or it was judged to run again
// and waits for its slot.
func (e *Effects) startedElsewhere(t perdure.Task) bool {
	return t.State == perdure.TaskQueued && t.Executions > 0 && t.Worker != "" && t.Worker != e.core.Worker
}

// noFreeSlot reports whether this process has no slot for a run that is resumed. A detached run
// needs no slot of its session.
func (e *Effects) noFreeSlot(t perdure.Task) bool {
	ofSession, ofProcess := e.core.Runner.SlotsInUse(t.Session)
	capped := e.core.SlotsPerSession > 0 && e.core.Overflow != perdure.OverflowEvict && !t.OutsideSessionSlots()
	return capped && ofSession >= e.core.SlotsPerSession || e.core.SlotsPerProcess > 0 && ofProcess >= e.core.SlotsPerProcess
}

// assignSlot gives a task whose work waits in this process a slot again.
func (e *Effects) assignSlot(ctx context.Context, next perdure.Task) error {
	err := e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		_, err := e.updateTask(tx, next, perdure.TaskUpdate{Attempt: next.Attempt, State: perdure.TaskRunning})
		return err
	})
	if err != nil && !errors.Is(err, perdure.Conflict) { // Conflict: canceled in the meantime
		return fmt.Errorf("give task %s its slot: %w", next.ID, err)
	}
	return nil
}

// startTask claims a queued run. A result without a token means that the run is no longer queued.
func (e *Effects) startTask(ctx context.Context, next perdure.Task) (claimed claimedTask, err error) {
	if err := e.prepareTask(ctx, next, next.Executions+1); err != nil {
		return claimed, err
	}
	e.starting.add(next.ID)
	err = e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		claimed, err = e.startIn(tx, next)
		return err
	})
	if err != nil && e.ownsClaim(ctx, claimed.row) {
		err = nil
	}
	if err != nil || claimed.row.Token == "" {
		e.starting.drop(next.ID)
	}
	return claimed, err
}

// startIn gives a queued run its slot, and reads what the run needs. Of several workers that see
// the run in the queue, the first one starts it; the others find it changed. The limit of the
// session counts the runs of all workers.
func (e *Effects) startIn(tx store.Tx, next perdure.Task) (c claimedTask, err error) {
	task, err := tx.Tasks().Get(next.Session, next.ID)
	if err != nil || task.State != perdure.TaskQueued || task.Attempt != next.Attempt {
		return c, err
	}
	if e.core.Shared && e.core.SlotsPerSession > 0 && !task.OutsideSessionSlots() {
		running, err := tx.Tasks().Count(perdure.TaskRunning, task.Session)
		if err != nil || len(running) > 0 && running[0].N-running[0].Detached-running[0].Monitors >= e.core.SlotsPerSession {
			return c, err
		}
	}
	u := perdure.TaskUpdate{
		Attempt: task.Attempt, State: perdure.TaskRunning, Detail: "Starting", Worker: e.core.Worker, StartsExecution: true,
		DeadlineAt: tx.Now().Add(e.toolset.DeadlineOf(task)),
	}
	change, err := e.updateTask(tx, task, u)
	if err != nil {
		return c, err
	}
	c.task = change.Task
	if c.owner, err = core.ReadOwner(tx.Reader(), task.Session); err != nil {
		return c, err
	}
	row, err := tx.Sessions().Get(task.Session)
	if err != nil {
		return c, err
	}
	c.owner.Of(row)
	if c.logBytes, err = tx.Tasks().AppendLog(task.ID, c.task.Attempt, "", nil); err != nil {
		// length of the log of earlier attempts
		return c, err
	}
	c.row, err = e.claimTask(tx, c.task)
	return c, err
}

// nextQueued returns the queued run that gets the next free slot; the zero task: there is none. It
// counts without decoding tasks, and reads nothing if no run can start.
func (e *Effects) nextQueued(ctx context.Context, passed map[perdure.TaskID]bool) (next perdure.Task, err error) {
	if _, ofProcess := e.core.Runner.SlotsInUse(""); e.core.SlotsPerProcess > 0 && ofProcess >= e.core.SlotsPerProcess {
		return next, nil
	}
	err = e.core.Store.View(ctx, func(r store.Reader) error {
		queued, err := r.Tasks().Count(perdure.TaskQueued, "")
		if err != nil || len(queued) == 0 {
			return err
		}
		running, err := r.Tasks().Count(perdure.TaskRunning, "")
		if err != nil {
			return err
		}
		for _, session := range e.fairOrder(queued, running) {
			if next, err = firstQueued(r, session, passed); err != nil || next.ID != "" {
				return err
			}
		}
		return nil
	})
	return next, err
}

// fairOrder returns the sessions that have queued runs and a free slot. Sessions with the fewest
// running tasks come first; among equals, the one that has waited longest.
func (e *Effects) fairOrder(queued, running []store.TaskCount) []perdure.SessionID {
	load := map[perdure.SessionID]int{}
	for _, c := range running {
		load[c.Session] = c.Slots()
	}
	var free []perdure.SessionID
	for _, c := range queued {
		ofSession, _ := e.core.Runner.SlotsInUse(c.Session)
		load[c.Session] = max(load[c.Session], ofSession)
		if e.core.SlotsPerSession == 0 || load[c.Session] < e.core.SlotsPerSession {
			free = append(free, c.Session)
		}
	}
	slices.SortStableFunc(free, func(a, b perdure.SessionID) int { return load[a] - load[b] })
	return free
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

// prunedNotes is the session that holds the notes of pruned tasks, until what the tasks left
// outside their rows is removed too. No such session exists, so nobody sees the files. A note is
// written in the commit that removes the rows, so that a crash right after it leaves nothing behind
// unnoticed.
const prunedNotes perdure.SessionID = "pruned_tasks"

// errPruneSetChanged says that the set of tasks to prune has changed since their sessions were
// locked.
var errPruneSetChanged = errors.New("the tasks to prune have changed")

// PruneTasks removes up to limit tasks that ended more than age ago, in one commit: their rows and
// messages, with an event in the journals of their sessions. It returns how many it removed.
// CleanPruned later removes what they left elsewhere.
func (e *Effects) PruneTasks(ctx context.Context, age time.Duration, limit int) (int, error) {
	some, err := e.anyOlder(ctx, age)
	var before time.Time
	var going, found []perdure.Task // as found by the last attempt, and by this one
	for some && err == nil {
		err = e.core.Store.InTx(ctx, func(tx store.Tx) (err error) {
			if len(going) == 0 {
				before = tx.Now().Add(-age)
			}
			found, err = pruneIn(tx, going, before, limit)
			return err
		})
		if !errors.Is(err, errPruneSetChanged) {
			break
		}
		going, err = found, ctx.Err() // try again with the sessions of these tasks locked first
	}
	for _, task := range going { // also after an error: the commit may be stored
		e.core.Wake(task.Session)
	}
	if err != nil {
		return 0, fmt.Errorf("prune tasks: %w", err)
	}
	return len(going), nil
}

// anyOlder reports whether the ended task that was created first is old enough to be pruned. If
// not, nothing is written. Imported tasks carry times of another clock, so they may be pruned later
// than their age suggests.
func (e *Effects) anyOlder(ctx context.Context, age time.Duration) (older bool, err error) {
	ended := store.TaskFilter{States: []perdure.TaskState{perdure.TaskSucceeded, perdure.TaskFailed,
		perdure.TaskCanceled}, Limit: 1}
	err = e.core.Store.View(ctx, func(r store.Reader) error {
		oldest, err := r.Tasks().List(ended)
		older = len(oldest) > 0 && oldest[0].CreatedAt.Before(r.Now().Add(-age))
		return err
	})
	return older, err
}

// pruneIn removes the tasks in going, which an earlier attempt found. It appends to their sessions
// first, which locks them in the required order. errPruneSetChanged: the tasks that would be
// removed now are different, and nothing may be committed.
func pruneIn(tx store.Tx, going []perdure.Task, before time.Time, limit int) (found []perdure.Task, err error) {
	ofSession := map[perdure.SessionID][]perdure.TaskID{}
	for _, task := range going {
		ofSession[task.Session] = append(ofSession[task.Session], task.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(ofSession)) {
		events := []perdure.Event{{Session: id, Actor: core.ActorRuntime, Fact: perdure.TaskPruned{TaskIDs: ofSession[id]}}}
		core.Stamp(events, tx.Now())
		if err := tx.Journal().Append(id, events); err != nil {
			return nil, err
		}
	}
	if found, err = tx.Tasks().Prune(before, limit); err != nil {
		return nil, err
	}
	if !slices.EqualFunc(going, found, func(a, b perdure.Task) bool { return a.ID == b.ID }) {
		return found, errPruneSetChanged
	}
	for _, task := range found {
		if err := recordLeftovers(tx, task); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// recordLeftovers stores what is needed to find what a task left outside its rows.
func recordLeftovers(tx store.Tx, t perdure.Task) error {
	body, err := json.Marshal(perdure.Task{
		ID: t.ID, Run: t.Run, Session: t.Session, Turn: t.Turn, Call: t.Call, Origin: t.Origin,
		Tool: t.Tool, Class: t.Class,
		Attempt: t.Attempt, Executions: t.Executions,
	})
	if err != nil {
		return err
	}
	_, err = tx.Files().Put(prunedNotes, store.File{Path: "/" + string(t.ID), Content: body, Encoding: store.EncodingText})
	return err
}

// RecordRemoved stores, in the transaction that removes a session, what is needed to find what its
// calls left outside their rows. CleanPruned removes that later.
func (e *Effects) RecordRemoved(tx store.Tx, id perdure.SessionID) error {
	calls, err := tx.Calls().List(store.CallFilter{Session: id})
	if err != nil {
		return err
	}
	rows := map[perdure.CallKey]perdure.Call{}
	for _, row := range calls {
		rows[row.Key] = row
	}
	tasks, err := tx.Tasks().List(store.TaskFilter{Session: id})
	if err != nil {
		return err
	}
	for _, task := range tasks {
		key := task.LedgerKey()
		task.Executions = max(task.Executions, rows[key].Executions) // the row is removed too
		delete(rows, key)
		if err := recordLeftovers(tx, task); err != nil {
			return err
		}
	}
	for _, row := range rows {
		target, _ := e.toolset.Find(row.Tool)
		if _, keeps := target.(tool.Cleaner); !keeps {
			continue
		}
		err := recordLeftovers(tx, perdure.Task{
			ID: core.NewID[perdure.TaskID](), Session: id, Turn: row.Turn, Call: row.Key.Call,
			Origin: perdure.OriginRouted, Tool: row.Tool,
			Class: row.Class, Attempt: row.Attempt, Executions: row.Executions,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CleanPruned removes what pruned tasks and the calls of removed sessions left outside their rows:
// artifacts, and what their tools keep. only restricts it to some sessions. It does not wait: notes
// that another cleaner holds are skipped, and busy is true. What cannot be removed is logged, and
// the next call tries again, even in a later process.
func (e *Effects) CleanPruned(ctx context.Context, only ...perdure.SessionID) (busy bool, err error) {
	var notes []store.File
	err = e.core.Store.View(ctx, func(r store.Reader) (err error) {
		notes, err = r.Files().List(prunedNotes, "/", false)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("list what pruned tasks left: %w", err)
	}
	for _, note := range notes {
		if ctx.Err() != nil {
			return busy, context.Cause(ctx)
		}
		at, err := e.cleanTask(ctx, note.Path, only)
		busy = busy || at
		if store.Broken(err) {
			return busy, err
		}
		if err != nil {
			e.core.Log.Warn("leftovers of a pruned task not removed", "task", note.Path[1:], "error", tool.Chain(err))
		}
	}
	return busy, nil
}

// Leftovers returns the sessions for which CleanPruned still has something to remove.
func (e *Effects) Leftovers(r store.Reader) (map[perdure.SessionID]bool, error) {
	notes, err := r.Files().List(prunedNotes, "/", false)
	if err != nil {
		return nil, err
	}
	of := map[perdure.SessionID]bool{}
	for _, note := range notes {
		var task perdure.Task
		found, err := r.Files().Get(prunedNotes, note.Path)
		if errors.Is(err, perdure.NotFound) {
			continue // removed just now
		}
		if err != nil {
			return nil, fmt.Errorf("read what pruned task %s left: %w", note.Path[1:], err)
		}
		if err := perdure.DecodeKnownJSON(found.Content, &task); err != nil {
			// its session is unknown, so it must not block any
			e.core.Log.Warn("note of a pruned task not readable", "task", note.Path[1:], "error", err)
			continue
		}
		of[task.Session] = true
	}
	return of, nil
}

// cleanTask removes what one pruned task left, and its note last.
func (e *Effects) cleanTask(ctx context.Context, path string, only []perdure.SessionID) (busy bool, err error) {
	if len(only) > 0 {
		task, _, err := e.leftover(ctx, path)
		if err != nil || !slices.Contains(only, task.Session) {
			return false, err
		}
	}
	return e.CleanNote(ctx, prunedNotes, path, func(ctx context.Context) error {
		task, row, err := e.leftover(ctx, path)
		if err != nil || task.ID == "" {
			return err
		}
		return e.core.Guarded("clean up after "+task.Tool, func() error {
			return errors.Join(e.removeArtifacts(ctx, task), e.cleanCall(ctx, task, row))
		})
	})
}

// leftover reads a note and the ledger row of its task. The row is zero if nothing was ever
// claimed, the task is zero if the note is gone.
func (e *Effects) leftover(ctx context.Context, path string) (task perdure.Task, row perdure.Call, err error) {
	err = e.core.Store.View(ctx, func(r store.Reader) error {
		note, err := r.Files().Get(prunedNotes, path)
		if err == nil {
			err = perdure.DecodeJSON(note.Content, &task)
		}
		if err == nil {
			row, err = r.Calls().Get(task.LedgerKey()) // the row outlives the task
		}
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		return err
	})
	return task, row, err
}

// removeArtifacts removes the folder of a run. Only background runs have one.
func (e *Effects) removeArtifacts(ctx context.Context, task perdure.Task) error {
	if task.Run == "" {
		return nil
	}
	_, files := e.core.Files(task.Session) // no event: task.pruned covers it
	if files == nil {
		return fmt.Errorf("remove %s: %w: no file store", task.ArtifactDir(), perdure.Unavailable)
	}
	_, err := files.Remove(ctx, task.ArtifactDir(), true)
	return err
}

// cleanCall lets the task's tool remove what it keeps of the call. If the tool is no longer
// registered, that stays.
func (e *Effects) cleanCall(ctx context.Context, task perdure.Task, row perdure.Call) error {
	target, _ := e.toolset.Find(task.Tool)
	cleaner, ok := target.(tool.Cleaner)
	if !ok {
		return nil
	}
	key := task.LedgerKey()
	return cleaner.Clean(ctx, tool.Call{
		Session: task.Session, Turn: task.Turn, ID: key.Call, Task: task.ID, Attempt: task.Attempt,
		Execution: max(task.Executions, row.Executions), Tool: task.Tool, Key: key.IdempotencyKey(), Class: task.Class,
	})
}
