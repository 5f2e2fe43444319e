package background_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool/background"
)

func TestOpenTasksBlock(t *testing.T) {
	t.Parallel()
	t.Run("live, then what was not told", func(t *testing.T) {
		t.Parallel()
		asking, told, inside, agent := task(3, perdure.TaskAwaitingInput), task(4, perdure.TaskSucceeded),
			task(5, perdure.TaskRunning), task(6, perdure.TaskQueued)
		asking.InputRequest = &perdure.InputRequest{ID: "req_1", Kind: "question", Prompt: "Which one?"}
		told.Delivered = perdure.DeliveredRead
		inside.Lane = perdure.Foreground
		agent.Run, agent.Kind, agent.Tool = "", perdure.KindSubagent, "spawn_agent"
		tasks := []perdure.Task{task(1, perdure.TaskUnknown), task(2, perdure.TaskRunning), asking, told, inside, agent}

		got := background.OpenTasks(tasks)

		want := `Open background tasks:
- task_00000000000000000000000000000002 (bg_00000000000000000000000000000002) slow_tool: running
- task_00000000000000000000000000000003 (bg_00000000000000000000000000000003) slow_tool: awaiting_input for req_1
- task_00000000000000000000000000000006 spawn_agent: queued
- task_00000000000000000000000000000001 (bg_00000000000000000000000000000001) slow_tool: unknown, not read yet`
		if got != want {
			t.Fatalf("got %s\nwant %s", got, want)
		}
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		told := task(1, perdure.TaskFailed)
		told.Delivered = perdure.DeliveredInjected
		if got := background.OpenTasks([]perdure.Task{told}); got != "" {
			t.Fatalf("got %q", got)
		}
	})
	t.Run("age-free", func(t *testing.T) {
		t.Parallel()
		older := task(1, perdure.TaskRunning)
		older.StartedAt, older.CreatedAt = older.StartedAt.AddDate(-1, 0, 0), older.CreatedAt.AddDate(-1, 0, 0)
		if a, b := background.OpenTasks([]perdure.Task{task(1, perdure.TaskRunning)}), background.OpenTasks([]perdure.Task{older}); a != b {
			t.Fatalf("got %q and %q, want the same text at any time", a, b)
		}
	})
	for n, want := range map[int]string{19: "", 20: "- and 2 more: call list_tasks", 200: "- and 182 more: call list_tasks"} {
		var tasks []perdure.Task
		for i := range n {
			tasks = append(tasks, task(i, perdure.TaskRunning))
		}
		before := slices.Clone(tasks)
		lines := strings.Split(background.OpenTasks(tasks), "\n")
		if last := lines[len(lines)-1]; len(lines) != 20 || want != "" && last != want || want == "" && !strings.Contains(last, string(tasks[n-1].ID)) {
			t.Errorf("of %d tasks: got %d lines, the last %q, want 20 lines and %q", n, len(lines), last, want)
		}
		if !slices.EqualFunc(before, tasks, func(a, b perdure.Task) bool { return a.ID == b.ID }) {
			t.Error("the tasks were changed")
		}
	}
}
