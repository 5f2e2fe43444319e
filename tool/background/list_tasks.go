package background

import (
	"context"
	_ "embed" // the text that the model reads
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const listName = "list_tasks"

//go:embed list_tasks.md
var listText string

// listArgs are the arguments of list_tasks (8.5).
type listArgs struct {
	State  perdure.TaskState `json:"state,omitempty" enum:"queued,running,awaiting_input,succeeded,failed,canceled,unknown" jsonschema:"Only tasks in this state. Absent: tasks that have not ended, and ended tasks whose results you have not received yet"`
	Kind   perdure.TaskKind  `json:"kind,omitempty" enum:"background_tool,monitor,subagent,external_agent" jsonschema:"Only tasks of this kind"`
	Lane   perdure.Lane      `json:"lane,omitempty" enum:"foreground,background" jsonschema:"Only tasks in this lane"`
	Limit  int               `json:"limit" default:"50" min:"1" max:"200" jsonschema:"Maximum number of tasks. Fewer are returned if the answer would be too long: continue with next_cursor"`
	Cursor string            `json:"cursor,omitempty" jsonschema:"The next_cursor of the previous answer"`
}

// taskList is a page of tasks in the order of their creation.
type taskList struct {
	Tasks []record       `json:"tasks"`
	Next  perdure.TaskID `json:"next_cursor,omitempty"` // absent: no more
}

// record is a task without its spec and output.
type record struct {
	perdure.Task
	Spec *perdure.TaskSpec `json:"spec,omitempty"` // always absent, like Tail: both hide the fields of Task
	Tail *string           `json:"tail,omitempty"`
}

// listBytes is the maximum size of the records in an answer, so that it is not cut as a result.
const listBytes = tool.ResultLimit - 512

func newList() tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        listName,
		DisplayName: "List Tasks",
		Narration:   tool.Narration{Started: "Listing the tasks", Completed: "Listed the tasks[: {result.tasks} shown]", Failed: "Could not list the tasks"},
		Description: strings.TrimSpace(listText),
		Class:       perdure.Pure,
		SessionOnly: true,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: capability},
	}, listTasks)
}

func listTasks(ctx context.Context, in listArgs, env tool.Env) (tool.Result, error) {
	if env.Tasks == nil {
		return noTasks(listName), nil
	}
	tasks, err := env.Tasks.List(ctx)
	if err != nil {
		return failed(ctx, err), nil
	}
	if in.Cursor != "" {
		last := slices.IndexFunc(tasks, func(t perdure.Task) bool { return string(t.ID) == in.Cursor })
		if last < 0 {
			return tool.Failf("Unknown cursor: %s. Call again without a cursor.", in.Cursor), nil
		}
		tasks = tasks[last+1:]
	}
	page, size := taskList{Tasks: []record{}}, 0
	for _, t := range tasks {
		if !in.wants(t) {
			continue
		}
		found, n := record{Task: shown(t)}, len(page.Tasks)
		size += sizeOf(found) + len(",")
		if n == in.Limit || n > 0 && size > listBytes {
			page.Next = page.Tasks[n-1].ID
			break
		}
		page.Tasks = append(page.Tasks, found)
	}
	return tool.Success(page), nil
}

// wants reports whether a task matches the arguments.
func (in listArgs) wants(t perdure.Task) bool {
	if in.Kind != "" && t.Kind != in.Kind || in.Lane != "" && t.Lane != in.Lane {
		return false
	}
	if in.State == "" {
		return t.State.Live() || undeliveredTasks(t)
	}
	return t.State == in.State
}
