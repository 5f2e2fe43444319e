package perdure_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// ended ends a task with a summary.
func (w *simulator) ended(id perdure.TaskID, state perdure.TaskState) {
	w.tb.Helper()
	w.update(id, perdure.TaskUpdate{Attempt: w.rows[id].Attempt, State: state, Summary: "built"})
}

// TestDecideWake is the table of DL6: what a delivered result does, by its wake, to a session that
// is idle, in the middle of a turn, or at the end of one.
func TestDecideWake(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		delivery  perdure.Delivery
		wake      perdure.Wake
		idle      bool // starts a turn
		safePoint bool // is injected before the next model call
		end       bool // gives a turn that is about to end one more reason step
	}{
		{perdure.ToLoop, perdure.WakeNone, false, true, false},
		{perdure.ToLoop, perdure.WakeNotify, false, true, false},
		{perdure.ToLoop, perdure.WakeContinue, true, true, true},
		{perdure.Manual, perdure.WakeNone, false, false, false},
		{perdure.Manual, perdure.WakeContinue, false, false, false},
	} {
		name := fmt.Sprintf("DL6_%s_%s", row.delivery, row.wake)
		t.Run(name+"/idle", func(t *testing.T) {
			t.Parallel()
			w := newSimulator(t, perdure.Agent{})
			id := w.task(perdure.TaskRunning, row.delivery, row.wake)

			w.ended(id, perdure.TaskSucceeded)
			w.wake()

			if _, got := w.model(); got != row.idle {
				t.Errorf("a turn starts: got %t, want %t", got, row.idle)
			}
			if row.idle && last[perdure.TurnStarted](t, w).Cause != perdure.CauseDelivery {
				t.Errorf("cause: got %+v, want delivery", last[perdure.TurnStarted](t, w))
			}
			w.receive("hello", "")
			w.wake()
			if !row.idle {
				w.wantInjected(t, id, row.safePoint) // it waited for the next turn
			}
		})
		t.Run(name+"/safe_point", func(t *testing.T) {
			t.Parallel()
			w := asking(t, perdure.Agent{})
			id := w.task(perdure.TaskRunning, row.delivery, row.wake)
			w.settle(w.answer("", call("a"))...)
			w.ended(id, perdure.TaskSucceeded)

			w.wake()
			w.wantInjected(t, id, false) // never between calls and their results (DL3)
			w.settle(done(w.runs()[0].Call, `1`))

			w.wantInjected(t, id, row.safePoint)
		})
		t.Run(name+"/end", func(t *testing.T) {
			t.Parallel()
			w := asking(t, perdure.Agent{})
			id := w.task(perdure.TaskRunning, row.delivery, row.wake)
			w.ended(id, perdure.TaskSucceeded)

			w.settle(w.answer("done")...)

			if _, got := w.model(); got != row.end {
				t.Errorf("one more reason step: got %t, want %t", got, row.end)
			}
			w.wantInjected(t, id, row.end)
		})
	}
}

// wantInjected checks whether the end of a task stands in the transcript, once.
func (w *simulator) wantInjected(t *testing.T, id perdure.TaskID, want bool) {
	t.Helper()
	n := 0
	for _, m := range w.session.Transcript {
		if m.Role == perdure.RoleNotification && strings.Contains(m.Text(), string(w.rows[id].Run)) {
			n++
		}
	}
	if n > 1 || n == 1 != want {
		t.Errorf("notifications of %s: got %d, want one: %t", id, n, want)
	}
}

// TestDecideDelivery has the other rules of delivery.
func TestDecideDelivery(t *testing.T) {
	t.Parallel()
	keepAll(t, []law{
		{"DL8_ends_that_are_ready_together_are_one_turn_in_settle_order", oneTurnForAll},
		{"DL8_at_the_cap_continue_acts_as_notify_with_one_event", capHolds},
		{"DL8_a_person_who_speaks_lifts_the_cap", capLifts},
		{"DL5_a_result_that_was_read_is_not_injected", readDropsInjection},
		{"DL5_reading_again_changes_nothing", readTwice},
		{"DL2_a_resolved_outcome_is_delivered_again", resolvedIsDelivered},
		{"DL2_a_rerun_takes_the_end_back", rerunTakesBack},
		{"TK3_filling_in_an_ended_task_delivers_nothing_twice", fillInIsNoEnd},
		{"LG11_a_resolved_call_is_reported_as_a_notification", resolvedCallIsReported},
		{"DL9_a_wake_survives_a_crash", wakeSurvives},
	})
}

