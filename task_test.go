package perdure_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

func taskStates() []perdure.TaskState {
	return []perdure.TaskState{
		perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput,
		perdure.TaskSucceeded, perdure.TaskFailed, perdure.TaskCanceled, perdure.TaskUnknown,
	}
}

// stateTable is the table of 7.2: y yes, n no, a recovery with attempt+1, c an operator's
// resolution, d only after its process died, which is the caller's to know.
func stateTable() map[perdure.TaskState]string {
	return map[perdure.TaskState]string{
		//                         q r i s f c u
		"":                        "yyynnnn",
		perdure.TaskQueued:        "nyynyyd",
		perdure.TaskRunning:       "anyyyyy",
		perdure.TaskAwaitingInput: "yynyyyy",
		perdure.TaskSucceeded:     "nnnnnnn",
		perdure.TaskFailed:        "nnnnnnn",
		perdure.TaskCanceled:      "nnnnnnn",
		perdure.TaskUnknown:       "cnnccnn",
	}
}

// TestTaskStates compares CanBecome and Update with the table of 7.2, step by step.
func TestTaskStates(t *testing.T) {
	t.Parallel()
	for from, row := range stateTable() {
		for i, to := range taskStates() {
			cell := row[i]
			if got, want := from.CanBecome(to), cell == 'y' || cell == 'd'; got != want {
				t.Errorf("%q can become %s: got %t, want %t", from, to, got, want)
			}
			if from == "" || from == to {
				continue
			}
			task := perdure.Task{ID: "task_1", State: from, Attempt: 3}
			for name, c := range map[string]struct {
				u    perdure.TaskUpdate
				want bool
			}{
				"plain":   {perdure.TaskUpdate{}, cell == 'y' || cell == 'd'},
				"recover": {perdure.TaskUpdate{IncrementAttempt: true}, cell == 'y' || cell == 'd' || cell == 'a'},
				"resolve": {perdure.TaskUpdate{Resolve: true}, cell == 'y' || cell == 'd' || cell == 'c' && to != perdure.TaskQueued},
				"rerun":   {perdure.TaskUpdate{Rerun: true, IncrementAttempt: true}, cell == 'y' || cell == 'd' || cell == 'a' || cell == 'c' && to == perdure.TaskQueued},
			} {
				c.u.Attempt, c.u.State = 3, to
				change, err := task.Update(c.u, time.Unix(9, 0))
				moved := err == nil && change.Answer == perdure.Updated
				if moved != c.want {
					t.Errorf("%s: %s to %s: got %s, %v; want a move: %t", name, from, to, change.Answer, err, c.want)
				}
				if !moved && !reflect.DeepEqual(change.Task, task) {
					t.Errorf("%s: %s to %s is refused and changes the task: got %+v", name, from, to, change.Task)
				}
				if moved && (change.Task.State != to || !change.NeedsEvent || change.Ended != to.Terminal()) {
					t.Errorf("%s: %s to %s: got %+v, want the state, an event, and an end: %t", name, from, to, change, to.Terminal())
				}
			}
		}
	}
	for _, s := range append(taskStates(), "", "parked") {
		known := slices.Contains(taskStates(), s)
		if s.Valid() != known || s.Live() && s.Terminal() || (s.Live() || s.Terminal()) != known {
			t.Errorf("%q: got valid %t, live %t, terminal %t", s, s.Valid(), s.Live(), s.Terminal())
		}
	}
}

func TestTaskRefusesAnUnknownState(t *testing.T) {
	t.Parallel()
	task := perdure.Task{State: perdure.TaskRunning, Attempt: 1}

	change, err := task.Update(perdure.TaskUpdate{Attempt: 1, State: "parked"}, time.Unix(9, 0))

	if !errors.Is(err, perdure.Conflict) || !reflect.DeepEqual(change.Task, task) {
		t.Errorf("TK5: got %+v, %v; want Conflict and no change", change, err)
	}
}

