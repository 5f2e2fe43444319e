package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// CleanPruned removes what pruned tasks and the calls of removed sessions left outside their rows:
// artifacts, and what their tools keep. only restricts it to some sessions. It does not wait: notes
// that another cleaner holds are skipped, and busy is true. What cannot be removed is logged, and
// the next call tries again, even in a later process.
func (cl *Cleanup) CleanPruned(ctx context.Context, only ...perdure.SessionID) (busy bool, err error) {
	var notes []store.File
	err = cl.core.Store.View(ctx, func(r store.Reader) (err error) {
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
		at, err := cl.cleanTask(ctx, note.Path, only)
		busy = busy || at
		if store.Broken(err) {
			return busy, err
		}
		if err != nil {
			cl.core.Log.Warn("leftovers of a pruned task not removed", "task", note.Path[1:], "error", tool.Chain(err))
		}
	}
	return busy, nil
}

// Leftovers returns the sessions for which CleanPruned still has something to remove.
func (cl *Cleanup) Leftovers(r store.Reader) (map[perdure.SessionID]bool, error) {
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
			cl.core.Log.Warn("note of a pruned task not readable", "task", note.Path[1:], "error", err)
			continue
		}
		of[task.Session] = true
	}
	return of, nil
}

// cleanTask removes what one pruned task left, and its note last.
func (cl *Cleanup) cleanTask(ctx context.Context, path string, only []perdure.SessionID) (busy bool, err error) {
	lost := false
	if len(only) > 0 || cl.core.Shared {
		task, _, err := cl.leftover(ctx, path)
		if err != nil || len(only) > 0 && !slices.Contains(only, task.Session) {
			return false, err
		}
		var here bool
		if here, lost, err = cl.LeftoversAt(ctx, task.Home); err != nil || !here && !lost {
			return false, err
		}
	}
	return cl.CleanNote(ctx, prunedNotes, path, func(ctx context.Context) error {
		task, row, err := cl.leftover(ctx, path)
		if err != nil || task.ID == "" {
			return err
		}
		if lost {
			cl.core.Log.Warn("leftovers of a pruned task given up: no server of their home was seen for as long as tasks are kept",
				"task", task.ID, "home", task.Home)
			return nil
		}
		return cl.core.Guarded("clean up after "+task.Tool, func() error {
			return errors.Join(cl.removeArtifacts(ctx, task), cl.cleanCall(ctx, task, row))
		})
	})
}

// LeftoversAt says who removes leftovers at a home: this worker (here), nobody any longer (lost),
// or, if neither, a worker of that home.
func (cl *Cleanup) LeftoversAt(ctx context.Context, home perdure.HomeID) (here, lost bool, err error) {
	err = cl.core.Store.View(ctx, func(r store.Reader) (err error) {
		here, lost, err = cl.LeftoversIn(r, home)
		return err
	})
	return here, lost, err
}

// LeftoversIn is LeftoversAt within a view.
func (cl *Cleanup) LeftoversIn(r store.Reader, home perdure.HomeID) (here, lost bool, err error) {
	return cl.core.LeftoversAt(r, home)
}

// leftover reads a note and the ledger row of its task. The row is zero if nothing was ever
// claimed, the task is zero if the note is gone.
func (cl *Cleanup) leftover(ctx context.Context, path string) (task perdure.Task, row perdure.Call, err error) {
	err = cl.core.Store.View(ctx, func(r store.Reader) error {
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
func (cl *Cleanup) removeArtifacts(ctx context.Context, task perdure.Task) error {
	if task.Run == "" {
		return nil
	}
	_, files := cl.core.Ports.Files(task.Session) // no event: task.pruned covers it
	if files == nil {
		return fmt.Errorf("remove %s: %w: no file store", task.ArtifactDir(), perdure.Unavailable)
	}
	_, err := files.Remove(ctx, task.ArtifactDir(), true)
	return err
}

// cleanCall lets the task's tool remove what it keeps of the call. If the tool is no longer
// registered, that stays.
func (cl *Cleanup) cleanCall(ctx context.Context, task perdure.Task, row perdure.Call) error {
	target, _ := cl.toolset.Find(task.Tool)
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
