package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// course is a task that makes one step of progress with each read, and succeeds after n.
func course(n int) *scene {
	s := &scene{}
	start := time.Now()
	for i := range n + 1 {
		current, total := float64(i), float64(n)
		t := perdure.Task{ID: "task_1", Tool: "bash", DisplayName: "Build", State: perdure.TaskRunning, Attempt: 1, StartedAt: start,
			Progress: &perdure.Progress{Current: &current, Total: &total, Unit: "files"}}
		if i == n {
			t.State, t.Summary, t.FinishedAt = perdure.TaskSucceeded, "built", start.Add(time.Duration(n)*watchEvery)
		}
		s.views = append(s.views, []perdure.Task{t})
		s.logs = append(s.logs, fmt.Sprintf("first\nline %d\x1b[2J\n\n", i))
	}
	return s
}

func TestC05Watch(t *testing.T) {
	t.Parallel()
	t.Run("piped, it is one line a change", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := course(4)
			s.views = append(s.views[:2], append([][]perdure.Task{s.views[1], s.views[1]}, s.views[2:]...)...)
			s.logs = append(s.logs[:2], append([]string{s.logs[1], s.logs[1]}, s.logs[2:]...)...)

			code, out, talk := command{args: "task watch build --exit-status", scene: s}.run(t.Context())

			want := "task_1  bash  ▸ running  ░░░░░░░░░░░░░░░░░░░░ 0 %  0/4 files  | line 0[2J\n" +
				"task_1  bash  ▸ running  █████░░░░░░░░░░░░░░░ 25 %  1/4 files 10/s, 300 ms left  | line 1[2J\n" +
				"task_1  bash  ▸ running  ██████████░░░░░░░░░░ 50 %  2/4 files 5/s, 400 ms left  | line 2[2J\n" +
				"task_1  bash  ▸ running  ███████████████░░░░░ 75 %  3/4 files 6/s, 166 ms left  | line 3[2J\n" +
				"task_1  bash  ✓ succeeded  after 400 ms  built  | line 4[2J\n"
			if diff := cmp.Diff(out, want); diff != "" || code != exitOK || talk != "" {
				t.Errorf("exit code %d, %q (-got +want):\n%s", code, talk, diff)
			}
		})
	})
	t.Run("a terminal is drawn at most ten times a second", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s, began := course(30), time.Now()

			code, out, _ := command{args: "task watch task_1", scene: s, terminal: Terminal{Stdout: true}}.run(t.Context())

			draws, most := strings.Count(out, "\x1b[J"), int(time.Since(began)/(100*time.Millisecond))
			if code != exitOK || draws == 0 || draws > most || strings.Contains(out, "\x1b[2J") {
				t.Errorf("exit code %d, drawn %d times, at most %d: %q", code, draws, most, out)
			}
			for i, at := range s.looks[1:] {
				if at.Sub(s.looks[i]) < watchEvery || at.Sub(s.looks[i]) > 150*time.Millisecond {
					t.Errorf("looked again after %s", at.Sub(s.looks[i]))
				}
			}
			if !strings.HasSuffix(out, "\n") || strings.Count(out, "\x1b[?7l") != strings.Count(out, "\x1b[?7h") {
				t.Errorf("the terminal is left as %q", out)
			}
		})
	})
	t.Run("what does not succeed is 8 if that is asked for", func(t *testing.T) {
		t.Parallel()
		for _, state := range []perdure.TaskState{perdure.TaskFailed, perdure.TaskCanceled, perdure.TaskUnknown} {
			s := &scene{views: [][]perdure.Task{{{ID: "task_1", State: state}}}}
			plain, _, _ := command{args: "task watch task_1", scene: s}.run(t.Context())
			asked, _, talk := command{args: "task watch task_1 --exit-status", scene: s}.run(t.Context())
			if plain != exitOK || asked != exitFailed || !strings.Contains(talk, "task_1 has ended: "+string(state)) {
				t.Errorf("%s: exit codes %d and %d, %q", state, plain, asked, talk)
			}
		}
	})
}

