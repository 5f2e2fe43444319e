package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func laneLaws() []law {
	return []law{
		{"SoftBudgetDetaches", softBudgetDetaches},
		{"DetachDoesNotCancel", detachDoesNotCancel},
		{"SoftBudget", softBudgetStays},
		{"BackgroundPlaceholder", backgroundPlaceholder},
		{"DetachedOutputFromStart", detachedOutput},
		{"InterruptSparesBackground", interruptSparesDetached},
		{"FinishedBeforeInterruptKept", finishedKept},
		{"CancelDetached", cancelDetached},
		{"CancelDetachedFenced", cancelFenced},
		{"DetachCapStaysInForeground", detachCap},
		{"HostDetach", hostDetach},
		{"TwoCallsOneDetaches", twoCallsOneDetaches},
		{"DeadlineAfterDetach", deadlineAfterDetach},
		{"StallEnds", stallEnds},
		{"GiveUpPlaces", slotsReleased},
		{"RoutedRejectHasResult", routedReject},
	}
}

// softBudgetDetaches pins LN3, LN6, LN7 and DL4.
func softBudgetDetaches(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}")), SoftBudget: soon})
	s.say("go")
	left := s.awaitDetached()
	s.turnEnds(1)
	live := s.onlyTask()
	answer := s.onlyResult("hold")
	if live.State != perdure.TaskRunning || live.Lane != perdure.Background ||
		live.Origin != perdure.OriginDetached || left.Reason != perdure.DetachedByBudget {
		t.Errorf("left by %s; the task is %+v", left.Reason, live)
	}
	if want := placeholder(live, `"timeout_seconds":0.03`, textBudget); string(answer.Result.Result) != want ||
		answer.Status != perdure.StatusSuccess {
		t.Errorf("got %s %s\nwant %s", answer.Status, answer.Result.Result, want)
	}
	s.Release("hold")
	task := s.awaitDelivered(perdure.TaskSucceeded)
	want := fmt.Sprintf("home: Background run completed.\n- run_id: %s\n- title: hold\n- tool: hold\n"+
		"- summary: held: a\n- result_path: %s\n- log_path: %s\n- call_id: %s\n- result: {\"held\":\"a\"}",
		task.Run, task.ResultPath, task.LogPath, left.CallID)
	if s.final() != want || len(s.results()) != 1 {
		t.Errorf("got %q\nwant %q", s.final(), want)
	}
	if calls := s.ledger(); len(calls) != 1 || calls[0].State != perdure.CallSettled || calls[0].Task != task.ID {
		t.Errorf("the ledger has %+v: one row, bound to the task", calls)
	}
}

func detachDoesNotCancel(t *testing.T, open Harness) { // LN9
	s := begin(t, open, Setup{Script: detachingScript(ask("hold_note", "{text: a}"))})
	s.say("go")
	s.detach("hold_note")
	s.turnEnds(1)
	s.say("something else")
	s.turnEnds(2)
	s.Release("hold_note")

	if task := s.awaitDelivered(perdure.TaskSucceeded); task.Executions != 1 || len(s.Effects("hold_note")) != 1 {
		t.Errorf("%d executions, %d effects", task.Executions, len(s.Effects("hold_note")))
	}
}

// softBudgetStays pins that a fast tool, or a tool without a soft budget, stays in the foreground
// (LN2, LN3).
func softBudgetStays(t *testing.T, open Harness) {
	for name, setup := range map[string]Setup{
		"off":  {Script: oneTool("stream_hold", "{}"), SoftBudget: -1},
		"fast": {Script: oneTool("stream_hold", "{}"), SoftBudget: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, setup)
			s.say("go")
			s.Entered(t, "stream_hold", 1)
			s.Release("stream_hold")
			s.rest()

			if got := s.onlyResult("stream_hold"); string(got.Result.Result) != `{"status":"ok"}` ||
				len(s.tasks()) != 0 {
				t.Errorf("got %+v and %d tasks", got, len(s.tasks()))
			}
		})
	}
}