// anyUpdate is a write of an attempt around the present one: early, late, or its own.
func anyUpdate(t *rapid.T, attempts int) perdure.TaskUpdate {
	u := perdure.TaskUpdate{
		Attempt:  rapid.IntRange(max(attempts-2, 0), attempts+1).Draw(t, "attempt"),
		LogBytes: int64(rapid.IntRange(0, 99).Draw(t, "log bytes")), Detail: rapid.SampledFrom([]string{"", "half way"}).Draw(t, "detail"),
		Summary: rapid.SampledFrom([]string{"", "", "one", "two"}).Draw(t, "summary"),
	}
	if rapid.IntRange(0, 3).Draw(t, "moves") > 0 {
		u.State = rapid.SampledFrom(append(taskStates(), "parked")).Draw(t, "state")
	}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		u.IncrementAttempt, u.Worker = true, "worker_2"
	case 1:
		u.Resolve = true
	case 2:
		u.Rerun, u.IncrementAttempt, u.State = true, true, perdure.TaskQueued
	case 3:
		by := rapid.SampledFrom([]string{"ada", "bob"}).Draw(t, "by")
		u.Cancel = &perdure.CancelRequest{At: time.Unix(int64(rapid.IntRange(1, 99).Draw(t, "at")), 0), By: by}
	case 4:
		u.StartsExecution = true
	case 5:
		u.Links = perdure.Links{Resources: []string{rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(t, "resource")}}
	case 6:
		u.Artifacts = []perdure.Artifact{{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "artifact")}}
	case 7:
		if u.State == "" {
			u.InputRequest = &perdure.InputRequest{ID: "req_1", Prompt: "go on?"}
		}
	}
	return u
}

// TestTaskUpdate plays random writes of several attempts against the laws of chapter 7 (PR4).
func TestTaskUpdate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.SampledFrom([]perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput}).Draw(t, "first state")
		task := perdure.Task{ID: "task_1", State: state, Attempt: 1, Delivered: perdure.NotDelivered}
		now := time.Unix(1_000, 0)
		for range rapid.IntRange(1, 40).Draw(t, "writes") {
			now = now.Add(time.Second)
			u := anyUpdate(t, task.Attempt)
			if u.InputRequest != nil && task.State.Terminal() {
				continue // asking is for those who run
			}
			before := task
			change, err := task.Update(u, now)
			if !reflect.DeepEqual(task, before) {
				t.Fatalf("Update changes its receiver: got %+v, want %+v", task, before)
			}
			taskWrite{before, u, change, err, now}.keepsTheLaws(t)
			if err == nil {
				task = change.Task
			}
		}
	})
}

// taskWrite is one write and what it did.
type taskWrite struct {
	old    perdure.Task
	u      perdure.TaskUpdate
	change perdure.TaskChange
	err    error
	now    time.Time
}