// TestC05Cost: the cost of an agent's task is shown, read once a second and at its end; other tasks
// have none.
func TestC05Cost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := course(24)
		for i := range s.views {
			s.views[i][0].Kind, s.views[i][0].Links.ChildSession = perdure.KindSubagent, "session_2"
		}

		code, out, _ := command{args: "task watch task_1", scene: s}.run(t.Context())

		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if want := "cost 0.01 usd"; !strings.Contains(lines[0], want) || !strings.Contains(lines[9], want) {
			t.Errorf("at first %q, then %q; want %s", lines[0], lines[9], want)
		}
		if last, want := lines[len(lines)-1], "cost 0.04 usd"; code != exitOK || !strings.Contains(last, want) || !strings.Contains(last, "succeeded") {
			t.Errorf("exit code %d, in the end %q, want %s", code, last, want)
		}
		for _, q := range s.bills {
			if q.Session != "session_2" || q.Group != "session" {
				t.Errorf("asked for %+v", q)
			}
		}
	})
	plain := course(3)
	if _, out, _ := (command{args: "task watch task_1", scene: plain}).run(t.Context()); len(plain.bills) != 0 || strings.Contains(out, "cost") {
		t.Errorf("of work that is no agent's %d bills were asked for: %q", len(plain.bills), out)
	}
}

// TestC05Pace checks that rates and estimates are shown only if known, and never negative (C17).
func TestC05Pace(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	task := func(attempt int, current, total float64) perdure.Task {
		return perdure.Task{State: perdure.TaskRunning, Attempt: attempt, StartedAt: begin, Progress: &perdure.Progress{Current: &current, Total: &total}}
	}
	var p progressRate
	for _, step := range []struct {
		seconds int
		task    perdure.Task
		want    string
	}{
		{0, perdure.Task{State: perdure.TaskRunning}, ""},
		{10, task(1, 0, 100), ""},
		{20, task(1, 10, 100), "1/s, 90 s left"},
		{110, task(1, 10, 100), "1/s, 0 ms left"},     // the estimate has passed
		{120, task(1, 300, 100), "2.73/s, 0 ms left"}, // more than the total
		{130, task(2, 5, 100), ""},                    // a new attempt starts over
		{140, task(2, 6, 1e300), "0.1/s"},
	} {
		p.observe(step.task, at(step.seconds))
		if got := p.line(step.task, at(step.seconds)); got != step.want {
			t.Errorf("after %d s: got %q, want %q", step.seconds, got, step.want)
		}
	}
}

// TestC03Matrix runs a list, a failure and a watch with every combination of flag, environment and
// terminal: colors as requested, and cursor movement only on a terminal with a cursor.
func TestC03Matrix(t *testing.T) {
	t.Parallel()
	for i := range 3 * 2 * 2 * 2 * 2 {
		bit := func(n int) bool { return i/3>>n&1 == 1 }
		when := []string{"auto", "always", "never"}[i%3]
		env, terminal := map[string]string{}, Terminal{Stdout: bit(0), Stderr: bit(0)}
		for n, name := range []string{"NO_COLOR", "CLICOLOR_FORCE"} {
			if bit(n + 1) {
				env[name] = "1"
			}
		}
		if bit(3) {
			env["TERM"] = "dumb"
		}
		colors := when == "always" || when == "auto" && env["NO_COLOR"] == "" && (env["CLICOLOR_FORCE"] != "" || terminal.Stdout && env["TERM"] == "")
		moves := terminal.Stdout && env["TERM"] == ""

		t.Run(fmt.Sprintf("%s %v terminal %t", when, env, terminal.Stdout), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := command{args: "--color " + when + " task watch task_1", scene: course(3), terminal: terminal, env: env}
				_, watched, _ := c.run(t.Context())
				c.args = "--color " + when + " task list"
				_, list, _ := c.run(t.Context())
				c.args, c.scene = c.args+" -o nonsense", &scene{err: errors.New("x")}
				_, _, talk := c.run(t.Context())

				if got := strings.Contains(list, "\x1b["); got != colors {
					t.Errorf("colors %t, want %t: %q", got, colors, list)
				}
				if got := strings.Contains(watched, "m✓ succeeded\x1b[0m"); got != colors {
					t.Errorf("colors of watch %t, want %t: %q", got, colors, watched)
				}
				if got := strings.Contains(watched, "\x1b[2A\r\x1b[J"); got != moves {
					t.Errorf("cursor moves %t, want %t: %q", got, moves, watched)
				}
				if strings.ContainsAny(list+talk, "\r") || strings.Contains(list+talk, "\x1b[2A") {
					t.Errorf("the cursor moves: %q %q", list, talk)
				}
			})
		})
	}
}

