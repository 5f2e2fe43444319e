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
	List     taskList      `cmd:"" help:"List tasks in the order of their creation."`
	Show     taskShow      `cmd:"" help:"Show a task."`
	Log      taskLog       `cmd:"" help:"Print what a task wrote, byte for byte."`
	Watch    taskWatch     `cmd:"" help:"Show how a task goes on, until it has ended."`
	Attach   attachCommand `cmd:"" help:"Show what a task writes and send it what is typed. Leaving it never ends it."`
	Input    taskInput     `cmd:"" help:"Answer the question of a task, or show it."`
	Message  taskMessage   `cmd:"" help:"Hand a message to a task."`
	Detach   taskDetach    `cmd:"" help:"Let a call that runs go on in the background, as a task."`
	Delivery taskDelivery  `cmd:"" help:"Say how the end of a task comes home, or show it."`
	Drain    taskDrain     `cmd:"" help:"Hand over the results of a session that do not come home by themselves, each once."`
	Cancel   taskCancel    `cmd:"" help:"End a task, and everything it started; or all of a session."`
	Resolve  taskResolve   `cmd:"" help:"Say what became of a task or call whose outcome is unknown."`
}

type taskList struct {
	output
	Session string   `help:"Only those of this session." placeholder:"ID"`
	State   []string `help:"Only those in these states: queued, running, awaiting_input, succeeded, failed, canceled, unknown." placeholder:"STATE"`
	Kind    []string `help:"Only those of these kinds: background_tool, monitor, subagent, external_agent." placeholder:"KIND"`
}

// taskKinds are the kinds of task.
func taskKinds() []perdure.TaskKind {
	return []perdure.TaskKind{perdure.KindBackgroundTool, perdure.KindMonitor, perdure.KindSubagent, perdure.KindExternalAgent}
}

// tasks is how tasks are listed.
func tasks(now clock) listing[perdure.Task] {
	return listing[perdure.Task]{
		noun: "tasks",
		head: []string{"TASK", "STATE", "TOOL", "PROGRESS", "ATTEMPT", "AGE", "TITLE"},
		name: func(t perdure.Task) string { return string(t.ID) },
		row: func(t perdure.Task) []cell {
			_, c := stateMark(t.State)
			return []cell{
				{string(t.ID), bold}, {string(t.State), c}, {text: t.Tool}, {text: progress(t.Progress)},
				{text: fmt.Sprint(t.Attempt)}, {text: now.age(t.CreatedAt)}, {text: titleOf(t)},
			}
		},
	}
}

// Run lists tasks.
func (c *taskList) Run(ctx context.Context, a *app) error {
	states := map[perdure.TaskState]bool{}
	for _, s := range c.State {
		if !perdure.TaskState(s).Valid() {
			return misuse(fmt.Sprintf("%q is no state of a task", s), "queued, running, awaiting_input, succeeded, failed, canceled and unknown are")
		}
		states[perdure.TaskState(s)] = true
	}
	kinds := map[perdure.TaskKind]bool{}
	for _, k := range c.Kind {
		if !slices.Contains(taskKinds(), perdure.TaskKind(k)) {
			return misuse(fmt.Sprintf("%q is no kind of task", k), "background_tool, monitor, subagent and external_agent are")
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
		all, err := eng.Tasks(ctx, of)
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
		err = tasks(a.now()).print(ctx, a, c.output, chosen)
		if err == nil && c.choice().ForPeople() && slices.ContainsFunc(chosen, func(t perdure.Task) bool { return t.State.Live() }) && unattended(ctx, eng) {
			a.sayWaits()
		}
		return err
	})
}

type taskShow struct {
	Task string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	output
}

// Run shows one task.
func (c *taskShow) Run(ctx context.Context, a *app) error {
	return a.read(ctx, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		if t, err = eng.Task(ctx, t.ID); err != nil { // in a list its arguments are redacted
			return fmt.Errorf("read the task: %w", err)
		}
		return c.show(ctx, a, shown{string(t.ID), t, func() { a.tellTask(t, a.now()) }})
	})
}

