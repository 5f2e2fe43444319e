package background

import (
	"context"
	_ "embed" // the text that the model reads
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const cancelName = "cancel_task"

//go:embed cancel_task.md
var cancelText string

// cancelArgs are the arguments of cancel_task (8.5).
type cancelArgs struct {
	ID     string `json:"task_id" minLength:"1" jsonschema:"The task_id or run_id"`
	Reason string `json:"reason,omitempty" maxLength:"512" jsonschema:"Why it should end, for the record"`
}

// canceled is the result: the receipt of RC2, and the state of the task.
type canceled struct {
	ID                     perdure.TaskID    `json:"task_id"`
	State                  perdure.TaskState `json:"state"`
	*perdure.CancelReceipt                   // nil if the task had already ended
	// The real result, if the task had ended or finished first.
	Summary    string             `json:"summary,omitempty"`
	ResultPath string             `json:"result_path,omitempty"`
	Error      *perdure.TaskError `json:"error,omitempty"`
	Message    string             `json:"message,omitempty"`
}

func newCancel() tool.Tool {
	no, yes := false, true
	return tool.New(tool.Spec{
		Name:        cancelName,
		DisplayName: "Cancel Task",
		Narration:   tool.Narration{Started: "Canceling the task {task_id}", Completed: "Canceled the task {task_id}", Failed: "Could not cancel the task {task_id}"},
		Description: strings.TrimSpace(cancelText),
		// The first request counts, and a second one gets the same answer (RC1).
		Class:         perdure.Idempotent,
		SessionOnly:   true,
		NeedsEnv:      true,
		HandlesDryRun: true,
		Hints:         tool.Hints{ReadOnly: &no, Destructive: &yes, Idempotent: &yes, CapabilityID: capability},
	}, cancelTask)
}

func cancelTask(ctx context.Context, in cancelArgs, env tool.Env) (tool.Result, error) {
	if env.Tasks == nil {
		return noTasks(cancelName), nil
	}
	t, err := env.Tasks.Task(ctx, in.ID)
	if err != nil {
		return noTask(ctx, in.ID, err), nil
	}
	if t.State.Terminal() {
		return read(tool.Success(canceledIn(t)), t), nil
	}
	if env.DryRun {
		answer := canceledIn(t)
		answer.Message = fmt.Sprintf("[dry-run] Would cancel task for '%s'.", t.Tool)
		return tool.Success(answer), nil
	}
	receipt, t, err := stop(ctx, env, t.ID, in.Reason)
	if err != nil {
		return noTask(ctx, in.ID, err), nil
	}
	answer := canceledIn(t)
	answer.CancelReceipt = receipt
	return read(tool.Success(answer), t), nil
}

// stop requests the cancel of a task. A nil receipt means that the task had already ended; it is
// returned with its real result.
func stop(ctx context.Context, env tool.Env, id perdure.TaskID, why string) (*perdure.CancelReceipt, perdure.Task, error) {
	receipt, t, err := env.Tasks.Cancel(ctx, string(id), why)
	if err != nil || !receipt.RequestedAt.IsZero() {
		return &receipt, t, err
	}
	if !t.State.Terminal() { // read before it ended
		t, err = env.Tasks.Task(ctx, string(id))
	}
	return nil, t, err
}

func canceledIn(t perdure.Task) canceled {
	t = shown(t)
	return canceled{ID: t.ID, State: t.State, Summary: t.Summary, ResultPath: t.ResultPath, Error: t.Error}
}
