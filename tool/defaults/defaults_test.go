package defaults_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/defaults"
	"github.com/perdure/perdure/tool/web"
)

// TestTools: the 18 default tools, and none that must be chosen.
func TestTools(t *testing.T) {
	t.Parallel()
	tools, err := defaults.Tools(defaults.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"get_current_time", "echo", "report_progress", "add", "subtract", "multiply", "divide", "write_todos",
		"read_file", "write_file", "edit_file", "list_directory", "grep_files", "delete_file", "stat_file",
		"get_weather", "get_forecast", "web_fetch",
	}
	if diff := cmp.Diff(want, tool.NewRegistry(tools...).Names()); diff != "" {
		t.Error(diff)
	}
	if _, err := defaults.Registry(defaults.Config{Web: web.Config{WeatherURL: "no url"}}); err == nil {
		t.Error("a wrong URL is accepted")
	}
}

// TestAnnotations has what each tool of the command says of itself: read-only, destructive,
// idempotent, open-world.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	const reads, readsOutside = "r.i.", "r.io" // changes nothing
	want := map[string]string{
		"get_current_time": reads, "echo": reads, "add": reads, "subtract": reads, "multiply": reads, "divide": reads,
		"report_progress": "..i.", "write_todos": "..i.",
		"read_file": reads, "list_directory": reads, "grep_files": reads, "stat_file": reads,
		"write_file": ".di.", "edit_file": ".d..", "delete_file": ".di.",
		"get_weather": readsOutside, "get_forecast": readsOutside, "web_fetch": readsOutside,
		"list_tasks": reads, "get_task": reads, "wait_task": reads,
		"spawn_background":      ".d.o", // what its target does
		"check_background_tool": ".di.", "cancel_task": ".di.", "message_task": "....",
		"load_tool":       reads,
		"spawn_subagent":  ".d.o", // what the subagent does
		"message_parent":  "....",
		"create_schedule": ".d.o", // what it starts later
		"list_schedules":  reads, "cancel_schedule": ".di.",
		"kv_store": ".di.", "secret_store": ".d..",
		"sql_query": reads, "sql_execute": ".d..", "sql_schema": reads,
		"list_resources": reads, "check_budget": reads, "search_messages": reads, "view_image": reads, "set_title": "..i.",
	}
	tools, err := defaults.Registry(defaults.Config{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range tools.Names() {
		found, _ := tools.Get(name)
		a := tool.AnnotationsOf(found.Spec())
		flags := []byte("....")
		for i, set := range []bool{a.ReadOnly, a.Destructive, a.Idempotent, a.OpenWorld} {
			if set {
				flags[i] = "rdio"[i]
			}
		}
		got[name] = string(flags)
		if a.Title == name || a.Title == "" {
			t.Errorf("%s: title %q", name, a.Title)
		}
		if a.ReadOnly != (found.Spec().Class == "pure") {
			t.Errorf("%s: read-only %t, class %s", name, a.ReadOnly, found.Spec().Class)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, optional := range defaults.Optional() {
		if name := optional.Spec().Name; !tools.Optional(name) || slices.Contains(tools.Defaults(), name) {
			t.Errorf("%s is a default", name)
		}
	}
}

// TestOutgoing: the calls of these tools leave the deployment. What starts others is not among
// them, because the others are counted themselves.
func TestOutgoing(t *testing.T) {
	t.Parallel()
	tools, err := defaults.Registry(defaults.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range tools.Names() {
		if found, _ := tools.Get(name); tool.IsOutgoing(found) {
			got = append(got, name)
		}
	}
	if diff := cmp.Diff([]string{"get_weather", "get_forecast", "web_fetch"}, got); diff != "" {
		t.Error(diff)
	}
}