func oneTurnForAll(t *testing.T) {
	w := newSimulator(t, perdure.Agent{})
	first, second := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue), w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeNone)
	n := len(w.journal)

	w.ended(second, perdure.TaskFailed)
	w.ended(first, perdure.TaskSucceeded)
	w.wake()

	wantTypes(t, w.since(n), "task.updated", "task.updated", "session.activated", "turn.started",
		"task.delivered", "task.delivered", "reason.started", "output.message.started")
	var order []perdure.TaskID
	for _, e := range w.events[n:] {
		if f, ok := e.Fact.(perdure.TaskDelivered); ok {
			order = append(order, f.TaskIDs...)
		}
	}
	if diff := cmp.Diff(order, []perdure.TaskID{second, first}); diff != "" {
		t.Errorf("order of the deliveries (-got +want):\n%s", diff)
	}
}

// automatic plays automatic turns, each started by a task that ends.
func (w *simulator) automatic(n int) {
	w.tb.Helper()
	for range n {
		w.ended(w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue), perdure.TaskSucceeded)
		w.wake()
		w.settle(w.answer("I see")...)
	}
}

func capHolds(t *testing.T) {
	w := newSimulator(t, perdure.Agent{})
	w.automatic(20)
	n := len(w.journal)

	for range 2 {
		w.ended(w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue), perdure.TaskSucceeded)
		w.wake()
	}

	wantTypes(t, w.since(n), "task.created", "task.updated", "delivery.held", "task.created", "task.updated")
	if got := last[perdure.DeliveryHeld](t, w).Why; got != "continuations" || !w.rested {
		t.Errorf("held: got %q, rested %t; want continuations", got, w.rested)
	}
}

func capLifts(t *testing.T) {
	w := newSimulator(t, perdure.Agent{MaxContinuations: 1})
	w.automatic(1)
	held := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.ended(held, perdure.TaskSucceeded)
	w.wake()

	w.receive("what is new?", "")
	w.wake()
	w.wantInjected(t, held, true)
	w.settle(w.answer("this")...)
	w.automatic(1)

	if got := last[perdure.TurnStarted](t, w).Cause; got != perdure.CauseDelivery {
		t.Errorf("cause of the last turn: got %s, want delivery", got)
	}
}

