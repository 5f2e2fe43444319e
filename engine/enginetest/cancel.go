package enginetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

func cancelLaws() []law {
	return []law{
		{"CancelBackgroundRun", cancelsRun},
		{"CancelBackgroundRun_artifacts", cancelArtifacts},
		{"cancels_a_queued_run_before_it_starts", cancelsQueued},
		{"a_finished_task_keeps_its_result", cancelsFinished},
		{"StubbornToolFenced", stubbornFenced},
		{"a_fenced_tool_writes_nothing", fencedWritesNothing},
		{"a_cancel_survives_a_crash", cancelSurvives},
		{"force_ends_the_grace_period", forceEndsGrace},
		{"force_cancels_what_was_not_canceled", forceCancels},
		{"force_reaches_everything_below_a_subagent", forceReachesBelow},
		{"a_finished_task_is_not_forced", forceOfFinished},
		{"an_interrupt_spares_background_work", interruptSpares},
		{"an_interrupt_of_a_stream_keeps_its_text", interruptStream},
	}
}

func cancelsRun(t *testing.T, open Harness) { // TestCancelBackgroundRun, RC7
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)

	receipt, err := s.eng.Tasks().Cancel(s.ctx, s.onlyTask().ID, "user", "enough")
	again, againErr := s.eng.Tasks().Cancel(s.ctx, s.onlyTask().ID, "somebody", "else")
	s.rest()

	task := s.onlyTask()
	if err != nil || againErr != nil || receipt.RequestedAt.IsZero() {
		t.Errorf("got %+v, %v; again %+v, %v", receipt, err, again, againErr)
	}
	if task.State != perdure.TaskCanceled || task.Summary != "Canceled by request." || task.CancelBy != "user" ||
		task.CancelWhy != "enough" {
		t.Errorf("got %+v", task)
	}
	receipts := facts[perdure.TaskCancelReceipt](s)
	if len(receipts) != 1 || receipts[0].Receipt.DeadAt.IsZero() || receipts[0].Receipt.SignalledAt.IsZero() {
		t.Errorf("receipts %+v: one, and dead (RC2)", receipts)
	}
	if !strings.HasPrefix(s.final(), "home: Background run canceled.") {
		t.Errorf("the model received %q", s.final())
	}
}

// cancelArtifacts pins the files that a cancel leaves, and that a run without a signal notifies
// nobody (RC7, BG14).
func cancelArtifacts(t *testing.T, open Harness) {
	for file, want := range map[string]string{"output.log": `Canceled by request.\n`,
		"result.json": `{\n  \"status\": \"canceled\"\n}`} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: `
rules:
  - when: {user_contains: read, not_called: read_log}
    calls: [{name: read_log, args: {path: '{{(result "spawn_background").artifact_dir}}/` + file + `'}}]
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}, signal_on_completion: false}}]
steps: [{text: x}, {text: it runs, repeat: true}]
`})
			s.say("go")
			s.Entered(t, "bg_hold", 1)
			task := s.onlyTask()
			if task.HeartbeatAt.IsZero() {
				t.Error("no heartbeat at the start")
			}
			if _, err := s.eng.Tasks().Cancel(s.ctx, task.ID, "user", ""); err != nil {
				t.Fatal(err)
			}
			if _, err := s.eng.Tasks().Wait(s.ctx, task.ID); err != nil {
				t.Fatal(err)
			}
			s.say("read")
			s.rest()

			if got := string(s.onlyResult("read_log").Result.Result); !strings.Contains(got, want) {
				t.Errorf("%s holds %s, want %s", file, got, want)
			}
			if n := len(facts[perdure.TaskDelivered](s)); n != 0 {
				t.Errorf("delivered %d times, want none", n)
			}
		})
	}
}

func cancelsQueued(t *testing.T, open Harness) { // RC1
	s := begin(t, open, Setup{Script: spawnMany(2), PerSession: 1})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	queued := nth(s, 2, func(perdure.TaskCreated) bool { return true }).Task
	if queued.State != perdure.TaskQueued {
		t.Fatalf("the second run is %s", queued.State)
	}

	if _, err := s.eng.Tasks().Cancel(s.ctx, queued.ID, "user", ""); err != nil {
		t.Fatal(err)
	}
	s.Release("bg_hold")
	s.rest()

	task, err := s.eng.Tasks().Get(s.ctx, queued.ID)
	if err != nil || task.State != perdure.TaskCanceled || task.Executions != 0 {
		t.Errorf("got %+v, %v", task, err)
	}
}

