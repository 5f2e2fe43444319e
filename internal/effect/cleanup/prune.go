package cleanup

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

// prunedNotes is the session that holds the notes of pruned tasks, until what the tasks left
// outside their rows is removed too. No such session exists, so nobody sees the files. A note is
// written in the commit that removes the rows, so that a crash right after it leaves nothing behind
// unnoticed.
const prunedNotes perdure.SessionID = "pruned_tasks"

// errPruneSetChanged says that the set of tasks to prune has changed since their sessions were
// locked.
var errPruneSetChanged = errors.New("the tasks to prune have changed")

// Prune removes up to limit tasks that ended more than age ago, in one commit: their rows and
// messages, with an event in the journals of their sessions. It returns how many it removed.
// CleanPruned later removes what they left elsewhere.
func (cl *Cleanup) Prune(ctx context.Context, age time.Duration, limit int) (int, error) {
	some, err := cl.anyOlder(ctx, age)
	var before time.Time
	var going, found []perdure.Task // as found by the last attempt, and by this one
	for some && err == nil {
		err = cl.core.Store.InTx(ctx, func(tx store.Tx) (err error) {
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
		cl.core.Wake(task.Session)
	}
	if err != nil {
		return 0, fmt.Errorf("prune tasks: %w", err)
	}
	return len(going), nil
}

// anyOlder reports whether the ended task that was created first is old enough to be pruned. If
// not, nothing is written. Imported tasks carry times of another clock, so they may be pruned later
// than their age suggests.
func (cl *Cleanup) anyOlder(ctx context.Context, age time.Duration) (older bool, err error) {
	ended := store.TaskFilter{States: []perdure.TaskState{perdure.TaskSucceeded, perdure.TaskFailed,
		perdure.TaskCanceled}, Limit: 1}
	err = cl.core.Store.View(ctx, func(r store.Reader) error {
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
		Attempt: t.Attempt, Executions: t.Executions, Home: t.Home,
	})
	if err != nil {
		return err
	}
	_, err = tx.Files().Put(prunedNotes, store.File{Path: "/" + string(t.ID), Content: body, Encoding: store.EncodingText})
	return err
}

// RecordRemoved stores, in the transaction that removes a session, what is needed to find what its
// calls left outside their rows. CleanPruned removes that later.
func (cl *Cleanup) RecordRemoved(tx store.Tx, id perdure.SessionID) error {
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
		target, _ := cl.toolset.Find(row.Tool)
		if _, keeps := target.(tool.Cleaner); !keeps {
			continue
		}
		err := recordLeftovers(tx, perdure.Task{
			ID: core.NewID[perdure.TaskID](), Session: id, Turn: row.Turn, Call: row.Key.Call,
			Origin: perdure.OriginRouted, Tool: row.Tool,
			Class: row.Class, Attempt: row.Attempt, Executions: row.Executions, Home: row.Home,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
