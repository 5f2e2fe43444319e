package background_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
)

// both are arguments that name tasks 1 and 2, the first by its run id.
func both(more string) string {
	return `{"task_ids":["` + runID + `","` + string(task(2, "").ID) + `"]` + more + `}`
}

// stands is the JSON of how task n stands.
func stands(n int, state, more string) string {
	return fmt.Sprintf(`{"task_id":"task_%032d","run_id":"bg_%032d","tool":"slow_tool","state":%q%s}`, n, n, state, more)
}

func TestWaitTask(t *testing.T) {
	t.Parallel()
	two := task(2, "").ID
	asking := func(t *perdure.Task) {
		t.State, t.InputRequest = perdure.TaskAwaitingInput, &perdure.InputRequest{ID: "req_1", Kind: "question", Prompt: "Which?"}
	}
	done := func(t *perdure.Task) {
		t.State, t.Summary, t.ResultPath, t.LogPath, t.DisplayName = perdure.TaskSucceeded, "final", "/r", "/l", "Title"
	}
	const (
		ended = `,"title":"Title","summary":"final","result_path":"/r","log_path":"/l"`
		asks  = `,"input_request":{"id":"req_1","kind":"question","prompt":"Which?"}`
	)
	for _, c := range []struct {
		name    string
		more    string
		first   func(*perdure.Task) // what becomes of task 1 after a second; nil: nothing
		second  func(*perdure.Task) // of task 2 after two
		want    string
		read    []perdure.TaskID
		seconds int
	}{
		{"any, ended", "", done, done, `{"message":"1 of 2 task(s) ended or waiting for input.","ended_by":["` + one + `"],"tasks":[` +
			stands(1, "succeeded", ended) + `,` + stands(2, "running", "") + `]}`, []perdure.TaskID{one}, 1},
		{"any, the other one", "", nil, asking, `{"message":"1 of 2 task(s) ended or waiting for input.","ended_by":["` + string(two) + `"],"tasks":[` +
			stands(1, "running", "") + `,` + stands(2, "awaiting_input", asks) + `]}`, nil, 2},
		{"all", `,"mode":"all"`, asking, done, `{"message":"2 of 2 task(s) ended or waiting for input.","ended_by":["` + one + `","` + string(two) + `"],"tasks":[` +
			stands(1, "awaiting_input", asks) + `,` + stands(2, "succeeded", ended) + `]}`, []perdure.TaskID{two}, 2},
		{"all, one is late", `,"mode":"all","wait_seconds":5`, done, nil, `{"message":"1 of 2 task(s) ended or waiting for input. Waited 5s. Call again to keep waiting.",
			"ended_by":[],"waited_seconds":5,"tasks":[` + stands(1, "succeeded", ended) + `,` + stands(2, "running", "") + `]}`, []perdure.TaskID{one}, 5},
		{"default", ``, nil, nil, `{"message":"0 of 2 task(s) ended or waiting for input. Waited 60s. Call again to keep waiting.",
			"ended_by":[],"waited_seconds":60,"tasks":[` + stands(1, "running", "") + `,` + stands(2, "running", "") + `]}`, nil, 60},
		{"clamped", `,"wait_seconds":100000`, nil, nil, `{"message":"0 of 2 task(s) ended or waiting for input. Waited 540s. Call again to keep waiting.",
			"ended_by":[],"waited_seconds":540,"tasks":[` + stands(1, "running", "") + `,` + stands(2, "running", "") + `]}`, nil, 540},
		{"zero", `,"wait_seconds":0`, done, nil, `{"message":"0 of 2 task(s) ended or waiting for input. Call again with wait_seconds>0 to wait.",
			"ended_by":[],"tasks":[` + stands(1, "running", "") + `,` + stands(2, "running", "") + `]}`, nil, 0},
		{"below zero", `,"wait_seconds":-1`, nil, nil, `{"message":"0 of 2 task(s) ended or waiting for input. Call again with wait_seconds>0 to wait.",
			"ended_by":[],"tasks":[` + stands(1, "running", "") + `,` + stands(2, "running", "") + `]}`, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tasks := newRegistry(task(1, perdure.TaskRunning), task(2, perdure.TaskRunning))
				for i, change := range []func(*perdure.Task){c.first, c.second} {
					if change != nil {
						time.AfterFunc(time.Duration(i+1)*time.Second, func() { tasks.set(task(i+1, "").ID, change) })
					}
				}
				begin := time.Now()

				got, r := run(t, env(tasks, nil), "wait_task", both(c.more))

				wantJSON(t, got, c.want)
				wantRead(t, r, c.read...)
				if waited := time.Since(begin); waited != time.Duration(c.seconds)*time.Second {
					t.Fatalf("waited %v, want %d s", waited, c.seconds)
				}
				synctest.Wait()
			})
		})
	}
}

