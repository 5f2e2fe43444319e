package remote

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func taskPath(id perdure.TaskID) string { return "/v1/tasks/" + segment(id) }

// Get returns a task. Its worker, which is a fence, is not part of the response.
func (e engineTasks) Get(ctx context.Context, id perdure.TaskID) (perdure.Task, error) {
	return fetch[perdure.Task](ctx, e.Engine, request{what: "task " + string(id), path: taskPath(id)})
}

// Processes returns what runs on the machine of the server for a task.
func (e engineTasks) Processes(ctx context.Context, id perdure.TaskID) (perdure.TaskProcesses, error) {
	return fetch[perdure.TaskProcesses](ctx, e.Engine, request{what: "processes of " + string(id), path: taskPath(id) + "/process"})
}

// List lists tasks in the order of their creation.
func (e engineTasks) List(ctx context.Context, id perdure.SessionID) ([]perdure.Task, error) {
	r := request{what: "tasks", path: "/v1/tasks"}
	if id != "" {
		r.what, r.query = "tasks of "+string(id), url.Values{"session": {string(id)}}
	}
	return list[perdure.Task](ctx, e.Engine, r, 0)
}

// ListWhere lists the tasks that match a query. After a task, it walks the whole list, since the
// server continues a list only by cursors of its own.
func (e engineTasks) ListWhere(ctx context.Context, q engine.TaskQuery) ([]perdure.Task, error) {
	r, limit := request{what: "tasks", path: "/v1/tasks", query: url.Values{}}, q.Limit
	if q.Newest {
		r.query.Set("order", "newest")
	}
	if q.After != "" || q.Kind != "" || q.State != "" || !q.Before.IsZero() {
		limit = 0
	} else {
		set := func(name string, words string) {
			if words != "" {
				r.query.Set(name, words)
			}
		}
		set("session", string(q.Session))
		set("tool", q.Tool)
		set("state", joined(q.States))
		set("kind", joined(q.Kinds))
	}
	all, err := list[perdure.Task](ctx, e.Engine, r, limit)
	if err == nil && q.After != "" {
		at := slices.IndexFunc(all, func(t perdure.Task) bool { return t.ID == q.After })
		if at < 0 {
			err = fmt.Errorf("list tasks after %s: %w", q.After, perdure.NotFound)
		}
		all = all[at+1:]
	}
	all = slices.DeleteFunc(all, func(t perdure.Task) bool { return !q.Matches(t) })
	if q.Limit > 0 {
		all = all[:min(q.Limit, len(all))]
	}
	return all, err
}

// joined returns words as a query parameter with commas.
func joined[T ~string](words []T) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(word))
	}
	return b.String()
}

// Overview counts all tasks by state.
func (e engineTasks) Overview(ctx context.Context) (engine.TaskOverview, error) {
	return fetch[engine.TaskOverview](ctx, e.Engine, request{what: "task counts", path: "/v1/tasks:count"})
}

// Recoveries returns what crash recovery did since the server started, the latest first.
func (e engineTasks) Recoveries(ctx context.Context) ([]engine.Recovery, error) {
	got, err := fetch[page[engine.Recovery]](ctx, e.Engine, request{what: "recoveries", path: "/v1/recoveries"})
	return got.Items, err
}

func (e engineTasks) Cancel(
	ctx context.Context, id perdure.TaskID, by, why string,
) (perdure.CancelReceipt, error) {
	return fetch[perdure.CancelReceipt](ctx, e.Engine, request{
		what: "cancel " + string(id), path: taskPath(id) + "/cancel", body: reasonBody{why}, actor: by,
	})
}

// Force is Tasks.Cancel without a grace period.
func (e engineTasks) Force(
	ctx context.Context, id perdure.TaskID, by, why string,
) (perdure.CancelReceipt, error) {
	return fetch[perdure.CancelReceipt](ctx, e.Engine, request{
		what: "force the end of " + string(id), path: taskPath(id) + "/cancel", body: cancelBody{why, true}, actor: by,
	})
}

// Resolve records an operator's resolution of a task whose outcome is unknown.
func (e engineTasks) Resolve(ctx context.Context, id perdure.TaskID, word engine.Resolution) error {
	_, err := e.call(ctx, request{
		what: "resolve " + string(id), path: taskPath(id) + "/resolve",
		body: resolutionBody{word.Answer, word.Result, word.Note}, actor: word.By,
	}, nil)
	return err
}

// Wait returns when the task has ended or awaits input. It survives outages of the server
// (Config.Outage).
func (e engineTasks) Wait(ctx context.Context, id perdure.TaskID) (task perdure.Task, err error) {
	err = e.poll(ctx, request{what: "wait for " + string(id), path: taskPath(id)}, &task, func(string) bool {
		return task.State.Terminal() || task.AwaitsInput()
	})
	return task, err
}
