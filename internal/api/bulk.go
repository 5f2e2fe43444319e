package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// taskFilter selects tasks, in the body of a bulk operation.
type taskFilter struct {
	engine.TaskFilter
	State perdure.TaskState `json:"state,omitempty" enum:"queued,running,awaiting_input,succeeded,failed,canceled,unknown" doc:"Only tasks in this state."`
	Kind  perdure.TaskKind  `json:"kind,omitempty" enum:"background_tool,monitor,subagent,external_agent" doc:"Only tasks of this kind."`
	Older string            `json:"older,omitempty" doc:"Only tasks created longer ago than this, such as 1h30m."`
}

// check refuses a filter that no task can match: the cancel of no task would look like a successful
// one.
func (f taskFilter) check() error {
	switch {
	case f.State != "" && !f.State.Valid():
		return invalid("/filter/state", "not a state of a task")
	case f.Kind != "" && !validKind(f.Kind):
		return invalid("/filter/kind", "not a kind of task")
	}
	return nil
}

// newBulkCancel is the body of a cancel of many tasks.
type newBulkCancel struct {
	ID     perdure.BulkID `json:"id,omitempty" doc:"The id of the bulk operation, for callers that generate ids."`
	Filter taskFilter     `json:"filter" doc:"Which of the unfinished tasks; {} selects all."`
	DryRun bool           `json:"dry_run,omitempty" doc:"Cancel nothing; only return the number of matching tasks and the first 100 of them."`
	Reason string         `json:"reason,omitempty"`
}

// ofBulk is the path of a bulk operation.
type ofBulk struct {
	ID perdure.BulkID `path:"id" example:"bulk_019aa0000000700080000000000000aa" doc:"The bulk operation."`
}

type bulkStarted struct {
	Location string `header:"Location"`
	Body     engine.Bulk
}

// retrying is the empty body of a retry.
type retrying struct{}

func (a bulkHandlers) register() {
	write(a.API, operation{
		id: "cancel-many-tasks", path: "/v1/tasks:cancel", policy: writes, class: stopsWork, summary: "Request the cancel of every unfinished task that matches a filter", status: http.StatusAccepted,
	}, body[newBulkCancel]{example: newBulkCancel{Filter: taskFilter{TaskFilter: engine.TaskFilter{Tool: "bash"}, Older: "1h"}, DryRun: true}}, a.cancelMany)
	read(a.API, operation{id: "get-bulk", path: "/v1/bulks/{id}", policy: reads, summary: "Show the progress of a bulk operation", errors: []int{http.StatusNotFound}},
		func(ctx context.Context, in *ofBulk) (*single[engine.Bulk], error) {
			return singleOf(a.cfg.Engine.Tasks().Bulk(ctx, in.ID))
		})
	write(a.API, operation{
		id: "retry-task", path: "/v1/tasks/{id}/retry", policy: writes, summary: "Call the tool of a failed or canceled task again, as a new call",
		status: http.StatusAccepted, errors: []int{http.StatusNotFound},
	}, body[retrying]{optional: true}, a.retryTask)
}

// createdBefore returns the time before which a task was created if it is older than a duration
// given as text.
func createdBefore(now time.Time, older, field string) (time.Time, error) {
	d, err := time.ParseDuration(older)
	if err != nil || d < 0 {
		return time.Time{}, invalid(field, "must be a duration such as 90s or 1h30m")
	}
	return now.Add(-d), nil
}

func (a bulkHandlers) cancelMany(ctx context.Context, _ *struct{}, in newBulkCancel) (*bulkStarted, error) {
	if in.ID == "" {
		in.ID = newID[perdure.BulkID](ctx)
	}
	req := requestOf(ctx)
	order := engine.BulkCancel{ID: in.ID, Filter: in.Filter.TaskFilter, DryRun: in.DryRun, By: req.actor, Why: in.Reason}
	order.Filter.State, order.Filter.Kind = in.Filter.State, in.Filter.Kind
	if err := in.Filter.check(); err != nil {
		return nil, err
	}
	if in.Filter.Older != "" {
		moment, err := createdBefore(req.at, in.Filter.Older, "/filter/older")
		if err != nil {
			return nil, err
		}
		order.OlderThan = req.at.Sub(moment)
		if f := &order.Filter; f.Before.IsZero() || moment.Before(f.Before) {
			f.Before = moment
		}
	}
	b, err := a.cfg.Engine.Tasks().CancelWhere(ctx, order)
	return &bulkStarted{Location: "/v1/bulks/" + string(b.ID), Body: b}, err
}

// retryTask starts a call of the same tool with the same arguments. Requests with the same
// idempotency key are one call.
func (a bulkHandlers) retryTask(ctx context.Context, in *OfTask, _ retrying) (*hostCallStarted, error) {
	t, err := a.cfg.Engine.Tasks().Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case t.State == perdure.TaskUnknown:
		return nil, fmt.Errorf("retry task %s: %w: its outcome is unknown; find out what happened, then resolve it with run_again", t.ID, perdure.Conflict)
	case t.State != perdure.TaskFailed && t.State != perdure.TaskCanceled:
		return nil, fmt.Errorf("retry task %s: %w: it is %s; only a failed or canceled task can be retried", t.ID, perdure.Conflict, t.State)
	}
	order := engine.HostCallRequest{Session: t.Session, Tool: t.Tool, Args: t.Spec.Arguments, Title: t.DisplayName}
	if req := requestOf(ctx); req.hasKey {
		order.Key = "retry:" + hex.EncodeToString(req.seed[:])
	}
	c, err := a.cfg.Engine.HostCalls().Start(ctx, order)
	return startedHostCall(c), err
}
