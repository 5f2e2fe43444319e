package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// The first three rows pin prior-art/000.
func TestResultConversion(t *testing.T) {
	t.Parallel()
	const generic = "An internal error occurred while executing the tool"
	images := []perdure.Image{{Base64: "SGVsbG8=", MediaType: "image/png"}}
	for _, test := range []struct {
		name   string
		result tool.Result
		want   perdure.ToolResult
	}{
		{"success", tool.Success(map[string]int{"value": 42}), perdure.ToolResult{Result: json.RawMessage(`{"value":42}`)}},
		{"tool error", tool.Error("Invalid input"), perdure.ToolResult{
			Result: json.RawMessage(`{"error":"Invalid input"}`), Error: "Invalid input", ErrorKind: perdure.ErrorTool}},
		{"internal error", tool.Internal(errors.New("Secret database error")), perdure.ToolResult{
			Result: json.RawMessage(`{"error":"` + generic + `"}`), Error: generic, ErrorKind: perdure.ErrorInternal}},
		{"nil", tool.Success(nil), perdure.ToolResult{Result: json.RawMessage(`null`)}},
		{"images", tool.Success("a").WithImages(images...), perdure.ToolResult{Result: json.RawMessage(`"a"`), Images: images}},
		{"no images", tool.Success("a").WithImages(), perdure.ToolResult{Result: json.RawMessage(`"a"`)}},
		{"connection", tool.Connect("github"), perdure.ToolResult{
			Result: json.RawMessage(`{"connection_required":"github"}`), ConnectionRequired: "github"}},
		{"empty raw output is not absent", tool.Success(1).WithRaw(""), perdure.ToolResult{Result: json.RawMessage(`1`), RawOutput: ptr("")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.CallID = "call_1"

			got, _ := test.result.Record("call_1")

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResultThatIsNoJSON(t *testing.T) {
	t.Parallel()
	type ring struct{ Next any }
	cycle := &ring{}
	cycle.Next = cycle
	for name, value := range map[string]any{"NaN": math.NaN(), "channel": make(chan int), "cycle": cycle, "raw": json.RawMessage(`{`)} {
		t.Run(name, func(t *testing.T) {
			got, err := tool.Success(value).Record("call_1")

			if err == nil || got.ErrorKind != perdure.ErrorInternal || got.Error != perdure.GenericToolError {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestResultKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result           tool.Result
		isSuccess, isErr bool
	}{
		{tool.Success(1), true, false},
		{tool.Error("x"), false, true},
		{tool.Internal(errors.New("x")), false, true},
		{tool.Connect("x"), false, false},
	} {
		if test.result.IsSuccess() != test.isSuccess || test.result.IsError() != test.isErr {
			t.Errorf("%+v", test.result)
		}
	}
}

func TestChain(t *testing.T) {
	t.Parallel()
	inner := errors.New("disk full")
	outer := fmt.Errorf("save: %w", fmt.Errorf("disk full: %w", inner))

	if got := tool.Chain(outer); got != "save: disk full" {
		t.Errorf("got %q", got)
	}
}

// edge sends a result through the compatibility edge.
func edge(t *testing.T, text json.RawMessage) perdure.ToolResult {
	t.Helper()
	return record(t, tool.UnpackRaw(tool.Success(text)))
}

func TestRawOutputEdge(t *testing.T) {
	t.Parallel()
	pack := func(value any, raw string) json.RawMessage {
		text, err := tool.PackRaw(value, raw)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, test := range []struct {
		name   string
		inBand json.RawMessage
		result string
		raw    *string
	}{
		{"object", pack(map[string]string{"stdout": "hello"}, "raw stdout bytes"), `{"stdout":"hello"}`, ptr("raw stdout bytes")},
		{"scalar", pack("compact summary", "full output bytes"), `"compact summary"`, ptr("full output bytes")},
		{"mixed", json.RawMessage(`{"_raw_output_scalar":"user_value","kept":true}`), `{"_raw_output_scalar":"user_value","kept":true}`, nil},
		{"bare", json.RawMessage(`{"_raw_output_scalar":"v"}`), `{"_raw_output_scalar":"v"}`, nil},
		{"null", pack(nil, "x"), `null`, ptr("x")},
		{"list", pack([]int{1, 2}, ""), `[1,2]`, ptr("")},
		{"large number", pack(map[string]any{"n": json.Number("9007199254740993")}, "x"), `{"n":9007199254740993}`, ptr("x")},
		{"not a string", json.RawMessage(`{"_raw_output":7,"a":1}`), `{"_raw_output":7,"a":1}`, nil},
		{"scalar beside another key", json.RawMessage(`{"_raw_output":"r","_raw_output_scalar":1,"a":2}`), `{"_raw_output_scalar":1,"a":2}`, ptr("r")},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := edge(t, test.inBand)

			if diff := cmp.Diff(test.raw, got.RawOutput); diff != "" || string(got.Result) != test.result {
				t.Errorf("got %s\n%s", got.Result, diff)
			}
		})
	}
	t.Run("errors pass", func(t *testing.T) {
		if got := tool.UnpackRaw(tool.Error("x")); got.Text != "x" || got.Raw != nil {
			t.Errorf("got %+v", got)
		}
	})
}

// A tool may use any key in its JSON (regression: the key was taken away).
func TestRawOutputTyped(t *testing.T) {
	t.Parallel()

	got := record(t, tool.Success(map[string]string{"_raw_output": "mine"}).WithRaw("the whole"))

	if string(got.Result) != `{"_raw_output":"mine"}` || *got.RawOutput != "the whole" {
		t.Errorf("got %s, %v", got.Result, got.RawOutput)
	}
	if text, err := json.Marshal(got); err != nil || string(text) != `{"tool_call_id":"call_1","result":{"_raw_output":"mine"}}` {
		t.Errorf("the raw output is serialised: %s, %v", text, err)
	}
}

func TestEffectClassDerived(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		hints tool.Hints
		class perdure.EffectClass
		want  perdure.EffectClass
	}{
		{"nothing said", tool.Hints{}, "", perdure.AtMostOnce},
		{"readonly", tool.Hints{ReadOnly: ptr(true), Idempotent: ptr(true)}, "", perdure.Pure},
		{"not readonly", tool.Hints{ReadOnly: ptr(false)}, "", perdure.AtMostOnce},
		{"idempotent", tool.Hints{Idempotent: ptr(true)}, "", perdure.Idempotent},
		{"set beats derived", tool.Hints{ReadOnly: ptr(true)}, perdure.AtMostOnce, perdure.AtMostOnce},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := named("probe")
			spec.Class, spec.Hints = test.class, test.hints

			r := registry(t, tool.Adapt(spec, plain{}.Run))

			if got := r.Definitions()[0].Hints.Class; got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
	t.Run("a tool of the client", func(t *testing.T) {
		r := registry(t, tool.Adapt(named("probe"), nil))

		d := r.Definitions()[0]
		result, err := r.Execute(t.Context(), tool.Call{Tool: "probe"}, tool.Env{})

		if d.Type != "client_side" || d.Policy != tool.PolicyClientSide || err != nil || !result.IsError() {
			t.Errorf("got %+v, %+v, %v", d, result, err)
		}
	})
}
