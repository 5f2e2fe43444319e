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

// cancelWait is how long task cancel waits for the end: the engine's grace period of ten seconds,
// and time to kill.
const cancelWait = 20 * time.Second

// operator is the author of actions that are taken on the command line.
const operator = "operator"

type taskCancel struct {
	Task    string `arg:"" optional:"" help:"Id, unique id prefix, or title."`
	All     bool   `help:"Cancel all running tasks of a session; requires --session."`
	Session string `help:"With --all: the session of the tasks." placeholder:"ID"`
	Why     string `help:"Reason; it is recorded in the journal." placeholder:"TEXT"`
	Force   bool   `help:"Kill the work at once, without a grace period, also after an earlier cancel. What it was writing may be left incomplete."`
	deleteFlags
}

// canceled is the result of a cancel, for -o json.
type canceled struct {
	Task    perdure.Task          `json:"task"`
	Receipt perdure.CancelReceipt `json:"receipt,omitzero"` // zero: the task had already ended
}

// Run cancels one task, or all tasks of a session.
func (c *taskCancel) Run(ctx context.Context, a *app) error {
	example := program + " task cancel TASK, or " + program + " task cancel --all --session SESSION"
	switch {
	case c.All && c.Task != "":
		return usageError("--all and a task cannot be used together", example)
	case c.All != (c.Session != ""):
		return usageError("--all and --session go together", example)
	case c.All:
		return c.all(ctx, a)
	case c.Task == "":
		return usageError(`expected "<task>"`, example)
	}
	return c.one(ctx, a)
}

// one records the cancel durably, works until the task has ended, and prints the receipt.
func (c *taskCancel) one(ctx context.Context, a *app) error {
	if err := c.checkFields(canceled{}); err != nil {
		return err
	}
	if c.DryRun {
		return a.read(ctx, func(eng Engine) error {
			t, err := a.task(ctx, eng, c.Task)
			if err != nil {
				return err
			}
			if t.State.Terminal() {
				a.message("nothing to do: %s has already ended: %s", t.ID, t.State)
				return nil
			}
			a.message("would %s %s: %s, %s %s", c.verb(), t.ID, a.oneLine(t.Tool, cellChars), t.State, a.oneLine(titleOf(t), cellChars))
			return nil
		})
	}
	return a.with(ctx, OpenOptions{Access: Writing}, func(eng Engine) error {
		t, err := a.task(ctx, eng, c.Task)
		if err != nil {
			return err
		}
		if t.State.Terminal() {
			a.message("%s had already ended: %s", t.ID, t.State)
			return c.print(ctx, a, eng, canceled{Task: t})
		}
		if err := a.confirm(ctx, c.Yes,
			fmt.Sprintf("%s %s (%s), which is %s, and everything it started?", c.verb(), shortTask(t), titleOf(t),
				t.State)); err != nil {
			return err
		}
		before := t.State
		receipt, err := c.request(eng)(ctx, t.ID, operator, c.Why)
		if err != nil {
			return err
		}
		a.message("%s of %s recorded", c.noun(), t.ID)
		defer a.noteWait("the end of " + string(t.ID))()
		err = turnIsRunning(ctx, eng, func(ctx context.Context) (err error) {
			t, err = awaitEnd(ctx, eng.Tasks(), t.ID)
			return err
		})
		if err != nil {
			return err
		}
		a.message("%s was %s and is %s", t.ID, before, t.State)
		return c.print(ctx, a, eng, canceled{Task: t, Receipt: receipt})
	})
}

