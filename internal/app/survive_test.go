//go:build linux

package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/soak"
)

// place is a data directory and a workspace for runs of the program.
type place struct {
	t    *testing.T
	data string
	work string
	env  []string // in addition to the test's own
}

func newPlace(t *testing.T, files map[string]string) place {
	t.Helper()
	p := place{t: t, data: filepath.Join(t.TempDir(), "data"), work: t.TempDir()}
	for name, text := range files {
		path := filepath.Join(p.work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { killCommands(p.data) })
	return p
}

// command returns one start of the program.
func (p place) command(args ...string) *exec.Cmd {
	cmd := exec.Command("perdure", args...)
	cmd.Env = append(os.Environ(), "PERDURE_DATA="+p.data, "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, p.env...)
	return cmd
}

// output runs the program to its end and returns its output.
func (p place) output(args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("perdure %s: %v\n%s%s", strings.Join(args, " "), err, out, talk.String())
	}
	return string(out)
}

// killedAt starts the program and kills it with SIGKILL when it has printed a line with a word and
// its command is up. It returns the output between the word and the kill.
func (p place) killedAt(word string, args ...string) (after string) {
	p.t.Helper()
	cmd := p.command(args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	found := false
	for !found && lines.Scan() {
		found = strings.Contains(lines.Text(), word)
	}
	p.untilRunning()
	if err := cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	for lines.Scan() {
		after += lines.Text() + "\n"
	}
	_ = cmd.Wait() // it was killed
	if !found {
		p.t.Fatalf("perdure %s ended without %q", strings.Join(args, " "), word)
	}
	return after
}

// untilRunning waits until a supervised command is up.
func (p place) untilRunning() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), waitTime)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := processesIn(ctx, p.data)
		if err == nil && len(all) == 1 && all[0].PID != 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.t.Fatalf("no command is up: %+v, %v", all, err)
		}
	}
}

// TestR33AdoptsACommand kills the runtime while its command runs. The next start gets the directory
// at once, and the task keeps its id, its run, its paths, its full output and its real exit code.
func TestR33AdoptsACommand(t *testing.T) {
	t.Parallel()
	// of a twentieth of a second
	for kills, lines := range map[int]int{1: 40, 3: soak.Count(t, "PERDURE_LONG_COMMAND", 160, 12000)} {
		t.Run(fmt.Sprint(kills, " kills"), func(t *testing.T) {
			t.Parallel()
			adoptsACommand(t, kills, lines)
		})
	}
}

func adoptsACommand(t *testing.T, kills, lines int) {
	t.Helper()
	p := newPlace(t, nil)
	script := filepath.Join(p.work, "script.yaml")
	command := fmt.Sprintf(`for i in $(seq 1 %d); do echo "line $i"; sleep 0.05; done; exit 7`, lines)
	text := fmt.Sprintf(`
rules:
  - when: {last_role: notification}
    text: home
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bash, args: {command: %q}}}]
  - when: {called: spawn_background}
    text: it runs
`, command)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--model", "scripted:" + script, "--workspace", p.work, "--allow-shell", "-o", "jsonl"}
	p.killedAt(`"turn.completed"`, append(args, "go")...)
	before := p.task()

	for range kills - 1 {
		p.killedAt(`"task.reattached"`, "run", "--last", "-o", "jsonl")
	}
	p.output("run", "--last", "-o", "jsonl")

	after := p.task()
	if after.ID != before.ID || after.Run != before.Run || after.State != perdure.TaskSucceeded || after.Executions != 1 || after.Attempt != kills+1 {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	want := ""
	for i := range lines {
		want += fmt.Sprintf("line %d\n", i+1)
	}
	if got := p.output("task", "log", string(after.ID)); got != want {
		t.Errorf("the log has a hole or a repetition:\n%s", got)
	}
	t.Logf("%d kills: attempt %d, %d lines whole, exit code 7, %s from start to end", kills, after.Attempt, lines, after.FinishedAt.Sub(after.StartedAt).Round(time.Second))
	result, err := os.ReadFile(filepath.Join(p.work, after.ResultPath))
	if err != nil || !strings.Contains(string(result), `"exit_code": 7`) || after.ResultPath != after.ArtifactDir()+"/result.json" {
		t.Errorf("%s: %s, %v", after.ResultPath, result, err)
	}
}

// task reads the only task of the place.
func (p place) task() perdure.Task {
	p.t.Helper()
	var tasks []perdure.Task
	if err := json.Unmarshal([]byte(p.output("task", "list", "-o", "json")), &tasks); err != nil || len(tasks) != 1 {
		p.t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	return tasks[0]
}

// report runs the example of the README, with or without a kill, and returns its report: empty if
// the kill came too late, and nothing was left to do.
func (p place) report(kill bool, args ...string) string {
	p.t.Helper()
	var printed string
	if kill {
		before := p.killedAt("The module file names the project", args...)
		printed = p.output("run", "--last")
		if printed == "" || strings.Contains(before, "# Report") {
			return ""
		}
	} else {
		printed = p.output(args...)
	}
	_, text, found := strings.Cut(printed, "# Report")
	if !found {
		p.t.Fatalf("no report:\n%s", printed)
	}
	return strings.ReplaceAll(text, "[stdout] ", "")
}

// bothReports runs a report without a kill and with one. On a busy machine the kill may come too
// late: then it is run again.
func bothReports(report func(kill bool) string) (whole, interrupted string) {
	whole = report(false)
	for n := 0; interrupted == "" && n < 10; n++ {
		interrupted = report(true)
	}
	return whole, interrupted
}

// TestReportEndsTheSame runs the example of the README twice, once with a kill in between.
func TestReportEndsTheSame(t *testing.T) {
	t.Parallel()
	files := map[string]string{"go.mod": "module example.com/small\n", "README.md": "# Small\n"}
	for i := range 12 {
		files[fmt.Sprintf("part%d/part.go", i)] = strings.Repeat("// one line\n", i+1)
	}
	const script = "scripted:../../examples/scripts/repo-report.yaml"
	report := func(kill bool) string {
		p := newPlace(t, files)
		return p.report(kill, "run", "--allow-shell", "--workspace", p.work, "--model", script, "report on this repository")
	}

	whole, interrupted := bothReports(report)

	if whole != interrupted || !strings.Contains(whole, "module example.com/small") || !strings.Contains(whole, "78 lines in all") {
		t.Errorf("without a kill:\n%s\nwith one:\n%s", whole, interrupted)
	}
}
