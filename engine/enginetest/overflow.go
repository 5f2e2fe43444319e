package enginetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

func overflowLaws() []law {
	return []law{
		{"QueueNotReject", overflowQueues},
		{"OverflowReject", overflowRejects},
		{"EvictOldest", evictOldest},
		{"EvictForDetached", evictForDetached},
		{"SessionCapAcrossLives", slotsAcrossRestarts},
		{"CancelAll", cancelAll},
	}
}

func overflowQueues(t *testing.T, open Harness) { // TestQueueNotReject, BG17
	s := begin(t, open, Setup{Script: spawnMany(6), PerSession: 5})
	s.say("go")
	s.Entered(t, "bg_hold", 5)
	s.until("sixth run in the queue", func(e perdure.Event) bool {
		f, ok := e.Fact.(perdure.TaskCreated)
		return ok && f.Task.State == perdure.TaskQueued
	})
	s.Release("bg_hold")
	s.rest()

	tasks, err := s.eng.Tasks().List(s.ctx, s.id)
	if err != nil || len(tasks) != 6 {
		t.Fatalf("got %d tasks, %v", len(tasks), err)
	}
	for _, task := range tasks {
		if task.State != perdure.TaskSucceeded {
			t.Errorf("%s is %s", task.DisplayName, task.State)
		}
	}
}

func overflowRejects(t *testing.T, open Harness) { // TestOverflowReject: five run, the sixth is refused
	s := begin(t, open, Setup{Script: spawnMany(6), PerSession: 5, Reject: true})
	s.say("go")
	s.Entered(t, "bg_hold", 5)
	s.until("refusal", func(e perdure.Event) bool {
		f, ok := e.Fact.(perdure.ToolCompleted)
		return ok && f.Result.IsError()
	})
	s.Release("bg_hold")
	s.rest()

	refused := 0
	for _, f := range facts[perdure.ToolCompleted](s) {
		if strings.Contains(f.Result.Error, "active background runs per session") {
			refused++
		}
	}
	tasks, err := s.eng.Tasks().List(s.ctx, s.id)
	if err != nil || len(tasks) != 5 || refused != 1 {
		t.Errorf("%d tasks, %d refused, %v", len(tasks), refused, err)
	}
}

// evictForDetached pins BG17 for a detached call: it is detached, and the oldest task is canceled.
func evictForDetached(t *testing.T, open Harness) {
	s := begin(t, open, Setup{
		Script: detachingScript(ask("hold", "{text: a}"), ask("hold_note", "{text: b}")), Evict: true, EvictCap: 1, PerSessionDetached: 1,
	})
	s.say("go")
	first, second := s.detach("hold"), s.detach("hold_note")
	nth(s, 1, func(f perdure.TaskUpdated) bool { return f.Task.State == perdure.TaskCanceled })

	if gone := s.ended(first.ID); gone.State != perdure.TaskCanceled || gone.CancelBy != "system" ||
		gone.CancelWhy != "evicted" {
		t.Errorf("the oldest is %+v", gone)
	}
	if live := s.onlyTaskOf(second.ID); live.State != perdure.TaskRunning {
		t.Errorf("the newest is %+v", live)
	}
	s.Release("hold_note")
	s.rest()
}

// evictOldest pins BG17 and BG18: the newest task stays, the oldest live one is canceled, and its
// record stays.
func evictOldest(t *testing.T, open Harness) {
	for name, c := range map[string]struct{ limit, live int }{"third_of_2": {2, 2}, "33rd_of_32": {0, 32}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, open, Setup{Script: spawnMany(c.live + 1), Evict: true, EvictCap: c.limit})
			s.say("go")
			if !s.spread() { // otherwise the oldest may be canceled before an engine gets it
				s.Entered(t, "bg_hold", c.live+1)
			}
			nth(s, 1, func(f perdure.TaskUpdated) bool { return f.Task.State == perdure.TaskCanceled })
			tasks := s.tasks()
			oldest := slices.MinFunc(tasks, func(a, b perdure.Task) int { return a.CreatedAt.Compare(b.CreatedAt) })
			live := slices.DeleteFunc(slices.Clone(tasks), func(t perdure.Task) bool { return !t.State.Live() })
			if len(tasks) != c.live+1 || len(live) != c.live || oldest.State != perdure.TaskCanceled ||
				oldest.CancelBy != "system" || oldest.CancelWhy != "evicted" {
				t.Errorf("%d tasks, %d live; the oldest is %+v", len(tasks), len(live), oldest)
			}
			s.Release("bg_hold")
			s.rest()

			canceled := slices.DeleteFunc(s.tasks(),
				func(t perdure.Task) bool { return t.State != perdure.TaskCanceled })
			if len(canceled) != 1 || canceled[0].ID != tasks[0].ID ||
				canceled[0].Delivered != perdure.DeliveredInjected {
				t.Errorf("canceled at the end: %+v", canceled)
			}
		})
	}
}

// slotsAcrossRestarts pins BG16: slots are counted in the store, so a restart does not add a second
// set of slots.
func slotsAcrossRestarts(t *testing.T, open Harness) {
	s := begin(t, open, Setup{Script: spawnMany(4), PerSession: 2})
	s.say("go")
	s.Entered(t, "bg_hold", 2)
	s.turnEnds(1)
	s.crash()
	s.Entered(t, "bg_hold", 4)
	states := map[perdure.TaskState]int{}
	for _, task := range s.tasks() {
		states[task.State]++
	}
	s.Release("bg_hold")
	s.rest()

	if states[perdure.TaskRunning] != 2 || states[perdure.TaskQueued] != 2 {
		t.Errorf("after the crash the tasks were %v", states)
	}
	for _, task := range s.tasks() {
		if task.State != perdure.TaskSucceeded || task.Delivered != perdure.DeliveredInjected {
			t.Errorf("%s is %s, delivered %s", task.DisplayName, task.State, task.Delivered)
		}
	}
}

func cancelAll(t *testing.T, open Harness) { // 6.3 CancelAll
	s := begin(t, open, Setup{Script: spawnMany(3), PerSession: 2})
	s.say("go")
	s.Entered(t, "bg_hold", 2)
	s.turnEnds(1)
	n, err := s.eng.Tasks().CancelAll(s.ctx, s.id, "user", "enough")
	s.rest()
	again, againErr := s.eng.Tasks().CancelAll(s.ctx, s.id, "user", "enough")

	if n != 3 || again != 0 || err != nil || againErr != nil {
		t.Errorf("canceled %d, %v; again %d, %v", n, err, again, againErr)
	}
	for _, task := range s.tasks() {
		if task.State != perdure.TaskCanceled || task.CancelBy != "user" ||
			task.Delivered != perdure.DeliveredInjected {
			t.Errorf("got %+v", task)
		}
	}
}