func cancelsFinished(t *testing.T, open Harness) { // RC1
	s := begin(t, open, Setup{Script: spawning("stream", "{}")})
	s.say("go")
	s.rest()
	before := len(s.events())

	receipt, err := s.eng.Tasks().Cancel(s.ctx, s.onlyTask().ID, "user", "")

	if err != nil || !receipt.RequestedAt.IsZero() || s.onlyTask().State != perdure.TaskSucceeded ||
		len(s.events()) != before {
		t.Errorf("got %+v, %v, %s and %d events more", receipt, err, s.onlyTask().State, len(s.events())-before)
	}
}

func stubbornFenced(t *testing.T, open Harness) { // TestStubbornToolFenced, RC6
	s := begin(t, open, Setup{Script: spawning("bg_stubborn", "{}"), Grace: 20 * time.Millisecond})
	s.say("go")
	s.Entered(t, "bg_stubborn", 1)
	if _, err := s.eng.Tasks().Cancel(s.ctx, s.onlyTask().ID, "user", ""); err != nil {
		t.Fatal(err)
	}
	s.rest()
	fenced := s.onlyTask()
	s.Release("bg_stubborn")

	if fenced.State != perdure.TaskCanceled || fenced.StateDetail != "did not stop" {
		t.Errorf("got %s, %q", fenced.State, fenced.StateDetail)
	}
	receipts := facts[perdure.TaskCancelReceipt](s)
	if len(receipts) != 1 || !receipts[0].Receipt.DidNotStop || !receipts[0].Receipt.DeadAt.IsZero() {
		t.Errorf("receipts %+v (TestCancelReportsDead)", receipts)
	}
}

// fencedWritesNothing: the token of its call fences the files of a tool and the work that it
// starts, whatever lease its worker has.
func fencedWritesNothing(t *testing.T, open Harness) { // RC6
	s := begin(t, open, Setup{Script: spawning("bg_late", "{}"), Grace: 20 * time.Millisecond})
	s.say("go")
	s.Entered(t, "bg_late", 1)
	if _, err := s.eng.Tasks().Cancel(s.ctx, s.onlyTask().ID, "user", ""); err != nil {
		t.Fatal(err)
	}
	s.rest()
	s.Release("bg_late")
	s.Entered(t, "bg_late_written", 1)

	for _, what := range []string{"file", "run", "subagent"} {
		if n := len(s.Effects("late_" + what)); n != 0 {
			t.Errorf("%d writes of a %s succeeded", n, what)
		}
	}
	s.onlyTask()
	for _, f := range facts[perdure.FileWritten](s) {
		if f.Path == "/late.txt" {
			t.Errorf("the journal has %+v", f)
		}
	}
	s.Release("bg_late_written")
}

func cancelSurvives(t *testing.T, open Harness) { // TestReaperHonoursCancel, RC13 row 2
	s := begin(t, open, Setup{Script: spawning("bg_stubborn", "{}")})
	s.say("go")
	s.Entered(t, "bg_stubborn", 1)
	if _, err := s.eng.Tasks().Cancel(s.ctx, s.onlyTask().ID, "user", ""); err != nil {
		t.Fatal(err)
	}
	s.crash()
	s.rest()

	if task := s.onlyTask(); task.State != perdure.TaskCanceled || task.Executions != 1 {
		t.Errorf("got %s after %d executions", task.State, task.Executions)
	}
	s.Release("bg_stubborn")
}

// force requests force for a task.
func (s *scene) force(id perdure.TaskID) perdure.CancelReceipt {
	s.t.Helper()
	receipt, err := s.eng.Tasks().Force(s.ctx, id, "operator", "now")
	if err != nil {
		s.t.Fatalf("Force: %v", err)
	}
	return receipt
}

// forceEndsGrace: force fences a tool at once, although its grace period is longer than any law
// runs, and the journal has both requests (RC21).
func forceEndsGrace(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawning("bg_stubborn", "{}"), Grace: 4 * waitLimit})
	s.say("go")
	s.Entered(t, "bg_stubborn", 1)
	first := s.cancel(s.onlyTask().ID)
	receipt, again := s.force(s.onlyTask().ID), s.force(s.onlyTask().ID)
	s.rest()
	fenced := s.onlyTask()
	s.Release("bg_stubborn")

	if receipt.RequestedAt != first.RequestedAt || again.RequestedAt != first.RequestedAt || receipt.SignalledAt.IsZero() && !s.spread() {
		t.Errorf("receipts %+v, %+v, %+v: one request", first, receipt, again)
	}
	if fenced.State != perdure.TaskCanceled || fenced.StateDetail != "did not stop" || fenced.CancelBy != "user" ||
		!fenced.ForceRequested() || fenced.ForceRequestedAt.Before(fenced.CancelRequestedAt) {
		t.Errorf("got %+v", fenced)
	}
	want := []perdure.TaskCancelRequested{{By: "user", Why: "enough"}, {By: "operator", Why: "now", Force: true}}
	if got := facts[perdure.TaskCancelRequested](s); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	receipts := facts[perdure.TaskCancelReceipt](s)
	if len(receipts) != 1 || !receipts[0].Receipt.DidNotStop || !receipts[0].Receipt.DeadAt.IsZero() {
		t.Errorf("receipts %+v: force claims no more than is so", receipts)
	}
}

