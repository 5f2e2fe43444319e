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
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
)

const (
	check = "check_background_tool"
	one   = "task_00000000000000000000000000000001"
	runID = "bg_00000000000000000000000000000001"
)

// status is the JSON of a status payload about task one.
func status(status, message, more string) string {
	return fmt.Sprintf(`{"type":"mcp_tool_output","message":%q,"session_id":%q,"status":%q,"tool":"slow_tool","background_id":%q%s}`,
		message, session, status, one, more)
}

// about is the argument that names task one.
func about(more string) string { return `{"background_id":"` + one + `"` + more + `}` }

func TestCheckList(t *testing.T) {
	t.Parallel()
	t.Run("live", func(t *testing.T) {
		t.Parallel()
		queued, detached, told, over, inside := task(1, perdure.TaskQueued), task(2, perdure.TaskRunning),
			task(3, perdure.TaskSucceeded), task(4, perdure.TaskFailed), task(5, perdure.TaskRunning)
		queued.StartedAt = time.Time{}
		detached.DetachedAt = noon.Add(-5 * time.Second)
		told.Delivered = perdure.DeliveredInjected
		inside.Lane = perdure.Foreground

		got, r := run(t, env(newRegistry(queued, over, detached, told, inside), nil), check, `{"list":true,"background_id":"x","cancel":true}`)

		wantJSON(t, got, `{"type":"mcp_tool_output","message":"2 active background task(s).","session_id":"`+string(session)+`","tasks":[
			{"background_id":"task_00000000000000000000000000000001","tool":"slow_tool","age_seconds":100,"done":false,"status":"still_running"},
			{"background_id":"task_00000000000000000000000000000002","tool":"slow_tool","age_seconds":90.13,"parked_seconds":5,"done":false,"status":"still_running"},
			{"background_id":"task_00000000000000000000000000000004","tool":"slow_tool","age_seconds":90.13,"done":true,"status":"error"}]}`)
		wantRead(t, r)
	})
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		got, _ := run(t, env(newRegistry(), nil), check, `{"list":true}`)
		wantJSON(t, got, `{"type":"mcp_tool_output","message":"No active background tasks.","session_id":"`+string(session)+`","tasks":[]}`)
	})
	t.Run("a schedule", func(t *testing.T) { // it is shown, and is no work that is at it
		t.Parallel()
		monitor := task(1, perdure.TaskRunning)
		monitor.Kind = perdure.KindMonitor

		alone, _ := run(t, env(newRegistry(monitor), nil), check, `{"list":true}`)
		beside, _ := run(t, env(newRegistry(monitor, task(2, perdure.TaskRunning)), nil), check, `{"list":true}`)

		for got, want := range map[string]string{alone: "No active background tasks.", beside: "1 active background task(s)."} {
			if !strings.Contains(got, want) || !strings.Contains(got, string(monitor.ID)) {
				t.Errorf("got %s, want %q and the schedule", got, want)
			}
		}
	})
	t.Run("none live", func(t *testing.T) {
		t.Parallel()
		got, _ := run(t, env(newRegistry(task(1, perdure.TaskCanceled)), nil), check, `{"list":true}`)
		if !strings.Contains(got, "No active background tasks.") || !strings.Contains(got, `"cancelled"`) {
			t.Fatalf("got %s, want the canceled task that was not read, and none active", got)
		}
	})
	t.Run("a canceled task that was read has left", func(t *testing.T) {
		t.Parallel()
		read := task(1, perdure.TaskCanceled)
		read.Delivered = perdure.DeliveredRead
		got, _ := run(t, env(newRegistry(read), nil), check, `{"list":true}`)
		if strings.Contains(got, one) {
			t.Fatalf("got %s", got)
		}
	})
}

func TestCheckBadID(t *testing.T) {
	t.Parallel()
	const missing = "background_id is required (or pass list=true to enumerate active tasks)."
	for name, c := range map[string][2]string{
		"missing":            {`{}`, missing},
		"blank":              {`{"background_id":" ","cancel":true}`, missing},
		"unknown":            {`{"background_id":"bg-does-not-exist"}`, "No background task with id bg-does-not-exist."},
		"foreign, to cancel": {`{"background_id":"task_f","cancel":true}`, "No background task with id task_f."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, r := run(t, env(newRegistry(task(1, perdure.TaskRunning)), nil), check, c[0])
			wantJSON(t, got, fmt.Sprintf(`{"type":"error","message":%q,"session_id":%q}`, c[1], session))
			wantRead(t, r)
		})
	}
}

