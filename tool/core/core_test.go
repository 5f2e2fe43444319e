package core_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/core"
)

// run checks and runs a call of the set and returns the JSON that a model reads.
func run(t *testing.T, env tool.Env, name, args string) string {
	t.Helper()
	tools := tool.NewRegistry(core.Tools()...)
	if err := tools.Err(); err != nil {
		t.Fatal(err)
	}
	results, err := tools.ExecuteAll(t.Context(), []tool.Call{{Tool: name, Args: json.RawMessage(args)}}, env)
	if err != nil {
		t.Fatal(err)
	}
	record, err := results[0].Record("call_1")
	if err != nil {
		t.Fatal(err)
	}
	return string(record.Result)
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEcho pins prior-art/000.
func TestEcho(t *testing.T) {
	t.Parallel()

	want(t, run(t, tool.Env{}, "echo", `{"message":"Hello, world!"}`), `{"echoed":"Hello, world!","length":13}`)
	want(t, run(t, tool.Env{}, "echo", `{"message":"世界"}`), `{"echoed":"世界","length":6}`)
	want(t, run(t, tool.Env{}, "echo", `{}`), `{"error":"Invalid arguments for echo: /message: is required"}`)

	spec := core.Echo().Spec()
	if spec.DisplayName != "Echo" || tool.DefinitionOf(core.Echo()).DisplayName != "Echo" {
		t.Errorf("display name %q", spec.DisplayName)
	}
	if !*spec.Hints.ReadOnly || !*spec.Hints.Idempotent {
		t.Errorf("hints %+v", spec.Hints)
	}
	inProcess, _ := core.Echo().Run(t.Context(), tool.Call{}, tool.Env{}).Record("call_1")
	want(t, string(inProcess.Result), `{"echoed":"","length":0}`)
}

func TestGetCurrentTime(t *testing.T) {
	t.Parallel()
	env := tool.Env{
		Timezone: "Europe/Berlin",
		Now:      func() time.Time { return time.Date(2026, 7, 4, 22, 30, 15, 999, time.UTC) },
	}
	for _, test := range []struct {
		name, args, want string
		env              tool.Env
	}{
		{"the session's zone", `{}`, `{"time":"2026-07-05T00:30:15+02:00","timezone":"Europe/Berlin","utc_offset":"+02:00","unix":1783204215}`, env},
		{"no zone is UTC", `{}`, `{"time":"2026-07-04T22:30:15Z","timezone":"UTC","utc_offset":"+00:00","unix":1783204215}`, tool.Env{Now: env.Now}},
		{"a zone", `{"timezone":" Asia/Kathmandu "}`, `{"time":"2026-07-05T04:15:15+05:45","timezone":"Asia/Kathmandu","utc_offset":"+05:45","unix":1783204215}`, env},
		{"a blank zone", `{"timezone":" "}`, `{"time":"2026-07-05T00:30:15+02:00","timezone":"Europe/Berlin","utc_offset":"+02:00","unix":1783204215}`, env},
		{"unix", `{"format":"unix"}`, `{"time":"1783204215","timezone":"Europe/Berlin","utc_offset":"+02:00","unix":1783204215}`, env},
		{"human", `{"format":"human"}`, `{"time":"Sunday, 5 July 2026, 00:30:15 CEST","timezone":"Europe/Berlin","utc_offset":"+02:00","unix":1783204215}`, env},
		{"an unknown zone", `{"timezone":"Mars/Olympus"}`, `{"error":"Unknown timezone: Mars/Olympus"}`, env},
		{"the host's zone", `{"timezone":"Local"}`, `{"error":"Unknown timezone: Local"}`, env},
		{"a path", `{"timezone":"../../etc/passwd"}`, `{"error":"Unknown timezone: ../../etc/passwd"}`, env},
		{"an unknown format", `{"format":"rfc822"}`, `{"error":"Invalid arguments for get_current_time: /format: value must be one of 'iso8601', 'unix', 'human'"}`, env},
	} {
		t.Run(test.name, func(t *testing.T) { want(t, run(t, test.env, "get_current_time", test.args), test.want) })
	}
}

func TestArithmetic(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, args, want string }{
		{"add", `{"a":5,"b":3}`, `{"result":8.0}`},
		{"add", `{"a":0.1,"b":0.2}`, `{"result":0.30000000000000004}`},
		{"subtract", `{"a":5,"b":8}`, `{"result":-3.0}`},
		{"multiply", `{"a":1e20,"b":1e20}`, `{"result":1e+40}`},
		{"divide", `{"a":1,"b":4}`, `{"result":0.25}`},
		{"divide", `{"a":1,"b":0}`, `{"error":"Division by zero"}`},
		{"divide", `{"a":1,"b":-0.0}`, `{"error":"Division by zero"}`},
		{"multiply", `{"a":1e308,"b":10}`, `{"error":"Result is not a finite number"}`},
		{"divide", `{"a":1e308,"b":1e-10}`, `{"error":"Result is not a finite number"}`},
		{"add", `{"a":"5","b":3}`, `{"error":"Invalid arguments for add: /a: got string, want number"}`},
	} {
		t.Run(test.name+test.args, func(t *testing.T) { want(t, run(t, tool.Env{}, test.name, test.args), test.want) })
	}
}

