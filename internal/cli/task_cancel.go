package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// cancelWait is how long task cancel waits for the end: the engine's grace of ten seconds, and time to kill.
const cancelWait = 20 * time.Second

// operator is whose word the command line gives.
const operator = "operator"

type taskCancel struct {
	Task    string `arg:"" optional:"" help:"Its id, or a unique beginning of it, or its title."`
	All     bool   `help:"End every task of a session that has not ended. Goes with --session."`
	Session string `help:"With --all: whose tasks." placeholder:"ID"`
	Why     string `help:"Why; it stands in the journal." placeholder:"TEXT"`
	DryRun  bool   `help:"Only say what would be done."`
	Yes     bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// canceled is what a cancel came to, for -o json.
type canceled struct {
	Task    perdure.Task          `json:"task"`
	Receipt perdure.CancelReceipt `json:"receipt,omitzero"` // zero: nobody canceled it
}

// Run ends one task, or all of a session.
func (c *taskCancel) Run(ctx context.Context, a *app) error {
	example := program + " task cancel TASK, or " + program + " task cancel --all --session SESSION"
	switch {
	case c.All && c.Task != "":
		return misuse("--all and a task cannot be used together", example)
	case c.All != (c.Session != ""):
		return misuse("--all and --session go together", example)
	case c.All:
		return c.all(ctx, a)
	case c.Task == "":
		return misuse(`expected "<task>"`, example)
	}
	return c.one(ctx, a)
}

// one makes the wish durable, works until the task has ended, and prints the receipt.
func (c *taskCancel) one(ctx context.Context, a *app) error {
	if err := c.suits(canceled{}); err != nil {
		return err
	}
	if c.DryRun {
		return a.read(ctx, func(eng Engine) error {
			t, err := a.task(ctx, eng, c.Task)
			if err != nil {
				return err
			}
			if t.State.Terminal() {
				a.say("nothing would be done: %s has ended: %s", t.ID, t.State)
				return nil
			}
			a.say("would cancel %s: %s, %s %s", t.ID, a.line(t.Tool, cellChars), t.State, a.line(titleOf(t), cellChars))
			return nil
		})
	}
	return a.with(ctx, Opening{Access: Writing}, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		if t.State.Terminal() {
			a.say("%s had ended before: %s", t.ID, t.State)
			return c.print(ctx, a, eng, canceled{Task: t})
		}
		if err := a.confirm(ctx, c.Yes, fmt.Sprintf("end %s (%s), which is %s, and everything it started?", short(t), titleOf(t), t.State)); err != nil {
			return err
		}
		before := t.State
		receipt, err := eng.CancelTask(ctx, t.ID, operator, c.Why)
		if err != nil {
			return err
		}
		a.say("the wish to end %s is durable", t.ID)
		err = turning(ctx, eng, func(ctx context.Context) (err error) {
			t, err = awaitEnd(ctx, eng, t.ID)
			return err
		})
		if err != nil {
			return err
		}
		a.say("%s was %s and is %s", t.ID, before, t.State)
		return c.print(ctx, a, eng, canceled{Task: t, Receipt: receipt})
	})
}

// all does so for every live task of a session, and prints them as they ended.
func (c *taskCancel) all(ctx context.Context, a *app) error {
	if err := c.suits([]perdure.Task{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		live, err := liveTasks(ctx, eng, s.ID)
		switch {
		case err != nil:
			return err
		case len(live) == 0:
			a.say("nothing was done: %s has no task that has not ended", s.ID)
			return tasks(a.now()).print(ctx, a, c.output, live)
		case c.DryRun:
			a.say("would cancel %s of %s", count(len(live), "task"), s.ID)
			return tasks(a.now()).print(ctx, a, c.output, live)
		}
		question := fmt.Sprintf("end %s of %s, and everything they started?", count(len(live), "task"), s.ID)
		if err := a.confirm(ctx, c.Yes, question); err != nil {
			return err
		}
		n, err := eng.CancelTasks(ctx, s.ID, operator, c.Why)
		if err != nil {
			return err
		}
		a.say("the wish to end %s is durable", count(n, "task"))
		err = turning(ctx, eng, func(ctx context.Context) error { return awaitEnds(ctx, eng, live) })
		if err != nil {
			return err
		}
		return tasks(a.now()).print(ctx, a, c.output, live)
	})
}

func liveTasks(ctx context.Context, eng engine.Tasks, id perdure.SessionID) (live []perdure.Task, err error) {
	all, err := eng.Tasks(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	for _, t := range all {
		if t.State.Live() {
			live = append(live, t)
		}
	}
	return live, nil
}

// awaitEnds puts tasks as they ended in the place of those that are live. It asks for all at once: a run that ends with
// the last of them answers nothing later.
func awaitEnds(ctx context.Context, eng engine.Tasks, live []perdure.Task) error {
	var group sync.WaitGroup
	errs := make([]error, len(live))
	for i := range live {
		group.Go(func() { live[i], errs[i] = awaitEnd(ctx, eng, live[i].ID) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// awaitEnd waits until a task has ended, but not for ever, and returns it.
func awaitEnd(ctx context.Context, eng engine.Tasks, id perdure.TaskID) (perdure.Task, error) {
	ctx, stop := context.WithTimeoutCause(ctx, cancelWait, &fault{
		code: exitTimeout, what: fmt.Sprintf("%s has not ended in %s", id, span(cancelWait)),
		todo: "the wish is durable: whoever runs the engine next goes on with it",
	})
	defer stop()
	for {
		t, err := eng.WaitTask(ctx, id)
		if ctx.Err() != nil {
			return t, context.Cause(ctx)
		}
		if err != nil || t.State.Terminal() {
			return t, err
		}
		if err := pause(ctx, pollEvery); err != nil { // it awaits input: its end comes without a question
			return t, err
		}
	}
}

// print writes what the cancel came to, with the receipt as the journal has it.
func (c *taskCancel) print(ctx context.Context, a *app, eng engine.Journals, done canceled) error {
	events, err := eng.Events(ctx, done.Task.Session, 0, 0)
	if err != nil {
		return fmt.Errorf("read the receipt of %s: %w", done.Task.ID, err)
	}
	for _, e := range events {
		if told, ok := e.Fact.(perdure.TaskCancelReceipt); ok && e.Task == done.Task.ID {
			done.Receipt = told.Receipt
		}
	}
	err = c.show(ctx, a, shown{string(done.Task.ID), done, func() {
		_, state := stateMark(done.Task.State)
		now := a.now()
		a.fields(
			field{"task", cell{string(done.Task.ID), bold}},
			field{"state", cell{string(done.Task.State), state}},
			field{"receipt", cell{text: receiptSentence(done.Receipt)}},
			field{"requested", cell{text: moment(done.Receipt.RequestedAt, now)}},
			field{"signalled", cell{text: moment(done.Receipt.SignalledAt, now)}},
			field{"dead", cell{text: moment(done.Receipt.DeadAt, now)}},
		)
	}})
	if err == nil && done.Receipt.DidNotStop {
		err = &fault{code: exitFailed, what: "the work of " + string(done.Task.ID) + " did not stop", todo: program + " doctor " + a.place() + "--processes lists what still runs"}
	}
	return err
}
