package background

import (
	"context"
	_ "embed" // the texts that the model reads
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const checkName = "check_background_tool"

//go:embed check_background_tool.md
var checkText string

//go:embed prompt.md
var promptText string

// check shows, waits for and cancels background runs (8.4).
type check struct{ config Config }

// checkArgs are the arguments of 8.4.
type checkArgs struct {
	List   bool   `json:"list" default:"false" jsonschema:"If true, list the background work of this session and ignore the other arguments. Recovers every background_id, for instance after the conversation was compacted"`
	ID     string `json:"background_id,omitempty" jsonschema:"The background_id or run_id from the tool result. Required unless list is true"`
	Wait   *int   `json:"wait_seconds" jsonschema:"Seconds to wait for the work to end. 0 returns the current status at once. Default {default_wait}. More than {max_wait} is clamped to {max_wait}, not rejected; call again to wait longer"`
	Cancel bool   `json:"cancel" default:"false" jsonschema:"If true, cancel the work. Takes precedence over waiting: wait_seconds is ignored. If the work finishes first, its result is returned instead"`
}

func newCheck(c Config) tool.Tool {
	no, yes := false, true
	spec := tool.Spec{
		Name:          checkName,
		DisplayName:   "Check Background Tool",
		Narration:     tool.Narration{Started: "Checking background work[: {background_id}]", Completed: "Checked background work[: {background_id}]", Failed: "Could not check background work[: {background_id}]"},
		Description:   c.fill(checkText),
		Parameters:    []byte(c.fill(string(schemaOf[checkArgs]()))),
		Class:         perdure.Idempotent, // it reads, and a second cancel changes nothing (RC1)
		SessionOnly:   true,
		SoftBudget:    tool.Never, // it limits its own wait (LN5)
		Deadline:      c.deadline(),
		MaxWait:       c.MaxWait,
		NeedsEnv:      true,
		HandlesDryRun: true,
		Prompt:        c.fill(promptText),
		Hints: tool.Hints{
			ReadOnly: &no, Idempotent: &yes, CapabilityID: capability,
			Metadata: map[string]any{"requires_auth": true}, // for hosts that offer tools to anonymous users
		},
	}
	return tool.New(spec, check{c}.run)
}

func (c check) run(ctx context.Context, in checkArgs, env tool.Env) (tool.Result, error) {
	if env.Tasks == nil {
		return noTasks(checkName), nil
	}
	if in.List {
		return list(ctx, env), nil
	}
	id := strings.TrimSpace(in.ID)
	if id == "" {
		return refusal(env, "background_id is required (or pass list=true to enumerate active tasks)."), nil
	}
	t, err := env.Tasks.Task(ctx, id)
	switch {
	case err != nil:
		return unknownTask(ctx, env, id, err), nil
	case t.State.Terminal():
		return ended(ctx, env, t), nil
	case in.Cancel:
		return cancel(ctx, env, t), nil
	}
	return c.await(ctx, env, t, in.Wait), nil
}

// await waits for the end of a live task, unless the task itself waits for input.
func (c check) await(ctx context.Context, env tool.Env, t perdure.Task, seconds *int) tool.Result {
	wait := c.config.clamp(seconds)
	if wait > 0 && t.State != perdure.TaskAwaitingInput {
		found, err := env.Tasks.Wait(ctx, tool.WaitRequest{IDs: []string{string(t.ID)}, Timeout: wait})
		if err != nil {
			return unknownTask(ctx, env, string(t.ID), err)
		}
		if len(found) > 0 {
			t = found[0]
		}
	}
	if t.State.Terminal() {
		return ended(ctx, env, t)
	}
	return pending(ctx, env, t, wait)
}

// pending is the result for a task that has not ended after a wait.
func pending(ctx context.Context, env tool.Env, t perdure.Task, wait time.Duration) tool.Result {
	s := statusOf(env, t, statusRunning)
	seconds := int(wait / time.Second)
	switch {
	case t.State == perdure.TaskAwaitingInput:
		s.InputRequest = t.InputRequest
		s.Message = fmt.Sprintf("'%s' is waiting for input and continues when it is answered.", t.Tool)
		return tool.Success(s)
	case wait == 0:
		s.Message = fmt.Sprintf("'%s' is still running. Call again with wait_seconds>0 to wait, or cancel=true to abort.", t.Tool)
	default:
		s.Message = fmt.Sprintf("'%s' still running after waiting %ds. Call again to keep waiting, or cancel=true to abort.", t.Tool, seconds)
		s.Waited = &seconds
	}
	if t.State != perdure.TaskQueued {
		return tool.Success(s)
	}
	tasks, err := env.Tasks.List(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	s.QueuePosition = position(tasks, t.ID)
	s.Message = fmt.Sprintf("'%s' is queued at position %d and has not started. Call again to keep waiting, or cancel=true to abort.",
		t.Tool, s.QueuePosition)
	return tool.Success(s)
}

// position returns the position in the session's queue, from 1. Queued tasks start in the order of
// their creation (BG18).
func position(tasks []perdure.Task, id perdure.TaskID) int {
	n := 0
	for _, t := range tasks {
		if t.State == perdure.TaskQueued {
			n++
		}
		if t.ID == id {
			break
		}
	}
	return max(n, 1)
}

// cancel cancels a live task. If the task finishes first, its result is returned instead.
func cancel(ctx context.Context, env tool.Env, t perdure.Task) tool.Result {
	s := statusOf(env, t, statusCancelled)
	if env.DryRun {
		s.Message = fmt.Sprintf("[dry-run] Would cancel background task for '%s'.", t.Tool)
		return tool.Success(s)
	}
	receipt, now, err := stop(ctx, env, t.ID, "canceled with "+checkName)
	if err != nil {
		return unknownTask(ctx, env, string(t.ID), err)
	}
	switch {
	case !now.State.Terminal(): // a running task must not be reported as cancelled (BG20)
		s.Status = statusRunning
		s.Message = fmt.Sprintf("The cancel of '%s' was requested, but it has not stopped yet. Call again to wait for its end.", t.Tool)
	case receipt == nil, now.State != perdure.TaskCanceled:
		return ended(ctx, env, now)
	default:
		s.Message = fmt.Sprintf("Cancelled background task for '%s'.", t.Tool)
	}
	s.Receipt = receipt
	return read(tool.Success(s), now)
}

// unknownTask is the result of an error of the registry. A foreign id counts as unknown (ER2).
func unknownTask(ctx context.Context, env tool.Env, id string, err error) tool.Result {
	if errors.Is(err, perdure.NotFound) {
		return refusal(env, fmt.Sprintf("No background task with id %s.", id))
	}
	return failed(ctx, err)
}
