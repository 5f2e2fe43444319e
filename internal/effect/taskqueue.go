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
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

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
		if e.cfg.Runner.Running(e.workOf(next.ID)) { // it asked, was answered, and waits for its place (TK15)
			if err := e.giveBack(ctx, next); err != nil {
				return started, err
			}
			passed[next.ID] = true
			continue
		}
		if e.leftWhileAsking(next) {
			passed[next.ID] = true
			if e.elsewhereNow(ctx, next.Worker) { // it goes on there
				continue
			}
			if err := e.takeOverTask(ctx, next); err != nil {
				if store.Broken(err) || ctx.Err() != nil {
					return started, fmt.Errorf("take over queued task %s: %w", next.ID, err)
				}
				e.cfg.Log.Warn("a queued task was not taken over", "task", next.ID, "error", tool.Chain(err))
				time.AfterFunc(startAgain, e.cfg.Freed)
			}
			continue
		}
		claimed, err := e.startTask(ctx, next)
		if err != nil {
			if store.Broken(err) || ctx.Err() != nil {
				return started, fmt.Errorf("start queued task %s: %w", next.ID, err)
			}
			e.cfg.Log.Warn("a queued task was not started", "task", next.ID, "error", tool.Chain(err))
			passed[next.ID] = true
			time.AfterFunc(startAgain, e.cfg.Freed)
			continue
		}
		if claimed.row.Token == "" {
			continue // it was canceled meanwhile
		}
		started++
		e.runTask(claimed, freshTask)
		e.cfg.Wake(next.Session)
	}
}

// leftWhileAsking reports a queued task of another worker that has begun: it was answered and had no place, or was found
// without one and is asked about when it has one. If that worker is dead, its class decides what becomes of it, as of all
// that was cut in half (RC16). One that an operator lets run again has no worker, and neither has one that was judged to
// run again and waits for its place (RC14).
func (e *Effects) leftWhileAsking(t perdure.Task) bool {
	return t.State == perdure.TaskQueued && t.Executions > 0 && t.Worker != "" && t.Worker != e.cfg.Worker
}

// full reports whether there is no place in this process for a run that is taken up (RC14, BG18). One that left the
// foreground takes none of its session's (BG16).
func (e *Effects) full(t perdure.Task) bool {
	ofSession, ofProcess := e.cfg.Runner.Places(t.Session)
	capped := e.cfg.PerSession > 0 && e.cfg.Overflow != perdure.OverflowEvict && !t.Beside()
	return capped && ofSession >= e.cfg.PerSession || e.cfg.PerProcess > 0 && ofProcess >= e.cfg.PerProcess
}

// giveBack gives a task that waits in the middle of its work its place again.
func (e *Effects) giveBack(ctx context.Context, next perdure.Task) error {
	err := e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		_, err := e.updateTask(tx, next, perdure.TaskUpdate{Attempt: next.Attempt, State: perdure.TaskRunning})
		return err
	})
	if err != nil && !errors.Is(err, perdure.Conflict) { // canceled meanwhile
		return fmt.Errorf("give task %s its place: %w", next.ID, err)
	}
	return nil
}

// startTask claims a queued run. Without a token it is not queued any more.
func (e *Effects) startTask(ctx context.Context, next perdure.Task) (claimed claimedTask, err error) {
	if err := e.prepareTask(ctx, next, next.Executions+1); err != nil {
		return claimed, err
	}
	e.starting.add(next.ID)
	err = e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		claimed, err = e.startIn(tx, next)
		return err
	})
	if err != nil && e.owns(ctx, claimed.row) {
		err = nil
	}
	if err != nil || claimed.row.Token == "" {
		e.starting.drop(next.ID)
	}
	return claimed, err
}