// all cancels every live task of a session, and prints them after they have ended.
func (c *taskCancel) all(ctx context.Context, a *app) error {
	return c.flags().onSession(ctx, a, c.Session, []perdure.Task{}, func(eng Engine, s engine.Session) error {
		live, err := liveTasks(ctx, eng.Tasks(), s.ID)
		switch {
		case err != nil:
			return err
		case len(live) == 0:
			a.message("nothing to do: %s has no running tasks", s.ID)
			return tasks(a.now()).print(ctx, a, c.outputFlags, live)
		case c.DryRun:
			a.message("would %s %s of %s", c.verb(), count(len(live), "task"), s.ID)
			return tasks(a.now()).print(ctx, a, c.outputFlags, live)
		}
		question := fmt.Sprintf("%s %s of %s, including all child processes?", c.verb(), count(len(live), "task"), s.ID)
		if err := a.confirm(ctx, c.Yes, question); err != nil {
			return err
		}
		n, err := c.cancelAll(ctx, eng, s.ID, live)
		if err != nil {
			return err
		}
		a.message("%s of %s recorded", c.noun(), count(n, "task"))
		defer a.noteWait("the end of " + count(n, "task"))()
		err = turnIsRunning(ctx, eng, func(ctx context.Context) error { return awaitEnds(ctx, eng.Tasks(), live) })
		if err != nil {
			return err
		}
		return tasks(a.now()).print(ctx, a, c.outputFlags, live)
	})
}

// verb says what the command does, in questions.
func (c *taskCancel) verb() string {
	if c.Force {
		return "kill"
	}
	return "cancel"
}

// noun names the request.
func (c *taskCancel) noun() string {
	if c.Force {
		return "forced cancel"
	}
	return "cancel"
}

// request returns the request for one task.
func (c *taskCancel) request(eng Engine) func(context.Context, perdure.TaskID, string, string) (perdure.CancelReceipt, error) {
	if c.Force {
		return eng.Tasks().Force
	}
	return eng.Tasks().Cancel
}

// cancelAll requests the end of the live tasks of a session, and returns their number. With --force
// it includes tasks whose cancel was requested before.
func (c *taskCancel) cancelAll(ctx context.Context, eng Engine, id perdure.SessionID, live []perdure.Task) (int, error) {
	if !c.Force {
		return eng.Tasks().CancelAll(ctx, id, operator, c.Why)
	}
	for i, t := range live {
		if _, err := eng.Tasks().Force(ctx, t.ID, operator, c.Why); err != nil {
			return i, err
		}
	}
	return len(live), nil
}

func liveTasks(ctx context.Context, eng engine.Tasks, id perdure.SessionID) (live []perdure.Task, err error) {
	all, err := eng.List(ctx, id)
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

// awaitEnds replaces live tasks by their final state. It waits for all of them at once, because a
// run that exits with the last of them answers no later request.
func awaitEnds(ctx context.Context, eng engine.Tasks, live []perdure.Task) error {
	var group sync.WaitGroup
	errs := make([]error, len(live))
	for i := range live {
		group.Go(func() { live[i], errs[i] = awaitEnd(ctx, eng, live[i].ID) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// awaitEnd waits for the end of a task, at most cancelWait, and returns the task.
func awaitEnd(ctx context.Context, eng engine.Tasks, id perdure.TaskID) (perdure.Task, error) {
	ctx, stop := context.WithTimeoutCause(ctx, cancelWait, &userError{
		code: exitTimeout, message: fmt.Sprintf("%s has not ended in %s", id, span(cancelWait)),
		hint: "the cancel is recorded: the running or next server completes it",
	})
	defer stop()
	for {
		t, err := eng.Wait(ctx, id)
		if ctx.Err() != nil {
			return t, context.Cause(ctx)
		}
		if err != nil || t.State.Terminal() {
			return t, err
		}
		if err := pause(ctx, pollEvery); err != nil { // a task that awaits input: Tasks.Wait returns at once
			return t, err
		}
	}
}

// print writes the result of the cancel, with the receipt from the journal.
func (c *taskCancel) print(ctx context.Context, a *app, eng engine.Journal, done canceled) error {
	events, err := eng.Events(ctx, done.Task.Session, 0, 0)
	if err != nil {
		return fmt.Errorf("read the receipt of %s: %w", done.Task.ID, err)
	}
	for _, e := range events {
		if told, ok := e.Fact.(perdure.TaskCancelReceipt); ok && e.Task == done.Task.ID {
			done.Receipt = told.Receipt
		}
	}
	err = c.show(ctx, a, outputObject{string(done.Task.ID), done, func() {
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
		err = &userError{code: exitFailed, message: "the process of " + string(done.Task.ID) + " did not stop",
			hint: program + " doctor " + a.storeFlags() + "--processes lists running processes"}
	}
	return err
}