func TestCheckWait(t *testing.T) {
	t.Parallel()
	t.Run("zero", func(t *testing.T) {
		t.Parallel()
		for _, seconds := range []string{"0", "-5"} {
			got, r := run(t, env(newRegistry(task(1, perdure.TaskRunning)), nil), check, about(`,"wait_seconds":`+seconds))
			wantJSON(t, got, status("still_running",
				"'slow_tool' is still running. Call again with wait_seconds>0 to wait, or cancel=true to abort.", ""))
			wantRead(t, r)
		}
	})
	for name, c := range map[string]struct {
		more    string
		seconds int
	}{
		"timesout":       {`,"wait_seconds":1`, 1},
		"default":        {``, 60},
		"clamped":        {`,"wait_seconds":541`, 540},
		"clamped by far": {`,"wait_seconds":9000000000000000000`, 540},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()

				got, r := run(t, env(newRegistry(task(1, perdure.TaskRunning)), nil), check, about(c.more))

				wantJSON(t, got, status("still_running", fmt.Sprintf(
					"'slow_tool' still running after waiting %ds. Call again to keep waiting, or cancel=true to abort.", c.seconds),
					fmt.Sprintf(`,"waited_seconds":%d`, c.seconds)))
				wantRead(t, r)
				if waited := time.Since(begin); waited != time.Duration(c.seconds)*time.Second {
					t.Fatalf("waited %v, want %d s", waited, c.seconds)
				}
			})
		})
	}
	t.Run("completed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			tasks := newRegistry(task(1, perdure.TaskRunning))
			begin := time.Now()
			time.AfterFunc(50*time.Millisecond, func() {
				tasks.set(one, func(t *perdure.Task) { t.State, t.Summary = perdure.TaskSucceeded, "final-output" })
			})

			got, r := run(t, env(tasks, nil), check, about(`,"wait_seconds":5`))

			wantJSON(t, got, status("completed", "'slow_tool' completed.", `,"output":"final-output"`))
			wantRead(t, r, one)
			if waited := time.Since(begin); waited != 50*time.Millisecond {
				t.Fatalf("waited %v, want until the end and no longer", waited)
			}
		})
	})
	t.Run("by run id", func(t *testing.T) {
		t.Parallel()
		got, _ := run(t, env(newRegistry(task(1, perdure.TaskRunning)), nil), check, `{"background_id":"`+runID+`","wait_seconds":0}`)
		if !strings.Contains(got, `"background_id":"`+one+`"`) {
			t.Fatalf("got %s", got)
		}
	})
}

func TestCheckAwaitingInput(t *testing.T) {
	t.Parallel()
	asking := task(1, perdure.TaskAwaitingInput)
	asking.InputRequest = &perdure.InputRequest{ID: "req_1", Kind: "question", Prompt: "Which one?"}
	want := status("still_running", "'slow_tool' is waiting for input and continues when it is answered.",
		`,"input_request":{"id":"req_1","kind":"question","prompt":"Which one?"}`)
	t.Run("already", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			got, r := run(t, env(newRegistry(asking), nil), check, about(``))
			wantJSON(t, got, want)
			wantRead(t, r)
			if time.Since(begin) != 0 {
				t.Fatalf("waited %v, want an answer at once", time.Since(begin))
			}
		})
	})
	t.Run("meanwhile", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			tasks := newRegistry(task(1, perdure.TaskRunning))
			time.AfterFunc(time.Second, func() { tasks.set(one, func(t *perdure.Task) { *t = asking }) })
			got, _ := run(t, env(tasks, nil), check, about(``))
			wantJSON(t, got, want)
		})
	})
}

func TestCheckQueued(t *testing.T) {
	t.Parallel()
	const message = "'slow_tool' is queued at position 2 and has not started. Call again to keep waiting, or cancel=true to abort."
	for more, want := range map[string]string{
		`,"wait_seconds":0`: `,"queue_position":2`,
		`,"wait_seconds":2`: `,"queue_position":2,"waited_seconds":2`,
	} {
		synctest.Test(t, func(t *testing.T) {
			tasks := newRegistry(task(3, perdure.TaskQueued), task(4, perdure.TaskRunning), task(1, perdure.TaskQueued), task(5, perdure.TaskQueued))
			got, r := run(t, env(tasks, nil), check, about(more))
			wantJSON(t, got, status("still_running", message, want))
			wantRead(t, r)
		})
	}
}

