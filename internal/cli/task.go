package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
)

type taskCommand struct {
	List     taskList      `cmd:"" aliases:"ls" help:"List tasks, newest first."`
	Show     taskShow      `cmd:"" help:"Show a task."`
	Log      taskLog       `cmd:"" aliases:"logs" help:"Print the output of a task, byte for byte."`
	Watch    taskWatch     `cmd:"" help:"Show the progress of a task until it ends."`
	Process  taskProcess   `cmd:"" help:"Show the processes that run on a machine for a task."`
	Attach   attachCommand `cmd:"" help:"Follow the output of a task and send it input. Leaving does not end the task."`
	Input    taskInput     `cmd:"" help:"Answer the question of a task, or show the question."`
	Message  taskMessage   `cmd:"" help:"Send a message to a task."`
	Detach   taskDetach    `cmd:"" help:"Detach a running call to the background, as a task."`
	Delivery taskDelivery  `cmd:"" help:"Set or show how the result of a task is delivered."`
	Drain    taskDrain     `cmd:"" help:"Drain the results of tasks with manual delivery, each once."`
	Cancel   taskCancel    `cmd:"" help:"Cancel a task and everything it started, or all tasks of a session."`
	Resolve  taskResolve   `cmd:"" help:"Record the outcome of an unknown task or call."`
}

type taskList struct {
	listFlags
	Session string   `help:"Only tasks of this session." placeholder:"ID"`
	State   []string `help:"Only tasks in these states: queued, running, awaiting_input, succeeded, failed, canceled, unknown." placeholder:"STATE"`
	Kind    []string `help:"Only tasks of these kinds: background_tool, monitor, subagent, external_agent." placeholder:"KIND"`
}

// taskKinds lists the kinds of task.
func taskKinds() []perdure.TaskKind {
	return []perdure.TaskKind{perdure.KindBackgroundTool, perdure.KindMonitor, perdure.KindSubagent,
		perdure.KindExternalAgent}
}

// tasks describes how tasks are listed.
func tasks(now clock) outputList[perdure.Task] {
	return outputList[perdure.Task]{
		noun: "tasks",
		head: []string{"TASK", "STATE", "TOOL", "PROGRESS", "ATTEMPT", "AGE", "TITLE"},
		name: func(t perdure.Task) string { return string(t.ID) },
		row: func(t perdure.Task) []cell {
			_, c := stateMark(t.State)
			return []cell{
				{string(t.ID), bold}, {string(t.State), c}, {text: t.Tool}, {text: t.Progress.String()},
				{text: fmt.Sprint(t.Attempt)}, {text: now.age(t.CreatedAt)}, {text: titleOf(t)},
			}
		},
		wide: func(t perdure.Task) []field {
			return []field{{"SESSION", cell{text: string(t.Session)}}, {"KIND", cell{text: string(t.Kind)}},
				{"CLASS", cell{text: string(t.Class)}}, {"FINISHED", cell{text: ago(t.FinishedAt, now)}},
				{"SUMMARY", cell{text: t.Summary}}}
		},
	}
}

// Run lists tasks.
func (c *taskList) Run(ctx context.Context, a *app) error {
	states := map[perdure.TaskState]bool{}
	for _, s := range c.State {
		if !perdure.TaskState(s).Valid() {
			return usageError(fmt.Sprintf("unknown task state %q", s),
				"the states are queued, running, awaiting_input, succeeded, failed, canceled and unknown")
		}
		states[perdure.TaskState(s)] = true
	}
	kinds := map[perdure.TaskKind]bool{}
	for _, k := range c.Kind {
		if !slices.Contains(taskKinds(), perdure.TaskKind(k)) {
			return usageError(fmt.Sprintf("unknown task kind %q", k),
				"the kinds are background_tool, monitor, subagent and external_agent")
		}
		kinds[perdure.TaskKind(k)] = true
	}
	return a.read(ctx, func(eng Engine) error {
		var of perdure.SessionID
		if c.Session != "" {
			s, err := a.session(ctx, eng, c.Session)
			if err != nil {
				return err
			}
			of = s.ID
		}
		all, err := eng.Tasks().List(ctx, of)
		if err != nil {
			return fmt.Errorf("list tasks: %w", err)
		}
		var chosen []perdure.Task
		for _, t := range all {
			if (len(states) == 0 || states[t.State]) && (len(kinds) == 0 || kinds[t.Kind]) {
				if len(t.Spec.Arguments) > 0 {
					t.Spec.Arguments = redact.JSON(t.Spec.Arguments) // RD6
				}
				chosen = append(chosen, t)
			}
		}
		if chosen, err = newestWithin(c.listFlags, a.now().Time, chosen, func(t perdure.Task) time.Time { return t.CreatedAt }); err != nil {
			return err
		}
		err = tasks(a.now()).print(ctx, a, c.outputFlags, chosen)
		if err == nil && c.choice().IsTable() &&
			slices.ContainsFunc(chosen, func(t perdure.Task) bool { return t.State.Live() }) && unattended(ctx, eng) {
			a.printNoServer()
		}
		return err
	})
}

type taskShow struct {
	Task string `arg:"" help:"Id, unique id prefix, or title."`
	outputFlags
}

// Run shows one task.
func (c *taskShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		if t, err = eng.Tasks().Get(ctx, t.ID); err != nil { // in a list its arguments are masked
			return fmt.Errorf("read the task: %w", err)
		}
		return c.show(ctx, a, outputObject{string(t.ID), t, func() { taskText{a}.printTask(t, a.now()) }})
	})
}

