package background_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

type slowArgs struct {
	N int    `json:"n" min:"0"`
	S string `json:"s,omitempty"`
}

func slow(context.Context, slowArgs, tool.Env) (string, error) { return "", nil }

// targets are tools to be started in the background, good and bad.
func targets() []tool.Tool {
	spec := func(name, display string, policy tool.Policy) tool.Spec {
		return tool.Spec{Name: name, DisplayName: display, Description: "A test tool.", Class: perdure.AtMostOnce, Policy: policy}
	}
	yes := true
	declared := spec("declared", "", "")
	declared.Hints.SupportsBackground = &yes
	client := spec("client", "", tool.PolicyClientSide)
	client.Hints.SupportsBackground = &yes
	answer := func(context.Context, tool.Call, tool.Env) tool.Result { return tool.Result{} }
	return []tool.Tool{
		tool.NewBackground(spec("slow_tool", "Slow Tool", ""), slow),
		tool.NewBackground(spec("nameless", "", ""), slow),
		tool.NewBackground(spec("hidden", "", ""), slow),
		tool.NewBackground(spec("asks", "", tool.PolicyRequiresApproval), slow),
		tool.New(spec("foreground", "", ""), slow),
		tool.Adapt(declared, answer),
		tool.Adapt(client, nil),
	}
}

// spawnEnv is a session in which every row of 8.1 passes.
func spawnEnv() (tool.Env, *registry) {
	r := newRegistry()
	r.spawned = tool.SpawnResult{Task: task(7, perdure.TaskRunning)}
	e := env(r, nil)
	e.Visible = []string{"spawn_background", "slow_tool", "nameless", "asks", "foreground", "declared", "client"}
	return e, r
}

const (
	noSchedule   = "schedule must include exactly one of cron_expression (recurring) or scheduled_at (one-shot)"
	twoSchedules = "schedule must not include both cron_expression and scheduled_at; provide exactly one"
	noStore      = "Schedule store not available in this context. Scheduled monitors require session schedules."
)

// spawnRow is a row of 8.1: arguments and missing ports.
type spawnRow struct {
	row     string
	args    string
	without func(*tool.Env)
	want    string
}

// take takes away what the row is to do without.
func (r spawnRow) take(e *tool.Env) {
	if r.without != nil {
		r.without(e)
	}
}

func spawnRows() []spawnRow {
	const good = `{"tool":"slow_tool","args":{"n":1}}`
	scheduled := func(schedule string) string {
		return `{"tool":"slow_tool","args":{"n":1},"schedule":` + schedule + `}`
	}
	return []spawnRow{
		{"1", good, func(e *tool.Env) { *e = tool.Env{} },
			"spawn_background requires context. This tool must be executed with session context."},
		{"2 absent", `{"args":{}}`, nil, "Missing required parameter: tool"},
		{"2 blank", `{"tool":" \t","args":{}}`, nil, "Missing required parameter: tool"},
		{"2 no string", `{"tool":5,"args":{}}`, nil, "Missing required parameter: tool"},
		{"3 absent", `{"tool":"slow_tool"}`, nil, "Missing required parameter: args (object expected)"},
		{"3 no object", `{"tool":"slow_tool","args":[1]}`, nil, "Missing required parameter: args (object expected)"},
		{"4", scheduled(`"* * * * *"`), nil, "schedule must be an object"},
		{"4 null", scheduled(`null`), nil, "schedule must be an object"},
		{"5", scheduled(`{"scheduled_at":"tomorrow"}`), nil, "scheduled_at must be RFC3339"},
		{"5 no zone", scheduled(`{"scheduled_at":"2026-04-16T15:30:00"}`), nil, "scheduled_at must be RFC3339"},
		{"5 no string", scheduled(`{"scheduled_at":1776353400}`), nil, "scheduled_at must be RFC3339"},
		{"6", scheduled(`{}`), nil, noSchedule},
		{"6 blank", scheduled(`{"cron_expression":" ","scheduled_at":""}`), nil, noSchedule},
		{"7", scheduled(`{"cron_expression":"0 9 * * *","scheduled_at":"2026-04-16T15:30:00Z"}`), nil, twoSchedules},
		{"8", good, func(e *tool.Env) { e.Registry = nil },
			"Tool registry not available in this context. spawn_background requires worker-side tool execution."},
		{"9 unknown", `{"tool":"nothing","args":{}}`, nil, "Unknown tool: nothing"},
		{"9 not visible", `{"tool":"hidden","args":{"n":1}}`, nil, "Unknown tool: hidden"},
		{"10", `{"tool":"spawn_background","args":{}}`, nil, "spawn_background cannot target itself recursively"},
		{"11", `{"tool":"foreground","args":{"n":1}}`, nil, "Tool does not support background execution: foreground"},
		{"11 client_side", `{"tool":"client","args":{}}`, nil, "Tool does not support background execution: client"},
		{"12", `{"tool":"declared","args":{}}`, nil, "Tool declared background support but has no background executor: declared"},
		{"13", `{"tool":"slow_tool","args":{"n":-1,"x":2}}`, nil,
			"Invalid arguments for slow_tool: /n: got -1, want at least 0; /x: unknown property"},
		{"15 one-shot", scheduled(`{"scheduled_at":"2026-04-16T15:30:00+02:00","timezone":" "}`), nil, noStore},
		{"15 recurring", scheduled(`{"cron_expression":"*/10 * * * *","timezone":"Europe/Berlin"}`), nil, noStore},
		{"17", good, func(e *tool.Env) { e.Tasks = nil },
			"Session task registry not available in this context. Background runs require task tracking."},
		{"18", good, func(e *tool.Env) { e.Files = nil },
			"Session file store not available in this context. spawn_background requires artifact persistence."},
	}
}

