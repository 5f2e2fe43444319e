package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// cancelWait is how long task cancel waits for the end: the engine's grace of ten seconds, and time to kill.
const cancelWait = 20 * time.Second

// operator is whose word the command line gives.
const operator = "operator"

type taskCancel struct {
	Task   string `arg:"" help:"Its id, or a unique beginning of it, or its title."`
	Why    string `help:"Why; it stands in the journal." placeholder:"TEXT"`
	DryRun bool   `help:"Only say what would be done."`
	Yes    bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// canceled is what a cancel came to, for -o json.
type canceled struct {
	Task    perdure.Task          `json:"task"`
	Receipt perdure.CancelReceipt `json:"receipt"`
}

// Run makes the wish durable, works until the task has ended, and prints the receipt.
func (c *taskCancel) Run(ctx context.Context, a *app) error {
	if err := misformed(c.choice().CheckFields(canceled{})); err != nil {
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
		err = turning(ctx, eng, func(ctx context.Context) error { return awaitEnd(ctx, eng, t.ID) })
		if err != nil {
			return err
		}
		if t, err = eng.Task(ctx, t.ID); err != nil {
			return fmt.Errorf("read task: %w", err)
		}
		a.say("%s was %s and is %s", t.ID, before, t.State)
		return c.print(ctx, a, eng, canceled{Task: t, Receipt: receipt})
	})
}

// awaitEnd waits until a task has ended, but not for ever.
func awaitEnd(ctx context.Context, eng engine.Tasks, id perdure.TaskID) error {
	ctx, stop := context.WithTimeoutCause(ctx, cancelWait, &fault{
		code: exitTimeout, what: fmt.Sprintf("%s has not ended in %s", id, span(cancelWait)),
		todo: "the wish is durable: whoever runs the engine next goes on with it",
	})
	defer stop()
	for {
		t, err := eng.WaitTask(ctx, id)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || t.State.Terminal() {
			return err
		}
		if err := pause(ctx, pollEvery); err != nil { // it awaits input: its end comes without a question
			return err
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
		now := time.Now()
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
		err = &fault{code: exitFailed, what: "the work of " + string(done.Task.ID) + " did not stop", todo: program + " doctor --processes lists what still runs"}
	}
	return err
}
