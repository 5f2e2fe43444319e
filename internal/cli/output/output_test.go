package output

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type thing struct {
	ID    string         `json:"id"`
	Size  int64          `json:"size"`
	About map[string]any `json:"about,omitempty"`
	Left  string         `json:"-"`
}

func things() []thing {
	return []thing{
		{ID: "a", Size: 1<<62 + 1, About: map[string]any{"z": true, "b": nil, "text": "1\n2\n"}},
		{ID: "007", Size: 2},
	}
}

func TestC02Choices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		choice Options
		want   string
	}{
		{"json is indented", Options{Output: JSON, Fields: []string{"size", "id"}}, "[\n  {\n    \"size\": 4611686018427387905,\n    \"id\": \"a\"\n  },\n  {\n    \"size\": 2,\n    \"id\": \"007\"\n  }\n]\n"},
		{"fields alone are json", Options{Output: Table, Fields: []string{"about"}, JQ: "length"}, "2\n"},
		{"jsonl is a line each", Options{Output: JSONL, Fields: []string{"id"}}, "{\"id\":\"a\"}\n{\"id\":\"007\"}\n"},
		{"an empty field stays away", Options{Output: JSONL, Fields: []string{"about", "size"}, JQ: ".[1]"}, "{\"size\":2}\n"},
		{"yaml keeps the order and quotes what looks like a number", Options{Output: YAML}, "- id: a\n  size: 4611686018427387905\n  about:\n    b: null\n    text: |\n      1\n      2\n    z: true\n- id: \"007\"\n  size: 2\n"},
		{"none is nothing", Options{Output: None}, ""},
		{"a text of jq is itself", Options{Output: Table, JQ: ".[].id"}, "a\n007\n"},
		{"or JSON where that was asked for", Options{Output: JSON, JQ: ".[].id"}, "\"a\"\n\"007\"\n"},
		{"numbers of jq are exact", Options{Output: Table, JQ: ".[0].size"}, "4611686018427387905\n"},
		{"jq answers as YAML", Options{Output: YAML, JQ: ".[].id, [1]"}, "a\n---\n\"007\"\n---\n- 1\n"},
		{"halt ends", Options{Output: Table, JQ: "1, halt, 2"}, "1\n"},
		{"jq knows no environment", Options{Output: Table, JQ: "env, $ENV"}, "{}\n{}\n"},
		{"a template", Options{Output: Table, Template: `{{range .}}{{.id}}{{if lt .size 3}} small{{end}};{{end}}`}, "a;007 small;\n"},
		{"a template that prints JSON", Options{Output: Table, Template: `{{json (index . 1)}}`}, "{\"id\":\"007\",\"size\":2}\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := errors.Join(test.choice.Check(), test.choice.Write(t.Context(), &out, things()))
			if diff := cmp.Diff(out.String(), test.want); diff != "" || err != nil {
				t.Errorf("%v (-got +want):\n%s", err, diff)
			}
		})
	}
}

// TestC02Schema checks that every format prints the JSON of the engine.
func TestC02Schema(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0).UTC()
	event := perdure.Event{ID: "event_1", Seq: 1, At: at, Session: "session_1", Fact: perdure.SessionUpdated{Title: "x"}}
	for _, v := range []any{
		engine.Session{ID: "session_1", CreatedAt: at}, []perdure.Task{{ID: "task_1"}, {ID: "task_2"}}, engine.Tool{Name: "echo"}, event,
	} {
		want, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		for _, choice := range []Options{{Output: JSON}, {Output: JSON, Fields: Known(v)}} {
			var out strings.Builder
			if err := choice.Write(t.Context(), &out, v); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(out.String(), string(want)+"\n"); diff != "" && len(choice.Fields) == 0 {
				t.Errorf("%T (-got +want):\n%s", v, diff)
			}
			var got, same any
			if errors.Join(json.Unmarshal([]byte(out.String()), &got), json.Unmarshal(want, &same)) != nil || !cmp.Equal(got, same) {
				t.Errorf("%T with %v: %s", v, choice.Fields, out.String())
			}
		}
	}
}

func TestC02Faults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		choice Options
		what   string
	}{
		{Options{Output: JSON, Fields: []string{"id", "sise"}}, `--json: unknown field "sise"`},
		{Options{Output: Table, JQ: `"ä" |`}, "--jq: unexpected EOF at character 6\n\"ä\" |\n     ^"},
		{Options{Output: Table, JQ: ". as $x | $y"}, "--jq: variable not defined: $y at character 11\n. as $x | $y\n          ^"},
		{Options{Output: Table, JQ: `"a`}, "--jq: unterminated string literal"},
		{Options{Output: Table, JQ: ".id"}, "--jq: expected an object but got: array"},
		{Options{Output: Table, JQ: `error("mine")`}, "--jq: error: mine"},
		{Options{Output: Table, Template: "a\n{{range}}"}, "--template:2: missing value for range"},
		{Options{Output: Table, Template: "{{.id}}"}, "--template:1:2: executing"},
		{Options{Output: Table, Template: "x", JQ: "."}, "can't be used together"},
		{Options{Output: Name, JQ: "."}, "-o name prints nothing"},
		{Options{Output: YAML, Template: "x"}, "--template prints text"},
	} {
		t.Run(test.choice.JQ+test.choice.Template, func(t *testing.T) {
			t.Parallel()
			err := test.choice.Check()
			if err == nil {
				err = test.choice.Write(t.Context(), &strings.Builder{}, things())
			}
			var bad *UsageError
			if !errors.As(err, &bad) || !strings.Contains(bad.Message, test.what) || bad.Hint == "" || !errors.Is(err, perdure.Invalid) {
				t.Errorf("got %q %+v, want %q", err, bad, test.what)
			}
		})
	}
}

// TestC02OthersJSON selects fields of foreign JSON.
func TestC02OthersJSON(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := (Options{Output: JSONL, Fields: []string{"b"}}).Write(t.Context(), &out, json.RawMessage(`{"a":1,"b":{"z":2,"y":3}}`)); err != nil || out.String() != "{\"b\":{\"y\":3,\"z\":2}}\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := (Options{Output: JSON, Fields: []string{"c"}}).CheckFields(json.RawMessage(`{"a":1}`)); err == nil {
		t.Error("a field that is not there is chosen")
	}
}

// TestC02EndlessExpression checks that every expression ends, by its context or by its time limit.
func TestC02EndlessExpression(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 0)
		defer stop()
		for _, endless := range []string{"def f: f; f", "[repeat(1)]"} {
			code, err := Options{JQ: endless}.expression()
			if err != nil {
				t.Fatal(err)
			}
			if answer, _ := code.RunWithContext(ctx, nil).Next(); !errors.Is(answer.(error), context.DeadlineExceeded) {
				t.Errorf("%s: got %v", endless, answer)
			}
		}
		if err := (Options{Output: Table, JQ: "repeat(1)"}).writeAnswers(ctx, &strings.Builder{}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestC02Hidden: an embedded field that Go hides because of another field with the same Go name
// still exists in the JSON, and can be selected.
func TestC02Hidden(t *testing.T) {
	t.Parallel()
	type Subject struct {
		Scope string `json:"scope"`
		ID    string `json:"subject"`
	}
	type Kept struct {
		ID string `json:"id"`
		Subject
	}
	type shown struct {
		*Kept
		State string `json:"state"`
	}
	if got, want := Known([]shown{}), []string{"id", "scope", "subject", "state"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
