package background

import (
	"context"
	_ "embed" // the text that the model reads
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const waitName = "wait_task"

// maxErrorText is the maximum length in characters of a task's error in a result, the same as of a
// summary (DL4).
const maxErrorText = 1000

//go:embed wait_task.md
var waitText string

// wait waits for several tasks at once (8.5).
type wait struct{ config Config }

// waitArgs are the arguments of wait_task (8.5).
type waitArgs struct {
	IDs  []string `json:"task_ids" minItems:"1" maxItems:"16" jsonschema:"The task_id or run_id of each task. Leave out tasks that you know have ended"`
	Mode string   `json:"mode" enum:"any,all" default:"any" jsonschema:"any: return as soon as one of them has ended or is waiting for input. all: return when each of them has ended or is waiting for input"`
	Wait *int     `json:"wait_seconds" jsonschema:"Maximum number of seconds to wait. 0 returns the current status at once. Default {default_wait}. More than {max_wait} is clamped to {max_wait}, not rejected; call again to wait longer"`
}

// waited is the result.
type waited struct {
	Message string           `json:"message"`
	EndedBy []perdure.TaskID `json:"ended_by"` // the tasks that ended the wait; empty: it timed out
	Tasks   []taskStatus     `json:"tasks"`    // in the order of task_ids, without duplicates
	Waited  *int             `json:"waited_seconds,omitempty"`
}

// taskStatus is the state of one task. It contains everything that the task's notification would,
// because the notification is no longer sent after this was read (DL5).
type taskStatus struct {
	ID           perdure.TaskID        `json:"task_id"`
	Run          perdure.RunID         `json:"run_id,omitempty"`
	Title        string                `json:"title,omitempty"`
	Tool         string                `json:"tool"`
	State        perdure.TaskState     `json:"state"`
	Detail       string                `json:"state_detail,omitempty"`
	InputRequest *perdure.InputRequest `json:"input_request,omitempty"`
	Summary      string                `json:"summary,omitempty"`
	Error        *perdure.TaskError    `json:"error,omitempty"`
	ResultPath   string                `json:"result_path,omitempty"`
	LogPath      string                `json:"log_path,omitempty"`
	Note         string                `json:"note,omitempty"`
}

func newWait(c Config) tool.Tool {
	yes := true
	return tool.New(tool.Spec{
		Name:        waitName,
		DisplayName: "Wait for Tasks",
		Narration:   tool.Narration{Started: "Waiting for tasks", Completed: "Waited for tasks[: {result.ended_by} ended]", Failed: "Could not wait for tasks"},
		Description: c.fill(waitText),
		Parameters:  []byte(c.fill(string(schemaOf[waitArgs]()))),
		Class:       perdure.Pure,
		SessionOnly: true,
		SoftBudget:  tool.Never, // it limits its own wait (LN5)
		Deadline:    c.deadline(),
		MaxWait:     c.MaxWait,
		NeedsEnv:    true,
		Hints:       tool.Hints{ReadOnly: &yes, Idempotent: &yes, CapabilityID: capability},
	}, wait{c}.run)
}

func (w wait) run(ctx context.Context, in waitArgs, env tool.Env) (tool.Result, error) {
	if env.Tasks == nil {
		return noTasks(waitName), nil
	}
	ids, refusal := known(ctx, env, in.IDs)
	if refusal != nil {
		return *refusal, nil
	}
	longest := w.config.clamp(in.Wait)
	tasks, err := env.Tasks.Wait(ctx, tool.WaitRequest{IDs: ids, All: in.Mode == "all", Timeout: longest})
	if err != nil {
		return noTask(ctx, strings.Join(ids, ", "), err), nil
	}
	return answerTo(in.Mode, longest, tasks), nil
}

// known returns the task ids to wait for, without duplicates. It reports all unknown ids before
// waiting for anything.
func known(ctx context.Context, env tool.Env, asked []string) (ids []string, refusal *tool.Result) {
	var missing []string
	for i, id := range asked {
		id = strings.TrimSpace(id)
		if id == "" {
			return nil, refuse(fmt.Sprintf("task_ids[%d] is blank. Give the task_id or run_id of each task.", i))
		}
		t, err := env.Tasks.Task(ctx, id)
		switch {
		case errors.Is(err, perdure.NotFound):
			missing = append(missing, id)
		case err != nil:
			r := noTask(ctx, id, err)
			return nil, &r
		case !slices.Contains(ids, string(t.ID)):
			ids = append(ids, string(t.ID))
		}
	}
	if missing != nil {
		return nil, refuse("task not found: " + strings.Join(missing, ", "))
	}
	return ids, nil
}

// answerTo reports the state of the tasks after a wait, and which of them ended it.
func answerTo(mode string, longest time.Duration, tasks []perdure.Task) tool.Result {
	answer := waited{EndedBy: []perdure.TaskID{}}
	var result tool.Result
	for _, t := range tasks {
		answer.Tasks = append(answer.Tasks, taskStatusOf(shown(t)))
		result = read(result, t)
		if t.State.Terminal() || t.AwaitsInput() {
			answer.EndedBy = append(answer.EndedBy, t.ID)
		}
	}
	n, seconds := len(answer.EndedBy), int(longest/time.Second)
	answer.Message = fmt.Sprintf("%d of %d task(s) ended or waiting for input.", n, len(tasks))
	if over := n == len(tasks) || mode != "all" && n > 0; !over {
		answer.EndedBy = []perdure.TaskID{}
		again := " Call again with wait_seconds>0 to wait."
		if seconds > 0 {
			answer.Waited = &seconds
			again = fmt.Sprintf(" Waited %ds. Call again to keep waiting.", seconds)
		}
		answer.Message += again
	}
	result.Value = answer
	return result
}

func taskStatusOf(t perdure.Task) taskStatus {
	s := taskStatus{
		ID: t.ID, Run: t.Run, Title: t.DisplayName, Tool: t.Tool, State: t.State, Detail: t.StateDetail, InputRequest: t.InputRequest,
		Summary: t.Summary, ResultPath: t.ResultPath, LogPath: t.LogPath,
	}
	if t.Error != nil {
		short := *t.Error
		short.Message = head(short.Message, maxErrorText)
		s.Error, s.Summary = &short, "" // the summary of a failure is its message
	}
	if t.State == perdure.TaskUnknown {
		s.Note = textUnknown
	}
	return s
}

// head returns the first limit characters of a text.
func head(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit]) + "…"
}
