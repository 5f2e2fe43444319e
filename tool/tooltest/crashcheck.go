package tooltest

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// check judges what the tool did.
func (c *crash) check(ctx context.Context, eng engine.Engine, id perdure.SessionID) {
	c.t.Helper()
	events, err := eng.Events(ctx, id, 0, 0)
	if err != nil {
		c.t.Fatalf("%s: %v", c, err)
	}
	var results []perdure.ToolCompleted
	home := 0
	for _, event := range events {
		switch f := event.Fact.(type) {
		case perdure.ToolCompleted:
			results = append(results, f)
		case perdure.ToolTakenOver:
			if c.lane == perdure.Foreground {
				c.how = f.How
			}
		case perdure.TaskReattached:
			c.how = f.How
		case perdure.TaskDelivered:
			home += len(f.TaskIDs)
		}
	}
	if len(results) != 1 {
		c.t.Fatalf("%s: the call has %d results, want 1", c, len(results))
	}
	c.checkKeys()
	if c.lane == perdure.Background {
		c.checkTask(ctx, eng, id, home)
		return
	}
	status := results[0].Status
	c.end = string(status)
	switch {
	case c.once() && status == perdure.StatusUnknown:
	case status != perdure.StatusSuccess:
		c.t.Errorf("%s: the call ended as %s: %s", c, status, results[0].Result.Error)
	}
}

// once reports whether the tool must not run twice.
func (c *crash) once() bool { return c.subject.Spec().Class == perdure.AtMostOnce }

// checkKeys judges how often the tool was entered, and under which keys.
func (c *crash) checkKeys() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.keys {
		if key != c.keys[0] {
			c.t.Errorf("%s: the keys %q and %q: one call has one key", c, c.keys[0], key)
		}
	}
	if c.once() && len(c.keys) > 1+c.denied {
		c.t.Errorf("%s: entered %d times, and it is at_most_once", c, len(c.keys))
	}
}

// checkTask judges the background run.
func (c *crash) checkTask(ctx context.Context, eng engine.Engine, id perdure.SessionID, home int) {
	c.t.Helper()
	tasks, err := eng.Tasks(ctx, id)
	if err != nil || len(tasks) != 1 {
		c.t.Fatalf("%s: there are %d background runs, want 1: %v", c, len(tasks), err)
	}
	task := tasks[0]
	c.end = string(task.State)
	switch {
	case c.once() && task.State == perdure.TaskUnknown:
	case task.State != perdure.TaskSucceeded:
		c.t.Errorf("%s: the run ended as %s: %s", c, task.State, task.Summary)
	}
	if home != 1 {
		c.t.Errorf("%s: the run came home %d times, want 1", c, home)
	}
}

// story says what happened, and what the runtime did about it.
func (c *crash) story() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s: entered %s before and %s after it. %s; it ended as %s", c, times(c.first), times(len(c.keys)-c.first), c.told(), c.end)
}

// told says in words what recovery did.
func (c *crash) told() string {
	switch c.how {
	case perdure.RunAgain:
		return "Its class lets it run again, under the same key"
	case perdure.RunFirst:
		return "It had never started, so it was run"
	case perdure.Adopt:
		return "What it had started was found again, and followed to its end"
	case perdure.AskTool:
		return "The tool was asked whether it had happened"
	case perdure.MakeUnknown:
		return "Nobody can know whether it happened, so it is not run again; a person says what became of it"
	case "":
		if len(c.keys) > c.first {
			return "Nothing was claimed, so it was run as if for the first time"
		}
		return "Its result was there already"
	}
	return "The runtime did this: " + string(c.how)
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