func backgroundPlaceholder(t *testing.T, open Harness) { // TestBackgroundPlaceholder, LN2, LN6
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}")), Background: []string{"hold"}})
	s.say("go")
	s.turnEnds(1)
	s.Entered(t, "hold", 1)
	live := s.onlyTask()
	answer := s.onlyResult("hold")
	s.Release("hold")
	s.rest()

	if s.spread() { // it had no deadline yet
		live.DeadlineAt = time.Time{}
	}
	if want := placeholder(live, `"reason":"routed"`, textRouted); string(answer.Result.Result) != want ||
		answer.Status != perdure.StatusSuccess {
		t.Errorf("got %s %s\nwant %s", answer.Status, answer.Result.Result, want)
	}
	task := s.onlyTask()
	if live.Origin != perdure.OriginRouted || live.Wake != perdure.WakeNotify ||
		task.State != perdure.TaskSucceeded || len(s.results()) != 1 {
		t.Errorf("before %+v, after %+v", live, task)
	}
}

func detachedOutput(t *testing.T, open Harness) { // BG13
	for name, budget := range map[string]time.Duration{"default": 0, "never": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: detachingScript(ask("stream_hold", "{}")), SoftBudget: budget})
			s.say("go")
			task := s.detach("stream_hold")
			s.Release("stream_hold")
			s.awaitDelivered(perdure.TaskSucceeded)

			log, err := s.eng.Tasks().Log(s.ctx, task.ID, 0, 1000)
			var text string
			for _, chunk := range log.Chunks {
				text += string(chunk.Bytes)
			}
			if err != nil || text != "one\ntwo\nthree\nfour\n" {
				t.Errorf("the log holds %q, %v", text, err)
			}
			// BG12
			if tail := s.onlyTaskOf(task.ID).Tail; !strings.Contains(tail, "] one\n") ||
				!strings.HasSuffix(tail, "four\n") {
				t.Errorf("the tail is %q", tail)
			}
		})
	}
}

func interruptSparesDetached(t *testing.T, open Harness) { // RC8
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"), ask("hold_note", "{text: b}"))})
	s.say("go")
	s.detach("hold")
	s.Entered(t, "hold_note", 1)
	s.interrupt()
	s.Release("hold")

	s.awaitDelivered(perdure.TaskSucceeded)
	if got := s.onlyResult("hold_note"); got.Status != perdure.StatusInterrupted ||
		s.onlyResult("hold").Status != perdure.StatusSuccess {
		t.Errorf("got %+v", got)
	}
}

func finishedKept(t *testing.T, open Harness) { // TestFinishedBeforeInterruptKept, RC8
	s := begin(t, open, Setup{Script: detachingScript(ask("note", "{text: a}"), ask("hold", "{text: b}"))})
	s.say("go")
	s.Entered(t, "hold", 1)
	nth(s, 1, func(f perdure.ToolCompleted) bool { return f.Name == "note" })
	s.interrupt()
	s.rest()

	if s.onlyResult("note").Status != perdure.StatusSuccess ||
		s.onlyResult("hold").Status != perdure.StatusInterrupted {
		t.Errorf("journal:\n%s", s.journalText())
	}
	s.results()
}

func cancelDetached(t *testing.T, open Harness) { // RC1 to RC5
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"))})
	s.say("go")
	id := s.detach("hold").ID
	first := s.cancel(id)
	again := s.cancel(id)
	task := s.awaitDelivered(perdure.TaskCanceled)

	if first.RequestedAt.IsZero() || first.SignalledAt.IsZero() && !s.spread() || !again.RequestedAt.IsZero() &&
		!again.RequestedAt.Equal(first.RequestedAt) {
		t.Errorf("receipts %+v and %+v", first, again)
	}
	receipts := facts[perdure.TaskCancelReceipt](s)
	if len(receipts) != 1 || receipts[0].Receipt.DeadAt.IsZero() || task.CancelBy != "user" ||
		task.CancelWhy != "enough" || task.Summary != "Canceled by request." {
		t.Errorf("receipts %+v, task %+v", receipts, task)
	}
	if calls := s.ledger(); len(calls) != 1 || calls[0].State != perdure.CallSettled ||
		!strings.HasPrefix(s.final(), "home: Background run canceled.") {
		t.Errorf("the ledger has %+v, the model received %q", calls, s.final())
	}
}

