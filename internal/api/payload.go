package api

import (
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
)

// The types below are only in the document: they say what the result of a call that left the foreground looks like.

// BackgroundPayload is the result of a call that goes on in the background (LN6).
type BackgroundPayload struct {
	Type           string         `json:"type" enum:"background"`
	Tool           string         `json:"tool"`
	TimeoutSeconds *float64       `json:"timeout_seconds,omitempty" doc:"The budget that it used up."`
	Reason         string         `json:"reason,omitempty" doc:"routed: it left by policy."`
	BackgroundID   perdure.TaskID `json:"background_id" doc:"The task_id."`
	TaskID         perdure.TaskID `json:"task_id"`
	Message        string         `json:"message"`
	DeadlineAt     time.Time      `json:"deadline_at,omitzero"`
}

// RunPayload is the result of spawn_background for a run (BG8).
type RunPayload struct {
	Type               string         `json:"type" enum:"background"`
	RunID              perdure.RunID  `json:"run_id"`
	ResourceID         perdure.RunID  `json:"resource_id" doc:"The run_id."`
	TaskID             perdure.TaskID `json:"task_id"`
	BackgroundID       perdure.TaskID `json:"background_id" doc:"The task_id."`
	Title              string         `json:"title"`
	Tool               string         `json:"tool"`
	Status             string         `json:"status" enum:"running,queued,awaiting_input"`
	QueuePosition      *int           `json:"queue_position,omitempty"`
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

// StatusPayload is the result of the tools that check, wait for, cancel and list background work (BG19).
type StatusPayload struct {
	Type          string            `json:"type" enum:"mcp_tool_output"`
	Message       string            `json:"message"`
	SessionID     perdure.SessionID `json:"session_id"`
	Status        string            `json:"status" enum:"completed,still_running,cancelled,error"`
	Tool          string            `json:"tool"`
	BackgroundID  perdure.TaskID    `json:"background_id"`
	Output        any               `json:"output,omitempty"`
	WaitedSeconds *float64          `json:"waited_seconds,omitempty"`
}

// payloads adds the union to the document and says in the result of a tool that it may be one of them.
func (a *API) payloads() {
	union := &huma.Schema{Description: "What the result of a call is that has to do with work in the background."}
	for _, t := range []reflect.Type{
		reflect.TypeFor[BackgroundPayload](), reflect.TypeFor[RunPayload](), reflect.TypeFor[SchedulePayload](), reflect.TypeFor[StatusPayload](),
	} {
		ref := a.schemas().Schema(t, true, "")
		union.OneOf = append(union.OneOf, ref)
	}
	schemas := a.schemas().Map()
	schemas["ToolPayload"] = union
	schemas["ToolResult"].Properties["result"] = &huma.Schema{
		Description: "What the model reads: any JSON, for work in the background a ToolPayload.",
		AnyOf:       []*huma.Schema{{Ref: "#/components/schemas/ToolPayload"}, {}},
	}
}
