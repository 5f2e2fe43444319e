package enginetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// regressionLaws are named after faults of other systems that must not occur here.
func regressionLaws() []law {
	return []law{
		{"CrashInFirstTwoSeconds", crashBeforeBeat},
		{"HeartbeatNoEvent", heartbeatNoEvent},
		{"BackgroundInternalErrorHidden", internalHidden},
		{"CancelReportsDead", cancelReportsDead},
		{"ReattachSamePaths", reattachSamePaths},
		{"ReattachSessionTool", reattachSessionTool},
		{"StreamRetryKeepsTasks", streamRetry},
		{"DeliveredToAsker", deliveredToAsker},
		{"OpenTasksAfterCompaction", openAfterCompaction},
	}
}

// crashBeforeBeat kills a worker before its first heartbeat: its work is found anyway (TK8, LG19).
func crashBeforeBeat(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}"), Beat: time.Hour})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	before := s.onlyTask()
	s.crash()
	s.Entered(t, "bg_hold", 2)
	s.Release("bg_hold")
	after := s.awaitDelivered(perdure.TaskSucceeded)

	if before.HeartbeatAt.IsZero() || after.ID != before.ID || after.Attempt != 2 || after.Executions != 2 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func heartbeatNoEvent(t *testing.T, open Harness) { // TK8, EV7
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}"), Beat: 10 * time.Millisecond})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.turnEnds(1)
	task := s.onlyTask()
	for task.LogBytes == 0 && s.ctx.Err() == nil { // from here on there are only heartbeats
		task = s.onlyTask()
	}
	events, later := len(s.events()), task
	for range 3 {
		for last := later.HeartbeatAt; !later.HeartbeatAt.After(last) && s.ctx.Err() == nil; {
			later = s.onlyTask()
		}
	}
	more := len(s.events()) - events
	s.Release("bg_hold")
	s.rest()

	if more != 0 || !later.UpdatedAt.Equal(task.UpdatedAt) || later.State != perdure.TaskRunning {
		t.Errorf("three heartbeats: %d more events; before %+v, after %+v", more, task, later)
	}
}

// internalHidden pins TL12 for the files of a run, its record, and the text that the model
// receives.
func internalHidden(t *testing.T, open Harness) {
	for file, want := range map[string]string{"output.log": `"chars":0`, "result.json": perdure.GenericToolError,
		"meta.json": `result_truncated`} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: reporting("bg_break", file)})
			s.say("go")
			s.rest()

			if got := string(s.onlyResult("read_log").Result.Result); !strings.Contains(got, want) {
				t.Errorf("%s holds %s, want %s", file, got, want)
			}
			task := s.onlyTask()
			record, err := json.Marshal(task)
			if err != nil || task.Summary != perdure.GenericToolError ||
				strings.Contains(string(record), "secret cause") || strings.Contains(s.journalText(), "secret cause") {
				t.Errorf("%v, the record is %s; journal:\n%s", err, record, s.journalText())
			}
		})
	}
}

// cancelReportsDead pins RC2 and RC3: requested and signalled is not dead, and work that stops late
// is reported as dead late.
func cancelReportsDead(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_stubborn", "{}"), Grace: waitLimit})
	s.say("go")
	s.Entered(t, "bg_stubborn", 1)
	s.turnEnds(1)
	receipt := s.cancel(s.onlyTask().ID)
	asked, early := s.onlyTask(), len(facts[perdure.TaskCancelReceipt](s))
	s.Release("bg_stubborn")
	s.rest()

	if receipt.RequestedAt.IsZero() || receipt.SignalledAt.IsZero() && !s.spread() || !receipt.DeadAt.IsZero() ||
		asked.State != perdure.TaskRunning || early != 0 {
		t.Errorf("while it continues: %+v, %s, %d receipts", receipt, asked.State, early)
	}
	told := facts[perdure.TaskCancelReceipt](s)
	if len(told) != 1 || told[0].Receipt.DeadAt.Before(asked.CancelRequestedAt) || told[0].Receipt.DidNotStop {
		t.Errorf("when it has ended: %+v", told)
	}
}