func cancelFenced(t *testing.T, open Harness) { // RC6
	s := begin(t, open, Setup{Script: detachingScript(ask("hold_stubborn", "{text: a}")), Grace: 20 * time.Millisecond})
	s.say("go")
	s.cancel(s.detach("hold_stubborn").ID)
	task := s.awaitDelivered(perdure.TaskCanceled)
	s.Release("hold_stubborn")

	if task.StateDetail != "did not stop" {
		t.Errorf("got %q", task.StateDetail)
	}
}

// hears waits for a future live update that contains a text.
func (s *scene) hears(kind, text string) <-chan error {
	heard := make(chan error, 1) // capacity 1: the receiver may be gone
	begun := make(chan struct{})
	found := errors.New("heard")
	go func() {
		heard <- s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
			if f.Event != nil && f.Event.Seq == 1 {
				close(begun)
			}
			if f.Type == kind && strings.Contains(string(f.Data), text) {
				return found
			}
			return nil
		})
	}()
	<-begun
	told := make(chan error, 1)
	go func() {
		err := <-heard
		if errors.Is(err, found) {
			err = nil
		}
		told <- err
	}()
	return told
}

// detachCap pins BG16 and BG17: without a free slot the call stays in the foreground, reports that,
// and tries again.
func detachCap(t *testing.T, open Harness) {
	s := begin(t, open, Setup{
		Script: detachingScript(ask("hold", "{text: a}"), ask("hold_note", "{text: b}")), SoftBudget: soon, PerSessionDetached: 1,
	})
	told := s.hears("tool.progress", "No background slot is free")
	s.say("go")
	first := s.onlyTaskOf(s.awaitDetached().TaskID)
	if err := <-told; err != nil {
		t.Fatalf("no report that no slot is free: %v; journal:\n%s", err, s.journalText())
	}
	if n := len(facts[perdure.ToolDetached](s)); n != 1 {
		t.Errorf("%d calls were detached", n)
	}
	s.Release(first.Tool)
	second := s.onlyTaskOf(nth[perdure.ToolDetached](s, 2, nil).TaskID)
	s.Release(second.Tool)
	s.rest()

	if len(s.tasks()) != 2 || s.deliveries() != 2 || len(s.results()) != 2 || second.ID == first.ID {
		t.Errorf("journal:\n%s", s.journalText())
	}
}

// onlyTaskOf returns a task.
func (s *scene) onlyTaskOf(id perdure.TaskID) perdure.Task {
	s.t.Helper()
	task, err := s.eng.Tasks().Get(s.ctx, id)
	if err != nil {
		s.t.Fatalf("Task: %v", err)
	}
	return task
}

func hostDetach(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: detachingScript(ask("hold", "{text: a}"))})
	_, unknown := s.eng.Calls().Detach(s.ctx, perdure.CallKey{
		Session: s.id, Call: "call_0123456789abcdef0123456789abcdef",
	}, "user")
	s.say("go")
	task := s.detach("hold")
	s.turnEnds(1)
	s.Release("hold")
	s.awaitDelivered(perdure.TaskSucceeded)
	_, late := s.eng.Calls().Detach(s.ctx, task.LedgerKey(), "user")

	if left := s.awaitDetached(); left.Reason != perdure.DetachedByHost || left.TaskID != task.ID || left.TimeoutSeconds != 0 {
		t.Errorf("got %+v", left)
	}
	if !errors.Is(unknown, perdure.NotFound) || !errors.Is(late, perdure.NotFound) {
		t.Errorf("an unknown call: %v, one that ended: %v; want NotFound", unknown, late)
	}
}