func TestCheckCancel(t *testing.T) {
	t.Parallel()
	t.Run("live", func(t *testing.T) {
		t.Parallel()
		tasks := newRegistry(task(1, perdure.TaskRunning))

		got, r := run(t, env(tasks, nil), check, about(`,"cancel":true,"wait_seconds":500`))

		wantJSON(t, got, status("cancelled", "Cancelled background task for 'slow_tool'.",
			`,"receipt":{"requested_at":"2026-04-16T12:00:00Z","signalled_at":"2026-04-16T12:00:00Z","dead_at":"2026-04-16T12:00:01Z"}`))
		wantRead(t, r, one)
		if len(tasks.cancels) != 1 || tasks.tasks[0].State != perdure.TaskCanceled {
			t.Fatalf("got %v canceled, state %s, want it really stopped", tasks.cancels, tasks.tasks[0].State)
		}
	})
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		done := task(1, perdure.TaskSucceeded)
		done.Summary = "final-value"
		tasks := newRegistry(done)

		got, r := run(t, env(tasks, nil), check, about(`,"cancel":true`))

		wantJSON(t, got, status("completed", "'slow_tool' completed.", `,"output":"final-value"`))
		wantRead(t, r, one)
		if len(tasks.cancels) != 0 {
			t.Fatal("got a cancel of a task that had ended")
		}
	})
	t.Run("a result that came first", func(t *testing.T) {
		t.Parallel()
		tasks := newRegistry(task(1, perdure.TaskRunning))
		tasks.onCancel = func(t *perdure.Task) bool {
			t.State, t.Summary = perdure.TaskSucceeded, "just in time"
			return true
		}

		got, r := run(t, env(tasks, nil), check, about(`,"cancel":true`))

		wantJSON(t, got, status("completed", "'slow_tool' completed.", `,"output":"just in time"`))
		wantRead(t, r, one)
	})
	t.Run("an end before the wish", func(t *testing.T) {
		t.Parallel()
		for state, want := range map[perdure.TaskState]string{
			perdure.TaskSucceeded: status("completed", "'slow_tool' completed.", `,"output":"just in time"`),
			perdure.TaskCanceled:  status("cancelled", "Background task for 'slow_tool' was cancelled.", ""),
		} {
			tasks := newRegistry(task(1, perdure.TaskRunning))
			tasks.outran = func(t *perdure.Task) { t.State, t.Summary = state, "just in time" }

			got, r := run(t, env(tasks, nil), check, about(`,"cancel":true`))

			wantJSON(t, got, want)
			wantRead(t, r, one)
		}
	})
	t.Run("work that runs on", func(t *testing.T) {
		t.Parallel()
		tasks := newRegistry(task(1, perdure.TaskRunning))
		tasks.onCancel = func(*perdure.Task) bool { return false }

		got, r := run(t, env(tasks, nil), check, about(`,"cancel":true`))

		wantJSON(t, got, status("still_running", "The cancel of 'slow_tool' was requested, but it has not stopped yet. Call again to wait for its end.",
			`,"receipt":{"requested_at":"2026-04-16T12:00:00Z","signalled_at":"2026-04-16T12:00:00Z"}`))
		wantRead(t, r)
	})
	t.Run("canceled before", func(t *testing.T) {
		t.Parallel()
		got, r := run(t, env(newRegistry(task(1, perdure.TaskCanceled)), nil), check, about(`,"cancel":true`))
		wantJSON(t, got, status("cancelled", "Background task for 'slow_tool' was cancelled.", ""))
		wantRead(t, r, one)
	})
}

func TestCheckDryRun(t *testing.T) {
	t.Parallel()
	tasks := newRegistry(task(1, perdure.TaskRunning))
	e := env(tasks, nil)
	e.DryRun = true

	got, r := run(t, e, check, about(`,"cancel":true`))

	wantJSON(t, got, status("cancelled", "[dry-run] Would cancel background task for 'slow_tool'.", ""))
	wantRead(t, r)
	if len(tasks.cancels) != 0 || tasks.tasks[0].State != perdure.TaskRunning {
		t.Fatal("got a task that was touched")
	}
}

func TestCheckError(t *testing.T) {
	t.Parallel()
	failed := func(kind perdure.ErrorKind, message string) perdure.Task {
		task := task(1, perdure.TaskFailed)
		task.ResultPath = "/r"
		task.Error = &perdure.TaskError{Kind: kind, Message: message}
		task.Summary = message
		return task
	}
	partial := task(1, perdure.TaskFailed)
	partial.Summary = "partial"
	unknown := task(1, perdure.TaskUnknown)
	unknown.Summary = "Outcome unknown."
	for _, c := range []struct {
		name    string
		task    perdure.Task
		result  string
		message string
		output  string
	}{
		{"boom", failed(perdure.ErrorTool, "boom"), `{ "status": "failed", "error": "boom" }`, "'slow_tool' failed: boom", ""},
		{"no file", failed(perdure.ErrorTimeout, "Timed out after 2h0m0s"), "", "'slow_tool' failed: Timed out after 2h0m0s", ""},
		{"an internal error", failed(perdure.ErrorInternal, "db password wrong"), "",
			"'slow_tool' failed: An internal error occurred while executing the tool", ""},
		{"an error with output", failed(perdure.ErrorTool, "boom"), `{"half":1}`, "'slow_tool' failed: boom", `,"output":{"half":1}`},
		{"output", partial, "", "'slow_tool' completed with an error.", `,"output":"partial"`},
		{"unknown", unknown, "", "Outcome unknown. Do not repeat it before checking.", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			content := map[string]string{}
			if c.result != "" {
				content["/r"] = c.result
			}

			got, r := run(t, env(newRegistry(c.task), content), check, about(``))

			wantJSON(t, got, status("error", c.message, c.output))
			wantRead(t, r, one)
		})
	}
}