// startIn gives a queued run its place, and reads what its run needs. Of several workers that see it in the queue, the one
// that finds it as it was seen starts it; and the cap of its session holds over all of them (BG16).
func (e *Effects) startIn(tx store.Tx, next perdure.Task) (c claimedTask, err error) {
	task, err := tx.Task(next.Session, next.ID)
	if err != nil || task.State != perdure.TaskQueued || task.Attempt != next.Attempt {
		return c, err
	}
	if e.cfg.Shared && e.cfg.PerSession > 0 && !task.Beside() {
		running, err := tx.CountTasks(perdure.TaskRunning, task.Session)
		if err != nil || len(running) > 0 && running[0].N-running[0].Detached-running[0].Monitors >= e.cfg.PerSession {
			return c, err
		}
	}
	u := perdure.TaskUpdate{
		Attempt: task.Attempt, State: perdure.TaskRunning, Detail: "Starting", Worker: e.cfg.Worker, Execution: true,
		DeadlineAt: tx.Now().Add(e.deadlineOf(task)),
	}
	change, err := e.updateTask(tx, task, u)
	if err != nil {
		return c, err
	}
	c.task = change.Task
	if c.owner, err = readOwner(tx, task.Session); err != nil {
		return c, err
	}
	row, err := tx.Session(task.Session)
	if err != nil {
		return c, err
	}
	c.owner.of(row)
	if c.logged, err = tx.AppendLog(task.ID, c.task.Attempt, "", nil); err != nil { // of the attempts before
		return c, err
	}
	c.row, err = e.claimTask(tx, c.task)
	return c, err
}

// nextQueued finds the queued run that has the next free place; the zero task if there is none. What is only counted is
// not decoded, and where nothing can start nothing is read.
func (e *Effects) nextQueued(ctx context.Context, passed map[perdure.TaskID]bool) (next perdure.Task, err error) {
	if _, ofProcess := e.cfg.Runner.Places(""); e.cfg.PerProcess > 0 && ofProcess >= e.cfg.PerProcess {
		return next, nil
	}
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		queued, err := r.CountTasks(perdure.TaskQueued, "")
		if err != nil || len(queued) == 0 {
			return err
		}
		running, err := r.CountTasks(perdure.TaskRunning, "")
		if err != nil {
			return err
		}
		for _, session := range e.inTurn(queued, running) {
			if next, err = firstQueued(r, session, passed); err != nil || next.ID != "" {
				return err
			}
		}
		return nil
	})
	return next, err
}

// inTurn returns the sessions that have queued runs and a free place: those with the fewest running ones first, and of
// these the one that has waited longest.
func (e *Effects) inTurn(queued, running []store.TaskCount) []perdure.SessionID {
	load := map[perdure.SessionID]int{}
	for _, c := range running {
		load[c.Session] = c.Places()
	}
	var free []perdure.SessionID
	for _, c := range queued {
		ofSession, _ := e.cfg.Runner.Places(c.Session)
		load[c.Session] = max(load[c.Session], ofSession)
		if e.cfg.PerSession == 0 || load[c.Session] < e.cfg.PerSession {
			free = append(free, c.Session)
		}
	}
	slices.SortStableFunc(free, func(a, b perdure.SessionID) int { return load[a] - load[b] })
	return free
}

// firstQueued returns the oldest queued run of a session that was not passed; the zero task if there is none.
func firstQueued(r store.Reader, session perdure.SessionID, passed map[perdure.TaskID]bool) (perdure.Task, error) {
	filter := store.TaskFilter{Session: session, States: []perdure.TaskState{perdure.TaskQueued}, Limit: len(passed) + 1}
	tasks, err := r.Tasks(filter)
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

// leftovers is where the notes of pruned tasks stand until what they left outside their rows is gone, too: files of no
// session, so that nobody is shown them. A note is written in the commit that removes the rows, so a crash after it leaves
// nothing that would not be found (TK16).
const leftovers perdure.SessionID = "pruned_tasks"

// errOthers says that other tasks would go than those whose sessions were locked.
var errOthers = errors.New("other tasks are to be pruned")

// PruneTasks forgets up to limit tasks that ended longer than age ago, in one commit: their rows and messages, with an event
// in the journal of each of their sessions. It says how many. What they left elsewhere is CleanPruned's to remove (TK16).
func (e *Effects) PruneTasks(ctx context.Context, age time.Duration, limit int) (int, error) {
	some, err := e.anyOlder(ctx, age)
	var before time.Time
	var going, found []perdure.Task // as seen before, and in the last transaction
	for some && err == nil {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
			if len(going) == 0 {
				before = tx.Now().Add(-age)
			}
			found, err = forget(tx, going, before, limit)
			return err
		})
		if !errors.Is(err, errOthers) {
			break
		}
		going, err = found, ctx.Err() // once more, with their sessions locked first
	}
	for _, task := range going { // also after an error: its commit may be there
		e.cfg.Wake(task.Session)
	}
	if err != nil {
		return 0, fmt.Errorf("prune tasks: %w", err)
	}
	return len(going), nil
}

