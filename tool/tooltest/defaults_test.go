package tooltest_test

import (
	"slices"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/file"
)

// defaults joins the sets whose tools every session has (TL27).
func defaults(t *testing.T) *tool.Registry {
	t.Helper()
	r, err := tool.Builder{}.Tool(core.Tools()...).Tool(file.Tools()...).Build()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The subtests pin prior-art/000, as far as the tools are there: get_weather, get_forecast and web_fetch come
// with tool/web, which makes them 18.
func TestDefaultTools(t *testing.T) {
	t.Parallel()

	t.Run("names", func(t *testing.T) {
		want := map[string]perdure.EffectClass{
			"get_current_time": perdure.Pure, "echo": perdure.Pure, "report_progress": perdure.Idempotent,
			"add": perdure.Pure, "subtract": perdure.Pure, "multiply": perdure.Pure, "divide": perdure.Pure,
			"write_todos": perdure.Idempotent,
			"read_file":   perdure.Pure, "write_file": perdure.Idempotent, "edit_file": perdure.AtMostOnce, "list_directory": perdure.Pure,
			"grep_files": perdure.Pure, "delete_file": perdure.Idempotent, "stat_file": perdure.Pure,
		}
		r := defaults(t)

		for _, d := range r.Definitions() {
			if d.DisplayName == "" || d.Hints.Class != want[d.Name] {
				t.Errorf("%s: display name %q, class %s", d.Name, d.DisplayName, d.Hints.Class)
			}
			if changes := slices.Contains([]string{"write_file", "edit_file", "delete_file"}, d.Name); changes != (d.Hints.Concurrency == "session_workspace") {
				t.Errorf("%s: concurrency class %q", d.Name, d.Hints.Concurrency)
			}
			if refused := r.Validate(d.Name, []byte(`{"no_such_argument":1}`)); refused == nil {
				t.Errorf("%s takes unknown arguments", d.Name)
			}
		}
		if r.Len() != len(want) {
			t.Errorf("%d tools: %v", r.Len(), r.Names())
		}
	})
	t.Run("run", func(t *testing.T) {
		got := execute(t, tool.Call{ID: "call_1", Tool: "echo", Args: []byte(`{"message":"hello from defaults"}`)})

		if got.IsError() || string(got.Result) != `{"echoed":"hello from defaults","length":19}` {
			t.Errorf("got %s", got.Result)
		}
	})
	t.Run("math", func(t *testing.T) {
		got := execute(t, tool.Call{ID: "call_add", Tool: "add", Args: []byte(`{"a":5,"b":3}`)})

		if got.IsError() || string(got.Result) != `{"result":8.0}` {
			t.Errorf("got %s", got.Result)
		}
	})
	t.Run("executor", func(t *testing.T) {
		got := execute(t, tool.Call{ID: "call_1", Tool: "echo", Args: []byte(`{"message":"test"}`)})

		if got.IsError() || got.CallID != "call_1" || string(got.Result) != `{"echoed":"test","length":4}` {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("excluded", func(t *testing.T) {
		for _, name := range []string{"spawn_background", "bash", "kv_store"} {
			if defaults(t).Has(name) {
				t.Errorf("%s is in the defaults", name)
			}
		}
	})
}

func execute(t *testing.T, call tool.Call) perdure.ToolResult {
	t.Helper()
	result, err := defaults(t).Execute(t.Context(), call, tool.Env{})
	if err != nil {
		t.Fatal(err)
	}
	record, err := result.Record(call.ID)
	if err != nil {
		t.Fatal(err)
	}
	return record
}
