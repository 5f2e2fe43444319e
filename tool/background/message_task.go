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

// Why a task takes no message (TK12).
const (
	textSettled  = "already settled"
	textAnswered = "already answered"
)

// messageArgs are the arguments of message_task (8.5).
type messageArgs struct {
	ID        string            `json:"task_id" minLength:"1" jsonschema:"The task_id or run_id"`
	Text      string            `json:"text,omitempty" minLength:"1" jsonschema:"What to say, as text. Give exactly one of text and data"`
	Data      json.RawMessage   `json:"data,omitempty" jsonschema:"What to say, as any JSON but null. An answer has the form that the question's expected asks for"`
	InReplyTo perdure.RequestID `json:"in_reply_to,omitempty" jsonschema:"The id of the task's input_request that this answers. Without it the question stays open"`
}

// sent is the answer.
type sent struct {
	ID      perdure.TaskMessageID `json:"message_id,omitempty"` // absent in a dry run
	Task    perdure.TaskID        `json:"task_id"`
	Message string                `json:"message,omitempty"`
}

func newMessage() tool.Tool {
	no, yes := false, true
	return tool.New(tool.Spec{
		Name:        messageName,
		DisplayName: "Message Task",
		Description: strings.TrimSpace(messageText),
		Class:       perdure.Idempotent, // the same call is the same message
		Inside:      true,
		Trusted:     true,
		NeedsEnv:    true,
		DryAware:    true,
		Hints:       tool.Hints{ReadOnly: &no, Idempotent: &yes, CapabilityID: capability},
	}, messageTask)
}

func messageTask(ctx context.Context, in messageArgs, env tool.Env) (tool.Result, error) {
	if env.Mail == nil || env.Tasks == nil {
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
	id, err := env.Mail.Send(ctx, string(t.ID), perdure.TaskMessage{Text: in.Text, Data: in.Data, InReplyTo: in.InReplyTo})
	if err != nil {
		return in.unsent(ctx, env, t, err), nil
	}
	answer := sent{ID: id, Task: t.ID}
	if question := t.InputRequest; question != nil && in.InReplyTo == "" {
		answer.Message = fmt.Sprintf("The question %s stays open: answer it with in_reply_to.", question.ID)
	}
	return tool.Success(answer), nil
}

// refusedBy says why a task takes no such message; nil: the port decides. What a message that was sent would change is
// not looked at, so that the same call is answered the same when it runs again.
func (in messageArgs) refusedBy(t perdure.Task) *tool.Result {
	asked := t.InputRequest
	switch {
	case asked != nil && asked.ID == in.InReplyTo && asked.Kind == "approval": // AP9
		return refuse("An approval is for a person to give, never for the agent that asks for it. Wait, or go on with something else.")
	case t.Kind == perdure.KindSubagent && in.InReplyTo == "" && t.Links.ChildSession == "": // its session hears other messages (TK14)
		return refuse("The subagent has not begun yet, so it cannot hear anything. Try again later.")
	}
	return nil
}

// unsent is the answer to an error of the port.
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
		return tool.Failf("The answer is not what the task asked for, and the question stays open: %s", wordsOf(err, perdure.Invalid))
	}
	return noTask(ctx, in.ID, err)
}