func (w taskWrite) keepsTheLaws(t *rapid.T) {
	old, u, change, err, task := w.old, w.u, w.change, w.err, w.change.Task
	must := func(ok bool, law string) {
		if !ok {
			t.Fatalf("%s: broken by %+v\n got %+v, %v\nfrom %+v", law, u, change, err, old)
		}
	}
	opened := old.State == perdure.TaskUnknown && task.State == perdure.TaskQueued
	must((change.Answer == perdure.UpdateLost) == (err == nil && u.Attempt != old.Attempt), "exactly a write of another attempt is lost (TK6)")
	must(err == nil && change.Answer == perdure.Updated || reflect.DeepEqual(task, old), "what is refused, lost or settled changes nothing (PR4)")
	must(err == nil || errors.Is(err, perdure.Conflict), "a step that the table forbids is Conflict")
	must(!old.State.Terminal() || task.State == old.State || old.State == perdure.TaskUnknown && (u.Resolve || u.Rerun), "the first terminal writer wins (TK3)")
	must(change.Ended == (task.State.Terminal() && task.State != old.State), "an end is reported once (DL1)")
	must(!change.Ended || change.NeedsEvent, "an end is in the journal (EV7)")
	must(old.StartedAt.IsZero() || task.StartedAt.Equal(old.StartedAt), "started_at is set once")
	must(task.State != perdure.TaskRunning || old.State == perdure.TaskRunning || !task.StartedAt.IsZero(), "what runs has started_at")
	must(old.FinishedAt.IsZero() || task.FinishedAt.Equal(old.FinishedAt) || opened, "finished_at is set once")
	must(task.FinishedAt.IsZero() != task.State.Terminal() || !task.State.Terminal() && old.State.Terminal(), "exactly what has ended has finished_at")
	must(task.Attempt == old.Attempt || u.IncrementAttempt && task.Attempt == old.Attempt+1, "an attempt grows by one, when it is asked to")
	must(task.LogBytes >= old.LogBytes, "a log only grows (BG13)")
	must(task.Executions == old.Executions || u.StartsExecution && task.Executions == old.Executions+1, "an execution is counted once")
	must(task.Executions == old.Executions || task.HeartbeatAt.Equal(w.now), "what starts has a heartbeat")
	// an operator's resolution drops the cancel request
	rerun := old.State == perdure.TaskUnknown && task.State == perdure.TaskQueued
	must(!old.CancelRequested() || rerun || task.CancelBy == old.CancelBy && task.CancelRequestedAt.Equal(old.CancelRequestedAt), "the first cancel wins (RC1)")
	must(change.CancelRequested == (err == nil && task.CancelRequested()), "every answer says whether a cancel was asked for (TK7)")
	must(task.InputRequest == nil || task.State == perdure.TaskAwaitingInput, "only what awaits input has a request (7.3)")
	must(!old.State.Terminal() || old.Summary == "" || task.Summary == old.Summary || task.State != old.State, "a summary is not smeared")
	resources := slices.Clone(old.Links.Resources)
	if err == nil && change.Answer == perdure.Updated {
		resources = append(resources, u.Links.Resources...)
	}
	slices.Sort(resources)
	must(cmp.Equal(slices.Sorted(slices.Values(task.Links.Resources)), slices.Compact(resources), cmpopts.EquateEmpty()), "links are merged as a set")
	recorded := task.State != old.State || task.Attempt != old.Attempt || task.CancelRequested() != old.CancelRequested() ||
		!cmp.Equal(task.InputRequest, old.InputRequest) || !cmp.Equal(task.Links, old.Links) || !cmp.Equal(task.Artifacts, old.Artifacts)
	must(change.NeedsEvent == recorded, "the journal records state, attempt, intent, request, links and artifacts, and nothing else (EV7)")
	if u.Attempt == old.Attempt && !old.State.Terminal() && err == nil {
		must(task.UpdatedAt.Equal(w.now), "a write moves updated_at")
	}
}

// taskLaw is one step of 7.3 and what it changes.
type taskLaw struct {
	name   string
	task   perdure.Task
	u      perdure.TaskUpdate
	change func(*perdure.Task)
	event  bool
}