// reattachSamePaths pins RC14: what the model has read about a run stays true after a crash.
func reattachSamePaths(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.turnEnds(1)
	before := s.onlyTask()
	s.crash()
	s.Entered(t, "bg_hold", 2)
	s.Release("bg_hold")
	after := s.awaitDelivered(perdure.TaskSucceeded)

	var told struct {
		Run    perdure.RunID  `json:"run_id"`
		Task   perdure.TaskID `json:"task_id"`
		Dir    string         `json:"artifact_dir"`
		Log    string         `json:"log_path"`
		Result string         `json:"result_path"`
	}
	if err := perdure.DecodeKnownJSON(s.onlyResult("spawn_background").Result.Result, &told); err != nil {
		t.Fatal(err)
	}
	if told.Run != after.Run || told.Task != after.ID || told.Dir != after.ArtifactDir() ||
		told.Log != after.LogPath || told.Result != after.ResultPath {
		t.Errorf("before %+v, after the crash %+v", told, after)
	}
	if after.DisplayName != before.DisplayName || after.Delivery != before.Delivery || after.Wake != before.Wake {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// reattachSessionTool pins RC15: the session's own tools decide, not a default set.
func reattachSessionTool(t *testing.T, open Harness) {
	agent := perdure.Agent{Tools: []string{"spawn_background", "bg_hold"}}
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}"), Agent: agent})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.crash()
	s.Entered(t, "bg_hold", 2)
	s.Release("bg_hold")

	if task := s.awaitDelivered(perdure.TaskSucceeded); task.Error != nil || task.Executions != 2 {
		t.Errorf("got %+v", task)
	}
}

// streamRetry pins RC9: a retry of a model response does not affect what its turn has started.
func streamRetry(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: `
rules:
  - when: {last_role: notification, last_contains: Background run}
    text: home
  - when: {called: spawn_background, attempt: 1}
    text: it broke off
    error: {code: provider_unavailable, retry_after: 1ms, after_bytes: 5}
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}, {name: hold, args: {text: a}}]
steps: [{text: x}, {text: it runs, repeat: true}]
`})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.detach("hold")
	s.turnEnds(1)
	broke, live := false, s.tasks()
	for _, f := range facts[perdure.ReasonCompleted](s) {
		broke = broke || f.Code == "provider_unavailable"
	}
	s.Release("bg_hold")
	s.Release("hold")
	s.rest()

	if !broke {
		t.Errorf("no stream was cut off; journal:\n%s", s.journalText())
	}
	for i, task := range s.tasks() {
		if live[i].State != perdure.TaskRunning || task.State != perdure.TaskSucceeded || task.Executions != 1 ||
			task.CancelRequested() {
			t.Errorf("after the retry %s, %+v", live[i].State, task)
		}
	}
}

// deliveredToAsker pins DL1: of two sessions with the same work, each receives its own result, also
// after a crash.
func deliveredToAsker(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	other, err := s.eng.Sessions().Create(s.ctx, perdure.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	second := *s
	second.id = other.ID
	s.say("go")
	second.say("go")
	s.Entered(t, "bg_hold", 2)
	s.turnEnds(1)
	second.turnEnds(1)
	s.crash()
	second.eng = s.eng
	s.Release("bg_hold")

	first, next := s.awaitDelivered(perdure.TaskSucceeded), second.awaitDelivered(perdure.TaskSucceeded)
	if !strings.Contains(s.final(), string(first.Run)) || strings.Contains(s.journalText(), string(next.Run)) {
		t.Errorf("the first session received %q", s.final())
	}
	if !strings.Contains(second.final(), string(next.Run)) || strings.Contains(second.journalText(), string(first.Run)) {
		t.Errorf("the second session received %q", second.final())
	}
}

// openAfterCompaction pins DL13: after any compaction, the transcript that the model sees names the
// live runs.
func openAfterCompaction(t *testing.T, open Harness) {
	for strategy, c := range map[string]struct{ talk, most int }{"mask": {1, 300}, "drop": {3, 350}} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Agent: perdure.Agent{MaxContextTokens: c.most}, Script: `
rules:
  - when: {last_contains: "Background run completed"}
    text: home
  - when: {user_contains: which}
    text: '{{note}} {{json (result "spawn_background")}}'
  - when: {user_contains: start, last_role: user}
    calls: [{name: spawn_background, args: {tool: bg_hold, title: Work, args: {}}}]
steps: [{text: x}, {text: I see, repeat: true}]
`})
			s.say("start")
			s.Entered(t, "bg_hold", 1)
			s.turnEnds(1)
			for i := range c.talk {
				s.say(strings.Repeat("long talk ", 60))
				s.turnEnds(i + 2)
			}
			s.say("which runs are there?")
			s.turnEnds(c.talk + 2)
			shown, task, told := s.final(), s.onlyTask(), facts[perdure.ContextCompacted](s)
			s.Release("bg_hold")
			s.rest()

			if len(told) == 0 || told[len(told)-1].Strategy != strategy {
				t.Fatalf("compacted %+v", told)
			}
			if line := fmt.Sprintf("- %s (%s) bg_hold: running", task.ID, task.Run); !strings.Contains(shown, line) {
				t.Errorf("the model received %q, without %q", shown, line)
			}
			if s.onlyTask().State != perdure.TaskSucceeded {
				t.Errorf("got %+v", s.onlyTask())
			}
		})
	}
}