func TestSpawnRows(t *testing.T) {
	t.Parallel()
	for _, row := range spawnRows() {
		t.Run(row.row, func(t *testing.T) {
			t.Parallel()
			e, r := spawnEnv()
			row.take(&e)

			got, _ := run(t, e, "spawn_background", row.args)

			wantJSON(t, got, errorBody(row.want))
			if len(r.spawns) > 0 {
				t.Fatalf("got %v spawned, want nothing", r.spawns)
			}
		})
	}
}

// TestSpawnFirstRowAnswers breaks each row together with all that come after it.
func TestSpawnFirstRowAnswers(t *testing.T) {
	t.Parallel()
	noPorts := func(e *tool.Env) { e.Tasks, e.Files = nil, nil }
	nothing := func(e *tool.Env) { e.Registry, e.Tasks, e.Files = nil, nil, nil }
	for _, c := range []spawnRow{
		{"1", `{"schedule":5,"bogus":1}`, func(e *tool.Env) { *e = tool.Env{} },
			"spawn_background requires context. This tool must be executed with session context."},
		{"2", `{"schedule":5,"bogus":1}`, nothing, "Missing required parameter: tool"},
		{"3", `{"tool":"nothing","schedule":5,"bogus":1}`, nothing, "Missing required parameter: args (object expected)"},
		{"4", `{"tool":"nothing","args":{},"schedule":5,"bogus":1}`, nothing, "schedule must be an object"},
		{"5", `{"tool":"nothing","args":{},"schedule":{"cron_expression":"x","scheduled_at":"x"},"bogus":1}`, nothing,
			"scheduled_at must be RFC3339"},
		{"6", `{"tool":"nothing","args":{},"schedule":{"more":1},"bogus":1}`, nothing, noSchedule},
		{"7", `{"tool":"nothing","args":{},"schedule":{"cron_expression":"x","scheduled_at":"2026-04-16T15:30:00Z"},"bogus":1}`,
			nothing, twoSchedules},
		{"the schema", `{"tool":"nothing","args":{},"bogus":1}`, nothing,
			"Invalid arguments for spawn_background: /bogus: unknown property"},
		{"8", `{"tool":"nothing","args":{}}`, nothing,
			"Tool registry not available in this context. spawn_background requires worker-side tool execution."},
		{"9", `{"tool":"hidden","args":{"bogus":1},"schedule":{"cron_expression":"x"}}`, noPorts, "Unknown tool: hidden"},
		{"10", `{"tool":"spawn_background","args":{"bogus":1},"schedule":{"cron_expression":"x"}}`, noPorts,
			"spawn_background cannot target itself recursively"},
		{"11", `{"tool":"foreground","args":{"bogus":1},"schedule":{"cron_expression":"x"}}`, noPorts,
			"Tool does not support background execution: foreground"},
		{"13", `{"tool":"asks","args":{"n":1,"bogus":1},"schedule":{"cron_expression":"x"}}`, noPorts,
			"Invalid arguments for asks: /bogus: unknown property"},
		{"15", `{"tool":"slow_tool","args":{"n":1},"schedule":{"cron_expression":"x"}}`, noPorts, noStore},
		{"17", `{"tool":"slow_tool","args":{"n":1}}`, noPorts,
			"Session task registry not available in this context. Background runs require task tracking."},
	} {
		t.Run(c.row, func(t *testing.T) {
			t.Parallel()
			e, _ := spawnEnv()
			c.take(&e)

			got, _ := run(t, e, "spawn_background", c.args)

			wantJSON(t, got, errorBody(c.want))
		})
	}
}

