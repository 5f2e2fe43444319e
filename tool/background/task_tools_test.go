package background_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// TestNoTasks is the missing port, in each tool that reads tasks (EN2).
func TestNoTasks(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"check_background_tool": `{"list":true}`, "list_tasks": `{}`, "get_task": `{"task_id":"x"}`, "cancel_task": `{"task_id":"x"}`,
		"wait_task": `{"task_ids":["x"]}`, "message_task": `{"task_id":"x","text":"hi"}`,
	} {
		got, _ := run(t, env(nil, nil), name, args)
		wantJSON(t, got, errorBody("Session task registry not available in this context. "+name+" requires task tracking."))
	}
}

func TestTaskErrors(t *testing.T) {
	t.Parallel()
	broken := newRegistry()
	broken.err = errors.New("disk on fire")
	for _, name := range []string{"get_task", "cancel_task"} {
		got, _ := run(t, env(newRegistry(), nil), name, `{"task_id":"task_x"}`)
		wantJSON(t, got, errorBody("task not found: task_x"))
		got, _ = run(t, env(broken, nil), name, `{"task_id":"task_x"}`)
		wantJSON(t, got, errorBody(perdure.GenericToolError))
	}
	got, _ := run(t, env(broken, nil), "list_tasks", `{}`)
	wantJSON(t, got, errorBody(perdure.GenericToolError))
}