// anyOlder reports whether the task that was created first, of those that have ended, is old enough. Where it is not, nothing
// is written; what came from elsewhere, with moments of its own, then waits for those that were created here.
func (e *Effects) anyOlder(ctx context.Context, age time.Duration) (older bool, err error) {
	ended := store.TaskFilter{States: []perdure.TaskState{perdure.TaskSucceeded, perdure.TaskFailed, perdure.TaskCanceled}, Limit: 1}
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		oldest, err := r.Tasks(ended)
		older = len(oldest) > 0 && oldest[0].CreatedAt.Before(r.Now().Add(-age))
		return err
	})
	return older, err
}

// forget removes tasks that were found before, so that their sessions are locked first, by appending. errOthers: those that
// were found now would go, and nothing is to be committed.
func forget(tx store.Tx, going []perdure.Task, before time.Time, limit int) (found []perdure.Task, err error) {
	ofSession := map[perdure.SessionID][]perdure.TaskID{}
	for _, task := range going {
		ofSession[task.Session] = append(ofSession[task.Session], task.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(ofSession)) {
		events := []perdure.Event{{Session: id, Actor: byRuntime, Fact: perdure.TaskPruned{TaskIDs: ofSession[id]}}}
		stamp(events, tx.Now())
		if err := tx.Append(id, events); err != nil {
			return nil, err
		}
	}
	if found, err = tx.PruneTasks(before, limit); err != nil {
		return nil, err
	}
	if !slices.EqualFunc(going, found, func(a, b perdure.Task) bool { return a.ID == b.ID }) {
		return found, errOthers
	}
	for _, task := range found {
		if err := noteLeftovers(tx, task); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// noteLeftovers writes down what is needed to find what a task left.
func noteLeftovers(tx store.Tx, t perdure.Task) error {
	body, err := json.Marshal(perdure.Task{
		ID: t.ID, Run: t.Run, Session: t.Session, Turn: t.Turn, Call: t.Call, Origin: t.Origin, Tool: t.Tool, Class: t.Class,
		Attempt: t.Attempt, Executions: t.Executions,
	})
	if err != nil {
		return err
	}
	_, err = tx.PutFile(leftovers, store.File{Path: "/" + string(t.ID), Content: body, Encoding: store.EncodingText})
	return err
}

// NoteRemoved writes down, in the transaction that removes a session, what is needed to find what its calls left outside their
// rows. CleanPruned removes that.
func (e *Effects) NoteRemoved(tx store.Tx, id perdure.SessionID) error {
	calls, err := tx.Calls(store.CallFilter{Session: id})
	if err != nil {
		return err
	}
	rows := map[perdure.CallKey]perdure.Call{}
	for _, row := range calls {
		rows[row.Key] = row
	}
	tasks, err := tx.Tasks(store.TaskFilter{Session: id})
	if err != nil {
		return err
	}
	for _, task := range tasks {
		key := task.LedgerKey()
		task.Executions = max(task.Executions, rows[key].Executions) // its row goes, too
		delete(rows, key)
		if err := noteLeftovers(tx, task); err != nil {
			return err
		}
	}
	for _, row := range rows {
		target, _ := e.tool(row.Tool)
		if _, keeps := target.(tool.Cleaner); !keeps {
			continue
		}
		err := noteLeftovers(tx, perdure.Task{
			ID: NewID[perdure.TaskID](), Session: id, Turn: row.Turn, Call: row.Key.Call, Origin: perdure.OriginRouted, Tool: row.Tool,
			Class: row.Class, Attempt: row.Attempt, Executions: row.Executions,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CleanPruned removes what pruned tasks left outside their rows, and calls of removed sessions: their artifacts, and what their
// tools keep; of some sessions only, or of all. It waits for nobody: what another is at is left to it, and then it says that it
// was busy. What cannot be removed now is logged, and tried again with the next call, in this life or another.
func (e *Effects) CleanPruned(ctx context.Context, only ...perdure.SessionID) (busy bool, err error) {
	var notes []store.File
	err = e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		notes, err = r.Files(leftovers, "/", false)
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
			e.cfg.Log.Warn("what a pruned task left was not removed", "task", note.Path[1:], "error", tool.Chain(err))
		}
	}
	return busy, nil
}

// Leftovers returns the sessions of which something is still to be removed outside their rows: by CleanPruned.
func (e *Effects) Leftovers(r store.Reader) (map[perdure.SessionID]bool, error) {
	notes, err := r.Files(leftovers, "/", false)
	if err != nil {
		return nil, err
	}
	of := map[perdure.SessionID]bool{}
	for _, note := range notes {
		var task perdure.Task
		found, err := r.File(leftovers, note.Path)
		if errors.Is(err, perdure.NotFound) {
			continue // it was removed just now
		}
		if err != nil {
			return nil, fmt.Errorf("read what pruned task %s left: %w", note.Path[1:], err)
		}
		if err := perdure.DecodeKnownJSON(found.Content, &task); err != nil { // nobody can say whose it is, and it keeps nobody out
			e.cfg.Log.Warn("the note of a pruned task cannot be read", "task", note.Path[1:], "error", err)
			continue
		}
		of[task.Session] = true
	}
	return of, nil
}

// cleanTask removes what one pruned task left, and the note of it last.
func (e *Effects) cleanTask(ctx context.Context, path string, only []perdure.SessionID) (busy bool, err error) {
	if len(only) > 0 {
		task, _, err := e.leftover(ctx, path)
		if err != nil || !slices.Contains(only, task.Session) {
			return false, err
		}
	}
	return e.CleanNote(ctx, leftovers, path, func(ctx context.Context) error {
		task, row, err := e.leftover(ctx, path)
		if err != nil || task.ID == "" {
			return err
		}
		return e.guarded("clean up after "+task.Tool, func() error {
			return errors.Join(e.removeArtifacts(ctx, task), e.cleanCall(ctx, task, row))
		})
	})
}

// leftover reads a note, and the ledger row of its task, which is zero where nothing was ever claimed. The zero task: the note is
// gone.
func (e *Effects) leftover(ctx context.Context, path string) (task perdure.Task, row perdure.Call, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		note, err := r.File(leftovers, path)
		if err == nil {
			err = perdure.DecodeJSON(note.Content, &task)
		}
		if err == nil {
			row, err = r.Call(task.LedgerKey()) // it outlives the task (LG16)
		}
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		return err
	})
	return task, row, err
}

// removeArtifacts removes the folder of a run. What is no background run has none.
func (e *Effects) removeArtifacts(ctx context.Context, task perdure.Task) error {
	if task.Run == "" {
		return nil
	}
	_, files := e.cfg.Files(task.Session) // task.pruned has told of it
	if files == nil {
		return fmt.Errorf("remove %s: %w: no file store", task.ArtifactDir(), perdure.Unavailable)
	}
	_, err := files.Remove(ctx, task.ArtifactDir(), true)
	return err
}

// cleanCall lets the task's tool remove what it keeps of the call. One that is not registered any more keeps it.
func (e *Effects) cleanCall(ctx context.Context, task perdure.Task, row perdure.Call) error {
	target, _ := e.tool(task.Tool)
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
