package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type note struct {
	Text string `json:"text"`
}

func echo(_ context.Context, in note, _ tool.Env) (note, error) { return in, nil }

type place struct {
	City string `json:"city" minLength:"1" jsonschema:"The city."`
	Zone string `json:"zone,omitempty" default:"UTC"`
}

type Base struct {
	Verbose bool `json:"verbose,omitempty"`
}

// everything has a field of every form.
type everything struct {
	Base
	Name     string            `json:"name" pattern:"^[a-z]+$" maxLength:"8" jsonschema:"A name."`
	Kind     string            `json:"kind" enum:"small,large"`
	Level    int               `json:"level,omitempty" enum:"1,2,3" default:"2"`
	Ratio    float64           `json:"ratio" min:"0" max:"1.5"`
	Count    *int              `json:"count"`
	Small    uint8             `json:"small,omitzero"`
	Exact    json.Number       `json:"exact,omitempty"`
	Free     json.RawMessage   `json:"free,omitempty"`
	Bytes    []byte            `json:"bytes,omitempty"`
	Tags     []string          `json:"tags" enum:"a,b" minItems:"1" maxItems:"3"`
	Home     place             `json:"home"`
	Others   []place           `json:"others,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	At       time.Time         `json:"at,omitzero"`
	Untagged bool
	Hidden   string `json:"-"`
}

type answer struct {
	Text  string   `json:"text" jsonschema:"What it says."`
	Count *int     `json:"count"`
	Lines []string `json:"lines,omitempty"`
}

func TestDerivedSchema(t *testing.T) {
	t.Parallel()
	const path = "testdata/schema.txtar"
	got := &txtar.Archive{Comment: []byte("The schemas that tool.New derives (TL24). Rewrite with: go test ./tool -run TestDerivedSchema -update\n")}
	add := func(name string, text json.RawMessage) {
		var out strings.Builder
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(out.String())})
	}
	spec := registry(t, tool.New(named("probe"), func(context.Context, everything, tool.Env) (answer, error) {
		return answer{}, nil
	})).Definitions()[0]

	add("parameters.json", spec.Parameters)
	add("output_schema.json", spec.OutputSchema)
	if *update {
		if err := os.WriteFile(path, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(txtar.Format(got))); diff != "" {
		t.Error(diff)
	}
}

// captured runs a typed tool and returns what its function was given.
func captured[In any](t *testing.T, args string) (in In, result tool.Result) {
	t.Helper()
	r := registry(t, tool.New(named("probe"), func(_ context.Context, got In, _ tool.Env) (any, error) {
		in = got
		return nil, nil
	}))
	if refused := r.Validate("probe", json.RawMessage(args)); refused != nil {
		return in, *refused
	}
	result, err := r.Execute(t.Context(), tool.Call{Tool: "probe", Args: json.RawMessage(args)}, tool.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return in, result
}

type numbers struct {
	Int   int64       `json:"int,omitempty"`
	Tiny  int8        `json:"tiny,omitempty"`
	Exact json.Number `json:"exact,omitempty"`
	Any   any         `json:"any,omitempty"`
}

func TestNumbersDecodeExactly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args  string
		want  numbers
		fault string
	}{
		{`{"int":9223372036854775807}`, numbers{Int: math.MaxInt64}, ""},
		{`{"int":5.0}`, numbers{Int: 5}, ""},
		{`{"int":1e3}`, numbers{Int: 1000}, ""},
		{`{"exact":123456789012345678901234567890}`, numbers{Exact: "123456789012345678901234567890"}, ""},
		{`{"any":9007199254740993}`, numbers{Any: json.Number("9007199254740993")}, ""},
		{`{"int":5.5}`, numbers{}, "/int: got number, want integer"},
		{`{"int":"5"}`, numbers{}, "/int: got string, want integer"},
		{`{"int":9223372036854775808}`, numbers{}, "/int: got number 9223372036854775808, want int64"},
		{`{"tiny":128}`, numbers{}, "/tiny: got 128, want at most 127"},
		{`{"exact":"5"}`, numbers{}, "/exact: got string, want number"},
		{`{"int":null}`, numbers{}, "/int: got null, want integer"},
	} {
		t.Run(test.args, func(t *testing.T) {
			in, result := captured[numbers](t, test.args)

			if diff := cmp.Diff(test.want, in); diff != "" {
				t.Error(diff)
			}
			if test.fault != "" && (!result.Refused || result.Text != "Invalid arguments for probe: "+test.fault) {
				t.Errorf("got %q", result.Text)
			}
		})
	}
}

func TestDefaultsAreFilled(t *testing.T) {
	t.Parallel()
	type in struct {
		Home   place   `json:"home"`
		Others []place `json:"others,omitempty"`
		Level  int     `json:"level" default:"2"`
	}

	got, result := captured[in](t, `{"home":{"city":"Rome"},"others":[{"city":"Oslo","zone":"CET"},{"city":"Bern"}]}`)

	want := in{Home: place{"Rome", "UTC"}, Others: []place{{"Oslo", "CET"}, {"Bern", "UTC"}}, Level: 2}
	if diff := cmp.Diff(want, got); diff != "" || !result.IsSuccess() {
		t.Error(diff, result.Text)
	}
}

func TestTypedResults(t *testing.T) {
	t.Parallel()
	run := func(out any, err error) perdure.ToolResult {
		rec, _ := tool.New(named("probe"), func(context.Context, struct{}, tool.Env) (any, error) { return out, err }).
			Run(t.Context(), tool.Call{}, tool.Env{}).Record("call_1")
		return rec
	}
	for _, test := range []struct {
		name   string
		got    perdure.ToolResult
		result string
		kind   perdure.ErrorKind
	}{
		{"a value", run(note{"<b>"}, nil), `{"text":"<b>"}`, ""},
		{"nil", run(nil, nil), `null`, ""},
		{"a result passes through", run(tool.Connect("github"), nil), `{"connection_required":"github"}`, ""},
		{"a tool error keeps its text", run(nil, tool.Errorf("no such repository: %s", "x")), `{"error":"no such repository: x"}`, perdure.ErrorTool},
		{"a file error keeps its text", run(nil, &tool.FileError{Kind: perdure.NotFound, Text: "File not found: /a"}), `{"error":"File not found: /a"}`, perdure.ErrorTool},
		{"another error is internal", run(nil, errors.New("password=hunter2")), `{"error":"` + perdure.GenericToolError + `"}`, perdure.ErrorInternal},
		{"NaN is internal", run(math.NaN(), nil), `{"error":"` + perdure.GenericToolError + `"}`, perdure.ErrorInternal},
		{"a channel is internal", run(make(chan int), nil), `{"error":"` + perdure.GenericToolError + `"}`, perdure.ErrorInternal},
	} {
		t.Run(test.name, func(t *testing.T) {
			if string(test.got.Result) != test.result || test.got.ErrorKind != test.kind {
				t.Errorf("got %s %q", test.got.Result, test.got.ErrorKind)
			}
		})
	}
}

func TestTypedOutsideARegistry(t *testing.T) {
	t.Parallel()
	probe := tool.New(named("probe"), echo)

	for args, want := range map[string]string{
		`{"text"`:            "Invalid arguments for probe: /: invalid JSON: it is cut off",
		`{"text":1}`:         "Invalid arguments for probe: /text: got number, want string",
		`{"text":"","x":""}`: "Invalid arguments for probe: /x: unknown field",
	} {
		if result := probe.Run(t.Context(), tool.Call{Args: []byte(args)}, tool.Env{}); result.Text != want {
			t.Errorf("%s: got %q", args, result.Text)
		}
	}
}

// statuses is a sink that records the reported statuses.
type statuses struct {
	tool.Sink
	texts []string
}

func (s *statuses) Status(text string) perdure.Cause {
	s.texts = append(s.texts, text)
	return ""
}

func TestNewBackground(t *testing.T) {
	t.Parallel()
	probe := tool.NewBackground(named("probe"), func(_ context.Context, in note, env tool.Env) (note, error) {
		_ = env.Sink.Status(in.Text)
		return in, nil
	})
	registry(t, probe)
	call := tool.Call{Args: []byte(`{"text":"hello"}`)}
	sink := &statuses{}

	foreground := probe.Run(t.Context(), call, tool.Env{})
	background := probe.RunBackground(t.Context(), call, tool.Env{}, sink)
	nobody := probe.RunBackground(t.Context(), call, tool.Env{}, nil)

	if diff := cmp.Diff([]string{"hello"}, sink.texts); diff != "" {
		t.Error(diff)
	}
	for _, r := range []tool.Result{foreground, background, nobody} {
		if r.Value != (note{"hello"}) {
			t.Errorf("got %+v", r)
		}
	}
}

func TestNewRefusesBadTypes(t *testing.T) {
	t.Parallel()
	type loop struct {
		Next *loop `json:"next"`
	}
	type badTag struct {
		Name string `json:"name" min:"1"`
	}
	type badDefault struct {
		Level int `json:"level" default:"two"`
	}
	for name, probe := range map[string]tool.Tool{
		"a type that holds itself":  tool.New(named("probe"), func(context.Context, loop, tool.Env) (any, error) { return nil, nil }),
		"a tag that does not fit":   tool.New(named("probe"), func(context.Context, badTag, tool.Env) (any, error) { return nil, nil }),
		"a default that is no JSON": tool.New(named("probe"), func(context.Context, badDefault, tool.Env) (any, error) { return nil, nil }),
		"arguments of no object":    tool.New(named("probe"), func(context.Context, int, tool.Env) (any, error) { return nil, nil }),
		"a channel":                 tool.New(named("probe"), func(context.Context, chan int, tool.Env) (any, error) { return nil, nil }),
		"no function":               tool.New[note, note](named("probe"), nil),
	} {
		t.Run(name, func(t *testing.T) {
			r := tool.NewRegistry(probe)

			if !errors.Is(r.Err(), perdure.Invalid) || !strings.Contains(r.Err().Error(), "parameters: ") {
				t.Errorf("got %v", r.Err())
			}
		})
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()

	got, err := tool.Decode[place](tool.Call{Tool: "probe", Args: []byte(`{"city":"Rome"}`)})
	_, wrong := tool.Decode[place](tool.Call{Tool: "probe", Args: []byte(`{"city":5}`)})

	var toolErr *tool.ToolError
	if got != (place{"Rome", "UTC"}) || err != nil || !errors.As(wrong, &toolErr) {
		t.Errorf("got %+v, %v, %v", got, err, wrong)
	}
}
