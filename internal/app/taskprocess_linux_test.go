package app

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
)

// processes reads the processes of a task.
func (d *doorway) processes(id perdure.TaskID) (p perdure.TaskProcesses, text string) {
	d.t.Helper()
	r := d.get("/v1/tasks/" + string(id) + "/process")
	if r.status != http.StatusOK {
		d.t.Fatalf("got %d %s", r.status, r.body)
	}
	r.into(d.t, &p)
	return p, r.body
}

// TestProcessesOfATask: a command whose arguments have a secret of the session, and one that only
// its name betrays, is shown as a tree without them, to a caller and on the command line. While no
// server runs nobody knows the secret, so the tree has no command lines (TK17, RD4, RD5, RD6).
func TestProcessesOfATask(t *testing.T) {
	t.Parallel()
	d := newDoorway(t, nil)
	d.env = append(d.env, "PERDURE_SANDBOX=none") // the pids are those of this machine
	d.serve = []string{"--allow-shell", "--use-secret", "API_KEY"}
	d.start()
	id := d.begin(d.script(`
rules:
  - when: {not_called: spawn_background}
    calls:
      - name: spawn_background
        args: {tool: bash, args: {secrets: [API_KEY], command: 'bash -c "sleep 600; :" holder "$API_KEY" --password hunter-of-the-test & wait'}}
steps: [{text: it runs, repeat: true}]
`), "begin")
	if status, body := d.send(http.MethodPut, "/v1/sessions/"+string(id)+"/secrets/API_KEY", `{"value":"`+canarySecret+`"}`, ""); status >= 300 {
		t.Fatalf("got %d %s", status, body)
	}
	d.insist(say(id, "go", "go"))
	task := d.taskOf(id)

	var p perdure.TaskProcesses
	var text string
	d.until("three processes", func() bool {
		p, text = d.processes(task)
		return len(p.Processes) == 3 && p.Processes[2].Command == "sleep 600"
	})
	said := d.output("task", "process", string(task))
	d.kill()
	alone := d.output("task", "process", string(task), "-o", "json")

	if p.State != perdure.ProcessRunning || p.Task != task || p.Execution != 1 || p.Home == "" || p.Supervisor.CommandPID != p.Processes[0].PID ||
		p.Processes[1].ParentPID != p.Processes[0].PID || p.Processes[2].ParentPID != p.Processes[1].PID {
		t.Errorf("got %+v", p)
	}
	for name, shown := range map[string]string{"API": text, "command": said, "command without a server": alone} {
		if strings.Contains(shown, canarySecret) || strings.Contains(shown, "hunter-of-the-test") {
			t.Errorf("%s shows:\n%s", name, shown)
		}
	}
	for name, shown := range map[string]string{"API": text, "command": said} {
		if !strings.Contains(shown, "<redacted") && !strings.Contains(shown, `\u003credacted`) || !strings.Contains(shown, "holder") {
			t.Errorf("%s shows:\n%s", name, shown)
		}
	}
	var hidden perdure.TaskProcesses
	if err := json.Unmarshal([]byte(alone), &hidden); err != nil || len(hidden.Processes) != 3 ||
		slices.ContainsFunc(hidden.Processes, func(p perdure.Process) bool { return p.Command != redact.Unprintable || p.Memory == 0 }) {
		t.Errorf("a command that knows no secrets shows, %v:\n%s", err, alone)
	}
	for _, word := range []string{"running", "holds the command", "COMMAND", "· · sleep 600"} {
		if !strings.Contains(said, word) {
			t.Errorf("no %q in:\n%s", word, said)
		}
	}
}

// TestProcessesAtAnotherHome: a server names the home whose processes it cannot see, and does not
// judge them (TK17, RC23).
func TestProcessesAtAnotherHome(t *testing.T) {
	t.Parallel()
	w := newShared(t, "10m")
	_, task, pid := w.runsCommand("sleep 1000")
	w.two.start()

	here, _ := w.one.processes(task)
	there, _ := w.two.processes(task)

	if here.State != perdure.ProcessRunning || here.Home == "" || !slices.ContainsFunc(here.Processes, func(p perdure.Process) bool { return p.PID == pid }) {
		t.Errorf("its own server says %+v, want the process %d", here, pid)
	}
	if there.State != perdure.ProcessElsewhere || there.Home != here.Home || there.Host == "" || len(there.Processes) > 0 || there.Supervisor != nil {
		t.Errorf("the other server says %+v, want that it is at %s", there, here.Home)
	}
}
