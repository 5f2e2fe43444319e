package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
)

// OfTask is the path of a task.
type OfTask struct {
	ID perdure.TaskID `path:"id" example:"task_019aa0000000700080000000000000aa" doc:"The task."`
}

// cancellation is the body of a cancel of many tasks.
type cancellation struct {
	Reason string `json:"reason,omitempty"`
}

// taskCancellation is the body of a cancel of one task.
type taskCancellation struct {
	Reason string `json:"reason,omitempty"`
	Force  bool   `json:"force,omitempty" doc:"End the work without a grace period, also after an earlier request without force."`
}

func (a taskHandlers) register() {
	read(a.API, operation{id: "list-tasks", path: "/v1/tasks", policy: reads, summary: "List tasks, in the order of their creation or newest first"}, a.listTasks)
	read(a.API, operation{id: "count-tasks", path: "/v1/tasks:count", policy: reads, summary: "Count tasks by state"},
		func(ctx context.Context, _ *struct{}) (*single[engine.TaskOverview], error) {
			return singleOf(a.cfg.Engine.Tasks().Overview(ctx))
		})
	read(a.API, operation{id: "list-recoveries", path: "/v1/recoveries", policy: reads, summary: "List what crash recovery did since this server started, latest first"},
		func(ctx context.Context, _ *struct{}) (*page[engine.Recovery], error) {
			all, err := a.cfg.Engine.Tasks().Recoveries(ctx)
			return pageOf(all, len(all), nil), err
		})
	read(a.API, operation{
		id: "get-task", path: "/v1/tasks/{id}", policy: reads, summary: "Show a task, or wait until it has ended or awaits input", errors: []int{http.StatusNotFound},
	}, a.getTask)
	read(a.API, operation{
		id: "get-task-process", path: "/v1/tasks/{id}/process", policy: reads, summary: "Show the processes that run on a machine for a task",
		errors: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	}, func(ctx context.Context, in *OfTask) (*single[perdure.TaskProcesses], error) {
		return singleOf(a.cfg.Engine.Tasks().Processes(ctx, in.ID))
	})
	write(a.API, operation{
		id: "cancel-task", path: "/v1/tasks/{id}/cancel", policy: writes, class: stopsWork, summary: "Request the cancel of a task", status: http.StatusAccepted, errors: []int{http.StatusNotFound},
	}, body[taskCancellation]{example: taskCancellation{Reason: "not needed any more"}, optional: true}, a.cancelTask)
	write(a.API, operation{
		id: "resolve-task", path: "/v1/tasks/{id}/resolve", policy: approves, summary: "Resolve a task whose outcome is unknown", errors: []int{http.StatusNotFound},
	}, exampleResolution(), a.resolveTask)
}

// withoutWorker returns a task without the worker that fences it.
func withoutWorker(t perdure.Task) perdure.Task {
	t.Worker = ""
	return t
}

// allWithoutWorker applies shown to every task, in place.
func allWithoutWorker(tasks []perdure.Task) []perdure.Task {
	for i, t := range tasks {
		tasks[i] = withoutWorker(t)
	}
	return tasks
}

// taskInList returns a task as shown in a list, with redacted and shortened arguments (RD6). The
// response for a single task has them in full.
func taskInList(t perdure.Task) perdure.Task {
	t = withoutWorker(t)
	if len(t.Spec.Arguments) > 0 {
		t.Spec.Arguments = redact.JSON(t.Spec.Arguments)
	}
	return t
}

// newest is the order of lists that begin with what was created last.
const newest = "newest"

func (a taskHandlers) listTasks(ctx context.Context, in *struct {
	Session perdure.SessionID `query:"session" doc:"Only tasks of this session."`
	State   string            `query:"state" example:"queued,running" doc:"Only tasks in these states, separated by commas: queued, running, awaiting_input, succeeded, failed, canceled, unknown."`
	Kind    string            `query:"kind" example:"background_tool" doc:"Only tasks of these kinds, separated by commas: background_tool, monitor, subagent, external_agent."`
	Tool    string            `query:"tool" doc:"Only tasks of this tool."`
	Older   string            `query:"older" example:"1h30m" doc:"Only tasks created longer ago than this."`
	Order   string            `query:"order" enum:"oldest,newest" doc:"Begin with the oldest task, which is the default, or with the newest. A list that begins with the newest does not show tasks created after its first page."`
	Paged
}) (*page[taskRow], error) {
	states, err := someOf("query.state", in.State, perdure.TaskState.Valid)
	if err != nil {
		return nil, err
	}
	kinds, err := someOf("query.kind", in.Kind, validKind)
	if err != nil {
		return nil, err
	}
	q := engine.TaskQuery{
		TaskFilter: engine.TaskFilter{Session: in.Session, Tool: in.Tool}, States: states, Kinds: kinds,
		Newest: in.Order == newest, Limit: in.limit() + 1,
	}
	if in.Older != "" {
		if q.Before, err = createdBefore(requestOf(ctx).at, in.Older, "query.older"); err != nil {
			return nil, err
		}
	}
	which := orgPrefix(ctx) + fmt.Sprintf("tasks %q %q %q %q %q %t", in.Session, states, kinds, in.Tool, in.Older, q.Newest)
	place, err := a.cursors.read(which, in.Cursor, 1)
	if err != nil {
		return nil, err
	}
	if place != nil {
		q.After = perdure.TaskID(place[0])
	}
	found, err := a.cfg.Engine.Tasks().ListWhere(ctx, q)
	switch {
	case place != nil && errors.Is(err, perdure.NotFound):
		return nil, goneCursor()
	case err != nil:
		return nil, err
	}
	rows, err := a.taskRows(ctx, found[:min(len(found), in.limit()+1)])
	return pageOf(rows, in.limit(), func(t taskRow) string { return a.cursors.write(which, string(t.ID)) }), err
}

