package subagent_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/subagent"
	"github.com/perdure/perdure/tool/tooltest"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// TestGoldenTexts compares all that a model reads of these tools with testdata.
func TestGoldenTexts(t *testing.T) {
	t.Parallel()
	tooltest.Golden(t, "definitions.txtar", tooltest.Definitions(t, subagent.Tools()...), *update)
}

func TestToolsAreAdmitted(t *testing.T) {
	t.Parallel()
	set := tool.NewRegistry(subagent.Tools()...)
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	for name, soft := range map[string]bool{"spawn_subagent": false, "message_parent": true} {
		found, ok := set.Get(name)
		// SA8
		if !ok || found.Spec().Class != perdure.Idempotent || !found.Spec().NeedsEnv || (found.Spec().SoftBudget == tool.Never) == soft {
			t.Errorf("%s: got %+v", name, found)
		}
	}
}

// agents is the port, as far as these tools see it.
type agents struct {
	start error
	task  perdure.Task
	order *tool.SubagentRequest // the received order; nil: none
	said  *string
}

func (a *agents) Start(_ context.Context, o tool.SubagentRequest) (perdure.Task, error) {
	a.order = &o
	return a.task, a.start
}

func (a *agents) Await(ctx context.Context, _ perdure.TaskID) (perdure.Task, []byte, error) {
	if err := context.Cause(ctx); err != nil {
		return a.task, nil, err
	}
	return a.task, []byte(`{"n":1}`), nil
}

func (a *agents) SendToParent(_ context.Context, text string) error {
	a.said = &text
	return a.start
}

// run runs one of the tools, as the runtime does: behind its checks.
func run(ctx context.Context, t *testing.T, name, args string, env tool.Env) tool.Result {
	t.Helper()
	set := tool.NewRegistry(subagent.Tools()...)
	if fault := set.Validate(name, []byte(args)); fault != nil {
		return *fault
	}
	found, _ := set.Get(name)
	return found.Run(ctx, tool.Call{ID: "call_1", Tool: name, Args: []byte(args)}, env)
}

func body(t *testing.T, r tool.Result) string {
	t.Helper()
	record, _ := r.Record("call_1") // an internal error's text is not the model's
	return string(record.Result)
}

func TestSpawnRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, want string }{
		"no name":         {`{"task":"x"}`, "name"},
		"an empty name":   {`{"name":"","task":"x"}`, "name"},
		"a long name":     {`{"name":"` + strings.Repeat("n", 65) + `","task":"x"}`, "name"},
		"a megabyte":      {`{"name":"` + strings.Repeat("n", 1<<20) + `","task":"x"}`, "name"},
		"nothing to show": {`{"name":"\u0007\u001b\u200b","task":"x"}`, "no printable characters"},
		"no task":         {`{"name":"n"}`, "task"},
		"an empty task":   {`{"name":"n","task":""}`, "task"},
		"unknown":         {`{"name":"n","task":"x","model":"y"}`, "model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := &agents{}
			r := run(t.Context(), t, "spawn_subagent", c.args, tool.Env{Agents: port})
			if got := body(t, r); r.IsSuccess() || !strings.Contains(got, c.want) || port.order != nil || len(got) > 8<<10 {
				t.Errorf("got %.300s, asked for %+v", got, port.order)
			}
		})
	}
}

