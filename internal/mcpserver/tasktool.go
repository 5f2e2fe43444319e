package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// The tools by which a client without Tasks follows a call that goes on (M9).
var taskToolNames = []string{"task_status", "task_result", "task_cancel", "task_list"}

// isTaskTool reports a task tool of ours. One that is marked keeps its name: ours of that name is not there.
func (s *Server) isTaskTool(name string) bool {
	_, marked := s.tools[name]
	return !marked && slices.Contains(taskToolNames, name)
}

// ofTask is the arguments of the task tools.
type ofTask struct {
	TaskID string  `json:"task_id" jsonschema:"The task_id that the call answered with."`
	WaitS  float64 `json:"wait_s,omitempty" jsonschema:"How many seconds to wait for the end; at most 50."`
}

type noArgs struct{}

// shownTask is a task as the task tools show it.
type shownTask struct {
	TaskID  string `json:"task_id"`
	Tool    string `json:"tool"`
	State   string `json:"state"`
	Message string `json:"status_message,omitempty"`
	Created string `json:"created_at"`
}

// taskTools registers them, but for those whose name is another tool's.
func (s *Server) taskTools() {
	closed := false
	only := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
	addTaskTool(s, &mcp.Tool{Name: "task_status", Title: "Task status", Annotations: only, Description: "Says how far a call is that goes on as a task."},
		func(ctx context.Context, p peer, in ofTask) (shownTask, error) {
			made, err := s.own(ctx, p, in.TaskID)
			if err != nil {
				return shownTask{}, err
			}
			return s.shown(p, made), nil
		})
	addTaskTool(s, &mcp.Tool{Name: "task_list", Title: "Tasks", Annotations: only, Description: "Lists your tasks, the newest first: at most 50."},
		func(ctx context.Context, p peer, _ noArgs) (map[string][]shownTask, error) {
			made, _, err := s.ownTasks(ctx, p, "")
			list := []shownTask{}
			for _, m := range made {
				list = append(list, s.shown(p, m))
			}
			return map[string][]shownTask{"tasks": list}, err
		})
	addTaskTool(s, &mcp.Tool{
		Name: "task_cancel", Title: "Cancel a task", Description: "Asks for the end of a call that goes on as a task.",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true, OpenWorldHint: &closed},
	}, func(ctx context.Context, p peer, in ofTask) (shownTask, error) {
		made, err := s.own(ctx, p, in.TaskID)
		if err == nil && !made.Task.State.Terminal() {
			if _, err = s.cfg.Engine.CancelTask(ctx, made.Task.ID, p.ID, "task_cancel"); err == nil {
				made, err = s.find(ctx, made.key)
			}
		}
		if err != nil {
			return shownTask{}, err
		}
		return s.shown(p, made), nil
	})
	if s.isTaskTool("task_result") {
		s.mcp.AddTool(&mcp.Tool{
			Name: "task_result", Title: "Task result", Annotations: only,
			Description: "Gives the result of a call that went on as a task, or waits for it up to wait_s seconds.",
			InputSchema: rawSchema(`{"type":"object","properties":{"task_id":{"type":"string"},"wait_s":{"type":"number","minimum":0,"maximum":50}},"required":["task_id"]}`),
		}, unreachable)
	}
	for _, name := range taskToolNames {
		if !s.isTaskTool(name) {
			s.cfg.Log.Warn("a tool has the name of one by which clients without Tasks follow their calls, which is not there therefore", "tool", name)
		}
	}
}

// addTaskTool registers a task tool, unless its name is another tool's.
func addTaskTool[In, Out any](s *Server, t *mcp.Tool, do func(context.Context, peer, In) (Out, error)) {
	if !s.isTaskTool(t.Name) {
		return
	}
	mcp.AddTool(s.mcp, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := do(ctx, peerOf(ctx), in)
		return nil, out, err
	})
}

// howToFollow says what there is to do about a call that goes on as a task.
func (s *Server) howToFollow() string {
	var ways []string
	for _, way := range []struct{ tool, does string }{
		{"task_result", "task_result with this task_id and wait_s to wait for it"},
		{"task_status", "task_status to see how far it is"},
		{"task_cancel", "task_cancel to stop it"},
	} {
		if s.isTaskTool(way.tool) {
			ways = append(ways, way.does)
		}
	}
	if len(ways) == 0 {
		return "A person sees it: " + s.cfg.Command + " task list."
	}
	return "Ask " + strings.Join(ways, ", ") + "."
}

func (s *Server) shown(p peer, made ofCall) shownTask {
	return shownTask{
		TaskID: taskID(made.ID), Tool: strings.TrimSpace(made.Task.Tool), State: string(made.Task.State), Message: s.state(p, made).StatusMessage, Created: moment(made.Task.CreatedAt),
	}
}

// toldResult answers task_result: with the call's own result, once there is one.
func (s *Server) toldResult(ctx context.Context, p peer, params *mcp.CallToolParamsRaw) (mcp.Result, error) {
	var in ofTask
	if err := perdure.DecodeJSON(orEmpty(params.Arguments), &in); err != nil {
		return refusal(fmt.Sprintf("Invalid arguments for task_result: %v", err)), nil
	}
	made, err := s.own(ctx, p, in.TaskID)
	if err != nil {
		return refusal("There is no such task: " + in.TaskID), nil //nolint:nilerr // the model reads it
	}
	made.progress = params.GetProgressToken()
	wait := min(time.Duration(in.WaitS*float64(time.Second)), maxBudget)
	result, err := s.waitFor(ctx, p, s.toolOf(*made.Task), made, max(wait, time.Millisecond))
	p.reply.note(made.key)
	return result, err
}