// taskRow is a task in a list.
type taskRow struct {
	perdure.Task
	Cost *engine.Cost `json:"cost,omitempty" doc:"Of a subagent: what its session has cost. Absent: the task has none of its own, or it has not been added up yet, which a later read does."`
}

// taskRows returns tasks as shown in a list, with the costs of the sessions of subagents, which it
// reads at once.
func (a taskHandlers) taskRows(ctx context.Context, tasks []perdure.Task) ([]taskRow, error) {
	var children []perdure.SessionID
	for _, t := range tasks {
		if t.Links.ChildSession != "" && len(children) < engine.MaxSessionIDs {
			children = append(children, t.Links.ChildSession)
		}
	}
	costs := map[perdure.SessionID]*engine.Cost{}
	if len(children) > 0 {
		sessions, err := a.cfg.Engine.Sessions().ListWhere(ctx, engine.SessionFilter{IDs: children, Costs: true})
		if err != nil {
			return nil, err
		}
		for _, s := range sessions {
			costs[s.ID] = s.Cost
		}
	}
	rows := make([]taskRow, 0, len(tasks))
	for _, t := range tasks {
		rows = append(rows, taskRow{taskInList(t), costs[t.Links.ChildSession]})
	}
	return rows, nil
}

// someOf parses words separated by commas, each of which must be valid. An empty text gives nil.
func someOf[T ~string](field, text string, valid func(T) bool) ([]T, error) {
	if text == "" {
		return nil, nil
	}
	var some []T
	for word := range strings.SplitSeq(text, ",") {
		one := T(strings.TrimSpace(word))
		if !valid(one) {
			return nil, invalid(field, "%q is not one of the words that it may contain", cut(word, 60))
		}
		some = append(some, one)
	}
	return some, nil
}

// validKind reports whether a kind of task exists.
func validKind(k perdure.TaskKind) bool {
	return slices.Contains([]perdure.TaskKind{perdure.KindBackgroundTool, perdure.KindMonitor, perdure.KindSubagent, perdure.KindExternalAgent}, k)
}

func (a taskHandlers) getTask(ctx context.Context, in *struct {
	OfTask
	Waits
}) (*single[perdure.Task], error) {
	wait, err := in.duration(a.cfg.Timing.MaxWait)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		waiting, cancel := a.withPatience(ctx, wait)
		_, err := a.cfg.Engine.Tasks().Wait(waiting, in.ID)
		ended := waiting.Err() != nil
		cancel()
		if err != nil && (!ended || ctx.Err() != nil) {
			return nil, err
		}
	}
	t, err := a.cfg.Engine.Tasks().Get(ctx, in.ID)
	return &single[perdure.Task]{withoutWorker(t)}, err
}

func (a taskHandlers) cancelTask(ctx context.Context, in *OfTask, body taskCancellation) (*single[perdure.CancelReceipt], error) {
	request := a.cfg.Engine.Tasks().Cancel
	if body.Force {
		request = a.cfg.Engine.Tasks().Force
	}
	return singleOf(request(ctx, in.ID, requestOf(ctx).actor, body.Reason))
}

// resolveTask records a resolution, like resolveCall.
func (a taskHandlers) resolveTask(ctx context.Context, in *OfTask, body resolution) (*single[perdure.Task], error) {
	resolution, err := body.toEngine(ctx, "happened, did_not_happen or run_again")
	if err != nil {
		return nil, err
	}
	refused := a.cfg.Engine.Tasks().Resolve(ctx, in.ID, resolution)
	if refused != nil && !(errors.Is(refused, perdure.Conflict) && requestOf(ctx).repeated) {
		return nil, refused
	}
	t, err := a.cfg.Engine.Tasks().Get(ctx, in.ID)
	if err == nil && refused != nil && t.ResolvedAt.IsZero() {
		return nil, refused
	}
	return &single[perdure.Task]{withoutWorker(t)}, err
}