// tellTask prints a task for people.
func (a *app) tellTask(t perdure.Task, now clock) {
	_, c := stateMark(t.State)
	a.fields(
		field{"task", cell{string(t.ID), bold}},
		field{"title", cell{text: t.DisplayName}},
		field{"state", cell{string(t.State), c}},
		field{"detail", cell{text: t.StateDetail}},
		field{"error", cell{taskError(t), red}},
		field{"what to do", cell{text: a.todo(t)}},
		field{"tool", cell{text: t.Tool + " (" + string(t.Class) + ")"}},
		field{"arguments", cell{text: string(t.Spec.Arguments)}},
		field{"progress", cell{text: progress(t.Progress)}},
		field{"summary", cell{text: t.Summary}},
		field{"session", cell{text: string(t.Session)}},
		field{"run", cell{text: string(t.Run)}},
		field{"attempt", cell{text: fmt.Sprintf("%d, executions %d", t.Attempt, t.Executions)}},
		field{"heartbeat", cell{text: heartbeat(t, now)}},
		field{"delivery", cell{text: fmt.Sprintf("%s, wake %s, delivered: %s", t.Delivery, t.Wake, t.Delivered)}},
		field{"log", cell{text: a.logLine(t)}},
		field{"result", cell{text: cmp.Or(t.ResultPath, t.Result)}},
		field{"artifacts", cell{text: artifacts(t.Artifacts)}},
		field{"canceled", cell{text: cancelLine(t, now)}},
		field{"created", cell{text: moment(t.CreatedAt, now)}},
		field{"started", cell{text: moment(t.StartedAt, now)}},
		field{"finished", cell{text: moment(t.FinishedAt, now)}},
		field{"deadline", cell{text: deadline(t, now)}},
	)
}

// todo says what a person does about a task; nothing for most.
func (a *app) todo(t perdure.Task) string {
	switch {
	case t.State == perdure.TaskUnknown:
		return "find out whether it happened, then say so:\n" + a.resolveLine(t.ID)
	case t.State == perdure.TaskAwaitingInput && t.InputRequest != nil:
		return "it asks: " + t.InputRequest.Prompt + "\n" + a.inputLine(t)
	case t.State.Live():
		return program + " task cancel " + a.place() + string(t.ID) + "  ends it"
	}
	return ""
}

// resolveLine is the command that resolves the unknown outcome of a task, ready to be completed.
func (a *app) resolveLine(id perdure.TaskID) string {
	return program + " task resolve " + a.place() + quote(string(id)) + " --happened | --did-not-happen | --run-again"
}

// resolveCallLine is resolveLine for a call without a task. It cannot be run again: the turn that asked for it went on.
func (a *app) resolveCallLine(key perdure.CallKey) string {
	return program + " task resolve " + a.place() + quote(key.String()) + " --happened | --did-not-happen"
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

func (a *app) logLine(t perdure.Task) string {
	return strings.TrimSpace(t.LogPath + "  " + count(t.LogBytes, "byte") + "  (" + program + " task log " + a.place() + string(t.ID) + ")")
}

func cancelLine(t perdure.Task, now clock) string {
	if !t.CancelRequested() {
		return ""
	}
	return moment(t.CancelRequestedAt, now) + " by " + t.CancelBy + because(t.CancelWhy)
}

func artifacts(all []perdure.Artifact) string {
	var lines []string
	for _, a := range all {
		lines = append(lines, strings.Join(strings.Fields(a.Name+" "+a.Path+" "+a.URL), " "))
	}
	return strings.Join(lines, "\n")
}

// titleOf is what a task is called. What it was given stands for a name without its secrets (RD6).
func titleOf(t perdure.Task) string {
	if t.DisplayName != "" {
		return t.DisplayName
	}
	return clip(redact.Document(t.Spec.Arguments), cellChars)
}

// progress writes how far work is: 3/8 files compiling, or what of it is known.
func progress(p *perdure.Progress) string {
	if p == nil {
		return ""
	}
	var parts []string
	switch {
	case p.Current != nil && p.Total != nil:
		parts = append(parts, fmt.Sprintf("%g/%g", *p.Current, *p.Total))
	case p.Current != nil:
		parts = append(parts, fmt.Sprintf("%g", *p.Current))
	}
	return strings.Join(strings.Fields(strings.Join(append(parts, p.Unit, p.Label), " ")), " ")
}

// stateMark is the sign and colour of a state.
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