// TestSpawnNeeds pins prior art's starts of the two texts.
func TestSpawnNeeds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		without func(*tool.Env)
		start   string
	}{
		"tasks": {func(e *tool.Env) { e.Tasks = nil }, `{"error":"Session task registry not available`},
		"files": {func(e *tool.Env) { e.Files = nil }, `{"error":"Session file store not available`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := spawnEnv()
			c.without(&e)

			got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","args":{"n":1}}`)

			if !strings.HasPrefix(got, c.start) {
				t.Fatalf("got %s, want it to begin with %s", got, c.start)
			}
		})
	}
}

// TestSpawnScheduleShape pins prior art's two faults of a schedule, without a task and a file port
// (BG1).
func TestSpawnScheduleShape(t *testing.T) {
	t.Parallel()
	e, _ := spawnEnv()
	e.Tasks, e.Files = nil, nil
	for schedule, want := range map[string]string{
		`{"scheduled_at":"not-a-date"}`:                                                   "scheduled_at must be RFC3339",
		`{"cron_expression":"*/10 * * * *","scheduled_at":"2026-04-16T15:30:00Z"}`:        "must not include both cron_expression and scheduled_at",
		`{"cron_expression":"*/10 * * * *","scheduled_at":"","timezone":"Europe/Berlin"}`: noStore,
	} {
		got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","args":{"n":1},"schedule":`+schedule+`}`)
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", schedule, got, want)
		}
	}
}

// TestSpawnOtherFaults are those that no row names: they keep the text of TL22.
func TestSpawnOtherFaults(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`{"tool":"slow_tool","args":{"n":1`: "/: invalid JSON: it is cut off",
		`[]`:                                "/: got array, want object",
		`null`:                              "/: got null, want object",
		`{"tool":"slow_tool","args":{},"title":5}`:                                          "/title: got number, want string",
		`{"tool":"slow_tool","args":{},"signal_on_completion":"yes"}`:                       "/signal_on_completion: got string, want boolean",
		`{"tool":"slow_tool","args":{},"schedule":{"timezone":"UTC","cron_expression":5}}`:  "/schedule/cron_expression: got number, want string",
		`{"tool":"slow_tool","args":{},"schedule":{"cron_expression":"x","every":5},"b":1}`: "/b: unknown property; /schedule/every: unknown property",
	} {
		e, _ := spawnEnv()
		got, _ := run(t, e, "spawn_background", args)
		if want = errorBody("Invalid arguments for spawn_background: " + want); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", args, got, want)
		}
	}
	e, _ := spawnEnv()
	got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","tool":"slow_tool","args":{}}`)
	if !strings.Contains(got, "Invalid arguments for spawn_background: /: ") || !strings.Contains(got, "duplicate key") {
		t.Errorf("got %s for a duplicate key", got)
	}
}

