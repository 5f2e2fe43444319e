package host

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/store"
)

// List lists approvals in the order of their requests.
func (e hostApprovals) List(ctx context.Context, f engine.ApprovalFilter) ([]perdure.Approval, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.Approval, error) {
		return r.Approvals().List(store.ApprovalFilter{Session: f.Session, State: f.State})
	})
}

func (e hostApprovals) Get(ctx context.Context, id perdure.ApprovalID) (perdure.Approval, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) (perdure.Approval, error) { return r.Approvals().Get(id) })
}

func (e hostApprovals) Decide(
	ctx context.Context, id perdure.ApprovalID, v perdure.Verdict,
) (perdure.Approval, error) {
	a, err := e.effects.Approvals().Decide(ctx, id, v)
	e.scheduler.StartQueued()
	return a, err
}

func (e hostCalls) Answer(ctx context.Context, key perdure.CallKey, by string, result perdure.ToolResult) error {
	return e.effects.Calls().Answer(ctx, key, by, result)
}

// Detach lets a running foreground call continue as a task. It waits for the driver of the session,
// but not longer than this engine runs.
func (e hostCalls) Detach(ctx context.Context, key perdure.CallKey, by string) (perdure.Task, error) {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stopping := fmt.Errorf("%w: the engine is stopping", perdure.Unavailable)
	runs := e.scheduler.Go(func(engine context.Context) {
		select {
		case <-engine.Done():
			stop(stopping)
		case <-waiting.Done():
		}
	})
	if !runs && e.scheduler.Stopping() {
		return perdure.Task{}, fmt.Errorf("detach call %s: %w", key, stopping)
	}
	return e.effects.Calls().Detach(waiting, key, by)
}

// CancelAll requests the end of every live background task of a session.
func (e hostTasks) CancelAll(ctx context.Context, id perdure.SessionID, by, why string) (int, error) {
	tasks, err := e.Tasks().List(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("cancel the tasks of %s: %w", id, err)
	}
	n := 0
	for _, t := range tasks {
		if !t.State.Live() || t.CancelRequested() {
			continue
		}
		if _, err := e.Tasks().Cancel(ctx, t.ID, by, why); err != nil {
			return n, err
		}
		n++
	}
	e.cfg.Log.Info("background tasks canceled", "session", id, "tasks", n, "by", by, "why", why)
	return n, nil
}

// Drain returns the ended tasks of a session whose delivery is manual.
func (e hostTasks) Drain(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	return e.effects.Tasks().DrainReady(ctx, id)
}

// SetDelivery changes how the result of a live task is delivered.
func (e hostTasks) SetDelivery(
	ctx context.Context, id perdure.TaskID, d perdure.Delivery, w perdure.Wake,
) (perdure.Task, error) {
	return e.effects.Tasks().SetDelivery(ctx, id, d, w)
}

func (e hostTasks) Send(
	ctx context.Context, id perdure.TaskID, m perdure.TaskMessage,
) (perdure.TaskMessageID, error) {
	return e.effects.Tasks().Send(ctx, id, m)
}

func (e hostTasks) Messages(
	ctx context.Context, id perdure.TaskID, after perdure.TaskMessageID, limit int,
) ([]perdure.TaskMessage, error) {
	if err := engine.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("messages of task %s: %w", id, err)
	}
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.TaskMessage, error) {
		if _, err := r.Tasks().Get("", id); err != nil {
			return nil, err
		}
		return r.Tasks().Messages(id, after, limit)
	})
}
