package background

import (
	"bytes"
	"context"
	_ "embed" // the text that the model reads
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const messageName = "message_task"

//go:embed message_task.md
var messageText string

// The reasons why a task accepts no message (TK12).
const (
	textSettled  = "already settled"
	textAnswered = "already answered"
)

// messageArgs are the arguments of message_task (8.5).
type messageArgs struct {
	ID        string            `json:"task_id" minLength:"1" jsonschema:"The task_id or run_id"`
	Text      string            `json:"text,omitempty" minLength:"1" jsonschema:"The message as text. Give exactly one of text and data"`
	Data      json.RawMessage   `json:"data,omitempty" jsonschema:"The message as any JSON except null. An answer must match the question's expected schema"`
	InReplyTo perdure.RequestID `json:"in_reply_to,omitempty" jsonschema:"The id of the task's input_request that this message answers. Without it the question stays open"`
}

// sent is the result.
type sent struct {
	ID      perdure.TaskMessageID `json:"message_id,omitempty"` // absent in a dry run
	Task    perdure.TaskID        `json:"task_id"`
	Message string                `json:"message,omitempty"`
}

func newMessage() tool.Tool {
	no := false
	return tool.New(tool.Spec{
		Name:          messageName,
		DisplayName:   "Message Task",
		Narration:     tool.Narration{Started: "Sending a message to the task {task_id}", Completed: "Sent a message to the task {task_id}", Failed: "Could not send a message to the task {task_id}"},
		Description:   strings.TrimSpace(messageText),
		Class:         perdure.Idempotent, // the same call sends the same message
		SessionOnly:   true,
		Trusted:       true,
		NeedsEnv:      true,
		HandlesDryRun: true,
		Hints:         tool.Hints{ReadOnly: &no, Destructive: &no, Idempotent: &no, CapabilityID: capability},
	}, messageTask)
}

func messageTask(ctx context.Context, in messageArgs, env tool.Env) (tool.Result, error) {
	if env.TaskMessenger == nil || env.Tasks == nil {
		return noTasks(messageName), nil
	}
	if bytes.Equal(bytes.TrimSpace(in.Data), []byte("null")) {
		in.Data = nil
	}
	if (in.Text == "") == (len(in.Data) == 0) {
		return tool.Failf("%s needs exactly one of text and data.", messageName), nil
	}
	t, err := env.Tasks.Task(ctx, in.ID)
	if err != nil {
		return noTask(ctx, in.ID, err), nil
	}
	if refusal := in.refusedBy(t); refusal != nil {
		return *refusal, nil
	}
	if env.DryRun {
		if t.State.Terminal() {
			return tool.Error(textSettled), nil
		}
		return tool.Success(sent{Task: t.ID, Message: fmt.Sprintf("[dry-run] Would send a message to the task for '%s'.", t.Tool)}), nil
	}
	id, err := env.TaskMessenger.Send(ctx, string(t.ID), perdure.TaskMessage{Text: in.Text, Data: in.Data, InReplyTo: in.InReplyTo})
	if err != nil {
		return in.unsent(ctx, env, t, err), nil
	}
	answer := sent{ID: id, Task: t.ID}
	if question := t.InputRequest; question != nil && in.InReplyTo == "" {
		answer.Message = fmt.Sprintf("The question %s stays open: answer it with in_reply_to.", question.ID)
	}
	return tool.Success(answer), nil
}

// refusedBy returns why a task accepts no such message; nil: the port decides. It does not depend
// on anything that the message itself changes, so that a repeated call gets the same answer.
func (in messageArgs) refusedBy(t perdure.Task) *tool.Result {
	asked := t.InputRequest
	switch {
	case asked != nil && asked.ID == in.InReplyTo && asked.Kind == "approval": // AP9
		return refuse("Only a person can give an approval, never the agent that requested it. Wait, or continue with other work.")
	case t.Kind == perdure.KindSubagent && in.InReplyTo == "" && t.Links.ChildSession == "":
		// Its session could not receive the message yet (TK14).
		return refuse("The subagent has not started yet and cannot receive messages. Try again later.")
	}
	return nil
}

// unsent is the result of an error of the port.
func (in messageArgs) unsent(ctx context.Context, env tool.Env, t perdure.Task, err error) tool.Result {
	switch {
	case errors.Is(err, perdure.Conflict) && in.InReplyTo != "":
		now, again := env.Tasks.Task(ctx, string(t.ID))
		if again == nil && !now.State.Terminal() {
			return tool.Error(textAnswered)
		}
		return tool.Error(textSettled)
	case errors.Is(err, perdure.Conflict):
		return tool.Error(textSettled)
	case errors.Is(err, perdure.Invalid):
		return tool.Failf("The answer does not match what the task asked for, so the question stays open: %s", describeWords(err, perdure.Invalid))
	}
	return noTask(ctx, in.ID, err)
}