func TestSpawnOrders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args string
		want tool.SubagentRequest
	}{
		"plain":             {`{"name":"n","task":"x"}`, tool.SubagentRequest{Name: "n", Prompt: "x"}},
		"a hostile name":    {`{"name":"a\u001b[2J\nb\tc\u202e","task":"x"}`, tool.SubagentRequest{Name: "a [2J b c", Prompt: "x"}},
		"null is no schema": {`{"name":"n","task":"x","result_schema":null}`, tool.SubagentRequest{Name: "n", Prompt: "x"}},
		"all": {
			`{"name":"n","task":"x","agent":"a","background":true,"result_schema":{"type":"integer"}}`,
			tool.SubagentRequest{Name: "n", Prompt: "x", Agent: "a", Background: true, Schema: []byte(`{"type":"integer"}`)},
		},
		"a long task": {`{"name":"n","task":"` + strings.Repeat("x", 1<<20) + `"}`, tool.SubagentRequest{Name: "n", Prompt: strings.Repeat("x", 1<<20)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := &agents{task: perdure.Task{ID: "task_1", State: perdure.TaskSucceeded}}
			r := run(t.Context(), t, "spawn_subagent", c.args, tool.Env{Agents: port})
			if !r.IsSuccess() || port.order == nil || cmp.Diff(*port.order, c.want) != "" {
				t.Errorf("got %.300s, asked for %.300v", body(t, r), port.order)
			}
		})
	}
}

func TestSpawnOutcomes(t *testing.T) {
	t.Parallel()
	denied := &tool.Denied{Result: tool.Error("one too many")}
	for name, c := range map[string]struct {
		port agents
		want string
		kind perdure.ErrorKind
		read bool
	}{
		"succeeded": {agents{task: perdure.Task{ID: "task_1", State: perdure.TaskSucceeded}}, `{"n":1}`, "", true},
		"canceled":  {agents{task: perdure.Task{ID: "task_1", State: perdure.TaskCanceled}}, `{"error":"The subagent was canceled."}`, perdure.ErrorCanceled, true},
		"failed": {
			agents{task: perdure.Task{ID: "task_1", State: perdure.TaskFailed, Error: &perdure.TaskError{Kind: perdure.ErrorNoResult, Message: "nothing"}}},
			`{"error":"nothing"}`, perdure.ErrorNoResult, true,
		},
		"refused":  {agents{start: denied}, `{"error":"one too many"}`, perdure.ErrorTool, false},
		"internal": {agents{start: errors.New("secret")}, `{"error":"` + perdure.GenericToolError + `"}`, perdure.ErrorInternal, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t.Context(), t, "spawn_subagent", `{"name":"n","task":"x"}`, tool.Env{Agents: &c.port})
			record, _ := r.Record("call_1")
			if string(record.Result) != c.want || record.ErrorKind != c.kind || (len(record.ReadTasks) == 1) != c.read {
				t.Errorf("got %s, %+v", record.Result, record)
			}
		})
	}
}

func TestDryRunAndWithoutEngine(t *testing.T) { // AP13
	t.Parallel()
	for name, args := range map[string]string{"spawn_subagent": `{"name":"n","task":"x"}`, "message_parent": `{"text":"x"}`} {
		port := &agents{}
		if r := run(t.Context(), t, name, args, tool.Env{Agents: port, DryRun: true}); !strings.Contains(body(t, r), "[dry-run] Would") || port.order != nil || port.said != nil {
			t.Errorf("%s: got %s", name, body(t, r))
		}
		if r := run(t.Context(), t, name, args, tool.Env{}); r.IsSuccess() || !strings.Contains(body(t, r), "requires an engine") {
			t.Errorf("%s: got %s", name, body(t, r))
		}
	}
}

func TestMessageParent(t *testing.T) { // TK11
	t.Parallel()
	port := &agents{}
	if r := run(t.Context(), t, "message_parent", `{"text":"half done"}`, tool.Env{Agents: port}); body(t, r) != `{"sent":true}` || port.said == nil || *port.said != "half done" {
		t.Errorf("got %s", body(t, r))
	}
	if r := run(t.Context(), t, "message_parent", `{"text":"x"}`, tool.Env{Agents: &agents{start: perdure.Conflict}}); r.IsSuccess() || !strings.Contains(body(t, r), "was not sent") {
		t.Errorf("got %s", body(t, r))
	}
	if r := run(t.Context(), t, "message_parent", `{"text":""}`, tool.Env{Agents: port}); r.IsSuccess() {
		t.Errorf("got %s", body(t, r))
	}
}
