package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// ofTool is the path of a tool.
type ofTool struct {
	Name string `path:"name" example:"get_current_time" doc:"The tool."`
}

// directCall is the body of a call outside any session.
type directCall struct {
	Args json.RawMessage `json:"args" doc:"The arguments, as described by the tool's input_schema."`
}

func (a toolHandlers) register() {
	read(a.API, operation{id: "list-tools", path: "/v1/tools", policy: reads, summary: "List tools, in the order of their registration"}, a.listTools)
	read(a.API, operation{
		id: "get-tool", path: "/v1/tools/{name}", policy: reads, summary: "Show a tool", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *ofTool) (*single[engine.Tool], error) {
		return singleOf(a.findTool(ctx, in.Name))
	})
	write(a.API, operation{
		id: "call-tool", path: "/v1/tools/{name}/call", policy: writes, class: takesTime, summary: "Call a pure or idempotent tool outside any session", errors: []int{http.StatusNotFound},
	}, body[directCall]{example: directCall{Args: json.RawMessage(`{}`)}}, a.callTool)
	a.payloads()
}

func (a toolHandlers) listTools(ctx context.Context, _ *struct{}) (*page[engine.Tool], error) {
	tools, err := a.cfg.Engine.Tools().List(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(tools, len(tools), nil), nil
}

func (a toolHandlers) findTool(ctx context.Context, name string) (engine.Tool, error) {
	tools, err := a.cfg.Engine.Tools().List(ctx)
	if err != nil {
		return engine.Tool{}, err
	}
	for _, t := range tools {
		if t.Name == name {
			return t, nil
		}
	}
	return engine.Tool{}, fmt.Errorf("tool %s: %w", name, perdure.NotFound)
}

func (a toolHandlers) callTool(ctx context.Context, in *ofTool, body directCall) (*single[perdure.ToolResult], error) {
	if len(body.Args) == 0 {
		return nil, invalid("/args", "required; {} stands for no arguments")
	}
	return singleOf(a.cfg.Engine.Tools().Call(ctx, in.Name, body.Args))
}

// The types below appear only in the OpenAPI document. They describe the result of a call that left
// the foreground.

// BackgroundPayload is the result of a call that continues in the background (LN6).
type BackgroundPayload struct {
	Type           string         `json:"type" enum:"background"`
	Tool           string         `json:"tool"`
	TimeoutSeconds *float64       `json:"timeout_seconds,omitempty" doc:"The soft budget that the call exceeded."`
	Reason         string         `json:"reason,omitempty" doc:"routed: the call was routed to the background by policy."`
	BackgroundID   perdure.TaskID `json:"background_id" doc:"The task_id."`
	TaskID         perdure.TaskID `json:"task_id"`
	Message        string         `json:"message"`
	DeadlineAt     time.Time      `json:"deadline_at,omitzero"`
}

// RunPayload is the result of spawn_background for a background run (BG8).
type RunPayload struct {
	Type               string         `json:"type" enum:"background"`
	RunID              perdure.RunID  `json:"run_id"`
	ResourceID         perdure.RunID  `json:"resource_id" doc:"The run_id."`
	TaskID             perdure.TaskID `json:"task_id"`
	BackgroundID       perdure.TaskID `json:"background_id" doc:"The task_id."`
	Title              string         `json:"title"`
	Tool               string         `json:"tool"`
	Status             string         `json:"status" enum:"running,queued,awaiting_input"`
	QueuePosition      *int           `json:"queue_position,omitempty" minimum:"1" doc:"While it is queued."`
	SignalOnCompletion bool           `json:"signal_on_completion"`
	ArtifactDir        string         `json:"artifact_dir"`
	LogPath            string         `json:"log_path"`
	ResultPath         string         `json:"result_path"`
}

// SchedulePayload is the result of spawn_background for a schedule (BG9).
type SchedulePayload struct {
	Created            bool            `json:"created" doc:"true"`
	Status             string          `json:"status" enum:"scheduled"`
	Title              string          `json:"title"`
	Tool               string          `json:"tool"`
	SignalOnCompletion bool            `json:"signal_on_completion"`
	ScheduleID         string          `json:"schedule_id"`
	ScheduleType       string          `json:"schedule_type"`
	CronExpression     *string         `json:"cron_expression"`
	ScheduledAt        *time.Time      `json:"scheduled_at"`
	Timezone           string          `json:"timezone"`
	NextTriggerAt      *time.Time      `json:"next_trigger_at"`
	Enabled            bool            `json:"enabled"`
	TaskID             *perdure.TaskID `json:"task_id"`
}

// CheckPayload is the result of check_background_tool for one task (BG19).
type CheckPayload struct {
	Type          string                 `json:"type" enum:"mcp_tool_output"`
	Message       string                 `json:"message"`
	SessionID     perdure.SessionID      `json:"session_id"`
	Status        string                 `json:"status" enum:"completed,still_running,cancelled,error"`
	Tool          string                 `json:"tool"`
	BackgroundID  perdure.TaskID         `json:"background_id" doc:"The task_id."`
	Output        any                    `json:"output,omitempty" doc:"The result of the task, shortened if it is long."`
	WaitedSeconds *int                   `json:"waited_seconds,omitempty" doc:"With still_running, after a wait."`
	QueuePosition *int                   `json:"queue_position,omitempty" minimum:"1" doc:"With still_running, while it is queued."`
	InputRequest  *perdure.InputRequest  `json:"input_request,omitempty" doc:"With still_running, while it waits for an answer."`
	Receipt       *perdure.CancelReceipt `json:"receipt,omitempty" doc:"Of a cancel."`
}

// ListPayload is the result of check_background_tool with list (8.4).
type ListPayload struct {
	Type      string            `json:"type" enum:"mcp_tool_output"`
	Message   string            `json:"message"`
	SessionID perdure.SessionID `json:"session_id"`
	Tasks     []ListedTask      `json:"tasks" nullable:"false" doc:"The unfinished tasks, followed by finished tasks whose results have not been read."`
}

// ListedTask is one task of a ListPayload.
type ListedTask struct {
	BackgroundID  perdure.TaskID `json:"background_id" doc:"The task_id."`
	Tool          string         `json:"tool"`
	AgeSeconds    float64        `json:"age_seconds" doc:"Since the task started, or was created."`
	ParkedSeconds *float64       `json:"parked_seconds,omitempty" doc:"Since the call left the foreground."`
	Done          bool           `json:"done"`
	Status        string         `json:"status" enum:"completed,still_running,cancelled,error"`
}

// RefusalPayload is the result of check_background_tool without an id, or with an id that matches
// no task (8.4).
type RefusalPayload struct {
	Type      string            `json:"type" enum:"error"`
	Message   string            `json:"message"`
	SessionID perdure.SessionID `json:"session_id"`
}

// payloads adds the unions to the OpenAPI document, and refers to them in the result of a tool.
func (a *API) payloads() {
	schemas := a.schemas().Map()
	schemas["StatusPayload"] = &huma.Schema{
		Description: "The result of check_background_tool.",
		OneOf:       []*huma.Schema{schema[CheckPayload](a), schema[ListPayload](a), schema[RefusalPayload](a)},
	}
	schemas["ToolPayload"] = &huma.Schema{
		Description: "The result of a call that concerns background work: exactly one of these.",
		OneOf: []*huma.Schema{
			schema[BackgroundPayload](a), schema[RunPayload](a), schema[SchedulePayload](a), {Ref: "#/components/schemas/StatusPayload"},
		},
	}
	schemas["ToolResult"].Properties["result"] = &huma.Schema{
		Description: "The result that the model reads: any JSON; for background work a ToolPayload.",
		AnyOf:       []*huma.Schema{{Ref: "#/components/schemas/ToolPayload"}, {}},
	}
}