func forceCancels(t *testing.T, open Harness) { // RC21
	s := begin(t, open, Setup{Script: spawning("bg_hold", "{}")})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.force(s.onlyTask().ID)
	s.rest()

	task, receipts := s.onlyTask(), facts[perdure.TaskCancelReceipt](s)
	if task.State != perdure.TaskCanceled || task.CancelBy != "operator" || !task.ForceRequestedAt.Equal(task.CancelRequestedAt) {
		t.Errorf("got %+v", task)
	}
	if len(receipts) != 1 || receipts[0].Receipt.DeadAt.IsZero() {
		t.Errorf("receipts %+v", receipts)
	}
}

// forceReachesBelow pins that force on the task of a subagent ends the subagent's calls and tasks
// without a grace period, also after a cancel that has reached them (RC21).
func forceReachesBelow(t *testing.T, open Harness) {
	for _, after := range []string{"a cancel", "nothing"} {
		t.Run("after "+after, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Grace: 4 * waitLimit, Script: family(freeChild, `  - when: {user_contains: piece, not_called: hold_stubborn}
    calls: [{name: spawn_background, args: {tool: bg_stubborn, args: {}}}, `+ask("hold_stubborn", "{text: a}")+`]`)})
			s.say("go")
			s.Entered(t, "hold_stubborn", 1)
			s.Entered(t, "bg_stubborn", 1)
			task := s.onlyTask()
			if after == "a cancel" {
				s.cancel(task.ID)
			}
			s.force(task.ID)
			s.rest()
			child := s.child()
			child.rest()

			if got := s.onlyTask(); got.State != perdure.TaskCanceled {
				t.Errorf("got %+v", got)
			}
			for _, below := range child.tasks() {
				if below.State != perdure.TaskCanceled || !below.ForceRequested() {
					t.Errorf("got %+v", below)
				}
			}
			s.Release("hold_stubborn")
			s.Release("bg_stubborn")
		})
	}
}

func forceOfFinished(t *testing.T, open Harness) { // RC21
	s := begin(t, open, Setup{Script: spawning("stream", "{}")})
	s.say("go")
	s.rest()
	before := len(s.events())

	receipt := s.force(s.onlyTask().ID)

	if !receipt.RequestedAt.IsZero() || s.onlyTask().State != perdure.TaskSucceeded || len(s.events()) != before {
		t.Errorf("got %+v, %s and %d events more", receipt, s.onlyTask().State, len(s.events())-before)
	}
}

func interruptSpares(t *testing.T, open Harness) { // TestInterruptSparesBackground, RC8
	s := begin(t, open, Setup{Script: `
rules:
  - when: {last_role: notification}
    text: home
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bg_hold, args: {}}}, {name: hold, args: {text: a}}]
steps: [{text: x, repeat: true}]
`})
	s.say("go")
	s.Entered(t, "bg_hold", 1)
	s.Entered(t, "hold", 1)
	if err := s.eng.Sessions().Interrupt(s.ctx, s.id, "user", "stop"); err != nil {
		t.Fatal(err)
	}
	s.until("canceled turn", func(e perdure.Event) bool { _, ok := e.Fact.(perdure.TurnCanceled); return ok })
	interrupted := s.onlyResult("hold")
	s.Release("bg_hold")
	s.rest()

	if interrupted.Status != perdure.StatusInterrupted {
		t.Errorf("the foreground call ended as %s", interrupted.Status)
	}
	if task := s.onlyTask(); task.State != perdure.TaskSucceeded || s.final() != "home" {
		t.Errorf("the background run is %s, final %q", task.State, s.final())
	}
}

func interruptStream(t *testing.T, open Harness) { // RC8, EV5
	s := begin(t, open, Setup{Script: `
steps:
  - {text: "a long story that never ends", chunk: 7, pace: 1h}
  - {text: next}
`})
	s.say("go")
	s.until("open answer", func(e perdure.Event) bool { _, ok := e.Fact.(perdure.OutputStarted); return ok })
	if err := s.eng.Sessions().Interrupt(s.ctx, s.id, "user", ""); err != nil {
		t.Fatal(err)
	}
	s.rest()

	outputs := facts[perdure.OutputCompleted](s)
	if len(outputs) != 1 || !outputs[0].Interrupted || len(facts[perdure.TurnCanceled](s)) != 1 {
		t.Errorf("got %+v; journal:\n%s", outputs, s.journalText())
	}
}
