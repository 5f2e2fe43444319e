package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// taskFilter narrows tasks, in the body of what is done to many.
type taskFilter struct {
	engine.TaskFilter
	State perdure.TaskState `json:"state,omitempty" enum:"queued,running,awaiting_input,succeeded,failed,canceled,unknown" doc:"Only those in this state."`
	Kind  perdure.TaskKind  `json:"kind,omitempty" enum:"background_tool,monitor,subagent,external_agent" doc:"Only those of this kind."`
	Older string            `json:"older,omitempty" doc:"Made longer ago than this, such as 1h30m."`
}

// check refuses what no task can match: a cancel of none would look like one that is done.
func (f taskFilter) check() error {
	kinds := []perdure.TaskKind{"", perdure.KindBackgroundTool, perdure.KindMonitor, perdure.KindSubagent, perdure.KindExternalAgent}
	switch {
	case f.State != "" && !f.State.Valid():
		return invalid("/filter/state", "no state of a task")
	case !slices.Contains(kinds, f.Kind):
		return invalid("/filter/kind", "no kind of task")
	}
	return nil
}

// newBulkCancel is the body of a cancel of many tasks.
type newBulkCancel struct {
	ID     perdure.BulkID `json:"id,omitempty" doc:"The bulk's own id, for callers that mint them."`
	Filter taskFilter     `json:"filter" doc:"Which of the live tasks; {} is all."`
	DryRun bool           `json:"dry_run,omitempty" doc:"Only say how many they are, and the first 100."`
	Reason string         `json:"reason,omitempty"`
}

// ofBulk is the path of a bulk.
type ofBulk struct {
	ID perdure.BulkID `path:"id" example:"bulk_019aa0000000700080000000000000aa" doc:"The bulk."`
}

type oneBulk struct{ Body engine.Bulk }

type begunBulk struct {
	Location string `header:"Location"`
	Body     engine.Bulk
}

// retrying is the body of a retry: there is nothing to say.
type retrying struct{}

func (a *API) bulkOperations() {
	write(a, operation{
		id: "cancel-many-tasks", path: "/v1/tasks:cancel", policy: writes, summary: "Ask for the end of every live task that a filter matches", status: http.StatusAccepted,
	}, body[newBulkCancel]{example: newBulkCancel{Filter: taskFilter{TaskFilter: engine.TaskFilter{Tool: "bash"}, Older: "1h"}, DryRun: true}}, a.cancelMany)
	read(a, operation{id: "get-bulk", path: "/v1/bulks/{id}", policy: reads, summary: "Show how far it is, what is done to many", errors: []int{http.StatusNotFound}},
		func(ctx context.Context, in *ofBulk) (*oneBulk, error) {
			b, err := a.cfg.Engine.Bulk(ctx, in.ID)
			return &oneBulk{Body: b}, err
		})
	write(a, operation{
		id: "retry-task", path: "/v1/tasks/{id}/retry", policy: writes, summary: "Call the tool of a task that failed or was canceled once more, as a call of the caller's own",
		status: http.StatusAccepted, errors: []int{http.StatusNotFound},
	}, body[retrying]{optional: true}, a.retryTask)
}

// before is the moment before which a task is older than a text says.
func before(now time.Time, older, field string) (time.Time, error) {
	d, err := time.ParseDuration(older)
	if err != nil || d < 0 {
		return time.Time{}, invalid(field, "a time such as 90s or 1h30m")
	}
	return now.Add(-d), nil
}

func (a *API) cancelMany(ctx context.Context, _ *struct{}, in newBulkCancel) (*begunBulk, error) {
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
		moment, err := before(req.at, in.Filter.Older, "/filter/older")
		if err != nil {
			return nil, err
		}
		order.Older = req.at.Sub(moment)
		if f := &order.Filter; f.Before.IsZero() || moment.Before(f.Before) {
			f.Before = moment
		}
	}
	b, err := a.cfg.Engine.CancelWhere(ctx, order)
	return &begunBulk{Location: "/v1/bulks/" + string(b.ID), Body: b}, err
}

// retryTask starts a call of the same tool with the same arguments. A request with an idempotency key is one call.
func (a *API) retryTask(ctx context.Context, in *OfTask, _ retrying) (*begunHostCall, error) {
	t, err := a.cfg.Engine.Task(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case t.State == perdure.TaskUnknown:
		return nil, fmt.Errorf("retry task %s: %w: its outcome is unknown; look, then resolve it with run_again", t.ID, perdure.Conflict)
	case t.State != perdure.TaskFailed && t.State != perdure.TaskCanceled:
		return nil, fmt.Errorf("retry task %s: %w: it is %s; only what failed or was canceled is tried again", t.ID, perdure.Conflict, t.State)
	}
	order := engine.CallOrder{Session: t.Session, Tool: t.Tool, Args: t.Spec.Arguments, Title: t.DisplayName}
	if req := requestOf(ctx); req.named {
		order.Key = "retry:" + hex.EncodeToString(req.seed[:])
	}
	c, err := a.cfg.Engine.StartCall(ctx, order)
	return begun(c), err
}