func taskLaws(now time.Time) []taskLaw {
	running := perdure.Task{ID: "task_1", State: perdure.TaskRunning, Attempt: 2, Worker: "worker_1", Delivered: perdure.NotDelivered}
	ended, unknown, asking := running, running, running
	ended.State, ended.Summary, ended.FinishedAt = perdure.TaskSucceeded, "built", time.Unix(5, 0)
	unknown.State, unknown.Error, unknown.Summary, unknown.Delivered, unknown.FinishedAt =
		perdure.TaskUnknown, &perdure.TaskError{Kind: perdure.ErrorOrphaned}, "Outcome unknown.", perdure.DeliveredInjected, time.Unix(5, 0)
	talking, silent := running, ended
	silent.Summary = ""
	talking.Summary, talking.Error = "so far", &perdure.TaskError{Kind: perdure.ErrorTool}
	asking.State, asking.InputRequest = perdure.TaskAwaitingInput, &perdure.InputRequest{ID: "req_1"}
	return []taskLaw{
		{"7.3_4_recovery_queues_with_a_new_attempt", running,
			perdure.TaskUpdate{IncrementAttempt: true, Worker: "worker_2", State: perdure.TaskQueued},
			func(t *perdure.Task) {
				t.Attempt, t.Worker, t.State, t.UpdatedAt = 3, "worker_2", perdure.TaskQueued, now
			}, true},
		{"7.3_5_an_answer_clears_the_request", asking, perdure.TaskUpdate{State: perdure.TaskRunning, StartsExecution: true},
			func(t *perdure.Task) {
				t.InputRequest, t.State, t.Executions, t.StartedAt, t.HeartbeatAt, t.UpdatedAt = nil, perdure.TaskRunning, 1, now, now, now
			}, true},
		{"7.3_5_another_question_replaces_the_first", asking, perdure.TaskUpdate{InputRequest: &perdure.InputRequest{ID: "req_2"}},
			func(t *perdure.Task) { t.InputRequest, t.UpdatedAt = &perdure.InputRequest{ID: "req_2"}, now }, true},
		{"TK4_a_cancel_is_an_intent", running, perdure.TaskUpdate{Cancel: &perdure.CancelRequest{At: now, By: "ada", Why: "slow"}},
			func(t *perdure.Task) {
				t.CancelRequestedAt, t.CancelBy, t.CancelWhy, t.StateDetail, t.UpdatedAt = now, "ada", "slow", "canceling", now
			}, true},
		{"7.3_7_an_end_brings_its_record", running,
			perdure.TaskUpdate{
				State: perdure.TaskFailed, Detail: "failed", Summary: "boom", Error: &perdure.TaskError{Kind: perdure.ErrorTool, Message: "boom"},
				ResultPath: "/r.json", LogPath: "/o.log", LogBytes: 5, Artifacts: []perdure.Artifact{{Name: "log"}},
			},
			func(t *perdure.Task) {
				t.State, t.StateDetail, t.Summary, t.Error = perdure.TaskFailed, "failed", "boom", &perdure.TaskError{Kind: perdure.ErrorTool, Message: "boom"}
				t.ResultPath, t.LogPath, t.LogBytes, t.Artifacts = "/r.json", "/o.log", 5, []perdure.Artifact{{Name: "log"}}
				t.FinishedAt, t.UpdatedAt = now, now
			}, true},
		{"7.3_7_an_end_keeps_what_it_does_not_name", talking, perdure.TaskUpdate{State: perdure.TaskFailed},
			func(t *perdure.Task) { t.State, t.FinishedAt, t.UpdatedAt = perdure.TaskFailed, now, now }, true},
		{"TK10_progress_is_no_news", running,
			perdure.TaskUpdate{Progress: &perdure.Progress{Label: "half"}, Detail: "d", LogBytes: 7, DeadlineAt: now},
			func(t *perdure.Task) {
				t.Progress, t.StateDetail, t.LogBytes, t.DeadlineAt, t.UpdatedAt = &perdure.Progress{Label: "half"}, "d", 7, now, now
			}, false},
		{"7.3_3_a_late_writer_does_not_smear_an_end", ended,
			perdure.TaskUpdate{State: perdure.TaskSucceeded, Summary: "other", Detail: "late", Error: &perdure.TaskError{}, LogBytes: 9, LogPath: "/x"},
			func(*perdure.Task) {}, false},
		{"7.3_3_links_and_artifacts_may_be_filled_in", ended,
			perdure.TaskUpdate{Links: perdure.Links{ChildSession: "session_2", RemoteTask: "r"}, Artifacts: []perdure.Artifact{{Name: "log"}}},
			func(t *perdure.Task) {
				t.Links, t.Artifacts, t.UpdatedAt = perdure.Links{ChildSession: "session_2", RemoteTask: "r"}, []perdure.Artifact{{Name: "log"}}, now
			}, true},
		{"7.3_3_an_empty_summary_may_be_filled_in", silent, perdure.TaskUpdate{Summary: "built"},
			func(t *perdure.Task) { t.Summary, t.UpdatedAt = "built", now }, false},
		{"DL5_what_became_of_a_result_is_noted_without_an_event", ended, perdure.TaskUpdate{Delivered: perdure.DeliveredRead},
			func(t *perdure.Task) { t.Delivered, t.UpdatedAt = perdure.DeliveredRead, now }, false},
		{"TK3_a_resolve_comes_home_anew", unknown, perdure.TaskUpdate{Resolve: true, State: perdure.TaskFailed, Summary: "did not happen"},
			func(t *perdure.Task) {
				t.ResolvedAt = now
				t.State, t.Summary, t.Error, t.Delivered, t.UpdatedAt = perdure.TaskFailed, "did not happen", nil, perdure.NotDelivered, now
			}, true},
		{"TK3_a_resolve_drops_what_the_unknown_end_said", unknown, perdure.TaskUpdate{Resolve: true, State: perdure.TaskSucceeded},
			func(t *perdure.Task) {
				t.ResolvedAt = now
				t.State, t.Summary, t.Error, t.Delivered, t.UpdatedAt = perdure.TaskSucceeded, "", nil, perdure.NotDelivered, now
			}, true},
		{"TK3_a_rerun_takes_the_end_back", unknown,
			perdure.TaskUpdate{Rerun: true, IncrementAttempt: true, State: perdure.TaskQueued},
			func(t *perdure.Task) {
				t.ResolvedAt = now
				t.State, t.Attempt, t.Worker, t.Summary, t.Error, t.Delivered, t.FinishedAt, t.UpdatedAt =
					perdure.TaskQueued, 3, "", "", nil, perdure.NotDelivered, time.Time{}, now
			}, true},
	}
}

