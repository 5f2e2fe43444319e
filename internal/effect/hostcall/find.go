package hostcall

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/store"
)

// Find returns a host's call. NotFound: the session has no call with this handle.
func (hc *Calls) Find(ctx context.Context, key perdure.CallKey) (found Call, err error) {
	err = hc.core.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = findHostCall(r, key)
		return err
	})
	if err != nil {
		return Call{}, fmt.Errorf("call %s: %w", key, err)
	}
	return found, nil
}

func findHostCall(r store.Reader, key perdure.CallKey) (Call, error) {
	found := Call{ID: key.Call}
	call, missing := r.Calls().Get(key)
	if missing != nil && !errors.Is(missing, perdure.NotFound) {
		return found, missing
	}
	id := call.Task // set once the call was claimed
	if id == "" {
		var err error
		if id, err = hostTask(r, key); err != nil {
			return found, err
		}
	}
	task, err := r.Tasks().Get(key.Session, id)
	pruned := errors.Is(err, perdure.NotFound)
	switch {
	case err != nil && !pruned:
		return found, err
	case pruned && missing != nil:
		return found, missing
	}
	if found.Task = task; !pruned && !task.State.Terminal() {
		return found, nil
	}
	switch {
	case missing != nil:
		ended := neverRan(task)
		found.Result = &ended
	case call.Result != nil:
		found.Result = call.Result
	}
	return found, nil
}

// hostTask returns the task id of a host's call, which derives from the call id.
func hostTask(r store.Reader, key perdure.CallKey) (perdure.TaskID, error) {
	row, err := r.Sessions().Get(key.Session)
	if err != nil {
		return "", err
	}
	by, err := core.ReadOwner(r, key.Session)
	if err != nil {
		return "", err
	}
	order := taskrecord.Request{At: by.Created, Task: perdure.Task{Session: key.Session, Call: key.Call}}
	return order.WithIDs(row.Secret).ID, nil
}

// neverRan is the result of a call that ended before it was claimed: it was denied, or canceled
// while it waited.
func neverRan(t perdure.Task) perdure.ToolResult {
	if t.State == perdure.TaskCanceled || t.Error == nil {
		return perdure.Refused(t.Call, perdure.ErrorCanceled, cmp.Or(t.Summary, "Canceled by request."))
	}
	return perdure.Refused(t.Call, t.Error.Kind, t.Error.Message)
}

// Acknowledge records that the reply to a call was written in full, so that the call is no
// longer joined. Calling it again does nothing.
func (hc *Calls) Acknowledge(ctx context.Context, key perdure.CallKey) error {
	var found Call
	err := hc.core.Store.View(ctx, func(r store.Reader) error {
		call, err := r.Calls().Get(key)
		if err == nil && call.Class == perdure.Pure { // pure calls are never joined
			return nil
		}
		found, err = findHostCall(r, key)
		return err
	})
	if err != nil {
		return fmt.Errorf("call %s: %w", key, err)
	}
	reported := !found.Task.RepliedAt.IsZero() && !found.Task.RepliedAt.Before(found.Task.ResolvedAt)
	if found.Task.ID == "" || reported || found.Task.Class == perdure.Pure {
		return nil
	}
	err = hc.core.Store.InTx(ctx, func(tx store.Tx) error {
		now, err := tx.Tasks().Get(key.Session, found.Task.ID)
		if err != nil {
			return err
		}
		_, err = tx.Tasks().Update(key.Session, now.ID, perdure.TaskUpdate{Attempt: now.Attempt, Replied: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("record reply of call %s: %w", key, err)
	}
	hc.undelivered.of(key.Session).forget(found.Task.ArgsHash, key.Call)
	return nil
}
