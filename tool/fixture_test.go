package tool_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// plain is a tool by hand: a spec and a function.
type plain struct {
	spec tool.Spec
	run  func(ctx context.Context, call tool.Call, env tool.Env) tool.Result
}

func (p plain) Spec() tool.Spec { return p.spec }

func (p plain) Run(ctx context.Context, call tool.Call, env tool.Env) tool.Result {
	if p.run == nil {
		return tool.Success(nil)
	}
	return p.run(ctx, call, env)
}

// runner is a tool with an executor for background runs.
type runner struct{ plain }

func (r runner) RunBackground(ctx context.Context, call tool.Call, env tool.Env, _ tool.Sink) tool.Result {
	return r.Run(ctx, call, env)
}

// named is a spec that a registry admits.
func named(name string) tool.Spec {
	return tool.Spec{Name: name, Description: "A tool of the tests.", Class: perdure.Pure}
}

// withSchema is a tool that only has a schema.
func withSchema(schema string) tool.Tool {
	spec := named("probe")
	spec.Parameters = json.RawMessage(schema)
	return plain{spec: spec}
}

// registry returns a registry that admits all the tools.
func registry(t testing.TB, tools ...tool.Tool) *tool.Registry {
	t.Helper()
	r, err := tool.Builder{}.Tool(tools...).Build()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// record is the record of a result, without the error for the log.
func record(t testing.TB, r tool.Result) perdure.ToolResult {
	t.Helper()
	rec, err := r.Record("call_1")
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func ptr[T any](v T) *T { return &v }