func TestSpawnReply(t *testing.T) {
	t.Parallel()
	const common = `"type":"background","run_id":"bg_00000000000000000000000000000007",
		"resource_id":"bg_00000000000000000000000000000007","task_id":"task_00000000000000000000000000000007",
		"background_id":"task_00000000000000000000000000000007",
		"artifact_dir":"/.background/bg_00000000000000000000000000000007",
		"log_path":"/.background/bg_00000000000000000000000000000007/output.log",
		"result_path":"/.background/bg_00000000000000000000000000000007/result.json"`
	for _, c := range []struct {
		name, args string
		state      perdure.TaskState
		position   int
		want       string
		spawn      tool.SpawnRequest
	}{
		{"running", `{"tool":" slow_tool ","args":{"n":1.0,"s":"<a>"}}`, perdure.TaskRunning, 0,
			`"status":"running","title":"Slow Tool","tool":"slow_tool","signal_on_completion":true`,
			tool.SpawnRequest{Tool: "slow_tool", Args: []byte(`{"n":1,"s":"<a>"}`), Title: "Slow Tool", NotifyEnd: true}},
		{"queued", `{"tool":"nameless","args":{"n":1},"title":" ","signal_on_completion":false}`, perdure.TaskQueued, 3,
			`"status":"queued","queue_position":3,"title":"Background nameless","tool":"nameless","signal_on_completion":false`,
			tool.SpawnRequest{Tool: "nameless", Args: []byte(`{"n":1}`), Title: "Background nameless"}},
		{"asked for first", `{"tool":"slow_tool","args":{"n":1}}`, perdure.TaskAwaitingInput, 0,
			`"status":"awaiting_input","title":"Slow Tool","tool":"slow_tool","signal_on_completion":true`,
			tool.SpawnRequest{Tool: "slow_tool", Args: []byte(`{"n":1}`), Title: "Slow Tool", NotifyEnd: true}},
		{"replayed in the queue", `{"tool":"slow_tool","args":{"n":1}}`, perdure.TaskQueued, 0,
			`"status":"queued","queue_position":2,"title":"Slow Tool","tool":"slow_tool","signal_on_completion":true`,
			tool.SpawnRequest{Tool: "slow_tool", Args: []byte(`{"n":1}`), Title: "Slow Tool", NotifyEnd: true}},
		{"replayed after its end", `{"tool":"slow_tool","args":{"n":1},"title":" Mine "}`, perdure.TaskSucceeded, 0,
			`"status":"running","title":"Mine","tool":"slow_tool","signal_on_completion":true`,
			tool.SpawnRequest{Tool: "slow_tool", Args: []byte(`{"n":1}`), Title: "Mine", NotifyEnd: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, r := spawnEnv()
			r.spawned = tool.SpawnResult{Task: task(7, c.state), Position: c.position}
			r.tasks = []perdure.Task{task(6, perdure.TaskQueued), task(7, c.state)}

			got, _ := run(t, e, "spawn_background", c.args)

			wantJSON(t, got, "{"+common+","+c.want+"}")
			if diff := cmp.Diff(r.spawns, []tool.SpawnRequest{c.spawn}); diff != "" {
				t.Fatalf("got -, want +:\n%s", diff)
			}
		})
	}
}

func TestSpawnErrors(t *testing.T) {
	t.Parallel()
	const full = "Maximum 5 active background runs per session. Wait for an existing run to finish before starting another."
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"rows 19 and 20", limit{full}, full},
		{"wrapped on its way", fmt.Errorf("spawn slow_tool: %w", fmt.Errorf("in tx: %w", limit{full})), full},
		{"the bare kind", fmt.Errorf("too many runs: %w", perdure.Limit), "too many runs: limit"},
		{"row 14", fmt.Errorf("spawn slow_tool: %w", &tool.Denied{Result: tool.Error("Permission denied: not at night")}), "Permission denied: not at night"},
		{"row 21", fmt.Errorf("commit: %w", perdure.Storage), perdure.GenericToolError},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, r := spawnEnv()
			r.err = c.err

			got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","args":{"n":1}}`)

			wantJSON(t, got, errorBody(c.want))
		})
	}
}

// limit is an error of kind Limit, whose text is the model's result.
type limit struct{ text string }

func (l limit) Error() string        { return l.text }
func (l limit) Is(target error) bool { return target == perdure.Limit }

func TestSpawnDryRun(t *testing.T) {
	t.Parallel()
	e, r := spawnEnv()
	e.DryRun = true

	got, _ := run(t, e, "spawn_background", `{"tool":"slow_tool","args":{"n":1}}`)

	wantJSON(t, got, `{"message":"[dry-run] Would run 'slow_tool' in the background.","tool":"slow_tool","title":"Slow Tool"}`)
	if len(r.spawns) > 0 {
		t.Fatalf("got %v spawned, want nothing", r.spawns)
	}
}