func twoCallsOneDetaches(t *testing.T, open Harness) { // LN17
	s := begin(t, open, Setup{Script: detachingScript(ask("hold_note", "{text: first}"), ask("hold", "{text: second}"))})
	s.say("go")
	s.detach("hold")
	s.Release("hold_note")
	s.turnEnds(1)
	got := s.results()
	s.Release("hold")
	s.awaitDelivered(perdure.TaskSucceeded)

	if len(got) != 2 || got[0] != `{"held":"first"}` ||
		!strings.HasPrefix(got[1], `{"type":"background","tool":"hold"`) {
		t.Errorf("got %q", got)
	}
}

func deadlineAfterDetach(t *testing.T, open Harness) { // LN4
	s := begin(t, open, Setup{Script: detachingScript(ask("hold_late", "{text: a}"))})
	s.say("go")
	s.awaitDetached()
	task := s.awaitDelivered(perdure.TaskFailed)

	if task.Error == nil || task.Error.Kind != perdure.ErrorTimeout ||
		!strings.HasPrefix(task.Error.Message, "Timed out after ") {
		t.Errorf("got %+v", task.Error)
	}
	if d := task.DeadlineAt.Sub(task.StartedAt); d != 1500*time.Millisecond {
		t.Errorf("its deadline is %s after its start: detaching does not restart it", d)
	}
}

func stallEnds(t *testing.T, open Harness) { // LN4
	s := begin(t, open, Setup{Script: oneTool("hold_silent", "{text: a}")})
	s.say("go")
	s.rest()

	if got := s.onlyResult("hold_silent"); got.Status != perdure.StatusTimeout ||
		got.Result.ErrorKind != perdure.ErrorTimeout {
		t.Errorf("got %+v", got)
	}
}

// slotsReleased pins BG16: ended work has no slot, in neither count.
func slotsReleased(t *testing.T, open Harness) {
	s := begin(t, open, Setup{
		Script: "steps:\n" +
			strings.Repeat("  - calls: ["+ask("hold", "{}")+", "+ask("hold_note", "{}")+"]\n  - text: it goes on\n", 3),
		Background: []string{"hold"}, PerSession: 1, PerSessionDetached: 1,
	})
	for turn := 1; turn <= 3; turn++ {
		s.say("go")
		f := nth(s, turn, func(f perdure.ToolStarted) bool { return f.Name == "hold_note" })
		s.Entered(t, "hold_note", turn)
		if turn == 1 {
			if _, err := s.eng.Calls().Detach(s.ctx, perdure.CallKey{Session: s.id, Call: f.CallID}, "user"); err != nil {
				t.Fatal(err)
			}
			s.Release("hold")
			// otherwise the next turn may start first
			nth(s, 1, func(f perdure.TaskUpdated) bool { return f.Task.Tool == "hold" && f.Task.State.Terminal() })
			s.Release("hold_note")
		}
		s.rest()
	}
	states := []perdure.TaskState{}
	for _, f := range facts[perdure.TaskCreated](s) {
		states = append(states, f.Task.State)
	}
	if slices.Contains(states, perdure.TaskQueued) && !s.spread() || len(states) != 4 {
		t.Errorf("the tasks started as %v: a slot was not released", states)
	}
}

func routedReject(t *testing.T, open Harness) { // LN6, 8.1 row 20
	s := begin(t, open, Setup{
		Script: detachingScript(ask("hold", "{text: a}"), ask("hold", "{text: b}")), Background: []string{"hold"},
		PerSession: 1, Reject: true,
	})
	s.say("go")
	s.turnEnds(1)
	s.Release("hold")
	s.rest()

	got := facts[perdure.ToolCompleted](s)
	const text = "Maximum 1 active background runs per session. Wait for an existing run to finish before starting another."
	if len(got) != 2 || got[0].Status != perdure.StatusSuccess || got[1].Result.Error != text ||
		!got[1].Result.NeverStarted || len(s.tasks()) != 1 {
		t.Errorf("got %+v", got)
	}
	s.results()
}
