package tooltest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/core"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/web"
)

// defaultSets are the sets whose tools every session has, by their folders.
func defaultSets(t *testing.T) map[string][]tool.Tool {
	t.Helper()
	fromWeb, err := web.Tools(web.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]tool.Tool{"core": core.Tools(), "file": file.Tools(), "web": fromWeb}
}

// defaults joins the sets (TL27).
func defaults(t *testing.T) *tool.Registry {
	t.Helper()
	sets := defaultSets(t)
	r, err := tool.Builder{}.Tool(sets["core"]...).Tool(sets["file"]...).Tool(sets["web"]...).Build()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The subtests pin prior-art/000.
func TestDefaultTools(t *testing.T) {
	t.Parallel()

	t.Run("names", func(t *testing.T) {
		want := map[string]perdure.EffectClass{
			"get_current_time": perdure.Pure, "echo": perdure.Pure, "report_progress": perdure.Idempotent,
			"add": perdure.Pure, "subtract": perdure.Pure, "multiply": perdure.Pure, "divide": perdure.Pure,
			"write_todos": perdure.Idempotent,
			"read_file":   perdure.Pure, "write_file": perdure.Idempotent, "edit_file": perdure.AtMostOnce, "list_directory": perdure.Pure,
			"grep_files": perdure.Pure, "delete_file": perdure.Idempotent, "stat_file": perdure.Pure,
			"get_weather": perdure.Pure, "get_forecast": perdure.Pure, "web_fetch": perdure.Pure,
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
		if r.Len() != 18 || len(want) != 18 {
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
		for _, name := range append(kept(), "spawn_background", "bash", "kv_store") {
			if defaults(t).Has(name) {
				t.Errorf("%s is in the defaults", name)
			}
		}
		for _, d := range defaults(t).Definitions() {
			if d.Hints.RequiresSecrets != nil || d.Policy != tool.PolicyAuto {
				t.Errorf("%s: hints %+v, policy %s", d.Name, d.Hints, d.Policy)
			}
		}
	})
}

// kept are the names of tools that run commands, read secrets, spend money, spawn agents or make
// schedules. They come with a capability (TL30).
func kept() []string {
	names := []string{"secret_store", "sql", "spawn_agent", "spawn_subagent", "external_agent", "create_schedule", "list_schedules", "cancel_schedule", "schedule", "shell", "http_request", "load_tool"}
	for _, t := range background.Tools(background.Config{}) {
		names = append(names, t.Spec().Name)
	}
	return names
}

// TestDefaultTexts wants the description of every default tool to be the file beside its code.
func TestDefaultTexts(t *testing.T) {
	t.Parallel()
	for folder, set := range defaultSets(t) {
		for _, found := range set {
			spec := found.Spec()
			text, err := os.ReadFile(filepath.Join("..", folder, spec.Name+".md"))
			if err != nil || spec.Description != strings.TrimSpace(string(text)) {
				t.Errorf("%s: the description is not that of tool/%s/%s.md: %v", spec.Name, folder, spec.Name, err)
			}
			if spec.DisplayName == "" || spec.DisplayName == spec.Name {
				t.Errorf("%s: display name %q", spec.Name, spec.DisplayName)
			}
		}
	}
}

// TestDefaultSchemas wants arguments and results to have the names of TL27. A "?" means that it may
// be left out.
func TestDefaultSchemas(t *testing.T) {
	t.Parallel()
	got := map[string][2]string{}
	for _, d := range defaults(t).Definitions() {
		got[d.Name] = [2]string{properties(t, d.Parameters), properties(t, d.OutputSchema)}
	}
	const stat = "path name is_directory is_readonly size_bytes created_at updated_at"
	want := map[string][2]string{
		"get_current_time": {"timezone? format?", "time timezone utc_offset unix"},
		"echo":             {"message", "echoed length"},
		"report_progress":  {"message current? total? unit?", "reported"},
		"add":              {"a b", "result"},
		"subtract":         {"a b", "result"},
		"multiply":         {"a b", "result"},
		"divide":           {"a b", "result"},
		"write_todos":      {"todos", "todos total completed warning?"},
		"read_file":        {"path offset? limit?", "path content encoding size_bytes total_lines truncated next_offset?"},
		"write_file":       {"path content encoding?", "path size_bytes created"},
		"edit_file":        {"path old_text new_text replace_all?", "path replacements"},
		"list_directory":   {"path?", "path entries"},
		"grep_files":       {"pattern path_pattern? max_matches?", "matches truncated skipped"},
		"delete_file":      {"path recursive?", "path deleted"},
		"stat_file":        {"path", stat},
		"get_weather":      {"location units?", "location latitude longitude observed_at temperature humidity wind_speed condition units"},
		"get_forecast":     {"location days? units?", "location units days"},
		"web_fetch":        {"url method? format? max_bytes? headers?", "url final_url status_code content_type title? content truncated"},
	}
	for name, texts := range want {
		want[name] = [2]string{sorted(texts[0]), sorted(texts[1])}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments and results (-want +got):\n%s", diff)
	}
}

// properties are the names of a schema's properties, sorted; those that may be left out have a "?".
func properties(t *testing.T, text json.RawMessage) string {
	t.Helper()
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if err := perdure.DecodeKnownJSON(text, &schema); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var names []string
	for name := range schema.Properties {
		if !slices.Contains(schema.Required, name) {
			name += "?"
		}
		names = append(names, name)
	}
	return sorted(strings.Join(names, " "))
}

func sorted(words string) string {
	names := strings.Fields(words)
	slices.Sort(names)
	return strings.Join(names, " ")
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