// printTask prints a task on a terminal.
func (a taskText) printTask(t perdure.Task, now clock) {
	_, c := stateMark(t.State)
	a.fields(
		field{"task", cell{string(t.ID), bold}},
		field{"title", cell{text: t.DisplayName}},
		field{"state", cell{string(t.State), c}},
		field{"narration", cell{text: t.Narration}},
		field{"detail", cell{text: detailOf(t)}},
		field{"error", cell{taskError(t), red}},
		field{"what to do", cell{text: a.todo(t)}},
		field{"tool", cell{text: t.Tool + " (" + string(t.Class) + ")"}},
		field{"arguments", cell{text: string(t.Spec.Arguments)}},
		field{"progress", cell{text: t.Progress.String()}},
		field{"summary", cell{text: t.Summary}},
		field{"session", cell{text: string(t.Session)}},
		field{"run", cell{text: string(t.Run)}},
		field{"attempt", cell{text: fmt.Sprintf("%d, executions %d", t.Attempt, t.Executions)}},
		field{"heartbeat", cell{text: heartbeat(t, now)}},
		field{"delivery", cell{text: fmt.Sprintf("%s, wake %s, delivered: %s", t.Delivery, t.Wake, t.Delivered)}},
		field{"log", cell{text: a.logLine(t)}},
		field{"result", cell{text: cmp.Or(t.ResultPath, t.Result)}},
		field{"metadata", cell{text: metadata(t.Metadata)}},
		field{"artifacts", cell{text: artifacts(t.Artifacts)}},
		field{"canceled", cell{text: cancelLine(t, now)}},
		field{"created", cell{text: moment(t.CreatedAt, now)}},
		field{"started", cell{text: moment(t.StartedAt, now)}},
		field{"finished", cell{text: moment(t.FinishedAt, now)}},
		field{"deadline", cell{text: deadline(t, now)}},
	)
}

// todo says what the user can do about a task; it is empty for ended tasks with a known outcome.
func (a taskText) todo(t perdure.Task) string {
	switch {
	case t.State == perdure.TaskUnknown:
		return "find out whether it happened, then record it:\n" + a.resolveLine(t.ID)
	case t.State == perdure.TaskAwaitingInput && t.InputRequest != nil:
		return "it asks: " + t.InputRequest.Prompt + "\n" + a.inputLine(t)
	case t.State.Live() && t.CancelRequested() && !t.ForceRequested():
		return program + " task cancel --force " + a.storeFlags() + string(t.ID) + "  kills it without waiting"
	case t.State.Live() && t.CancelRequested():
		return ""
	case t.State.Live():
		return program + " task cancel " + a.storeFlags() + string(t.ID) + "  cancels it"
	}
	return ""
}

// resolveLine returns the command that resolves the unknown outcome of a task, with its
// alternatives.
func (a taskText) resolveLine(id perdure.TaskID) string {
	return program + " task resolve " + a.storeFlags() + quote(string(id)) + " --happened | --did-not-happen | --run-again"
}

// resolveCallLine is resolveLine for a call without a task. Such a call cannot run again, since its
// turn has continued without it.
func (a taskText) resolveCallLine(key perdure.CallKey) string {
	return program + " task resolve " + a.storeFlags() + quote(key.String()) + " --happened | --did-not-happen"
}

// detailOf returns what a task says about its state. A running task that has said nothing is
// running: the detail of its start tells less than its state.
func detailOf(t perdure.Task) string {
	if t.State == perdure.TaskRunning && t.StateDetail == "Starting" {
		return ""
	}
	return t.StateDetail
}

func taskError(t perdure.Task) string {
	if t.Error == nil {
		return ""
	}
	return string(t.Error.Kind) + because(t.Error.Message)
}

func heartbeat(t perdure.Task, now clock) string {
	if !t.State.Live() {
		return ""
	}
	return ago(t.HeartbeatAt, now)
}

func deadline(t perdure.Task, now clock) string {
	switch {
	case t.DeadlineAt.IsZero() || !t.State.Live():
		return ""
	case t.DeadlineAt.Before(now.Time):
		return moment(t.DeadlineAt, now)
	}
	return t.DeadlineAt.Format(time.RFC3339) + "  (in " + span(t.DeadlineAt.Sub(now.Time)) + ")"
}

func (a taskText) logLine(t perdure.Task) string {
	return strings.TrimSpace(t.LogPath + "  " + count(t.LogBytes, "byte") + "  (" + program + " task log " + a.storeFlags() +
		string(t.ID) + ")")
}

func cancelLine(t perdure.Task, now clock) string {
	if !t.CancelRequested() {
		return ""
	}
	line := moment(t.CancelRequestedAt, now) + " by " + t.CancelBy + because(t.CancelWhy)
	if t.ForceRequested() {
		line += "\nwithout a grace period " + moment(t.ForceRequestedAt, now)
	}
	return line
}

func artifacts(all []perdure.Artifact) string {
	var lines []string
	for _, a := range all {
		lines = append(lines, strings.Join(strings.Fields(a.Name+" "+a.Path+" "+a.URL), " "))
	}
	return strings.Join(lines, "\n")
}

// titleOf returns the title of a task. Without a name it is the arguments, with secrets masked
// (RD6).
func titleOf(t perdure.Task) string {
	if t.DisplayName != "" {
		return t.DisplayName
	}
	return clip(redact.Document(t.Spec.Arguments), cellChars)
}

// stateMark returns the symbol and color of a state.
func stateMark(s perdure.TaskState) (string, color) {
	switch s {
	case perdure.TaskSucceeded:
		return "✓", green
	case perdure.TaskFailed:
		return "✗", red
	case perdure.TaskUnknown:
		return "?", red
	case perdure.TaskCanceled:
		return "■", yellow
	case perdure.TaskAwaitingInput:
		return "!", yellow
	}
	return "▸", ""
}
