package background_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

// TestTaskLookup: a task is found with its tool by either id, also when it was read, and is gone
// after retention.
func TestTaskLookup(t *testing.T) {
	t.Parallel()
	tasks := newRegistry(task(1, perdure.TaskRunning))
	found := func(id string) {
		t.Helper()
		for name, args := range map[string]string{
			check: `{"wait_seconds":0,"background_id":%q}`, "get_task": `{"task_id":%q}`, "wait_task": `{"wait_seconds":0,"task_ids":[%q]}`,
		} {
			if got, r := run(t, env(tasks, nil), name, fmt.Sprintf(args, id)); r.IsError() || !strings.Contains(got, `"tool":"slow_tool"`) {
				t.Errorf("%s of %s: got %s", name, id, got)
			}
		}
	}
	found(one)
	found(runID)

	tasks.set(one, func(t *perdure.Task) { t.State, t.Delivered = perdure.TaskSucceeded, perdure.DeliveredRead })
	found(one)
	found(runID)

	tasks.remove(one)
	for name, args := range map[string]string{"get_task": `{"task_id":%q}`, "wait_task": `{"task_ids":[%q]}`, "cancel_task": `{"task_id":%q}`} {
		got, _ := run(t, env(tasks, nil), name, fmt.Sprintf(args, one))
		wantJSON(t, got, errorBody("task not found: "+one))
	}
	if got, _ := run(t, env(tasks, nil), check, about("")); !strings.Contains(got, "No background task with id "+one+".") {
		t.Errorf("got %s", got)
	}
}

// TestCancelAll: a model that cancels all that is listed leaves nothing live behind.
func TestCancelAll(t *testing.T) {
	t.Parallel()
	tasks := newRegistry(task(1, perdure.TaskRunning), task(2, perdure.TaskQueued), task(3, perdure.TaskAwaitingInput))
	listed := func(want string) {
		t.Helper()
		if got, _ := run(t, env(tasks, nil), check, `{"list":true}`); !strings.Contains(got, want) {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	listed("3 active background task(s).")

	for i := range 3 {
		id := task(i+1, "").ID
		_, r := run(t, env(tasks, nil), check, fmt.Sprintf(`{"background_id":%q,"cancel":true}`, id))
		wantRead(t, r, id)
	}

	listed("No active background tasks.")
	for _, task := range tasks.tasks {
		if task.State != perdure.TaskCanceled {
			t.Errorf("%s is %s", task.ID, task.State)
		}
	}
}

// TestResultReadableTwice: reading never consumes, by whichever tool (BG20).
func TestResultReadableTwice(t *testing.T) {
	t.Parallel()
	done := task(1, perdure.TaskSucceeded)
	done.Summary, done.ResultPath = "final", "/r"
	tasks := newRegistry(done)
	tasks.logs[one] = []byte("line\n")
	content := map[string]string{"/r": `{"n":1}`}
	for name, c := range map[string][2]string{
		check:         {about(""), `"output":{"n":1}`},
		"get_task":    {`{"task_id":"` + one + `"}`, `"output":"line\n"`},
		"wait_task":   {`{"task_ids":["` + one + `"]}`, `"summary":"final"`},
		"cancel_task": {`{"task_id":"` + one + `"}`, `"summary":"final"`},
	} {
		first, r := run(t, env(tasks, content), name, c[0])
		wantRead(t, r, one)
		tasks.set(one, func(t *perdure.Task) { t.Delivered = perdure.DeliveredRead })
		second, r := run(t, env(tasks, content), name, c[0])
		wantRead(t, r, one)

		if name == "get_task" { // the record says that it was read; all else stays
			first = strings.Replace(first, `"delivered":"no"`, `"delivered":"read"`, 1)
		}
		if first != second || !strings.Contains(second, c[1]) {
			t.Errorf("%s: got first %s\nand then %s\nwant %s in both", name, first, second, c[1])
		}
		tasks.set(one, func(t *perdure.Task) { t.Delivered = perdure.NotDelivered })
	}
}

// TestAgeFromStart: age is counted from the start of the work, not from when it left the
// foreground; the text says both.
func TestAgeFromStart(t *testing.T) {
	t.Parallel()
	second := func(n float64) time.Time { return noon.Add(-time.Duration(n * float64(time.Second))) }
	for _, c := range []struct {
		name                       string
		created, started, detached time.Time
		want                       string
	}{
		{"detached", second(700), second(610.005), second(10), `"age_seconds":610.01,"parked_seconds":10`},
		{"spawned", second(700), second(610.004), time.Time{}, `"age_seconds":610`},
		{"not started", second(1.234), time.Time{}, time.Time{}, `"age_seconds":1.23`},
		{"parked just now", second(600), second(600), noon, `"age_seconds":600,"parked_seconds":0`},
		{"a clock that went back", second(0), second(-5), second(-3), `"age_seconds":0,"parked_seconds":0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one := task(1, perdure.TaskRunning)
			one.CreatedAt, one.StartedAt, one.DetachedAt = c.created, c.started, c.detached

			got, _ := run(t, env(newRegistry(one), nil), check, `{"list":true}`)

			if want := `"tool":"slow_tool",` + c.want + `,"done":false`; !strings.Contains(got, want) {
				t.Fatalf("got %s, want %s", got, want)
			}
		})
	}
}
