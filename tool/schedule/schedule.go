// Package schedule is the set of tools with which a model plans ahead: create_schedule,
// list_schedules and cancel_schedule.
//
// It may import the root and tool. The one thing to know: a schedule belongs to the session and
// outlives the turn, the process and the model that created it. So hosts only offer these tools,
// and no session has them by default (TL30).
package schedule

import (
	"context"
	_ "embed" // the texts that the model reads
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// Capability is the capability of these tools.
const Capability = "session_schedule"

const (
	createName = "create_schedule"
	listName   = "list_schedules"
	cancelName = "cancel_schedule"
)

var (
	//go:embed create_schedule.md
	createText string
	//go:embed list_schedules.md
	listText string
	//go:embed cancel_schedule.md
	cancelText string
)

// Tools returns the tools, in the order in which they are listed to the model.
func Tools() []tool.Tool {
	no, yes := false, true
	return []tool.Tool{
		tool.New(tool.Spec{
			Name: createName, DisplayName: "Create Schedule", Description: strings.TrimSpace(createText),
			Narration: tool.Narration{Started: "Creating the schedule {title}", Completed: "Created the schedule {title}", Failed: "Could not create the schedule {title}"},
			Class:     perdure.Idempotent, // the same call is the same schedule
			Trusted:   true,
			NeedsEnv:  true, HandlesDryRun: true,
			Hints: tool.Hints{ReadOnly: &no, Idempotent: &no, CapabilityID: Capability},
		}, create),
		tool.New(tool.Spec{
			Name: listName, DisplayName: "List Schedules", Description: strings.TrimSpace(listText), Class: perdure.Pure, NeedsEnv: true, SessionOnly: true,
			Narration: tool.Narration{Started: "Listing the schedules", Completed: "Listed the schedules[: {result.schedules} found]", Failed: "Could not list the schedules"},
			Hints:     tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: Capability},
		}, list),
		tool.New(tool.Spec{
			Name: cancelName, DisplayName: "Cancel Schedule", Description: strings.TrimSpace(cancelText),
			Narration:   tool.Narration{Started: "Canceling the schedule {schedule_id}", Completed: "Canceled the schedule {schedule_id}", Failed: "Could not cancel the schedule {schedule_id}"},
			Class:       perdure.Idempotent, // the first request counts
			SessionOnly: true,
			Trusted:     true,
			NeedsEnv:    true, HandlesDryRun: true,
			Hints: tool.Hints{ReadOnly: &no, Destructive: &yes, Idempotent: &yes, CapabilityID: Capability},
		}, cancel),
	}
}

// createArgs are the arguments of create_schedule.
type createArgs struct {
	Title   string          `json:"title" minLength:"1" maxLength:"200" jsonschema:"Short label for people"`
	Cron    string          `json:"cron_expression,omitempty" jsonschema:"Five-field cron expression for recurring times, such as 30 7 * * 1-5"`
	At      string          `json:"scheduled_at,omitempty" jsonschema:"RFC 3339 time for a single fire, such as 2026-04-16T15:30:00Z"`
	Zone    string          `json:"timezone,omitempty" jsonschema:"IANA time zone of the cron expression, such as Europe/Berlin. Default: UTC"`
	Message string          `json:"message,omitempty" maxLength:"16384" jsonschema:"The message that you receive then"`
	Tool    string          `json:"tool,omitempty" jsonschema:"Name of a tool to run in the background then"`
	Args    json.RawMessage `json:"args,omitempty" jsonschema:"Arguments for that tool, an object"`
	Signal  *bool           `json:"signal_on_completion,omitempty" jsonschema:"For a tool: whether you are notified when a run has ended. Default: true"`
	Deliver string          `json:"deliver,omitempty" enum:"all,changes" jsonschema:"For a tool: with changes, a result equal to the previous one is not delivered. Default: all"`
	Missed  string          `json:"missed,omitempty" enum:"one,skip,all" jsonschema:"What happens to times missed while the engine was stopped: one fire for all of them, none, or one for each. Default: one"`
	Overlap string          `json:"overlap,omitempty" enum:"skip,allow,queue,replace" jsonschema:"What happens if the previous fire is still running. Default: skip"`
}

