package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/strictjson"
)

// argument returns the argument as typed; @FILE is replaced by the content of the file, and - by
// stdin.
func (a *app) argument(typed string) (string, error) {
	path, isFile := strings.CutPrefix(typed, "@")
	switch {
	case typed == "-":
		return a.readInput()
	case !isFile:
		return typed, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", usageError("cannot read the file after @: "+err.Error(),
			"to send a text that begins with @, pass it on stdin and use -")
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxInput+1))
	switch {
	case err != nil:
		return "", usageError("cannot read the file after @: "+err.Error(), "name a file that this user can read, or use - to read stdin")
	case len(text) > maxInput:
		return "", usageError(fmt.Sprintf("%s is larger than %d bytes", path, maxInput), "put it into the files of the session with "+program+" file put, and send its path")
	}
	return string(text), nil
}

// sentMessage is a message to a task, for -o json.
type sentMessage struct {
	Task    perdure.TaskID        `json:"task_id"`
	Message perdure.TaskMessageID `json:"message_id"`
}

// print shows the ids of a message.
func (s sentMessage) print(ctx context.Context, a *app, o outputFlags) error {
	return o.show(ctx, a, outputObject{string(s.Message), s, func() {
		a.fields(field{"message", cell{string(s.Message), bold}}, field{"task", cell{text: string(s.Task)}})
	}})
}

type taskInput struct {
	Task   string  `arg:"" help:"Id, unique id prefix, or title."`
	Answer *string `arg:"" optional:"" help:"Answer; @FILE reads it from a file, - from stdin. Use JSON if the task expects it. Without an answer, the question is shown."`
	actFlags
}

// Run answers the question of a task, or shows it.
func (c *taskInput) Run(ctx context.Context, a *app) error {
	if c.Answer == nil || c.DryRun {
		return a.read(ctx, func(eng Engine) error {
			t, err := c.openQuestion(ctx, a, eng)
			if err != nil {
				return err
			}
			if c.Answer != nil {
				a.message("would answer %s, which asks: %s", shortTask(t), a.oneLine(t.InputRequest.Prompt, 300))
				return nil
			}
			return c.show(ctx, a, outputObject{string(t.InputRequest.ID), *t.InputRequest, func() { c.printQuestion(a, t) }})
		})
	}
	if err := c.checkFields(sentMessage{}); err != nil {
		return err
	}
	text, err := a.argument(*c.Answer)
	if err != nil {
		return err
	}
	return a.with(ctx, OpenOptions{Access: Writing}, func(eng Engine) error {
		t, err := c.openQuestion(ctx, a, eng)
		if err != nil {
			return err
		}
		q := *t.InputRequest
		id, err := eng.Tasks().Send(ctx, t.ID, answerTo(q, text))
		if errors.Is(err, perdure.Invalid) {
			return &userError{err: err, message: err.Error(),
				hint: "the task still waits for an answer of this schema: " + string(q.Expected) +
					"\nquote a string as JSON: '\"yes\"'"}
		}
		if err != nil {
			return err
		}
		a.message("answered %s, which asked: %s", shortTask(t), a.oneLine(q.Prompt, 300))
		taskText{a}.printContinue(t)
		return sentMessage{t.ID, id}.print(ctx, a, c.outputFlags)
	})
}

// openQuestion finds a task that waits for an answer, and refuses one that does not.
func (c *taskInput) openQuestion(ctx context.Context, a *app, eng Engine) (perdure.Task, error) {
	t, err := a.task(ctx, eng, c.Task)
	switch {
	case err != nil:
		return t, err
	case t.State != perdure.TaskAwaitingInput || t.InputRequest == nil:
		todo := program + " task message " + a.storeFlags() + string(t.ID) + " TEXT  sends it a message anyway"
		if t.State.Terminal() {
			todo = program + " task list " + a.storeFlags() + "--state awaiting_input  lists tasks with questions"
		}
		return t, &userError{err: perdure.Conflict, message: fmt.Sprintf("%s has no open question: it is %s", t.ID, t.State),
			hint: todo}
	case t.InputRequest.Kind == questionOfApproval:
		return t, &userError{err: perdure.Conflict, message: string(t.ID) + " needs an approval, not an answer",
			hint: taskText{a}.approvalsOf(t)}
	}
	return t, nil
}

// questionOfApproval is the kind of a question that is answered by an approval.
const questionOfApproval = "approval"

// approvalsOf returns the command that lists the approvals of a task's session.
func (a taskText) approvalsOf(t perdure.Task) string {
	return program + " approval list " + a.storeFlags() + "--session " + string(t.Session)
}

