package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

func TestC09Tally(t *testing.T) {
	t.Parallel()
	task := func(id perdure.TaskID, state perdure.TaskState) perdure.Fact {
		return perdure.TaskUpdated{Task: perdure.Task{ID: id, State: state}}
	}
	for _, test := range []struct {
		name  string
		facts []perdure.Fact
		code  int
		says  string
	}{
		{"all is well", []perdure.Fact{perdure.Generation{}, perdure.ToolStarted{}, task("a", perdure.TaskSucceeded)}, 0, ""},
		{"a turn that failed", []perdure.Fact{perdure.TurnFailed{Code: "quota", Error: "none left"}}, 8, "the turn failed: quota: none left"},
		{"a turn that was sealed", []perdure.Fact{perdure.TurnSealed{Reason: "no_progress"}}, 8, "no_progress"},
		{"a turn that somebody else canceled", []perdure.Fact{perdure.TurnCanceled{By: "host"}}, 8, "canceled by host"},
		{"a turn that was interrupted from here", []perdure.Fact{perdure.TurnCanceled{By: person}}, 130, ""},
		{"a turn that was interrupted, and one after it that was not", []perdure.Fact{perdure.TurnCanceled{By: person}, perdure.TurnStarted{}, perdure.TurnCompleted{}}, 0, ""},
		{"a task that failed", []perdure.Fact{task("a", perdure.TaskRunning), task("a", perdure.TaskFailed)}, 8, "1 task failed"},
		{"a task of unknown outcome", []perdure.Fact{task("a", perdure.TaskUnknown)}, 8, "1 outcome unknown"},
		{"a task that was resolved", []perdure.Fact{task("a", perdure.TaskUnknown), task("a", perdure.TaskSucceeded)}, 0, ""},
		{"a task that was canceled as asked", []perdure.Fact{task("a", perdure.TaskCanceled)}, 0, ""},
		{"a call of unknown outcome", []perdure.Fact{perdure.ToolUnknown{CallID: "c"}}, 8, "1 outcome unknown"},
		{"a call that was resolved", []perdure.Fact{perdure.ToolUnknown{CallID: "c"}, perdure.ToolResolved{CallID: "c"}}, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sum := newTally()
			for _, f := range test.facts {
				sum.add(perdure.Event{Fact: f})
			}

			err := sum.exitError()

			if exitCode(err) != test.code || test.says != "" && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v (exit %d), want %q and exit %d", err, exitCode(err), test.says, test.code)
			}
		})
	}

	t.Run("the cost line", func(t *testing.T) {
		t.Parallel()
		sum, start := newTally(), time.Unix(0, 0)
		for i, f := range []perdure.Fact{
			perdure.TurnStarted{}, perdure.Generation{Usage: perdure.Usage{InputTokens: 10, OutputTokens: 2}}, perdure.ToolStarted{}, perdure.ToolStarted{},
			perdure.Generation{Usage: perdure.Usage{InputTokens: 20, OutputTokens: 3}},
		} {
			sum.add(perdure.Event{At: start.Add(time.Duration(i) * time.Second), Fact: f})
		}

		const want = "2 model calls · 2 tool calls · 30 tokens in, 5 out · 4.0 s · cost unknown"
		if got := sum.cost("unknown", 0); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		const timed = "2 model calls · 2 tool calls · 30 tokens in, 5 out · 4.0 s (2.5 s in models and tools) · cost 1 USD"
		if got := sum.cost("1 USD", 2500*time.Millisecond); got != timed {
			t.Errorf("got %q, want %q", got, timed)
		}
	})
}