// shown is a schedule in results.
type shown struct {
	Title   string `json:"title"`
	Message string `json:"message,omitempty"`
	Tool    string `json:"tool,omitempty"`
	tool.ScheduleView
	Paused string `json:"paused_why,omitempty"`
}

func show(s perdure.Schedule) shown {
	return shown{Title: s.Title, Message: s.Action.Message, Tool: s.Action.Tool, ScheduleView: tool.ViewSchedule(s), Paused: s.Paused}
}

// made is the result of create_schedule.
type made struct {
	Created bool `json:"created"`
	shown
}

func create(ctx context.Context, in createArgs, env tool.Env) (tool.Result, error) {
	if env.Schedules == nil {
		return missing(createName), nil
	}
	s := perdure.Schedule{
		Title: strings.TrimSpace(in.Title), Cron: strings.TrimSpace(in.Cron), Zone: strings.TrimSpace(in.Zone),
		Missed: perdure.MissedPolicy(in.Missed), Overlap: perdure.OverlapPolicy(in.Overlap),
		Action: perdure.ScheduleAction{Message: strings.TrimSpace(in.Message), Tool: strings.TrimSpace(in.Tool), Deliver: perdure.DeliverPolicy(in.Deliver)},
	}
	if in.At = strings.TrimSpace(in.At); in.At != "" && s.At.UnmarshalText([]byte(in.At)) != nil {
		return tool.Error("scheduled_at must be RFC3339"), nil
	}
	if s.Action.Tool != "" {
		s.Action.Signal = in.Signal == nil || *in.Signal
		if s.Action.Args = in.Args; len(in.Args) == 0 {
			s.Action.Args = json.RawMessage("{}")
		}
		if s.Action.Args[0] != '{' {
			return tool.Error("args must be an object"), nil
		}
	} else if in.Signal != nil || len(in.Args) > 0 {
		return tool.Error("args and signal_on_completion require a tool: name one, or omit them"), nil
	}
	if env.DryRun { // AP13
		return tool.Success("[dry-run] Would create the schedule '" + s.Title + "'."), nil
	}
	done, err := env.Schedules.CreateSchedule(ctx, tool.ScheduleRequest{Schedule: s})
	if refused, ok := tool.ScheduleRefusal(err); ok {
		return refused, nil
	}
	return tool.Success(made{Created: true, shown: show(done)}), err
}

// listed is the result of list_schedules.
type listed struct {
	Now       time.Time `json:"now"`
	Schedules []shown   `json:"schedules"`
}

func list(ctx context.Context, _ struct{}, env tool.Env) (tool.Result, error) {
	if env.Schedules == nil {
		return missing(listName), nil
	}
	all, err := env.Schedules.Schedules(ctx)
	answer := listed{Now: env.Clock().UTC().Truncate(time.Second), Schedules: []shown{}}
	for _, s := range all {
		answer.Schedules = append(answer.Schedules, show(s))
	}
	return tool.Success(answer), err
}

// cancelArgs are the arguments of cancel_schedule.
type cancelArgs struct {
	ID     string `json:"schedule_id" minLength:"1" jsonschema:"The schedule_id"`
	Reason string `json:"reason,omitempty" maxLength:"512" jsonschema:"Why it should end, for the record"`
}

// canceled is the result of cancel_schedule.
type canceled struct {
	Canceled bool `json:"canceled"`
	shown
}

func cancel(ctx context.Context, in cancelArgs, env tool.Env) (tool.Result, error) {
	if env.Schedules == nil {
		return missing(cancelName), nil
	}
	if env.DryRun {
		return tool.Success("[dry-run] Would cancel the schedule '" + in.ID + "'."), nil
	}
	ended, err := env.Schedules.CancelSchedule(ctx, perdure.ScheduleID(in.ID), in.Reason)
	if errors.Is(err, perdure.NotFound) { // a foreign id counts as unknown (SC22)
		return tool.Error("Schedule not found: " + in.ID), nil
	}
	return tool.Success(canceled{Canceled: true, shown: show(ended)}), err
}

func missing(name string) tool.Result {
	return tool.Missing("Schedule store", name+" requires session schedules.")
}