// TestTaskUpdateLaws has single steps of 7.3.
func TestTaskUpdateLaws(t *testing.T) {
	t.Parallel()
	now := time.Unix(9, 0)
	for _, c := range taskLaws(now) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := c.u
			u.Attempt = 2
			want := c.task
			c.change(&want)

			change, err := c.task.Update(u, now)

			if err != nil || change.Answer != perdure.Updated || change.NeedsEvent != c.event {
				t.Errorf("got %s, event %t, %v; want updated, event %t", change.Answer, change.NeedsEvent, err, c.event)
			}
			if diff := cmp.Diff(change.Task, want); diff != "" {
				t.Errorf("task (-got +want):\n%s", diff)
			}
			for _, attempt := range []int{1, 3, 0} {
				u.Attempt = attempt
				change, err := c.task.Update(u, now)
				if err != nil || change.Answer != perdure.UpdateLost || change.NeedsEvent || change.Ended || !reflect.DeepEqual(change.Task, c.task) {
					t.Errorf("attempt %d (TK6): got %+v, %v; want lost and not a byte changed", attempt, change, err)
				}
			}
		})
	}
}

// TestTaskFirstTerminalWriterWins is PR4 in the small: of two attempts that both end a task, in
// every order of their writes, one end stands.
func TestTaskFirstTerminalWriterWins(t *testing.T) {
	t.Parallel()
	for _, first := range taskStates()[3:] {
		for _, second := range taskStates()[3:] {
			t.Run(fmt.Sprintf("%s_then_%s", first, second), func(t *testing.T) {
				t.Parallel()
				task := perdure.Task{State: perdure.TaskRunning, Attempt: 1}
				one, err := task.Update(perdure.TaskUpdate{Attempt: 1, State: first, Summary: "first"}, time.Unix(1, 0))
				if err != nil || !one.Ended {
					t.Fatalf("got %+v, %v; want the end", one, err)
				}

				two, err := one.Task.Update(perdure.TaskUpdate{Attempt: 1, State: second, Summary: "second"}, time.Unix(2, 0))

				want := perdure.UpdateSettled
				if first == second {
					want = perdure.Updated
				}
				if err != nil || two.Answer != want || two.Ended || !reflect.DeepEqual(two.Task, one.Task) {
					t.Errorf("got %+v, %v; want %s and the first end", two, err, want)
				}
			})
		}
	}
}