func TestC08Names(t *testing.T) {
	t.Parallel()
	s := course(1)
	s.views = s.views[:1]
	s.views[0] = append(s.views[0], perdure.Task{ID: "task_2", DisplayName: "twice"}, perdure.Task{ID: "task_3", DisplayName: "Twice"})
	s.sessions = sessionsOf("session_1", "session_2", "session_3")
	s.sessions[0].Title = "Fix the roof"
	s.agents = map[perdure.SessionID]string{"session_2": "mason", "session_3": "smith"}
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"task show BUILD -o name", exitOK, "task_1\n"},
		{"task show 2 -o name", exitOK, "task_2\n"},
		{"task show twice -o name", exitConflict, "task_2  twice"},
		{"task show buidl -o name", exitNotFound, "did you mean Build?"},
		{"event list mason --jq .[0].session_id", exitOK, "session_2\n"},
		{"event list session_3 --jq .[0].session_id", exitOK, "session_3\n"},
		{"event list masno", exitNotFound, "perdure session list shows them"},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, out, talk := command{args: test.args, scene: s}.run(t.Context())
			if code != test.code || !strings.Contains(strings.ReplaceAll(out+talk, "  queued", ""), test.want) {
				t.Errorf("exit code %d, %q, %q", code, out, talk)
			}
		})
	}
}

// TestTaskListKinds: a list of tasks has the selected kinds.
func TestTaskListKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"", "task_3\ntask_2\ntask_1\n"}, {" --kind external_agent", "task_2\n"}, {" --kind subagent,external_agent", "task_3\ntask_2\n"},
		{" --kind monitor", ""}, {" --kind external_agent --state failed", ""},
	} {
		s := course(1)
		s.views[0] = []perdure.Task{
			{ID: "task_1", Kind: perdure.KindBackgroundTool}, {ID: "task_2", Kind: perdure.KindExternalAgent}, {ID: "task_3", Kind: perdure.KindSubagent},
		}
		code, out, talk := command{args: "task list -o name" + test.args, scene: s}.run(t.Context())
		if code != exitOK || out != test.want {
			t.Errorf("%s: exit code %d, %q, %q; want %q", test.args, code, out, talk, test.want)
		}
	}
}

// TestRD6Lists: a list of tasks shows arguments without secrets, for people and for programs; a
// single task shows them unchanged.
func TestRD6Lists(t *testing.T) {
	t.Parallel()
	const given = `{"password":"canary","text":"a"}`
	for _, test := range []struct {
		args  string
		whole bool
	}{{"task list", false}, {"task list -o json", false}, {"task show 1 -o json", true}} {
		s := course(1)
		s.views[0] = []perdure.Task{{ID: "task_1", Spec: perdure.TaskSpec{Arguments: json.RawMessage(given)}}}
		code, out, talk := command{args: test.args, scene: s}.run(t.Context())
		if code != exitOK || strings.Contains(out, "canary") != test.whole || strings.Contains(out, "<redacted>") == test.whole {
			t.Errorf("%s: exit code %d, %q, %q", test.args, code, out, talk)
		}
	}
}
