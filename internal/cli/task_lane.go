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
)

// argument is what was typed, or what the file holds that was named with @, or stdin for -.
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
		return "", misuse("the file after @ cannot be read: "+err.Error(), "a text that begins with @ comes from stdin, with -")
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxInput+1))
	switch {
	case err != nil:
		return "", misuse("the file after @ cannot be read: "+err.Error(), "")
	case len(text) > maxInput:
		return "", misuse(fmt.Sprintf("%s holds more than %d bytes", path, maxInput), "")
	}
	return string(text), nil
}

// sent is a message that was handed to a task, for -o json.
type sent struct {
	Task    perdure.TaskID        `json:"task_id"`
	Message perdure.TaskMessageID `json:"message_id"`
}

// print says where a message is.
func (s sent) print(ctx context.Context, a *app, o output) error {
	return o.show(ctx, a, shown{string(s.Message), s, func() {
		a.fields(field{"message", cell{string(s.Message), bold}}, field{"task", cell{text: string(s.Task)}})
	}})
}

type taskInput struct {
	Task   string  `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	Answer *string `arg:"" optional:"" help:"What to answer; @FILE reads it from a file, - from stdin. Where a shape is expected, it is JSON. Not given: the question is shown."`
	DryRun bool    `help:"Only say what would be done."`
	output
}

// Run answers the question of a task, or shows it.
func (c *taskInput) Run(ctx context.Context, a *app) error {
	if c.Answer == nil || c.DryRun {
		return a.read(ctx, func(eng Engine) error {
			t, err := c.asking(ctx, a, eng)
			if err != nil {
				return err
			}
			if c.Answer != nil {
				a.say("would answer %s, which asks: %s", short(t), a.line(t.InputRequest.Prompt, 300))
				return nil
			}
			return c.show(ctx, a, shown{string(t.InputRequest.ID), *t.InputRequest, func() { c.tell(a, t) }})
		})
	}
	if err := c.suits(sent{}); err != nil {
		return err
	}
	text, err := a.argument(*c.Answer)
	if err != nil {
		return err
	}
	return a.with(ctx, Opening{Access: Writing}, func(eng Engine) error {
		t, err := c.asking(ctx, a, eng)
		if err != nil {
			return err
		}
		q := *t.InputRequest
		id, err := eng.SendTask(ctx, t.ID, answerTo(q, text))
		if errors.Is(err, perdure.Invalid) {
			return &fault{err: err, what: err.Error(), todo: "it still waits, for: " + string(q.Expected) + "\na text needs its quotes there: '\"yes\"'"}
		}
		if err != nil {
			return err
		}
		a.say("answered %s, which asked: %s", short(t), a.line(q.Prompt, 300))
		a.goesOn(t)
		return sent{t.ID, id}.print(ctx, a, c.output)
	})
}

// asking finds a task that waits for a word, and refuses one that does not.
func (c *taskInput) asking(ctx context.Context, a *app, eng Engine) (perdure.Task, error) {
	t, err := a.task(ctx, eng, c.Task)
	switch {
	case err != nil:
		return t, err
	case t.State != perdure.TaskAwaitingInput || t.InputRequest == nil:
		todo := program + " task message " + a.place() + string(t.ID) + " TEXT  tells it something all the same"
		if t.State.Terminal() {
			todo = program + " task list " + a.place() + "--state awaiting_input  lists what asks"
		}
		return t, &fault{err: perdure.Conflict, what: fmt.Sprintf("%s asks nothing: it is %s", t.ID, t.State), todo: todo}
	case t.InputRequest.Kind == questionOfApproval:
		return t, &fault{err: perdure.Conflict, what: string(t.ID) + " needs an approval, not an answer", todo: a.approvalsOf(t)}
	}
	return t, nil
}

// questionOfApproval is the kind of a question that is answered by a verdict.
const questionOfApproval = "approval"

// approvalsOf is the command that lists what a task asks a person's leave for.
func (a *app) approvalsOf(t perdure.Task) string {
	return program + " approval list " + a.place() + "--session " + string(t.Session)
}

// tell shows the question for people.
func (c *taskInput) tell(a *app, t perdure.Task) {
	expected := ""
	if len(t.InputRequest.Expected) > 0 {
		expected = indented(t.InputRequest.Expected)
	}
	a.fields(
		field{"task", cell{string(t.ID), bold}},
		field{"tool", cell{text: t.Tool}},
		field{"question", cell{text: t.InputRequest.Prompt}},
		field{"expects", cell{text: expected}},
		field{"what to do", cell{text: a.inputLine(t)}},
	)
}

// inputLine is the command that answers a task's question, ready to be completed.
func (a *app) inputLine(t perdure.Task) string {
	if t.InputRequest.Kind == questionOfApproval {
		return a.approvalsOf(t)
	}
	return program + " task input " + a.place() + string(t.ID) + " ANSWER"
}

// answerTo is the message that answers a question. Where a shape is expected, the answer is JSON, and what is none is
// a text of it.
func answerTo(q perdure.InputRequest, text string) perdure.TaskMessage {
	m := perdure.TaskMessage{InReplyTo: q.ID, By: operator, Text: text}
	if len(q.Expected) == 0 {
		return m
	}
	m.Text, m.Data = "", json.RawMessage(strings.TrimSpace(text))
	if _, err := perdure.CanonicalJSON(m.Data); err != nil {
		m.Data, _ = json.Marshal(text) // a text always has a JSON
	}
	return m
}

// goesOn says how work goes on where nobody does it.
func (a *app) goesOn(t perdure.Task) {
	a.say("where nobody works on it, it goes on with: %s run %s--session %s", program, a.place(), t.Session)
}

type taskMessage struct {
	Task   string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	Text   string `arg:"" help:"What to say; @FILE reads it from a file, - from stdin."`
	DryRun bool   `help:"Only say what would be done."`
	output
}

// Run hands a message to a task.
func (c *taskMessage) Run(ctx context.Context, a *app) error {
	if err := c.suits(sent{}); err != nil {
		return err
	}
	text, err := a.argument(c.Text)
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(text) == "":
		return misuse("there is nothing to say", program+` task message TASK "what it should know"`)
	}
	return a.onTask(ctx, c.Task, c.DryRun, func(eng Engine, t perdure.Task) error {
		if t.State.Terminal() {
			return a.ended(t)
		}
		if c.DryRun {
			a.say("would send %s to %s, which is %s", count(len(text), "byte"), short(t), t.State)
			return nil
		}
		id, err := eng.SendTask(ctx, t.ID, perdure.TaskMessage{Text: text, By: operator})
		if err != nil {
			return err
		}
		a.say("the message to %s is durable", short(t))
		return sent{t.ID, id}.print(ctx, a, c.output)
	})
}

// onTask finds a task and runs fn with an engine that may change it; a dry run's may not.
func (a *app) onTask(ctx context.Context, typed string, dry bool, fn func(Engine, perdure.Task) error) error {
	return a.with(ctx, writing(dry), func(eng Engine) error {
		t, err := a.task(ctx, eng, typed)
		if err != nil {
			return err
		}
		return fn(eng, t)
	})
}

// writing is the opening of a command that changes something, unless it only says what it would change.
func writing(dry bool) Opening {
	if dry {
		return Opening{Access: Asking}
	}
	return Opening{Access: Writing}
}

// ended refuses to change what has ended.
func (a *app) ended(t perdure.Task) error {
	return &fault{
		err: perdure.Conflict, what: fmt.Sprintf("%s has ended: it is %s", t.ID, t.State),
		todo: program + " task list " + a.place() + "--state queued,running,awaiting_input  lists what has not",
	}
}

type taskDetach struct {
	Call   string `arg:"" help:"The call, as SESSION/CALL; a unique beginning of either is enough."`
	DryRun bool   `help:"Only say what would be done."`
	output
}

// Run lets a running call go on as a task, so that its turn does not wait for it.
func (c *taskDetach) Run(ctx context.Context, a *app) error {
	if err := c.suits(perdure.Task{}); err != nil {
		return err
	}
	if !strings.Contains(c.Call, "/") {
		return misuse(fmt.Sprintf("%q is no call", c.Call), "name it as SESSION/CALL; "+program+" event list SESSION --type tool.  shows the calls")
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		call, err := a.call(ctx, eng, c.Call)
		switch {
		case err != nil:
			return err
		case call.Task != "":
			return &fault{err: perdure.Conflict, what: fmt.Sprintf("%s is a task already: %s", call.Key, call.Task), todo: program + " task watch " + a.place() + string(call.Task) + "  shows how it goes on"}
		case c.DryRun:
			a.say("would let %s of %s go on in the background; it is %s", call.Key, a.line(call.Tool, cellChars), call.State)
			return nil
		}
		t, err := eng.DetachCall(ctx, call.Key, operator)
		if errors.Is(err, perdure.NotFound) {
			return &fault{err: err, what: fmt.Sprintf("%s does not run in the foreground: it is %s", call.Key, call.State), todo: "only a call that runs now can leave its turn"}
		}
		if err != nil {
			return err
		}
		a.say("%s of %s goes on in the background as %s", call.Key, a.line(call.Tool, cellChars), t.ID)
		a.say("  %s task watch %s%s", program, a.place(), t.ID)
		return c.show(ctx, a, shown{string(t.ID), t, func() { a.homeward(t) }})
	})
}

// homeward prints what a task is, and how its end comes home.
func (a *app) homeward(t perdure.Task) {
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
	Task     string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	Delivery string `help:"to_loop: its end enters the conversation by itself. manual: task drain hands it over." placeholder:"HOW" enum:"to_loop,manual," default:""`
	Wake     string `help:"What its end does to a session at rest: none, notify (whoever watches hears of it), or continue (a turn begins)." placeholder:"WHAT" enum:"none,notify,continue," default:""`
	DryRun   bool   `help:"Only say what would be done."`
	output
}

// Run changes how the end of a live task comes home, or shows it.
func (c *taskDelivery) Run(ctx context.Context, a *app) error {
	if err := c.suits(perdure.Task{}); err != nil {
		return err
	}
	looks := c.Delivery == "" && c.Wake == ""
	return a.onTask(ctx, c.Task, c.DryRun || looks, func(eng Engine, t perdure.Task) error {
		before := fmt.Sprintf("delivery %s, wake %s", t.Delivery, t.Wake)
		switch {
		case looks:
		case t.State.Terminal():
			return a.ended(t)
		case c.DryRun:
			a.say("would change %s, which has %s", short(t), before)
			return nil
		default:
			var err error
			if t, err = eng.SetDelivery(ctx, t.ID, perdure.Delivery(c.Delivery), perdure.Wake(c.Wake)); err != nil {
				return err
			}
			a.say("%s had %s and has delivery %s, wake %s", short(t), before, t.Delivery, t.Wake)
		}
		return c.show(ctx, a, shown{string(t.ID), t, func() { a.homeward(t) }})
	})
}

type taskDrain struct {
	Session string `help:"Whose results." placeholder:"ID" required:""`
	DryRun  bool   `help:"Only show what would be handed over."`
	output
}

// Run hands over the ended tasks whose delivery is manual, each once (DL7).
func (c *taskDrain) Run(ctx context.Context, a *app) error {
	if err := c.suits([]perdure.Task{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		if c.DryRun {
			all, err := eng.Tasks(ctx, s.ID)
			if err != nil {
				return fmt.Errorf("list tasks: %w", err)
			}
			var ready []perdure.Task
			for _, t := range all {
				if t.State.Terminal() && t.Delivery == perdure.Manual && t.Delivered == perdure.NotDelivered {
					ready = append(ready, t)
				}
			}
			a.say("would hand over %s", count(len(ready), "result"))
			return tasks(a.now()).print(ctx, a, c.output, ready)
		}
		ready, err := eng.DrainReady(ctx, s.ID)
		if err != nil {
			return err
		}
		if len(ready) > 0 {
			a.say("%s of %s handed over, for this once", count(len(ready), "result"), s.ID)
		}
		list := tasks(a.now())
		list.noun, list.tell = "results to hand over", a.results
		return list.print(ctx, a, c.output, ready)
	})
}

// results prints what ended tasks came to, one after another.
func (a *app) results(all []perdure.Task) {
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
