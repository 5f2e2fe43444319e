package taskrun

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dispatch"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// StopCanceled stops what canceled tasks left running at the home of this worker. Another worker
// ended them when the home did not come back in time, and could not stop their work (RC30). The
// journal gets a second receipt, which says that the work is dead. What cannot be stopped is
// logged, and the next start tries again.
//
// The work of a task whose outcome is unknown is not stopped: nobody asked for its end, and what it
// does decides how an operator resolves the task.
func (ts *Tasks) StopCanceled(ctx context.Context) error {
	if !ts.core.Shared || ts.core.Home.ID == "" {
		return nil
	}
	tasks, err := store.Read(ctx, ts.core.Store, func(r store.Reader) ([]perdure.Task, error) {
		return r.Tasks().List(store.TaskFilter{States: []perdure.TaskState{perdure.TaskCanceled}, Home: ts.core.Home.ID})
	})
	if err != nil {
		return fmt.Errorf("list the canceled tasks of this home: %w", err)
	}
	for _, task := range tasks {
		if ctx.Err() != nil {
			return nil
		}
		err := ts.stopCanceled(ctx, task)
		if store.Broken(err) {
			return err
		}
		if err != nil {
			ts.core.Log.Error("work of a canceled task not stopped", "task", task.ID, "error", tool.Chain(err))
		}
	}
	return nil
}

// stopCanceled stops what one canceled task left running, if there is anything.
func (ts *Tasks) stopCanceled(ctx context.Context, task perdure.Task) error {
	target, _ := ts.toolset.Find(task.Tool)
	adoptable, ok := target.(tool.Adoptable)
	if !ok || !task.CancelRequested() {
		return nil
	}
	row, err := store.Read(ctx, ts.core.Store, func(r store.Reader) (perdure.Call, error) { return r.Calls().Get(task.LedgerKey()) })
	if err != nil {
		return err
	}
	call, remains := core.ToolCall(row, time.Time{}), perdure.RemainsNone
	err = ts.core.Guarded("look", func() (err error) {
		remains, err = adoptable.Inspect(ctx, call)
		return err
	})
	if err != nil || remains != perdure.RemainsAlive {
		return err
	}
	end := dispatch.End{Cause: perdure.CauseCanceled, SignalledAt: time.Now()}
	if err := ts.environment.StopRemains(ctx, target, call, task.ForceRequested()); err != nil {
		return err
	}
	end.ReturnedAt = time.Now()
	ts.core.Log.Warn("work of a task stopped that another server had ended as canceled", "task", task.ID, "session", task.Session, "tool", task.Tool)
	return ts.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		events := []perdure.Event{taskrecord.Event(task, perdure.TaskCancelReceipt{Receipt: receipt(task, end)})}
		core.Stamp(events, tx.Now())
		return tx.Journal().Append(task.Session, events)
	})
}
