package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// processing is a scene whose task has processes.
type processing struct {
	*scene
	shown perdure.TaskProcesses
}

// processingTasks implements engine.Tasks for processing.
type processingTasks struct {
	engine.Tasks
	processing
}

func (p processing) Tasks() engine.Tasks { return processingTasks{p.scene.Tasks(), p} }

func (p processingTasks) Processes(context.Context, perdure.TaskID) (perdure.TaskProcesses, error) {
	return p.shown, p.err
}

// TestTaskProcess prints the processes of a task in each state.
func TestTaskProcess(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Hour)
	one := func(pid, parent int, command string) perdure.Process {
		return perdure.Process{PID: pid, ParentPID: parent, Group: 11, State: "sleeping", StartedAt: began, Command: command, Directory: "/work", CPUMS: 1500, Memory: 3 << 20}
	}
	for _, test := range []struct {
		name  string
		shown perdure.TaskProcesses
		want  []string
	}{
		{"no process", perdure.TaskProcesses{State: perdure.ProcessNone, Kind: perdure.KindSubagent}, []string{"no process of its own", "(subagent)"}},
		{"not started", perdure.TaskProcesses{State: perdure.ProcessNotStarted}, []string{"the command has not started"}},
		{"running", perdure.TaskProcesses{State: perdure.ProcessRunning, Execution: 1, Home: "home_1", Host: "beta", Count: 9,
			Supervisor: &perdure.Supervisor{PID: 10, IsAlive: true, CommandPID: 11, StartedAt: began},
			Sandbox:    &perdure.Sandbox{Profile: "workspace", Enforced: []string{"files: Landlock"}},
			Processes:  []perdure.Process{one(11, 10, "bash"), one(12, 11, "sleep 600\x1b[2J\u202egnp.exe"), one(13, 11, "tail")},
			Files:      []perdure.OutputFile{{Path: "/data/runs/a/output", Bytes: 7}}, CPUMS: 4500},
			[]string{"home_1  beta", "pid 10, holds the command", "files: Landlock", "closed by the sandbox", "11 ", "  bash", "· sleep 600", "· tail", "4.5 s", "9.0 MiB", "/data/runs/a/output  7 bytes"}},
		{"ended", perdure.TaskProcesses{State: perdure.ProcessEnded, End: &perdure.ProcessEnd{Code: 143, Signal: 15, Stopped: true, EndedAt: began, Left: 2, Peak: 5 << 20},
			Supervisor: &perdure.Supervisor{PID: 10, StartedAt: began}},
			[]string{"signal 15, exit code 143, after a stop was requested", "2 of its processes", "5.0 MiB in one process", "open: no egress rule", "pid 10, has ended"}},
		{"lost", perdure.TaskProcesses{State: perdure.ProcessLost}, []string{"did not record how the command ended"}},
		{"elsewhere", perdure.TaskProcesses{State: perdure.ProcessElsewhere, Home: "home_2", Host: "gamma"}, []string{"only the server with the home home_2", "gamma"}},
	} {
		s := course(1)
		test.shown.Task = "task_1"
		code, out, talk := command{args: "task process build", engine: processing{s, test.shown}}.run(t.Context())
		for _, word := range test.want {
			if !strings.Contains(out, word) {
				t.Errorf("%s: no %q in %q", test.name, word, out)
			}
		}
		if strings.ContainsAny(out, "\x1b\u202e") || code != exitOK {
			t.Errorf("%s: exit code %d, %q, %q", test.name, code, out, talk)
		}
		if test.shown.Count > 3 && !strings.Contains(talk, "6 more processes are not shown") {
			t.Errorf("got %q", talk)
		}
		code, out, _ = command{args: "task process build --jq .state", engine: processing{s, test.shown}}.run(t.Context())
		if code != exitOK || strings.TrimSpace(out) != string(test.shown.State) {
			t.Errorf("%s: exit code %d, %q", test.name, code, out)
		}
	}
}
