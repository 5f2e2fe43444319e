package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// spawning is an agent that starts one background run, ends its turn, and speaks again after the
// delivery.
func spawning(tool, args string) string {
	return `
rules:
  - when: {last_role: notification}
    text: "home: {{note}}"
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: ` + tool + `, title: Work, args: ` + args + `}}]
  - when: {called: spawn_background}
    text: it runs
`
}

func taskLaws() []law {
	return []law{
		{"SpawnCompletesAndSignals", spawnCompletes},
		{"SpawnFailureArtifacts", spawnFailure},
		{"hides_an_internal_error_in_the_background", spawnInternal},
		{"writes_its_log_as_it_comes", logLive},
		{"OutputLogCap", logCapped},
		{"manual_results_stay_out_of_the_transcript", manualStaysOut},
		{"reads_are_not_injected_again", readNotInjected},
		{"task_messages_of_a_foreign_id_are_unknown", foreignTask},
		{"a_task_without_processes_says_so", withoutProcesses},
		{"a_resolved_task_is_delivered_anew", resolveTask},
		{"a_late_result_joins_a_running_turn", joinsTurn},
	}
}

func spawnCompletes(t *testing.T, open Harness) { // TestSpawnCompletesAndSignals, BG14, DL4
	s := begin(t, open, Setup{Script: spawning("stream", "{}")})
	s.say("go")
	s.rest()

	task := s.onlyTask()
	if task.State != perdure.TaskSucceeded || task.Delivered != perdure.DeliveredInjected || task.Executions != 1 ||
		task.Attempt != 1 {
		t.Errorf("got %+v", task)
	}
	if n := len(facts[perdure.TaskDelivered](s)); n != 1 {
		t.Errorf("delivered %d times, want once", n)
	}
	lines := strings.Split(s.final(), "\n")
	want := []string{
		"home: Background run completed.", "- run_id: " + string(task.Run), "- title: Work", "- tool: stream",
	}
	for i, line := range want {
		if i >= len(lines) || lines[i] != line {
			t.Fatalf("got %q, want it to start with %q (DL4)", lines, want)
		}
	}
	log, err := s.eng.Tasks().Log(s.ctx, task.ID, 0, 1<<20)
	var text strings.Builder
	for _, c := range log.Chunks {
		text.Write(c.Bytes)
	}
	if err != nil || text.String() != "one\ntwo\nthree\n" || log.End != int64(text.Len()) {
		t.Errorf("log %q, end %d, %v", text.String(), log.End, err)
	}
}

// reporting is an agent that starts one background run and, after the delivery, reads one of its
// files.
func reporting(tool, file string) string {
	return `
rules:
  - when: {last_role: notification}
    calls: [{name: read_log, args: {path: '{{(result "spawn_background").artifact_dir}}/` + file + `'}}]
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: ` + tool + `, args: {}}}]
  - when: {called: spawn_background}
    text: it runs
`
}

func spawnFailure(t *testing.T, open Harness) { // TestSpawnFailureArtifacts
	for file, want := range map[string]string{"output.log": `[stderr] background failed\n`,
		"result.json": `{\n  \"error\": \"boom\",\n  \"status\": \"failed\"\n}`} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: reporting("bg_fail", file)})
			s.say("go")
			s.rest()

			task := s.onlyTask()
			if task.State != perdure.TaskFailed || task.Error == nil || task.Error.Kind != perdure.ErrorTool ||
				task.Error.Message != "boom" {
				t.Errorf("got %+v", task)
			}
			if got := string(s.onlyResult("read_log").Result.Result); !strings.Contains(got, want) {
				t.Errorf("%s holds %s, want %s", file, got, want)
			}
		})
	}
}

func spawnInternal(t *testing.T, open Harness) { // TestBackgroundInternalErrorHidden, TL12
	s := begin(t, open, Setup{Script: spawning("bg_break", "{}")})
	s.say("go")
	s.rest()

	if task := s.onlyTask(); task.Error == nil || task.Error.Message != perdure.GenericToolError ||
		strings.Contains(s.journalText(), "secret cause") {
		t.Errorf("got %+v", task.Error)
	}
}