func TestCheckOutput(t *testing.T) {
	t.Parallel()
	done := task(1, perdure.TaskSucceeded)
	done.Summary, done.ResultPath = "in short", "/r"
	for _, c := range []struct{ name, content, want string }{
		{"JSON", "{\n  \"n\": 12345678901234567890\n}\n", `{"n":12345678901234567890}`},
		{"null", "null", "null"},
		{"no JSON", "plain\xff text", `"plain` + "\uFFFD" + ` text"`},
		{"gone", "", `"in short"`},
		{"long", `"` + strings.Repeat("é", 40<<10) + `"`,
			`{"truncated":true,"bytes":81922,"head":"\"` + strings.Repeat("é", 16<<10-1) + `","path":"/r"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			content := map[string]string{}
			if c.content != "" {
				content["/r"] = c.content
			}

			for range 2 { // reading never consumes (BG20)
				got, _ := run(t, env(newRegistry(done), content), check, about(``))
				wantJSON(t, got, status("completed", "'slow_tool' completed.", `,"output":`+c.want))
			}
		})
	}
	for name, c := range map[string]struct{ record, want string }{ // decision 029
		"in the record":     {`{"n":1}`, `{"n":1}`},
		"cut in the record": {`{"n":"1 … the whole is in /r`, `"in short"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare := done
			bare.ResultPath, bare.Result = "", c.record
			got, _ := run(t, env(newRegistry(bare), nil), check, about(``))
			wantJSON(t, got, status("completed", "'slow_tool' completed.", `,"output":`+c.want))
		})
	}
	t.Run("no file port", func(t *testing.T) {
		t.Parallel()
		e := env(newRegistry(done), nil)
		e.Files = nil
		got, _ := run(t, e, check, about(``))
		wantJSON(t, got, status("completed", "'slow_tool' completed.", `,"output":"in short"`))
	})
}

func TestCheckIsFreedByItsCall(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]perdure.ErrorKind{
		perdure.CauseInterrupt: perdure.ErrorInterrupted,
		perdure.CauseCanceled:  perdure.ErrorCanceled,
		perdure.CauseDeadline:  perdure.ErrorTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })

			_, r := runIn(ctx, t, env(newRegistry(task(1, perdure.TaskRunning)), nil), check, about(``))

			if r.ErrorKind != want {
				t.Fatalf("%v: got %q %q, want %q", cause, r.ErrorKind, r.Text, want)
			}
		})
	}
}

func TestCheckHidesInternalErrors(t *testing.T) {
	t.Parallel()
	tasks := newRegistry(task(1, perdure.TaskRunning))
	tasks.err = errors.New("disk on fire")
	for _, args := range []string{`{"list":true}`, about(``), about(`,"cancel":true`)} {
		got, _ := run(t, env(tasks, nil), check, args)
		wantJSON(t, got, errorBody(perdure.GenericToolError))
	}
}

// TestCheckRequiresAuth: no tool of the set does anything for a caller without a session, and hosts
// receive an error.
func TestCheckRequiresAuth(t *testing.T) {
	t.Parallel()
	for _, found := range background.Tools(background.Config{}) {
		spec := found.Spec()
		if spec.Name == check && spec.Hints.Metadata["requires_auth"] != true {
			t.Errorf("got metadata %v", spec.Hints.Metadata)
		}
		outside := env(newRegistry(task(1, perdure.TaskRunning)), nil)
		outside.Call.Session = ""
		for _, e := range []tool.Env{{}, outside} {
			result, err := toolbox().Execute(t.Context(), tool.Call{ID: "call_1", Tool: spec.Name, Args: []byte(`{"list":true}`)}, e)
			if err != nil {
				t.Fatal(err)
			}
			wantJSON(t, body(t, result), errorBody(spec.Name+" requires context. This tool must be executed with session context."))
		}
	}
}