// listed returns the ids and the cursor of an answer of list_tasks, by their last digit.
func listed(t *testing.T, answer string) (ids, next string) {
	t.Helper()
	var page struct {
		Tasks []struct {
			ID   string          `json:"id"`
			Spec json.RawMessage `json:"spec"`
		} `json:"tasks"`
		Next string `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(answer), &page); err != nil || page.Tasks == nil {
		t.Fatalf("%v in %s", err, answer)
	}
	for _, task := range page.Tasks {
		if task.Spec != nil {
			t.Fatalf("got a spec: %s", answer)
		}
		ids += task.ID[len(task.ID)-1:]
	}
	return ids, page.Next
}

func TestListTasks(t *testing.T) {
	t.Parallel()
	told, monitor, inside := task(2, perdure.TaskSucceeded), task(4, perdure.TaskRunning), task(6, perdure.TaskRunning)
	told.Delivered = perdure.DeliveredRead
	monitor.Kind = perdure.KindMonitor
	inside.Lane = perdure.Foreground
	tasks := newRegistry(task(1, perdure.TaskRunning), told, task(3, perdure.TaskFailed), monitor, task(5, perdure.TaskQueued), inside)
	for _, c := range []struct{ args, ids, next string }{
		{`{}`, "13456", ""},
		{`{"state":"succeeded"}`, "2", ""},
		{`{"state":"unknown"}`, "", ""},
		{`{"kind":"monitor"}`, "4", ""},
		{`{"lane":"foreground"}`, "6", ""},
		{`{"lane":"background","kind":"background_tool","state":"running"}`, "1", ""},
		{`{"limit":2}`, "13", "task_00000000000000000000000000000003"},
		{`{"limit":2,"cursor":"task_00000000000000000000000000000003"}`, "45", "task_00000000000000000000000000000005"},
		{`{"limit":2,"cursor":"task_00000000000000000000000000000005"}`, "6", ""},
		{`{"limit":5}`, "13456", ""},
	} {
		got, r := run(t, env(tasks, nil), "list_tasks", c.args)
		ids, next := listed(t, got)
		if ids != c.ids || next != c.next {
			t.Errorf("%s: got %q and cursor %q, want %q and %q", c.args, ids, next, c.ids, c.next)
		}
		wantRead(t, r)
	}
	got, _ := run(t, env(tasks, nil), "list_tasks", `{"cursor":"task_gone"}`)
	wantJSON(t, got, errorBody("Unknown cursor: task_gone. Call again without a cursor."))
}

func TestListTasksDefaultLimit(t *testing.T) {
	t.Parallel()
	tasks := newRegistry()
	for i := range 201 {
		tasks.tasks = append(tasks.tasks, task(i, perdure.TaskRunning))
	}
	for args, want := range map[string]int{`{}`: 50, `{"limit":60}`: 60} {
		got, _ := run(t, env(tasks, nil), "list_tasks", args)
		if ids, next := listed(t, got); len(ids) != want || next == "" {
			t.Errorf("%s: got %d tasks, cursor %q, want %d and a cursor", args, len(ids), next, want)
		}
	}
	for _, args := range []string{`{"limit":201}`, `{"limit":0}`, `{"state":"done"}`, `{"kind":"x"}`} {
		got, r := run(t, env(tasks, nil), "list_tasks", args)
		if !r.Refused || !strings.Contains(got, "Invalid arguments for list_tasks") {
			t.Errorf("%s: got %s, want a refusal (TK5)", args, got)
		}
	}
}

// TestListTasksIsNotCut: an answer ends where it would be cut as a result, so that its cursor is
// never lost (TL16).
func TestListTasksIsNotCut(t *testing.T) {
	t.Parallel()
	for size, n := range map[int]int{0: 201, 900: 201, tool.ResultLimit: 3} { // bytes of a detail, and how many tasks
		tasks, all, pages := newRegistry(), 0, 0
		for i := range n {
			long := task(i, perdure.TaskRunning)
			long.StateDetail, long.Tail = strings.Repeat("d", size), strings.Repeat("t", 2048)
			tasks.tasks = append(tasks.tasks, long)
		}
		for next := ""; pages == 0 || next != ""; pages++ {
			got, _ := run(t, env(tasks, nil), "list_tasks", `{"limit":200,"cursor":"`+next+`"}`)
			var ids string
			if ids, next = listed(t, got); ids == "" || len(got) > tool.ResultLimit && len(ids) > 1 || strings.Contains(got, "tttt") {
				t.Fatalf("got %d tasks in %d bytes", len(ids), len(got))
			}
			all += len(ids)
		}
		if all != n || pages < 2 {
			t.Errorf("got %d tasks on %d pages, want %d on several", all, pages, n)
		}
	}
}

// TestTaskToolsHideInternalErrors: the text of an internal error is for the log (BG19).
func TestTaskToolsHideInternalErrors(t *testing.T) {
	t.Parallel()
	for _, kind := range []perdure.ErrorKind{perdure.ErrorInternal, perdure.ErrorPanic, perdure.ErrorTool} {
		failed := task(1, perdure.TaskFailed)
		failed.Error, failed.Summary = &perdure.TaskError{Kind: kind, Message: "db password wrong"}, "db password wrong"
		tasks := newRegistry(failed)
		for name, args := range map[string]string{
			"list_tasks": `{}`, "get_task": `{"task_id":"` + one + `"}`, "cancel_task": `{"task_id":"` + one + `"}`,
		} {
			got, _ := run(t, env(tasks, nil), name, args)
			if shown := strings.Contains(got, "password"); shown != (kind == perdure.ErrorTool) || !strings.Contains(got, string(kind)) {
				t.Errorf("%s: got %s", name, got)
			}
		}
		if tasks.tasks[0].Error.Message != "db password wrong" {
			t.Error("the record was changed")
		}
	}
}

// page is the part of an answer of get_task that is not the record.
type page struct {
	ID     string `json:"id"`
	Output string `json:"output"`
	Offset int64  `json:"offset"`
	Next   int64  `json:"next_offset"`
	EOF    bool   `json:"eof"`
}

func TestGetTask(t *testing.T) {
	t.Parallel()
	const log = "añb€c" // bytes 0, 1-2, 3, 4-6, 7
	for _, c := range []struct {
		name, more string
		state      perdure.TaskState
		log        string
		want       page
	}{
		{"whole, live", ``, perdure.TaskRunning, log, page{Output: log, Next: 8}},
		{"whole, ended", ``, perdure.TaskSucceeded, log, page{Output: log, Next: 8, EOF: true}},
		{"nothing yet", ``, perdure.TaskRunning, "", page{}},
		{"nothing at all", ``, perdure.TaskFailed, "", page{EOF: true}},
		{"cut on a character", `,"max_bytes":5`, perdure.TaskSucceeded, log, page{Output: "añb", Next: 4}},
		{"the rest", `,"offset":4,"max_bytes":4`, perdure.TaskSucceeded, log, page{Output: "€c", Offset: 4, Next: 8, EOF: true}},
		{"from the end", `,"offset":-4`, perdure.TaskRunning, log, page{Output: "€c", Offset: 4, Next: 8}},
		{"from within a character", `,"offset":-3`, perdure.TaskRunning, log, page{Output: "c", Offset: 7, Next: 8}},
		{"before the beginning", `,"offset":-100`, perdure.TaskRunning, log, page{Output: log, Next: 8}},
		{"behind the end", `,"offset":100`, perdure.TaskSucceeded, log, page{Offset: 8, Next: 8, EOF: true}},
		{"half a character, live", ``, perdure.TaskRunning, "a\xe2\x82", page{Output: "a", Next: 1}},
		{"half a character, for ever", ``, perdure.TaskSucceeded, "a\xe2\x82", page{Output: "a\uFFFD", Next: 3, EOF: true}},
		{"no text", `,"offset":1,"max_bytes":4`, perdure.TaskRunning, "\x80\x80\x80\x80\x80\x80\x80", page{Output: "\uFFFD", Offset: 1, Next: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tasks := newRegistry(task(1, c.state))
			tasks.logs[one] = []byte(c.log)

			got, r := run(t, env(tasks, nil), "get_task", `{"task_id":"`+runID+`"`+c.more+`}`)

			var have page
			if err := json.Unmarshal([]byte(got), &have); err != nil {
				t.Fatalf("%v in %s", err, got)
			}
			c.want.ID = one
			if diff := cmp.Diff(have, c.want); diff != "" {
				t.Fatalf("got -, want +:\n%s", diff)
			}
			if c.state.Terminal() {
				wantRead(t, r, one)
			} else {
				wantRead(t, r)
			}
		})
	}
}

// TestGetTaskMissesNothing reads a log in pieces of every size and puts it together again.
func TestGetTaskMissesNothing(t *testing.T) {
	t.Parallel()
	log := strings.Repeat("aé€😀\n", 20)
	tasks := newRegistry(task(1, perdure.TaskSucceeded))
	tasks.logs[one] = []byte(log)
	for size := 4; size < 12; size++ {
		var all string
		for p := (page{}); !p.EOF; all += p.Output {
			got, _ := run(t, env(tasks, nil), "get_task", fmt.Sprintf(`{"task_id":%q,"offset":%d,"max_bytes":%d}`, one, p.Next, size))
			if err := json.Unmarshal([]byte(got), &p); err != nil {
				t.Fatal(err)
			}
			if len(p.Output) == 0 || len(p.Output) > size {
				t.Fatalf("got %d bytes of %d", len(p.Output), size)
			}
		}
		if all != log {
			t.Fatalf("in pieces of %d: got %q", size, all)
		}
	}
}

// TestGetTaskIsNotCut: a piece is as long as its answer may be, so that next_offset is never lost
// (TL16).
func TestGetTaskIsNotCut(t *testing.T) {
	t.Parallel()
	for name, log := range map[string]string{
		"plain": strings.Repeat("0123456789", 20_000), "escaped": strings.Repeat("\x1b[0m\n", 20_000), "wide": strings.Repeat("€é", 40_000),
	} {
		tasks := newRegistry(task(1, perdure.TaskSucceeded))
		tasks.logs[one] = []byte(log)
		var all strings.Builder
		for p := (page{}); !p.EOF; {
			got, _ := run(t, env(tasks, nil), "get_task", fmt.Sprintf(`{"task_id":%q,"offset":%d,"max_bytes":65536}`, one, p.Next))
			if err := json.Unmarshal([]byte(got), &p); err != nil {
				t.Fatal(err)
			}
			if len(got) > tool.ResultLimit || !p.EOF && len(got) < tool.ResultLimit-16 {
				t.Fatalf("%s: got %d bytes, want a page that is full and not cut", name, len(got))
			}
			all.WriteString(p.Output)
		}
		if all.String() != log {
			t.Errorf("%s: got %d bytes of %d, or others", name, all.Len(), len(log))
		}
	}
	huge := task(1, perdure.TaskRunning)
	huge.StateDetail = strings.Repeat("d", tool.ResultLimit)
	tasks := newRegistry(huge)
	tasks.logs[one] = []byte("€uro and more")
	got, _ := run(t, env(tasks, nil), "get_task", `{"task_id":"`+one+`"}`)
	if !strings.Contains(got, `"output":"€u","offset":0,"next_offset":4`) {
		t.Errorf("got ...%s, want to get on by a character", got[len(got)-100:])
	}
}

func TestCancelTask(t *testing.T) {
	t.Parallel()
	done := task(1, perdure.TaskSucceeded)
	done.Summary, done.ResultPath = "final", "/r"
	for _, c := range []struct {
		name     string
		task     perdure.Task
		dry      bool
		onCancel func(*perdure.Task) bool
		outran   func(*perdure.Task)
		want     string
		read     []perdure.TaskID
		reasons  int
	}{
		{"live", task(1, perdure.TaskRunning), false, nil, nil, `{"task_id":"` + one + `","state":"canceled",
			"requested_at":"2026-04-16T12:00:00Z","signalled_at":"2026-04-16T12:00:00Z","dead_at":"2026-04-16T12:00:01Z"}`,
			[]perdure.TaskID{one}, 1},
		{"not stopped yet", task(1, perdure.TaskRunning), false, func(*perdure.Task) bool { return false }, nil,
			`{"task_id":"` + one + `","state":"running","requested_at":"2026-04-16T12:00:00Z","signalled_at":"2026-04-16T12:00:00Z"}`, nil, 1},
		{"ended before", done, false, nil, nil, `{"task_id":"` + one + `","state":"succeeded","summary":"final","result_path":"/r"}`,
			[]perdure.TaskID{one}, 0},
		{"ended before the wish", task(1, perdure.TaskRunning), false, nil, func(t *perdure.Task) { t.State, t.Summary = perdure.TaskSucceeded, "in time" },
			`{"task_id":"` + one + `","state":"succeeded","summary":"in time"}`, []perdure.TaskID{one}, 0},
		{"dry run", task(1, perdure.TaskRunning), true, nil, nil,
			`{"task_id":"` + one + `","state":"running","message":"[dry-run] Would cancel task for 'slow_tool'."}`, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tasks := newRegistry(c.task)
			tasks.onCancel, tasks.outran = c.onCancel, c.outran
			e := env(tasks, nil)
			e.DryRun = c.dry

			got, r := run(t, e, "cancel_task", `{"task_id":"`+one+`","reason":"no longer needed"}`)

			wantJSON(t, got, c.want)
			wantRead(t, r, c.read...)
			if len(tasks.cancels) != c.reasons || c.reasons == 1 && tasks.cancels[0] != "no longer needed" {
				t.Fatalf("got cancels %q, want %d", tasks.cancels, c.reasons)
			}
		})
	}
}
