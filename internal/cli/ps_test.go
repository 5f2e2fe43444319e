package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// office is a scene with schedules.
type office struct {
	*scene
	schedules []perdure.Schedule
}

// officeSchedules implements engine.Schedules for office.
type officeSchedules struct {
	engine.Schedules
	office
}

// Schedules implements engine.Engine.
func (o office) Schedules() engine.Schedules { return officeSchedules{nil, o} }

func (o officeSchedules) List(context.Context, perdure.SessionID) ([]perdure.Schedule, error) {
	return o.schedules, nil
}

// busyOffice has one object of each group, with names and questions that are wider than any
// terminal.
func busyOffice(words string) office {
	long, now := strings.Repeat(words, 20), time.Now()
	id := func(kind string, i int) string { return fmt.Sprintf("%s_%032d", kind, i) }
	var tasks []perdure.Task
	for i, state := range []perdure.TaskState{perdure.TaskRunning, perdure.TaskAwaitingInput, perdure.TaskSucceeded, perdure.TaskFailed, perdure.TaskCanceled, perdure.TaskUnknown} {
		tasks = append(tasks, perdure.Task{
			ID: perdure.TaskID(id("task", i)), Session: "session_1", State: state, Tool: "a_tool_with_a_name_that_is_long", DisplayName: long, Summary: long,
			CreatedAt: now, FinishedAt: now, InputRequest: &perdure.InputRequest{Kind: "question", Prompt: long + "世界"},
		})
	}
	return office{
		scene: &scene{
			views: [][]perdure.Task{tasks}, approvals: []perdure.Approval{{ID: perdure.ApprovalID(id("appr", 1)), Session: "session_1", State: perdure.ApprovalOpen, Tool: "charge", RequestedAt: now}},
			sessions: []engine.Session{{ID: perdure.SessionID(id("session", 1)), Title: long, Status: perdure.SessionActive, UpdatedAt: now}},
		},
		schedules: []perdure.Schedule{{ID: perdure.ScheduleID(id("sched", 1)), Title: long, Cron: "30 7 * * 1-5", Zone: "Europe/Zurich", Enabled: true, NextAt: now.Add(time.Hour)}},
	}
}

// TestPsCountsApprovalsOnce: a task that waits for an approval is no second thing that needs
// somebody.
func TestPsCountsApprovalsOnce(t *testing.T) {
	t.Parallel()
	waits := perdure.Task{ID: "task_1", Session: "session_1", State: perdure.TaskAwaitingInput, Tool: "bash", InputRequest: &perdure.InputRequest{Kind: "approval"}}
	asks := perdure.Task{ID: "task_2", Session: "session_1", State: perdure.TaskAwaitingInput, Tool: "ask", InputRequest: &perdure.InputRequest{Kind: "question"}}
	open := perdure.Approval{ID: "appr_1", Session: "session_1", Task: "task_1", State: perdure.ApprovalOpen, Tool: "bash"}
	eng := office{scene: &scene{views: [][]perdure.Task{{waits, asks}}, approvals: []perdure.Approval{open}}}
	_, out, talk := command{args: "ps --prompt", engine: eng}.run(t.Context())
	if out != "2 needs you\n" {
		t.Errorf("got %q, %s", out, talk)
	}
}

// TestC19Terminal checks the order of the groups of ps on a terminal of 80 columns and 24 lines,
// and that no row wraps.
func TestC19Terminal(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"a long word after another ", "界", "e\u0301 "} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			fitsTerminal(t, words)
		})
	}
}

func fitsTerminal(t *testing.T, words string) {
	t.Helper()
	code, out, talk := command{args: "ps", engine: busyOffice(words), terminal: Terminal{Stdout: true}, env: map[string]string{"NO_COLOR": "1"}}.run(t.Context())
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, talk)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	var titles []string
	for _, line := range lines {
		if columns(line) > 80 {
			t.Errorf("%d columns: %s", columns(line), line)
		}
		if !strings.HasPrefix(line, " ") {
			titles = append(titles, line)
		}
	}
	if got, want := strings.Join(titles, ", "), "Needs you (2), Working (2), Scheduled (1), Done (1), Failed or unknown (3)"; got != want || len(lines) > 24 {
		t.Errorf("got %s in %d lines, want %s", got, len(lines), want)
	}
	if _, piped, _ := (command{args: "ps", engine: busyOffice(words)}).run(t.Context()); len(piped) <= len(out) {
		t.Errorf("a pipe has what a terminal has no room for: %s", piped)
	}
}

// TestC19Prompt checks the line for the prompt of a shell.
func TestC19Prompt(t *testing.T) {
	t.Parallel()
	if code, out, talk := (command{args: "ps --prompt", engine: busyOffice("a long word after another ")}).run(t.Context()); code != exitOK || out != "2 running · 2 needs you · 1 unknown · 1 failed\n" {
		t.Errorf("exit code %d, %q, %s", code, out, talk)
	}
	if _, out, _ := (command{args: "ps --prompt", engine: office{scene: &scene{}}}).run(t.Context()); out != "" {
		t.Errorf("%q where nothing goes on", out)
	}
}