func logLive(t *testing.T, open Harness) { // TestLogWrittenLive, BG13
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	task := s.onlyTask()

	var end int64
	for end == 0 && s.ctx.Err() == nil {
		log, err := s.eng.Tasks().Log(s.ctx, task.ID, 0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		end = log.End
	}
	s.Release("bg_hold")
	s.rest()

	if end != int64(len("working\n")) {
		t.Errorf("%d bytes while it ran", end)
	}
}

func logCapped(t *testing.T, open Harness) { // TestOutputLogCap, BG12
	s := begin(t, open, Setup{Script: `
rules:
  - when: {last_role: notification}
    calls: [{name: read_log, args: {path: '{{(result "spawn_background").log_path}}'}}]
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: flood, args: {}}}]
  - when: {called: spawn_background}
    text: it runs
`})
	s.say("go")
	s.rest()

	got := string(s.onlyResult("read_log").Result.Result)
	var chars int
	if n, err := fmt.Sscanf(got, `{"chars":%d`, &chars); n != 1 || err != nil || chars > 262_144+128 {
		t.Errorf("%d characters, %v", chars, err)
	}
	const mark = `\n[system] background output truncated at 262144 characters\n`
	if !strings.Contains(got, mark) {
		t.Errorf("got %.300s", got)
	}
}

func manualStaysOut(t *testing.T, open Harness) { // TestManualDelivery, DL6, DL7
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: stream, args: {}, signal_on_completion: false}}]
  - when: {called: spawn_background}
    text: it runs
`})
	s.say("go")
	s.rest()
	s.say("again")
	s.rest()

	task := s.onlyTask()
	if task.Delivery != perdure.Manual || task.Wake != perdure.WakeNone || task.Delivered != perdure.NotDelivered {
		t.Errorf("got %+v", task)
	}
	if n := len(facts[perdure.TaskDelivered](s)); n != 0 {
		t.Errorf("injected %d times, want never", n)
	}
}

func readNotInjected(t *testing.T, open Harness) { // DL5
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}]
  - when: {not_called: check_background_tool}
    calls: [{name: check_background_tool, args: {background_id: '{{(result "spawn_background").task_id}}', wait_seconds: 60}}]
  - when: {called: check_background_tool}
    text: '{{json (result "check_background_tool").output}}'
`})
	s.say("go")
	s.until("start of the wait", func(e perdure.Event) bool {
		f, ok := e.Fact.(perdure.ToolStarted)
		return ok && f.Name == "check_background_tool"
	})
	s.Release("bg_hold")
	s.rest()

	if task := s.onlyTask(); task.Delivered != perdure.DeliveredRead || len(facts[perdure.TaskDelivered](s)) != 0 {
		t.Errorf("got %q, injected %d times", task.Delivered, len(facts[perdure.TaskDelivered](s)))
	}
	if !strings.Contains(s.final(), "ok") {
		t.Errorf("the model read %q", s.final())
	}
}

func foreignTask(t *testing.T, open Harness) { // ER2
	s := begin(t, open, Setup{Script: "steps: [{text: hello}]"})

	_, err := s.eng.Tasks().Get(s.ctx, "task_00000000000000000000000000000000")
	_, cancelErr := s.eng.Tasks().Cancel(s.ctx, "task_00000000000000000000000000000000", "user", "")

	if !errors.Is(err, perdure.NotFound) || !errors.Is(cancelErr, perdure.NotFound) {
		t.Errorf("got %v and %v, want NotFound", err, cancelErr)
	}
}

