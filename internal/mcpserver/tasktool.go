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

func isTaskTool(name string) bool { return slices.Contains(taskToolNames, name) }

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

// taskTools registers them.
func (s *Server) taskTools() {
	closed := false
	only := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "task_status", Title: "Task status", Annotations: only, Description: "Says how far a call is that goes on as a task."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in ofTask) (*mcp.CallToolResult, shownTask, error) {
			made, err := s.own(ctx, peerOf(ctx), in.TaskID)
			if err != nil {
				return nil, shownTask{}, err
			}
			return nil, s.shown(peerOf(ctx), made), nil
		})
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "task_list", Title: "Tasks", Annotations: only, Description: "Lists your tasks, the newest first: at most 50."},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ noArgs) (*mcp.CallToolResult, map[string][]shownTask, error) {
			made, _, err := s.ownTasks(ctx, peerOf(ctx), "")
			list := []shownTask{}
			for _, m := range made {
				list = append(list, s.shown(peerOf(ctx), m))
			}
			return nil, map[string][]shownTask{"tasks": list}, err
		})
	mcp.AddTool(s.mcp, &mcp.Tool{
		Name: "task_cancel", Title: "Cancel a task", Description: "Asks for the end of a call that goes on as a task.",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true, OpenWorldHint: &closed},
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in ofTask) (*mcp.CallToolResult, shownTask, error) {
		p := peerOf(ctx)
		made, err := s.own(ctx, p, in.TaskID)
		if err == nil && !made.Task.State.Terminal() {
			if _, err = s.cfg.Engine.CancelTask(ctx, made.Task.ID, p.ID, "task_cancel"); err == nil {
				made, err = s.find(ctx, made.key)
			}
		}
		if err != nil {
			return nil, shownTask{}, err
		}
		return nil, s.shown(p, made), nil
	})
	s.mcp.AddTool(&mcp.Tool{
		Name: "task_result", Title: "Task result", Annotations: only,
		Description: "Gives the result of a call that went on as a task, or waits for it up to wait_s seconds.",
		InputSchema: rawSchema(`{"type":"object","properties":{"task_id":{"type":"string"},"wait_s":{"type":"number","minimum":0,"maximum":50}},"required":["task_id"]}`),
	}, unreachable)
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
