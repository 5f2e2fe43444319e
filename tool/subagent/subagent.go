// Package subagent is the set of tools with which a model works with other agents: spawn_subagent
// gives a piece of work to one, and with message_parent a subagent sends a message to its parent.
//
// It may import the root and tool. The one thing to know: a subagent is a session of its own, so it
// outlives the call that started it; the call only waits.
package subagent

import (
	"context"
	_ "embed" // the texts that the model reads
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const (
	spawnName   = "spawn_subagent"
	messageName = "message_parent"
)

//go:embed spawn_subagent.md
var spawnText string

//go:embed message_parent.md
var messageText string

// Tools returns the tools, in the order in which they are listed to the model. message_parent is
// shown only to subagents.
func Tools() []tool.Tool {
	no, yes := false, true
	return []tool.Tool{
		tool.New(tool.Spec{
			Name:          spawnName,
			DisplayName:   "Spawn Subagent",
			Narration:     tool.Narration{Started: "Starting the subagent {name}", Completed: "Ran the subagent {name}", Failed: "Could not run the subagent {name}"},
			Description:   strings.TrimSpace(spawnText),
			Class:         perdure.Idempotent, // the same call is the same subagent (SA2)
			SoftBudget:    tool.Never,         // SA8
			NeedsEnv:      true,
			HandlesDryRun: true,
			Hints:         tool.Hints{ReadOnly: &no, Idempotent: &no, LongRunning: &yes, CapabilityID: tool.AgentsCapability},
		}, spawn),
		tool.New(tool.Spec{
			Name:          messageName,
			DisplayName:   "Message Parent",
			Narration:     tool.Narration{Started: "Sending a message to the parent session", Completed: "Sent a message to the parent session", Failed: "Could not send a message to the parent session"},
			Description:   strings.TrimSpace(messageText),
			Class:         perdure.Idempotent, // the same call is the same message
			SessionOnly:   true,
			Trusted:       true,
			NeedsEnv:      true,
			HandlesDryRun: true,
			Hints:         tool.Hints{ReadOnly: &no, Destructive: &no, Idempotent: &no, CapabilityID: tool.ParentCapability},
		}, messageParent),
	}
}

// spawnArgs are the arguments of spawn_subagent (SA1).
type spawnArgs struct {
	Name       string          `json:"name" minLength:"1" maxLength:"64" jsonschema:"A short name for this piece of work, for people"`
	Task       string          `json:"task" minLength:"1" jsonschema:"The assignment of the subagent. It sees nothing of this conversation: include everything that it needs to know, and say what its answer should contain"`
	Agent      string          `json:"agent,omitempty" jsonschema:"The name of an agent, if some are named above. Default: an agent like yourself"`
	Background bool            `json:"background,omitempty" jsonschema:"true: continue at once, and be notified when it has ended. Default: wait for its answer"`
	Schema     json.RawMessage `json:"result_schema,omitempty" jsonschema:"JSON Schema that its answer must match. Default: any text"`
}

// started is the result for a subagent that works in the background (LN6).
type started struct {
	Type       string            `json:"type"`
	Tool       string            `json:"tool"`
	Name       string            `json:"name"`
	Task       perdure.TaskID    `json:"task_id"`
	Background perdure.TaskID    `json:"background_id"`
	Session    perdure.SessionID `json:"child_session_id"`
	Status     perdure.TaskState `json:"status"`
	Message    string            `json:"message"`
}

func spawn(ctx context.Context, in spawnArgs, env tool.Env) (tool.Result, error) {
	if env.Agents == nil {
		return tool.Missing("Subagent spawn store", spawnName+" requires an engine."), nil
	}
	name := oneLine(in.Name)
	if name == "" {
		return tool.Error("No subagent was started because name contains no printable characters. Use a short name."), nil
	}
	if env.DryRun { // AP13
		return tool.Success("[dry-run] Would start the subagent '" + name + "'."), nil
	}
	if string(in.Schema) == "null" { // models write null for an omitted argument
		in.Schema = nil
	}
	task, err := env.Agents.Start(ctx, tool.SubagentRequest{Name: name, Prompt: in.Task, Agent: in.Agent, Schema: in.Schema, Background: in.Background})
	var refused *tool.Denied
	switch {
	case errors.As(err, &refused):
		return refused.Result, nil
	case err != nil:
		return ended(ctx, err), nil
	case in.Background:
		return tool.Success(started{
			Type: "background", Tool: spawnName, Name: name, Task: task.ID, Background: task.ID, Session: task.Links.ChildSession, Status: task.State,
			Message: "The subagent is working in the background. You are notified when it has ended; use wait_task to wait for it, or cancel_task to cancel it.",
		}), nil
	}
	task, result, err := env.Agents.Await(ctx, task.ID)
	if err != nil {
		return ended(ctx, err), nil
	}
	return resultOf(task, result), nil
}

// oneLine returns a name for display, without characters that would break lines or control a
// terminal.
func oneLine(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}

// resultOf returns the result of the subagent for the model, and marks the task as read (DL5).
func resultOf(task perdure.Task, result []byte) tool.Result {
	var r tool.Result
	switch {
	case task.State == perdure.TaskSucceeded:
		r = tool.Success(json.RawMessage(result))
	case task.State == perdure.TaskCanceled:
		r = tool.Error("The subagent was canceled.")
		r.ErrorKind = perdure.ErrorCanceled
	case task.Error != nil:
		r = tool.Error(task.Error.Message)
		r.ErrorKind = task.Error.Kind
	default:
		r = tool.Failf("The subagent ended as %s.", task.State)
	}
	r.ReadTasks = append(r.ReadTasks, task.ID)
	return r
}

// ended is the result of an error of a port. If the call itself has ended, it says so.
func ended(ctx context.Context, err error) tool.Result {
	cause := perdure.CauseOf(ctx)
	if cause == "" {
		return tool.Internal(err)
	}
	return tool.Internal(cause) // the runtime words it
}

// messageArgs are the arguments of message_parent.
type messageArgs struct {
	Text string `json:"text" minLength:"1" jsonschema:"The message"`
}

func messageParent(ctx context.Context, in messageArgs, env tool.Env) (tool.Result, error) {
	if env.Agents == nil {
		return tool.Missing("Subagent spawn store", messageName+" requires an engine."), nil
	}
	if env.DryRun { // AP13
		return tool.Success("[dry-run] Would send a message to the parent."), nil
	}
	err := env.Agents.SendToParent(ctx, in.Text)
	switch {
	case errors.Is(err, perdure.Conflict):
		return tool.Error("The message was not sent: this session is not a subagent, or its work is over."), nil
	case err != nil:
		return ended(ctx, err), nil
	}
	return tool.Success(map[string]bool{"sent": true}), nil
}
