package taskrun

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Spawn starts a background run of a tool, or queues it. The task, its claim and its event are one
// commit. The ids are derived, so that a call spawns once, however often it runs. The run starts
// from what the commit knew; nothing is read in between.
func (ts *Tasks) Spawn(ctx context.Context, o taskrecord.Request) (tool.SpawnResult, error) {
	spawned, err := ts.spawnAs(ctx, o)
	if errors.Is(err, taskrecord.OwnTask) {
		o.OwnTask = true
		return ts.spawnAs(ctx, o)
	}
	return spawned, err
}

func (ts *Tasks) spawnAs(ctx context.Context, o taskrecord.Request) (tool.SpawnResult, error) {
	row, err := ts.core.SessionRow(ctx, o.Owner.Session)
	if err != nil {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.Task.Tool, err)
	}
	task := o.WithIDs(row.Secret)
	if err := ts.Prepare(ctx, task, 1); err != nil {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.Task.Tool, err)
	}
	var claimed perdure.Call
	var spawned tool.SpawnResult
	ts.Starting.Add(task.ID)
	err = ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		var err error
		spawned, claimed, err = ts.records.SpawnIn(tx, o, task)
		return err
	})
	started := claimed.Token != "" && (err == nil || ts.OwnsClaim(ctx, claimed))
	if started {
		ts.Run(Claimed{Task: spawned.Task, Row: claimed, Owner: o.Owner}, FreshTask)
	} else {
		ts.Starting.Drop(task.ID)
		ts.core.StartQueued() // a slot may have become free before the run was queued
	}
	ts.core.Wake(o.Owner.Session)
	// The task may be stored, queued or waiting for an approval.
	if err != nil && !started && !core.RefusedWrite(err) && !errors.Is(err, perdure.Limit) {
		var stored perdure.Task
		found := ts.core.ReadBack(ctx, func(r store.Reader) (err error) {
			stored, err = r.Tasks().Get(task.Session, task.ID)
			return err
		})
		if found == nil {
			return tool.SpawnResult{Task: stored}, nil
		}
	}
	if err != nil && !started {
		return tool.SpawnResult{}, fmt.Errorf("spawn %s: %w", o.Task.Tool, err)
	}
	ts.Evict(ctx, o.Owner.Session)
	return spawned, nil
}

// Evict cancels the oldest live background tasks of a session that has more than the limit, if that
// is the overflow policy. The newest task is never evicted.
func (ts *Tasks) Evict(ctx context.Context, session perdure.SessionID) {
	for ts.core.Limits.Overflow == perdure.OverflowEvict && ts.core.Limits.EvictCap > 0 {
		var live []perdure.Task
		err := ts.core.Store.View(ctx, func(r store.Reader) (err error) {
			live, err = r.Tasks().List(store.TaskFilter{Session: session, States: []perdure.TaskState{
				perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput,
			}})
			return err
		})
		live = slices.DeleteFunc(live, func(t perdure.Task) bool {
			// already being canceled, or of another kind
			return t.CancelRequested() || t.Kind != perdure.KindBackgroundTool && t.Kind != perdure.KindExternalAgent
		})
		if err != nil || ts.core.Limits.Overflow.Excess(ts.records.SlotCaps(), len(live)) == 0 {
			return // if it could not be read, the next start counts again
		}
		oldest := live[0]
		ts.core.Log.Warn("background task evicted", "task", oldest.ID, "tool", oldest.Tool, "session", session,
			"cap", ts.core.Limits.EvictCap)
		if _, err := ts.Cancel(ctx, oldest.ID, taskrecord.CancelIntent{By: "system", Why: "evicted"}); err != nil {
			ts.core.Log.Error("background task not evicted", "task", oldest.ID, "error", err)
			return
		}
	}
}

// OwnsClaim reads back whether a claim is stored whose commit lost its answer.
func (ts *Tasks) OwnsClaim(ctx context.Context, claimed perdure.Call) bool {
	if claimed.Token == "" {
		return false
	}
	var row perdure.Call
	err := ts.core.ReadBack(ctx, func(r store.Reader) (err error) {
		row, err = r.Calls().Get(claimed.Key)
		return err
	})
	return err == nil && row.Token == claimed.Token
}

// Prepare makes the start ticket of a supervised run, before its claim.
func (ts *Tasks) Prepare(ctx context.Context, task perdure.Task, execution int) error {
	target, _ := ts.toolset.Find(task.Tool)
	survivor, ok := target.(tool.Adoptable)
	if !ok {
		return nil
	}
	key := task.LedgerKey()
	call := tool.Call{Session: task.Session, ID: key.Call, Task: task.ID, Execution: execution, Tool: task.Tool,
		Key: key.IdempotencyKey()}
	if err := ts.core.Guarded("prepare", func() error { return survivor.Prepare(ctx, call) }); err != nil {
		return fmt.Errorf("prepare %s: %w", task.Tool, err)
	}
	return nil
}
