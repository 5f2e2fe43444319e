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

// taskToolNames are the tools with which a client without Tasks follows a running call (M9).
var taskToolNames = []string{"task_status", "task_result", "task_cancel", "task_list"}

// isTaskTool reports whether name is a task tool of this server. An exposed tool with the same name
// takes its place.
func (s *Server) isTaskTool(name string) bool {
	_, marked := s.tools[name]
	return !marked && slices.Contains(taskToolNames, name)
}

// ofTask is the arguments of the task tools.
type ofTask struct {
	TaskID string  `json:"task_id" jsonschema:"The task_id from the response to the call."`
	WaitS  float64 `json:"wait_s,omitempty" jsonschema:"How many seconds to wait for the task to end; at most 50."`
}

type noArgs struct{}

// shownTask is a task as shown by the task tools.
type shownTask struct {
	TaskID  string `json:"task_id"`
	Tool    string `json:"tool"`
	State   string `json:"state"`
	Message string `json:"status_message,omitempty"`
	Created string `json:"created_at"`
}

// taskTools registers the task tools whose names are not taken by exposed tools.
func (s *Server) taskTools() {
	closed := false
	only := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
	addTaskTool(s, &mcp.Tool{Name: "task_status", Title: "Task status", Annotations: only, Description: "Shows the progress of a call that continues as a task."},
		func(ctx context.Context, p peer, in ofTask) (shownTask, error) {
			made, err := s.findOwn(ctx, p, in.TaskID)
			if err != nil {
				return shownTask{}, err
			}
			return s.shown(p, made), nil
		})
	addTaskTool(s, &mcp.Tool{Name: "task_list", Title: "Tasks", Annotations: only, Description: "Lists your latest tasks, newest first, at most 50."},
		func(ctx context.Context, p peer, _ noArgs) (map[string][]shownTask, error) {
			made, _, err := s.ownTasks(ctx, p, "")
			list := []shownTask{}
			for _, m := range made {
				list = append(list, s.shown(p, m))
			}
			return map[string][]shownTask{"tasks": list}, err
		})
	addTaskTool(s, &mcp.Tool{
		Name: "task_cancel", Title: "Cancel a task", Description: "Cancels a call that continues as a task.",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true, OpenWorldHint: &closed},
	}, func(ctx context.Context, p peer, in ofTask) (shownTask, error) {
		made, err := s.findOwn(ctx, p, in.TaskID)
		if err == nil && !made.Task.State.Terminal() {
			if _, err = s.cfg.Engine.Tasks().Cancel(ctx, made.Task.ID, p.ID, "task_cancel"); err == nil {
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
			Description: "Returns the result of a call that continues as a task, waiting up to wait_s seconds for it.",
			InputSchema: rawSchema(`{"type":"object","properties":{"task_id":{"type":"string"},"wait_s":{"type":"number","minimum":0,"maximum":50}},"required":["task_id"]}`),
		}, unreachable)
	}
	for _, name := range taskToolNames {
		if !s.isTaskTool(name) {
			s.cfg.Log.Warn("task tool replaced by an exposed tool with the same name", "tool", name)
		}
	}
}

// addTaskTool registers a task tool, unless an exposed tool has its name.
func addTaskTool[In, Out any](s *Server, t *mcp.Tool, do func(context.Context, peer, In) (Out, error)) {
	if !s.isTaskTool(t.Name) {
		return
	}
	mcp.AddTool(s.mcp, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := do(ctx, peerOf(ctx), in)
		return nil, out, err
	})
}

// followInstructions tells the model how to follow a call that continues as a task.
func (s *Server) followInstructions() string {
	var ways []string
	for _, way := range []struct{ tool, does string }{
		{"task_result", "task_result with this task_id and wait_s to wait for the result"},
		{"task_status", "task_status to see its progress"},
		{"task_cancel", "task_cancel to cancel it"},
	} {
		if s.isTaskTool(way.tool) {
			ways = append(ways, way.does)
		}
	}
	if len(ways) == 0 {
		return "A person can follow it with: " + s.cfg.Command + " task list."
	}
	return "Use " + strings.Join(ways, ", ") + "."
}

func (s *Server) shown(p peer, made trackedCall) shownTask {
	return shownTask{
		TaskID: taskID(made.ID), Tool: strings.TrimSpace(made.Task.Tool), State: string(made.Task.State), Message: s.state(p, made).StatusMessage, Created: formatTime(made.Task.CreatedAt),
	}
}

// taskResultTool answers the tool task_result: with the call's own result, once it has ended.
func (s *Server) taskResultTool(ctx context.Context, p peer, params *mcp.CallToolParamsRaw) (mcp.Result, error) {
	var in ofTask
	if err := perdure.DecodeJSON(orEmpty(params.Arguments), &in); err != nil {
		return refusal(fmt.Sprintf("Invalid arguments for task_result: %v", err)), nil
	}
	made, err := s.findOwn(ctx, p, in.TaskID)
	if err != nil {
		// The error is a result for the model.
		return refusal("No such task: " + in.TaskID), nil //nolint:nilerr
	}
	made.progress = params.GetProgressToken()
	wait := min(time.Duration(in.WaitS*float64(time.Second)), maxBudget)
	result, err := s.waitFor(ctx, p, s.toolOf(*made.Task), made, max(wait, time.Millisecond))
	p.reply.addCall(made.key)
	return result, err
}
