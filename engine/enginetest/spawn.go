package enginetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// spawnMany is an agent that starts n runs of bg_hold in one step.
func spawnMany(n int) string {
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf("{name: spawn_background, args: {tool: bg_hold, title: Work %d, args: {}}}",
			i+1))
	}
	return `
rules:
  - when: {not_called: spawn_background}
    calls: [` + strings.Join(calls, ", ") + `]
steps: [{text: x}, {text: they run, repeat: true}]
`
}

func spawnLaws() []law {
	return []law{
		{"queued_runs_start_after_a_crash", queuedSurvive},
		{"a_replayed_spawn_is_the_same_run", replayedSpawn},
		{"refuses_what_cannot_run_in_the_background", refusesTargets},
		{"the_background_can_be_kept_out", backgroundOff},
	}
}

func queuedSurvive(t *testing.T, open Harness) { // RC13 row 4
	s := begin(t, open, Setup{Script: spawnMany(2), PerSession: 1})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.until("second run in the queue", func(e perdure.Event) bool {
		f, ok := e.Fact.(perdure.TaskCreated)
		return ok && f.Task.State == perdure.TaskQueued
	})
	s.crash()
	s.Release("bg_hold")
	s.rest()

	tasks, err := s.eng.Tasks().List(s.ctx, s.id)
	if err != nil || len(tasks) != 2 {
		t.Fatalf("got %d tasks, %v", len(tasks), err)
	}
	for _, task := range tasks {
		if task.State != perdure.TaskSucceeded || task.Delivered != perdure.DeliveredInjected {
			t.Errorf("%s is %s, delivered %s", task.DisplayName, task.State, task.Delivered)
		}
	}
}

// replayedSpawn pins TK1 and BG4: a spawning call runs again and finds its own run.
func replayedSpawn(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}, {name: hold, args: {text: a}}]
steps: [{text: x}, {text: they run, repeat: true}]
`})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.Entered(t, "hold", 1)
	before := s.onlyTask()
	s.crash()
	s.Release("hold")
	s.Release("bg_hold")
	s.rest()

	after := s.onlyTask()
	if after.ID != before.ID || after.Run != before.Run || after.State != perdure.TaskSucceeded {
		t.Errorf("before %s %s, after %s %s %s", before.ID, before.Run, after.ID, after.Run, after.State)
	}
	if after.LogPath != after.ArtifactDir()+"/output.log" {
		t.Errorf("log at %s (RC14: paths stay)", after.LogPath)
	}
}

func refusesTargets(t *testing.T, open Harness) { // 8.1 rows 9, 10, 11, 13
	for target, text := range map[string]string{
		"nonsense":         "Unknown tool: nonsense",
		"spawn_background": "spawn_background cannot target itself recursively",
		"echo":             "Tool does not support background execution: echo",
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: oneTool("spawn_background", "{tool: "+target+", args: {}}")})
			s.say("go")
			s.rest()

			if got := s.onlyResult("spawn_background"); got.Result.Error != text {
				t.Errorf("got %q, want %q", got.Result.Error, text)
			}
		})
	}
}

// backgroundOff pins TL33: an agent with DisableBackground neither sees nor can call the background
// tools.
func backgroundOff(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: oneTool("spawn_background", "{tool: stream, args: {}}")})
	session, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{DisableBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	s.id = session.ID
	s.say("go")
	s.rest()

	if got := s.onlyResult("spawn_background"); got.Result.Error != "Tool definition not found: spawn_background" {
		t.Errorf("got %+v", got.Result)
	}
}
