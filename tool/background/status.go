package background

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// status is the state of a background run in the terms of check_background_tool (BG19).
type status string

const (
	statusCompleted status = "completed"
	statusRunning   status = "still_running"
	statusCancelled status = "cancelled"
	statusError     status = "error"
)

// The types of a result.
const (
	typeOutput = "mcp_tool_output"
	typeError  = "error"
)

// textUnknown is the text for an unknown outcome.
const textUnknown = "Outcome unknown. Do not repeat it before checking."

// report is a status payload (BG19).
type report struct {
	Type          string                 `json:"type"`
	Message       string                 `json:"message"`
	Session       perdure.SessionID      `json:"session_id"`
	Status        status                 `json:"status"`
	Tool          string                 `json:"tool"`
	ID            perdure.TaskID         `json:"background_id"`
	Output        any                    `json:"output,omitempty"`
	Waited        *int                   `json:"waited_seconds,omitempty"`
	QueuePosition int                    `json:"queue_position,omitempty"` // from 1
	InputRequest  *perdure.InputRequest  `json:"input_request,omitempty"`
	Receipt       *perdure.CancelReceipt `json:"receipt,omitempty"`
}

// fault is a result that reports a faulty call.
type fault struct {
	Type    string            `json:"type"`
	Message string            `json:"message"`
	Session perdure.SessionID `json:"session_id"`
}

func refusal(env tool.Env, message string) tool.Result {
	return tool.Success(fault{Type: typeError, Message: message, Session: env.Call.Session})
}

func statusOf(env tool.Env, t perdure.Task, s status) report {
	return report{Type: typeOutput, Session: env.Call.Session, Status: s, Tool: t.Tool, ID: t.ID}
}

// statusIn returns the status of a task in a state.
func statusIn(state perdure.TaskState) status {
	switch {
	case state.Live():
		return statusRunning
	case state == perdure.TaskSucceeded:
		return statusCompleted
	case state == perdure.TaskCanceled:
		return statusCancelled
	}
	return statusError
}

// ended is the result for a task that has ended. It can be read any number of times (BG20).
func ended(ctx context.Context, env tool.Env, t perdure.Task) tool.Result {
	s := statusOf(env, t, statusIn(t.State))
	switch t.State {
	case perdure.TaskSucceeded:
		s.Message = fmt.Sprintf("'%s' completed.", t.Tool)
	case perdure.TaskCanceled:
		s.Message = fmt.Sprintf("Background task for '%s' was cancelled.", t.Tool)
		return read(tool.Success(s), t)
	case perdure.TaskUnknown:
		s.Message = textUnknown
		return read(tool.Success(s), t)
	default:
		s.Message = failure(t)
	}
	output, err := outputOf(ctx, env, t)
	if err != nil {
		return failed(ctx, err)
	}
	s.Output = output
	return read(tool.Success(s), t)
}

// failure is the message for a failed task: it shows the text of a tool's own error, but never of
// an internal one.
func failure(t perdure.Task) string {
	if t.Error == nil {
		return fmt.Sprintf("'%s' completed with an error.", t.Tool)
	}
	text := t.Error.Message
	if internal(t.Error) {
		text = perdure.GenericToolError
	}
	return fmt.Sprintf("'%s' failed: %s", t.Tool, text)
}
