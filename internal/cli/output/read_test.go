package output_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli/output"
)

// TestRead: YAML and JSON are read alike, and strictly.
func TestRead(t *testing.T) {
	t.Parallel()
	type thing struct {
		Name  string   `json:"name"`
		Tools []string `json:"tools"`
		Limit struct {
			Value int `json:"value"`
		} `json:"limit"`
	}
	for _, text := range []string{
		"name: a\ntools: [x, y]\nlimit: {value: 3}\n", `{"name": "a", "tools": ["x", "y"], "limit": {"value": 3}}`,
		"# said\n---\nname: a\ntools:\n- x\n- y\nlimit:\n  value: 3\n",
	} {
		var got thing
		if err := output.Read([]byte(text), &got); err != nil || got.Name != "a" || len(got.Tools) != 2 || got.Limit.Value != 3 {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for text, why := range map[string]string{
		"":                              "empty",
		"name: a\nname: b\n":            "already defined",
		`{"name": "a", "name": "b"}`:    "duplicate",
		"nam: a\n":                      "/nam",
		"name: [a]\n":                   "/name",
		"1: a\n":                        "",
		"name: a\n---\nname: b\n":       "more than one",
		"name: a\n---\n{\n":             "more than one",
		"a: &x [*x]\n":                  "",
		"- name\n":                      "",
		"name: \xff\n":                  "",
		`{"name": "a"} {"name": "b"}`:   "",
		"limit: {value: 3.5}\n":         "/limit/value",
		"tools: [x\n":                   "",
		"name: !!binary aGVsbG8=\nz: 1": "/z",
	} {
		var got thing
		if err := output.Read([]byte(text), &got); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %+v, %v, want it Invalid for %q", text, got, err, why)
		}
	}
}

// FuzzRead: no text causes a panic, each refusal is Invalid, and JSON is read as JSON.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"name: a\n", `{"name": "a"}`, "a: &x [*x]\n", "a: &a [1, 1]\nb: &b [*a, *a]\nc: [*b, *b]\n", "- !!float .inf\n", "? [a]\n: b\n", "name: 2026-11-23\n", "\t{", "---\n...\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, exact map[string]any
		err := output.Read([]byte(text), &got)
		if err != nil && !errors.Is(err, perdure.Invalid) {
			t.Fatalf("%q: %v, want it Invalid", text, err)
		}
		if strict := perdure.DecodeJSON([]byte(text), &exact); strict == nil && (err != nil || !reflect.DeepEqual(got, exact)) {
			t.Fatalf("%q: got %v, %v, want %v as of JSON", text, got, err, exact)
		}
	})
}