// printQuestion shows the question on a terminal.
func (c *taskInput) printQuestion(a *app, t perdure.Task) {
	expected := ""
	if len(t.InputRequest.Expected) > 0 {
		expected = indented(t.InputRequest.Expected)
	}
	a.fields(
		field{"task", cell{string(t.ID), bold}},
		field{"tool", cell{text: t.Tool}},
		field{"question", cell{text: t.InputRequest.Prompt}},
		field{"expects", cell{text: expected}},
		field{"what to do", cell{text: taskText{a}.inputLine(t)}},
	)
}

// inputLine returns the command that answers a task's question, with a placeholder for the answer.
func (a taskText) inputLine(t perdure.Task) string {
	if t.InputRequest.Kind == questionOfApproval {
		return a.approvalsOf(t)
	}
	return program + " task input " + a.storeFlags() + string(t.ID) + " ANSWER"
}

// answerTo returns the message that answers a question. When a schema is expected, the answer is
// JSON; text that is not valid JSON becomes a JSON string.
func answerTo(q perdure.InputRequest, text string) perdure.TaskMessage {
	m := perdure.TaskMessage{InReplyTo: q.ID, By: operator, Text: text}
	if len(q.Expected) == 0 {
		return m
	}
	m.Text, m.Data = "", json.RawMessage(strings.TrimSpace(text))
	if _, err := strictjson.Canonical(m.Data); err != nil {
		m.Data, _ = json.Marshal(text) // marshalling a string never fails
	}
	return m
}

// printContinue says how work continues when no server is running.
func (a taskText) printContinue(t perdure.Task) {
	a.message("if no server is running, continue with: %s run %s--session %s", program, a.storeFlags(), t.Session)
}

type taskMessage struct {
	Task string `arg:"" help:"Id, unique id prefix, or title."`
	Text string `arg:"" help:"Text of the message; @FILE reads it from a file, - from stdin."`
	actFlags
}

// Run sends a message to a task.
func (c *taskMessage) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(sentMessage{}); err != nil {
		return err
	}
	text, err := a.argument(c.Text)
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(text) == "":
		return usageError("the message is empty", program+` task message TASK "what it should know"`)
	}
	return a.with(ctx, writesAccess(c.DryRun), found(ctx, c.Task, a.task, func(eng Engine, t perdure.Task) error {
		if t.State.Terminal() {
			return taskText{a}.endedError(t)
		}
		if c.DryRun {
			a.message("would send %s to %s, which is %s", count(len(text), "byte"), shortTask(t), t.State)
			return nil
		}
		id, err := eng.Tasks().Send(ctx, t.ID, perdure.TaskMessage{Text: text, By: operator})
		if err != nil {
			return err
		}
		a.message("the message to %s is stored", shortTask(t))
		return sentMessage{t.ID, id}.print(ctx, a, c.outputFlags)
	}))
}

// writesAccess returns the Opening of a command that changes something, or a read-only one for a
// dry run.
func writesAccess(dry bool) OpenOptions {
	if dry {
		return OpenOptions{Access: ServerOrRead}
	}
	return OpenOptions{Access: Writing}
}

// endedError refuses to change a task that has ended.
func (a taskText) endedError(t perdure.Task) error {
	return &userError{
		err: perdure.Conflict, message: fmt.Sprintf("%s has already ended: it is %s", t.ID, t.State),
		hint: program + " task list " + a.storeFlags() +
			"--state queued,running,awaiting_input  lists tasks that have not ended",
	}
}

type taskDetach struct {
	Call string `arg:"" help:"Call as SESSION/CALL; unique prefixes are enough."`
	actFlags
}

// Run detaches a running call as a task, so that its turn does not wait for it.
func (c *taskDetach) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(perdure.Task{}); err != nil {
		return err
	}
	if !strings.Contains(c.Call, "/") {
		return usageError(fmt.Sprintf("%q is not a call", c.Call),
			"write SESSION/CALL; "+program+" event list SESSION --type tool.  shows the calls")
	}
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) error {
		call, err := a.call(ctx, eng, c.Call)
		switch {
		case err != nil:
			return err
		case call.Task != "":
			return &userError{err: perdure.Conflict, message: fmt.Sprintf("%s is already a task: %s", call.Key, call.Task),
				hint: program + " task watch " + a.storeFlags() + string(call.Task) + "  shows its progress"}
		case c.DryRun:
			a.message("would detach %s of %s, which is %s", call.Key, a.oneLine(call.Tool, cellChars), call.State)
			return nil
		}
		t, err := eng.Calls().Detach(ctx, call.Key, operator)
		if errors.Is(err, perdure.NotFound) {
			return &userError{err: err,
				message: fmt.Sprintf("%s is not running in the foreground: it is %s", call.Key, call.State),
				hint:    "only a running call can be detached"}
		}
		if err != nil {
			return err
		}
		a.message("%s of %s continues in the background as %s", call.Key, a.oneLine(call.Tool, cellChars), t.ID)
		a.message("  %s task watch %s%s", program, a.storeFlags(), t.ID)
		return c.show(ctx, a, outputObject{string(t.ID), t, func() { taskText{a}.deliveryFields(t) }})
	})
}

