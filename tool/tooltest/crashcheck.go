package tooltest

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// check checks what the tool did.
func (c *crash) check(ctx context.Context, eng engine.Engine, id perdure.SessionID) {
	c.t.Helper()
	events, err := eng.Events(ctx, id, 0, 0)
	if err != nil {
		c.t.Fatalf("%s: %v", c, err)
	}
	var results []perdure.ToolCompleted
	deliveries := 0
	for _, event := range events {
		switch f := event.Fact.(type) {
		case perdure.ToolCompleted:
			results = append(results, f)
		case perdure.ToolTakenOver:
			if c.lane == perdure.Foreground {
				c.takenOver = f.How
			}
		case perdure.TaskReattached:
			c.takenOver = f.How
		case perdure.TaskDelivered:
			deliveries += len(f.TaskIDs)
		}
	}
	if len(results) != 1 {
		c.t.Fatalf("%s: the call has %d results, want 1", c, len(results))
	}
	c.checkKeys()
	if c.lane == perdure.Background {
		c.checkTask(ctx, eng, id, deliveries)
		return
	}
	status := results[0].Status
	c.end = string(status)
	switch {
	case c.atMostOnce() && status == perdure.StatusUnknown:
	case status != perdure.StatusSuccess:
		c.t.Errorf("%s: the call ended as %s: %s", c, status, results[0].Result.Error)
	}
}

// atMostOnce reports whether the tool must not run twice.
func (c *crash) atMostOnce() bool { return c.subject.Spec().Class == perdure.AtMostOnce }

// checkKeys checks how often the tool was entered, and with which keys.
func (c *crash) checkKeys() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.keys {
		if key != c.keys[0] {
			c.t.Errorf("%s: the keys %q and %q: a call has only one key", c, c.keys[0], key)
		}
	}
	if c.atMostOnce() && len(c.keys) > 1+c.notHappened {
		c.t.Errorf("%s: entered %d times, although it is at_most_once", c, len(c.keys))
	}
}

// checkTask checks the background run.
func (c *crash) checkTask(ctx context.Context, eng engine.Engine, id perdure.SessionID, deliveries int) {
	c.t.Helper()
	tasks, err := eng.Tasks().List(ctx, id)
	if err != nil || len(tasks) != 1 {
		c.t.Fatalf("%s: there are %d background runs, want 1: %v", c, len(tasks), err)
	}
	task := tasks[0]
	c.end = string(task.State)
	switch {
	case c.atMostOnce() && task.State == perdure.TaskUnknown:
	case task.State != perdure.TaskSucceeded:
		c.t.Errorf("%s: the run ended as %s: %s", c, task.State, task.Summary)
	}
	if deliveries != 1 {
		c.t.Errorf("%s: the run was delivered %d times, want 1", c, deliveries)
	}
}

// summary describes what happened and what crash recovery did.
func (c *crash) summary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s: entered %s before and %s after the crash. %s. It ended as %s",
		c, times(c.firstEntries), times(len(c.keys)-c.firstEntries), c.recoveryText(), c.end)
}

// recoveryText describes what crash recovery did.
func (c *crash) recoveryText() string {
	switch c.takenOver {
	case perdure.TakeOverRunAgain:
		return "Its effect class allows it to run again, with the same key"
	case perdure.TakeOverFirstRun:
		return "It had not started, so it was run"
	case perdure.TakeOverAdopt:
		return "Its process was found again and followed to its end"
	case perdure.TakeOverReconcile:
		return "The tool was asked whether it took effect"
	case perdure.TakeOverUnknown:
		return "Nothing can tell whether it took effect, so it is not run again, and an operator has to resolve it"
	case "":
		if len(c.keys) > c.firstEntries {
			return "Nothing was claimed, so it was run like a new call"
		}
		return "Its result was already stored"
	}
	return "Crash recovery chose: " + string(c.takenOver)
}

func times(n int) string {
	switch n {
	case 0:
		return "0 times"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