// withoutProcesses pins TK17: a tool that starts no process has none, which is an answer.
func withoutProcesses(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	task := s.onlyTask()

	got, err := s.eng.Tasks().Processes(s.ctx, task.ID)
	_, foreign := s.eng.Tasks().Processes(s.ctx, "task_00000000000000000000000000000000")
	s.Release("bg_hold")

	if err != nil || got.Task != task.ID || got.Tool != "bg_hold" || got.Kind != task.Kind || got.State != perdure.ProcessNone ||
		got.At.IsZero() || got.Processes == nil || len(got.Processes)+len(got.Files) > 0 || got.Supervisor != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if !errors.Is(foreign, perdure.NotFound) {
		t.Errorf("of an unknown task: %v, want NotFound", foreign)
	}
}

// resolveTask pins LG11 and DL2: a person resolves an unknown task, and its outcome is delivered
// again.
func resolveTask(t *testing.T, open Harness) {
	for _, answer := range []perdure.ResolveAnswer{perdure.ResolveHappened, perdure.ResolveDidNotHappen, perdure.ResolveRunAgain} {
		t.Run(string(answer), func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: spawning("bg_charge", "{}")})
			s.say("go")
			s.Entered(t, "bg_charge", 1)
			s.crash()
			s.rest()
			task := s.onlyTask()
			if task.State != perdure.TaskUnknown {
				t.Fatalf("got %s, want unknown; journal:\n%s", task.State, s.journalText())
			}

			s.Release("bg_charge")
			err := s.eng.Tasks().Resolve(s.ctx, task.ID, engine.Resolution{
				Answer: answer, Result: []byte(`{"ok":true}`), By: "operator", Note: "looked",
			})
			if err != nil {
				t.Fatal(err)
			}
			s.rest()

			checkResolved(t, s, answer)
			if err := s.eng.Tasks().Resolve(context.WithoutCancel(s.ctx), task.ID,
				engine.Resolution{Answer: answer, By: "operator"}); !errors.Is(err, perdure.Conflict) {
				t.Errorf("a second resolution: got %v, want Conflict", err)
			}
		})
	}
}

func checkResolved(t *testing.T, s *scene, answer perdure.ResolveAnswer) {
	t.Helper()
	want := map[perdure.ResolveAnswer]perdure.TaskState{
		perdure.ResolveHappened: perdure.TaskSucceeded, perdure.ResolveDidNotHappen: perdure.TaskFailed,
		perdure.ResolveRunAgain: perdure.TaskSucceeded,
	}[answer]
	effects := 1
	if answer == perdure.ResolveRunAgain {
		effects = 2
	}
	if task := s.onlyTask(); task.State != want || len(s.Effects("bg_charge")) != effects {
		t.Errorf("got %s with %d effects, want %s with %d", task.State, len(s.Effects("bg_charge")), want, effects)
	}
	if n := len(facts[perdure.TaskDelivered](s)); n != 2 {
		t.Errorf("delivered %d times, want twice: unknown, then the outcome; journal:\n%s", n, s.journalText())
	}
	keys := s.Effects("bg_charge")
	if keys[0] != keys[len(keys)-1] {
		t.Errorf("keys %v: a rerun has the same key", keys)
	}
}

// joinsTurn pins DL3 and DL6: a result that arrives during a turn is delivered at the next safe
// point.
func joinsTurn(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: stream, args: {}}}, {name: hold, args: {text: a}}]
  - when: {notifications: 1}
    text: "with it: {{note}}"
steps: [{text: x}, {text: without it, repeat: true}]
`})
	s.say("go")
	s.Entered(t, "hold", 1)
	s.until("end of the run", func(e perdure.Event) bool {
		f, ok := e.Fact.(perdure.TaskUpdated)
		return ok && f.Task.State == perdure.TaskSucceeded
	})
	s.Release("hold")
	s.rest()

	if turns := len(facts[perdure.TurnStarted](s)); turns != 1 ||
		!strings.HasPrefix(s.final(), "with it: Background run completed.") {
		t.Errorf("%d turns, final %q", turns, s.final())
	}
}