// reports is a sink that records all reports.
type reports struct {
	tool.Sink
	lines []string
}

func (r *reports) Status(text string) perdure.Cause {
	r.lines = append(r.lines, text)
	return perdure.CauseCanceled // it never makes the tool fail
}

func (r *reports) Progress(current, total float64, label string) perdure.Cause {
	r.lines = append(r.lines, fmt.Sprint(current, " of ", total, " ", label))
	return ""
}

func TestReportProgress(t *testing.T) {
	t.Parallel()
	sink := &reports{}

	want(t, run(t, tool.Env{Sink: sink}, "report_progress", `{"message":"Copying"}`), `{"reported":true}`)
	want(t, run(t, tool.Env{Sink: sink}, "report_progress", `{"message":"Copied","current":3,"total":9,"unit":"files"}`), `{"reported":true}`)
	want(t, run(t, tool.Env{}, "report_progress", `{"message":"To nobody"}`), `{"reported":true}`)

	if diff := cmp.Diff([]string{"Copying", "3 of 9 files · Copied"}, sink.lines); diff != "" {
		t.Error(diff)
	}
}

func TestWriteTodos(t *testing.T) {
	t.Parallel()
	many := `{"todos":[` + strings.Repeat(`{"content":"a","status":"pending"},`, 100) + `{"content":"a","status":"pending"}]}`
	for _, test := range []struct{ name, args, want string }{
		{"none", `{"todos":[]}`, `{"todos":[],"total":0,"completed":0}`},
		{"some", `{"todos":[{"content":"Test","status":"completed"},{"content":"Ship","status":"in_progress","active_form":"Shipping"}]}`,
			`{"todos":[{"content":"Test","status":"completed"},{"content":"Ship","status":"in_progress","active_form":"Shipping"}],"total":2,"completed":1}`},
		{"two in progress", `{"todos":[{"content":"a","status":"in_progress"},{"content":"b","status":"in_progress"}]}`,
			`{"todos":[{"content":"a","status":"in_progress"},{"content":"b","status":"in_progress"}],"total":2,"completed":0,` +
				`"warning":"2 todos are in progress. Keep one in progress at a time."}`},
		{"too many", many, `{"error":"Invalid arguments for write_todos: /todos: got 101 items, want at most 100"}`},
		{"unknown status", `{"todos":[{"content":"a","status":"done"}]}`,
			`{"error":"Invalid arguments for write_todos: /todos/0/status: value must be one of 'pending', 'in_progress', 'completed'"}`},
	} {
		t.Run(test.name, func(t *testing.T) { want(t, run(t, tool.Env{}, "write_todos", test.args), test.want) })
	}
}

// TestLoadTool returns the full schema of tools that the session can see, and of no others (TL23,
// TL37).
func TestLoadTool(t *testing.T) {
	t.Parallel()
	tools := tool.NewRegistry(append(core.Tools(), core.LoadTool())...)
	env := tool.Env{Registry: tools, Visible: []string{"echo", "load_tool"}}
	load := func(env tool.Env, name string) string {
		t.Helper()
		result, err := tools.Execute(t.Context(), tool.Call{Tool: "load_tool", Args: json.RawMessage(`{"name":"` + name + `"}`)}, env)
		if err != nil {
			t.Fatal(err)
		}
		record, err := result.Record("call_1")
		if err != nil {
			t.Fatal(err)
		}
		return string(record.Result)
	}

	got := load(env, "echo")
	if !strings.Contains(got, `"name":"echo"`) || !strings.Contains(got, `"required":["message"]`) || !strings.Contains(got, `"output_schema"`) {
		t.Errorf("got %s", got)
	}
	want(t, load(env, "add"), `{"error":"Tool definition not found: add"}`)
	want(t, load(env, ""), `{"error":"Give the name of a tool, or a query to find one."}`)
	want(t, load(tool.Env{}, "echo"), `{"error":"Tool registry not available in this context. load_tool requires the tools of a session."}`)
}

// TestFindTools finds tools that the session can see by words, the best first.
func TestFindTools(t *testing.T) {
	t.Parallel()
	tools := tool.NewRegistry(append(core.Tools(), core.LoadTool())...)
	env := tool.Env{Registry: tools, Visible: []string{"echo", "add", "divide", "load_tool"}}
	for query, want := range map[string][]string{
		"divide numbers": {`"found":[{"name":"divide"`}, "ADD": {`{"name":"add"`}, "subtract": {`"error":"No tool matches`}, "?": {`"error":"No tool matches`},
	} {
		result, err := tools.Execute(t.Context(), tool.Call{Tool: "load_tool", Args: json.RawMessage(`{"query":"` + query + `"}`)}, env)
		if err != nil {
			t.Fatal(err)
		}
		record, err := result.Record("call_1")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(record.Result), part) {
				t.Errorf("%s: got %s, want %s", query, record.Result, part)
			}
		}
	}
}
