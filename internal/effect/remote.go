package effect

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

// remoteUnknown is why the task of an external agent is not resumed: its remote task is not known,
// so it may still be running somewhere.
const remoteUnknown = "remote task id not known; cannot re-attach external agent"

// linkRemote records the id of a remote task on a task, fenced by the attempt. Lost: another
// attempt owns the task.
func (e *Effects) linkRemote(ctx context.Context, task perdure.Task, id string) error {
	err := e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		now, err := taskrecord.Owned(tx.Reader(), task)
		if err != nil || now.Links.RemoteTask == id {
			return err
		}
		change, err := e.records.Update(tx, task, perdure.TaskUpdate{Attempt: task.Attempt,
			Links: perdure.Links{RemoteTask: id}})
		if err == nil && change.Answer == perdure.UpdateLost {
			err = perdure.Lost
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("link task %s with remote task %s: %w", task.ID, id, err)
	}
	return nil
}