func readDropsInjection(t *testing.T) {
	w := asking(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.settle(w.answer("", call("check"))...)
	w.ended(id, perdure.TaskSucceeded)

	fact := done(w.runs()[0].Call, `{"status":"completed"}`)
	fact.Result.ReadTasks = []perdure.TaskID{id}
	w.settle(fact)
	w.settle(w.answer("done")...)

	w.wantInjected(t, id, false)
	if got := w.session.Tasks[id].Delivered; got != perdure.DeliveredRead || !w.rested {
		t.Errorf("delivered: got %s, rested %t; want read", got, w.rested)
	}
}

func readTwice(t *testing.T) {
	w := asking(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.ended(id, perdure.TaskSucceeded)
	w.settle(w.answer("")...)
	w.wantInjected(t, id, true)
	w.settle(w.answer("", call("check"))...)

	fact := done(w.runs()[0].Call, `{"status":"completed"}`)
	fact.Result.ReadTasks = []perdure.TaskID{id, id, "task_unknown"}
	w.settle(fact)

	if got := w.session.Tasks[id].Delivered; got != perdure.DeliveredInjected {
		t.Errorf("delivered: got %s, want injected, as it was", got)
	}
}

func resolvedIsDelivered(t *testing.T) {
	w := newSimulator(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.ended(id, perdure.TaskUnknown)
	w.wake()
	w.settle(w.answer("hm")...)
	n := len(w.journal)

	w.update(id, perdure.TaskUpdate{Attempt: 1, Resolve: true, State: perdure.TaskSucceeded, Summary: "it happened"})
	w.wake()

	wantTypes(t, w.since(n), "task.updated", "session.activated", "turn.started", "task.delivered", "reason.started", "output.message.started")
	if got := last[perdure.TaskDelivered](t, w).Message.Text(); !strings.HasPrefix(got, "Background run completed.") || !strings.Contains(got, "it happened") {
		t.Errorf("second notification: got %q, want the resolved outcome", got)
	}
}

func rerunTakesBack(t *testing.T) {
	w := newSimulator(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeNotify)
	w.ended(id, perdure.TaskUnknown)

	w.update(id, perdure.TaskUpdate{Attempt: 1, Rerun: true, IncrementAttempt: true, State: perdure.TaskQueued})
	w.receive("hello", "")
	w.wake()

	w.wantInjected(t, id, false)
	if got := len(w.session.OpenTasks()); got != 1 {
		t.Errorf("open tasks: got %d, want the rerun", got)
	}
}

func fillInIsNoEnd(t *testing.T) {
	w := newSimulator(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.ended(id, perdure.TaskSucceeded)
	w.wake()
	w.settle(w.answer("I see")...)

	w.update(id, perdure.TaskUpdate{Attempt: 1, Links: perdure.Links{RemoteTask: "r"}, Artifacts: []perdure.Artifact{{Name: "log"}}})
	w.wake()

	if !w.rested || len(w.session.Undelivered) != 0 {
		t.Errorf("ready: got %v, rested %t; want nothing", w.session.Undelivered, w.rested)
	}
}

func resolvedCallIsReported(t *testing.T) {
	w := asking(t, perdure.Agent{})
	w.settle(w.answer("", call("a"))...)
	c := w.runs()[0].Call
	w.settle(completed(c, perdure.Failed("a", perdure.ErrorUnknown, perdure.TextUnknown)), perdure.ToolUnknown{CallID: "a", Name: "work"})
	if got := w.session.UnknownCalls["a"]; got != "work" {
		t.Fatalf("unknown: got %q, want the tool", got)
	}
	notice := perdure.Message{ID: newID[perdure.MessageID](w), Role: perdure.RoleNotification, Parts: []perdure.Part{{Type: perdure.PartText, Text: "it happened"}}}

	w.intend(perdure.ToolResolved{CallID: "a", Answer: perdure.ResolveHappened, Outcome: "succeeded", By: "ada", Message: notice})
	w.settle(w.answer("done")...)

	if reason := last[perdure.ReasonStarted](t, w); !cmp.Equal(reason.Inputs, []perdure.MessageID{notice.ID}) {
		t.Errorf("inputs: got %v, want the notification", reason.Inputs)
	}
	if len(w.session.UnknownCalls) != 0 {
		t.Errorf("unknown: got %v, want none", w.session.UnknownCalls)
	}
}

func wakeSurvives(t *testing.T) {
	w := newSimulator(t, perdure.Agent{})
	id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeContinue)
	w.ended(id, perdure.TaskSucceeded)

	w.crash(2)
	w.crash(3)

	w.wantInjected(t, id, true)
	if got := len(w.laws.turns); got != 1 {
		t.Errorf("turns: got %d, want 1", got)
	}
}

// TestNotification has the texts of DL4.
func TestNotification(t *testing.T) {
	t.Parallel()
	task := perdure.Task{
		Run: "bg_1", DisplayName: "Build", Tool: "bash", Summary: "3 files", ResultPath: "/r.json", LogPath: "/o.log", State: perdure.TaskSucceeded,
	}
	lines := "\n- run_id: bg_1\n- title: Build\n- tool: bash\n- summary: 3 files\n- result_path: /r.json\n- log_path: /o.log"
	for _, c := range []struct {
		name   string
		change func(*perdure.Task)
		want   string
	}{
		{"completed", func(*perdure.Task) {}, "Background run completed." + lines},
		{"failed", func(t *perdure.Task) { t.State = perdure.TaskFailed }, "Background run failed." + lines},
		{"canceled", func(t *perdure.Task) { t.State = perdure.TaskCanceled }, "Background run canceled." + lines},
		{"unknown", func(t *perdure.Task) { t.State = perdure.TaskUnknown },
			"Background run ended with unknown outcome." + lines + "\n- note: it may or may not have happened; check before repeating it"},
		{"what_is_absent_has_no_line", func(t *perdure.Task) { t.Summary, t.LogPath = "", "" },
			"Background run completed.\n- run_id: bg_1\n- title: Build\n- tool: bash\n- result_path: /r.json"},
		{"a_summary_is_one_line", func(t *perdure.Task) { t.Summary = " two\nlines:\t\u2028 x\r\n- run_id: bg_2" },
			strings.Replace("Background run completed."+lines, "3 files", "two lines: x - run_id: bg_2", 1)},
		{"a_summary_has_1000_characters", func(t *perdure.Task) { t.Summary = strings.Repeat("é", 1001) },
			strings.Replace("Background run completed."+lines, "3 files", strings.Repeat("é", 1000), 1)},
	} {
		t.Run("DL4_"+c.name, func(t *testing.T) {
			t.Parallel()
			changed := task
			c.change(&changed)

			if diff := cmp.Diff(changed.Notification(), c.want); diff != "" {
				t.Errorf("text (-got +want):\n%s", diff)
			}
		})
	}
}

// TestQuestionIsReportedWhileItWaits sends the question of a task, with a wake that waits for the
// next turn: the model reads it, unless it was answered before (TK12, DL7).
func TestQuestionIsReportedWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"waits": false, "answered": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSimulator(t, perdure.Agent{})
			id := w.task(perdure.TaskRunning, perdure.ToLoop, perdure.WakeNotify)
			w.update(id, perdure.TaskUpdate{Attempt: 1, InputRequest: &perdure.InputRequest{ID: "req_1", Kind: "question"}})
			question := perdure.Message{
				ID: newID[perdure.MessageID](w), Role: perdure.RoleNotification, Parts: perdure.Text("which one?").Parts,
				Metadata: map[string]string{perdure.MetaTask: string(id), perdure.MetaRequest: "req_1"},
			}
			word := perdure.Message{ID: newID[perdure.MessageID](w), Role: perdure.RoleNotification, Parts: perdure.Text("on it").Parts}
			w.intend(perdure.TaskMessageSent{Notification: question}, perdure.TaskMessageSent{Notification: word})
			if answered {
				w.update(id, perdure.TaskUpdate{Attempt: 1, State: perdure.TaskRunning})
			}

			said := w.receive("go on", "")
			w.wake()

			want := []perdure.MessageID{question.ID, word.ID, said}
			if answered {
				want = want[1:]
			}
			if got := last[perdure.ReasonStarted](t, w).Inputs; !cmp.Equal(got, want) {
				t.Errorf("the step begins with %v, want %v", got, want)
			}
		})
	}
}

// TestShortResult looks at what a notification shows of the result of a call that became a task
// (DL4).
func TestShortResult(t *testing.T) {
	t.Parallel()
	task := perdure.Task{State: perdure.TaskSucceeded, Origin: perdure.OriginDetached, Call: "call_1", Tool: "bash"}
	task.Result = perdure.ShortResult(json.RawMessage(`{ "out": "two  spaces\n" }`), "/r.json")
	if text := task.Notification(); !strings.HasSuffix(text, "\n- call_id: call_1\n- result: "+`{"out":"two  spaces\n"}`) {
		t.Errorf("got %s", text)
	}
	long := json.RawMessage(`"` + strings.Repeat("日", 5000) + `"`)
	for path, end := range map[string]string{"/r.json": "日 … the whole is in /r.json", "": "日… (15002 bytes in all)"} {
		if got := perdure.ShortResult(long, path); !strings.HasSuffix(got, end) || len([]rune(got)) != perdure.MaxResultChars {
			t.Errorf("with %q: %d characters, the end %q", path, len([]rune(got)), got[len(got)-60:])
		}
	}
}