// deliveryFields prints a task, and how its result is delivered.
func (a taskText) deliveryFields(t perdure.Task) {
	_, c := stateMark(t.State)
	a.fields(
		field{"task", cell{string(t.ID), bold}},
		field{"state", cell{string(t.State), c}},
		field{"tool", cell{text: t.Tool}},
		field{"delivery", cell{text: string(t.Delivery)}},
		field{"wake", cell{text: string(t.Wake)}},
	)
}

type taskDelivery struct {
	Task     string `arg:"" help:"Id, unique id prefix, or title."`
	Delivery string `help:"Delivery of the result: to_loop (automatically, into the conversation) or manual (by task drain)." placeholder:"HOW" enum:"to_loop,manual," default:""`
	Wake     string `help:"Effect of a delivery on an idle session: none, notify (watchers receive an event) or continue (a turn starts)." placeholder:"WHAT" enum:"none,notify,continue," default:""`
	actFlags
}

// Run sets how the result of a live task is delivered, or shows it.
func (c *taskDelivery) Run(ctx context.Context, a *app) error {
	looks := c.Delivery == "" && c.Wake == ""
	flags := actFlags{c.DryRun || looks, c.outputFlags}
	return flags.onTask(ctx, a, c.Task, perdure.Task{}, func(eng Engine, t perdure.Task) error {
		before := fmt.Sprintf("delivery %s, wake %s", t.Delivery, t.Wake)
		switch {
		case looks:
		case t.State.Terminal():
			return taskText{a}.endedError(t)
		case c.DryRun:
			a.message("would change %s, which has %s", shortTask(t), before)
			return nil
		default:
			var err error
			if t, err = eng.Tasks().SetDelivery(ctx, t.ID, perdure.Delivery(c.Delivery), perdure.Wake(c.Wake)); err != nil {
				return err
			}
			a.message("changed %s from %s to delivery %s, wake %s", shortTask(t), before, t.Delivery, t.Wake)
		}
		return c.show(ctx, a, outputObject{string(t.ID), t, func() { taskText{a}.deliveryFields(t) }})
	})
}

type taskDrain struct {
	Session string `help:"Whose results." placeholder:"ID" required:""`
	DryRun  bool   `help:"Print the results without draining them."`
	outputFlags
}

// Run drains the results of tasks with manual delivery, each once.
func (c *taskDrain) Run(ctx context.Context, a *app) error {
	return actFlags{c.DryRun, c.outputFlags}.onSession(ctx, a, c.Session, []perdure.Task{}, func(eng Engine, s engine.Session) error {
		if c.DryRun {
			all, err := eng.Tasks().List(ctx, s.ID)
			if err != nil {
				return fmt.Errorf("list tasks: %w", err)
			}
			var ready []perdure.Task
			for _, t := range all {
				if t.State.Terminal() && t.Delivery == perdure.Manual && t.Delivered == perdure.NotDelivered {
					ready = append(ready, t)
				}
			}
			a.message("would drain %s", count(len(ready), "result"))
			return tasks(a.now()).print(ctx, a, c.outputFlags, ready)
		}
		ready, err := eng.Tasks().Drain(ctx, s.ID)
		if err != nil {
			return err
		}
		if len(ready) > 0 {
			a.message("drained %s of %s; they are not returned again", count(len(ready), "result"), s.ID)
		}
		list := tasks(a.now())
		list.noun, list.tell = "results to drain", taskText{a}.printResults
		return list.print(ctx, a, c.outputFlags, ready)
	})
}

// printResults prints the results of ended tasks, one after another.
func (a taskText) printResults(all []perdure.Task) {
	for i, t := range all {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		_, c := stateMark(t.State)
		a.fields(
			field{"task", cell{string(t.ID), bold}},
			field{"call", cell{text: string(t.Call)}},
			field{"tool", cell{text: t.Tool}},
			field{"title", cell{text: t.DisplayName}},
			field{"state", cell{string(t.State), c}},
			field{"error", cell{taskError(t), red}},
			field{"summary", cell{text: t.Summary}},
			field{"result", cell{text: t.Result}},
			field{"result in", cell{text: t.ResultPath}},
			field{"log", cell{text: a.logLine(t)}},
		)
	}
}