// TestWaitTaskFailures: how work that failed stands, with no text of an internal error and no text
// without end.
func TestWaitTaskFailures(t *testing.T) {
	t.Parallel()
	failed := func(kind perdure.ErrorKind, message string) perdure.Task {
		task := task(1, perdure.TaskFailed)
		task.Error, task.Summary = &perdure.TaskError{Kind: kind, Message: message}, message
		return task
	}
	unknown := task(1, perdure.TaskUnknown)
	unknown.Summary = "Outcome unknown."
	for name, c := range map[string]struct {
		task perdure.Task
		want string
	}{
		"boom":     {failed(perdure.ErrorTool, "boom"), stands(1, "failed", `,"error":{"kind":"tool_error","message":"boom"}`)},
		"internal": {failed(perdure.ErrorInternal, "db password wrong"), stands(1, "failed", `,"error":{"kind":"internal","message":"`+perdure.GenericToolError+`"}`)},
		"panic":    {failed(perdure.ErrorPanic, "at 0xc000"), stands(1, "failed", `,"error":{"kind":"panic","message":"`+perdure.GenericToolError+`"}`)},
		"long":     {failed(perdure.ErrorTool, strings.Repeat("é", 1001)), stands(1, "failed", `,"error":{"kind":"tool_error","message":"`+strings.Repeat("é", 1000)+`…"}`)},
		"unknown":  {unknown, stands(1, "unknown", `,"summary":"Outcome unknown.","note":"Outcome unknown. Do not repeat it before checking."`)},
	} {
		got, r := run(t, env(newRegistry(c.task), nil), "wait_task", `{"task_ids":["`+one+`"]}`)
		wantJSON(t, got, `{"message":"1 of 1 task(s) ended or waiting for input.","ended_by":["`+one+`"],"tasks":[`+c.want+`]}`)
		wantRead(t, r, one)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

func TestWaitTaskIDs(t *testing.T) {
	t.Parallel()
	tasks := newRegistry(task(1, perdure.TaskRunning), task(2, perdure.TaskRunning))
	for args, want := range map[string]string{
		`{"task_ids":["` + one + `","task_x","task_y"]}`: "task not found: task_x, task_y",
		`{"task_ids":["` + one + `"," "]}`:               "task_ids[1] is blank. Give the task_id or run_id of each task.",
	} {
		got, _ := run(t, env(tasks, nil), "wait_task", args)
		wantJSON(t, got, errorBody(want))
	}
	many := strings.Repeat(`"`+one+`",`, 16) + `"` + one + `"`
	for _, args := range []string{`{}`, `{"task_ids":[]}`, `{"task_ids":[` + many + `]}`, `{"task_ids":["` + one + `"],"mode":"some"}`} {
		if got, r := run(t, env(tasks, nil), "wait_task", args); !r.Refused || !strings.Contains(got, "Invalid arguments for wait_task") {
			t.Errorf("%s: got %s, want a refusal", args, got)
		}
	}
	if len(tasks.waits) != 0 {
		t.Errorf("got %v, want no wait for a wrong id", tasks.waits)
	}

	run(t, env(tasks, nil), "wait_task", `{"task_ids":["`+one+`","`+runID+`"," `+one+` "],"wait_seconds":0}`)
	if len(tasks.waits) != 1 || strings.Join(tasks.waits[0].IDs, " ") != one {
		t.Errorf("got %+v, want each task once", tasks.waits)
	}
}

func TestWaitTaskIsFreedByItsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(perdure.CauseInterrupt) })

		_, r := runIn(ctx, t, env(newRegistry(task(1, perdure.TaskRunning)), nil), "wait_task", `{"task_ids":["`+one+`"]}`)

		if r.ErrorKind != perdure.ErrorInterrupted {
			t.Fatalf("got %q %q", r.ErrorKind, r.Text)
		}
	})
	broken := newRegistry()
	broken.err = errors.New("disk on fire")
	got, _ := run(t, env(broken, nil), "wait_task", `{"task_ids":["`+one+`"]}`)
	wantJSON(t, got, errorBody(perdure.GenericToolError))
}
