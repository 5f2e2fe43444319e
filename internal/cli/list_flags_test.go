package cli

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// TestListsNewestFirst checks the order of a list, and what --limit, --since and -o wide do.
func TestListsNewestFirst(t *testing.T) {
	t.Parallel()
	now := time.Now()
	long := strings.Repeat("long ", 20) + "end"
	at := &scene{sessions: sessionsOf("session_1"), views: [][]perdure.Task{{
		{ID: "task_1", State: perdure.TaskSucceeded, Session: "session_1", CreatedAt: now.Add(-72 * time.Hour)},
		{ID: "task_2", State: perdure.TaskSucceeded, Session: "session_1", CreatedAt: now.Add(-2 * time.Hour)},
		{ID: "task_4", State: perdure.TaskSucceeded, Session: "session_1", CreatedAt: now.Add(-time.Minute), DisplayName: long, Summary: "all done"},
		{ID: "task_3", State: perdure.TaskSucceeded, Session: "session_1", CreatedAt: now.Add(-time.Minute)},
	}}}
	for args, want := range map[string]string{
		"":                         "task_3 task_4 task_2 task_1",
		"--limit 2":                "task_3 task_4",
		"--since 1h":               "task_3 task_4",
		"--since 2d":               "task_3 task_4 task_2",
		"--since 2d --limit 1":     "task_3",
		"--since 2000-01-31":       "task_3 task_4 task_2 task_1",
		"--since 2100-01-31":       "",
		"--limit 0 --state failed": "",
	} {
		code, out, talk := command{args: "task list -o name " + args, scene: at}.run(t.Context())
		if got := strings.Join(strings.Fields(out), " "); code != exitOK || got != want {
			t.Errorf("%s: exit code %d, %q, want %q: %s", args, code, got, want, talk)
		}
	}
	for _, args := range []string{"--limit -1", "--since yesterday", "--since -1h"} {
		if code, _, talk := (command{args: "task list " + args, scene: at}).run(t.Context()); code != exitUsage {
			t.Errorf("%s: exit code %d: %s", args, code, talk)
		}
	}

	_, short, _ := command{args: "task list", scene: at}.run(t.Context())
	code, wide, _ := command{args: "task list -o wide", scene: at}.run(t.Context())

	if code != exitOK || !strings.Contains(wide, "SUMMARY") || !strings.Contains(wide, "all done") || !strings.Contains(wide, long) {
		t.Errorf("exit code %d, and a wide table:\n%s", code, wide)
	}
	if strings.Contains(short, "SUMMARY") || strings.Contains(short, long) {
		t.Errorf("a table is as wide as a wide one:\n%s", short)
	}
}

// changingOffice is an office whose tasks change with each look. After the last one it ends the
// command.
type changingOffice struct {
	office
	end func()
}

// changingTasks implements engine.Tasks for changingOffice.
type changingTasks struct {
	engine.Tasks
	*changingOffice
}

// Tasks implements engine.Engine.
func (o *changingOffice) Tasks() engine.Tasks { return changingTasks{nil, o} }

func (c changingTasks) List(context.Context, perdure.SessionID) ([]perdure.Task, error) {
	views := c.views
	if len(views) > 1 {
		c.scene.views = views[1:]
	} else {
		c.end()
	}
	return views[0], nil
}

// TestPsWatch checks that ps --watch redraws a terminal, and elsewhere prints the work again only
// when it has changed.
func TestPsWatch(t *testing.T) {
	t.Parallel()
	task := func(state perdure.TaskState) []perdure.Task {
		return []perdure.Task{{ID: "task_1", State: state, Session: "session_1", Tool: "bash", CreatedAt: time.Unix(0, 0), FinishedAt: time.Now()}}
	}
	for _, terminal := range []Terminal{{}, {Stdout: true}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			running := task(perdure.TaskRunning)
			at := &changingOffice{office{scene: &scene{views: [][]perdure.Task{running, running, task(perdure.TaskSucceeded)}}}, end}

			code, out, talk := command{args: "ps --watch --all", engine: at, terminal: terminal}.run(ctx)

			if code != exitInterrupted || !strings.Contains(out, "Working (1)") || !strings.Contains(out, "Done (1)") {
				t.Errorf("exit code %d, %q, %q", code, out, talk)
			}
			if clears := strings.Count(out, clearScreen); terminal.Stdout != (clears >= 2) {
				t.Errorf("a terminal: %t, cleared %d times: %q", terminal.Stdout, clears, out)
			}
			if n := strings.Count(out, "Working (1)"); !terminal.Stdout && n != 1 {
				t.Errorf("what has not changed is printed %d times: %q", n, out)
			}
		})
	}
	for _, flag := range []string{"--prompt", "-o json", "--jq .", "-o name"} {
		if code, _, talk := (command{args: "ps --watch " + flag, scene: &scene{}}).run(t.Context()); code != exitUsage {
			t.Errorf("%s: exit code %d: %s", flag, code, talk)
		}
	}
}

// TestScheduleEvery checks which intervals a schedule can have.
func TestScheduleEvery(t *testing.T) {
	t.Parallel()
	for every, want := range map[time.Duration]string{
		time.Minute: "* * * * *", 5 * time.Minute: "*/5 * * * *", 15 * time.Minute: "*/15 * * * *", 30 * time.Minute: "*/30 * * * *",
		time.Hour: "0 * * * *", 6 * time.Hour: "0 */6 * * *", 12 * time.Hour: "0 */12 * * *", 24 * time.Hour: "0 0 * * *",
		7 * time.Minute: "", 90 * time.Minute: "", 5 * time.Hour: "", 30 * time.Second: "", 48 * time.Hour: "", -time.Hour: "", 61 * time.Second: "",
	} {
		got, err := cronEvery(every)
		if got != want || (err == nil) != (want != "") || err != nil && exitCode(err) != exitUsage {
			t.Errorf("%s: %q, %v; want %q", every, got, err, want)
		}
		if _, _, failed := readCron(got, "UTC", time.Now()); err == nil && failed != nil {
			t.Errorf("%s is %q: %v", every, got, failed)
		}
	}
	for _, args := range []string{"--every 15m --at 2030-01-31T00:00:00Z", "@daily --every 15m", "--every 7m"} {
		code, _, talk := command{args: "schedule create --session last --message hello " + args, scene: &scene{}}.run(t.Context())
		if code != exitUsage || !strings.Contains(talk, "--every") {
			t.Errorf("%s: exit code %d: %s", args, code, talk)
		}
	}
}

// TestAPIMethod checks the method of a request for which only a path is given.
func TestAPIMethod(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ typed, body, method, path string }{
		{"/v1/sessions", "", "GET", "/v1/sessions"},
		{"v1/sessions", "", "GET", "v1/sessions"},
		{"/v1/sessions", "{}", "POST", "/v1/sessions"},
	} {
		c := &apiCommand{Method: test.typed, Body: test.body}
		r, err := c.request(&app{})
		if err != nil || r.Method != test.method || r.Path != test.path {
			t.Errorf("%+v: %s %s, %v", test, r.Method, r.Path, err)
		}
	}
	if _, err := (&apiCommand{Method: "GET"}).request(&app{}); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "<path>") {
		t.Errorf("no path: %v", err)
	}
}

// TestServeDetachArguments checks that the server in the background is started like this one.
func TestServeDetachArguments(t *testing.T) {
	t.Parallel()
	got := attachedArgs([]string{"--data", "/d", "serve", "--detach", "--addr=:1", "-d", "--detach=true", "--deny", "bash"})
	if want := []string{"--data", "/d", "serve", "--addr=:1", "--deny", "bash"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
