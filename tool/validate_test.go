package tool_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

const order = `{
	"type": "object",
	"properties": {
		"a": {"type": "integer", "minimum": 1, "maximum": 1000},
		"b": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]*$"},
		"c": {"type": "array", "items": {"type": "number", "multipleOf": 0.5}, "minItems": 1, "maxItems": 2, "uniqueItems": true},
		"d": {"enum": ["x", "y", 1]},
		"e": {"anyOf": [{"type": "string"}, {"type": "null"}]},
		"f~/g": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
		"h": {"type": "object", "maxProperties": 1, "propertyNames": {"maxLength": 1}},
		"i": {"contains": {"type": "string"}},
		"j": false,
		"k": {"oneOf": [{"type": "string"}, {"type": "string", "minLength": 1}]}
	},
	"required": ["a"],
	"additionalProperties": false
}`

func TestValidate(t *testing.T) {
	t.Parallel()
	r := registry(t, withSchema(order))
	for _, test := range []struct{ args, want string }{
		{`{"a":5}`, ""},
		{` {"a":5.0} `, ""},
		{`{"a":5,"b":"ab","c":[1,1.5],"d":1.0,"e":null,"f~/g":0.5,"h":{"k":0},"i":[1,"s"]}`, ""},
		{``, "/a: is required"},
		{`{}`, "/a: is required"},
		{`null`, "/: got null, want object"},
		{`[]`, "/: got array, want object"},
		{`"{}"`, "/: got string, want object"},
		{`{"a":5`, "/: invalid JSON: it is cut off"},
		{`{"a":`, "/: invalid JSON: it is cut off"},
		{`{"a":5} {}`, "/: invalid JSON: text after the value"},
		{`{"a":5,"a":5}`, "/: invalid JSON at /a: duplicate key"},
		{`{"a":5,"b":{"k":1,"k":2}}`, "/: invalid JSON at /b/k: duplicate key"},
		{`{"a":"5"}`, "/a: got string, want integer"},
		{`{"a":5.5}`, "/a: got number, want integer"},
		{`{"A":5}`, "/A: unknown property; /a: is required"},
		{`{"a":0}`, "/a: got 0, want at least 1"},
		{`{"a":123456}`, "/a: got 123456, want at most 1000"},
		{`{"a":1e999999999999}`, "/: number out of range: 1e999999999999"},
		{`{"a":1,"b":"ABCD"}`, "/b: does not match the pattern ^[a-z]*$; /b: got 4 characters, want at most 3"},
		{`{"a":1,"c":[0.3,0.3,1]}`, "/c: got 3 items, want at most 2; /c: items at 0 and 1 are equal; /c/0: got 0.3, want a multiple of 0.5; /c/1: got 0.3, want a multiple of 0.5"},
		{`{"a":1,"d":"z"}`, "/d: value must be one of 'x', 'y', 1"},
		{`{"a":1,"e":1}`, "/e: got number, want null; /e: got number, want string"},
		{`{"a":1,"f~/g":0}`, "/f~0~1g: got 0, want more than 0"},
		{`{"a":1,"h":{"kk":1,"l":2}}`, `/: the property name "kk" is not allowed; /h: got 2 properties, want at most 1`},
		{`{"a":1,"i":[1,2]}`, "/i: no items match contains schema"},
		{`{"a":1,"j":1}`, "/j: is not allowed"},
		{`{"a":1,"k":1}`, "/k: got number, want string"},
		{`{"a":1,"k":"s"}`, "/k: 'oneOf' failed, subschemas 0, 1 matched"},
		{`{"z":1,"y":1,"a":"5"}`, "/a: got string, want integer; /y: unknown property; /z: unknown property"},
	} {
		t.Run(test.args, func(t *testing.T) {
			refused := r.Validate("probe", json.RawMessage(test.args))

			if test.want == "" {
				if refused != nil {
					t.Errorf("got %q", refused.Text)
				}
				return
			}
			if refused == nil {
				t.Fatal("it was taken")
			}
			rec := record(t, *refused)
			if rec.Error != "Invalid arguments for probe: "+test.want || !rec.NeverStarted || rec.ErrorKind != perdure.ErrorTool {
				t.Errorf("got %+v", rec)
			}
		})
	}
}

func TestValidateTellsAtMost20Faults(t *testing.T) {
	t.Parallel()
	r := registry(t, withSchema(`{"type":"object","additionalProperties":false}`))
	var args strings.Builder
	for i := range 30 {
		fmt.Fprintf(&args, `,"k%02d":1`, i)
	}

	refused := r.Validate("probe", json.RawMessage("{"+args.String()[1:]+"}"))

	if n := strings.Count(refused.Text, "unknown property"); n != 20 || !strings.Contains(refused.Text, "/k19") || strings.Contains(refused.Text, "/k20") {
		t.Errorf("%d faults: %s", n, refused.Text)
	}
}

func TestValidateUnknownName(t *testing.T) {
	t.Parallel()

	refused := registry(t).Validate("ghost", nil)

	if refused == nil || refused.Text != "Tool definition not found: ghost" || !refused.Refused {
		t.Errorf("got %+v", refused)
	}
}

func TestHostileArguments(t *testing.T) {
	t.Parallel()
	r := registry(t, withSchema(`{"type":"object","properties":{"n":{"type":"number","minimum":0},"s":{"pattern":"^a$"}}}`))
	for name, args := range map[string]string{
		"deep nesting":       strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"a long number":      `{"n":` + strings.Repeat("9", 100_000) + `}`,
		"a tiny number":      `{"n":1e-99999999}`,
		"a nested number":    `{"x":[[1e99999999]]}`,
		"a long wrong value": `{"s":"` + strings.Repeat("b", 100_000) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			refused := r.Validate("probe", json.RawMessage(args))

			if refused == nil || len(refused.Text) > 1000 {
				t.Errorf("got %+v", refused)
			}
		})
	}
}

func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	var parts strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&parts, `,"p%d":{}`, i)
	}
	file := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, schema := range map[string]string{
		"a file":                 `{"type":"object","properties":{"a":{"$ref":"file://` + file + `"}}}`,
		"a remote reference":     `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`,
		"a relative reference":   `{"type":"object","properties":{"a":{"$ref":"other.json"}}}`,
		"a remote dialect":       `{"$schema":"https://example.com/dialect","type":"object"}`,
		"a reference to nowhere": `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}`,
		"no object":              `{"type":"string"}`,
		"no type":                `{}`,
		"a boolean":              `true`,
		"a text":                 `"object"`,
		"a wrong keyword":        `{"type":"object","required":"a"}`,
		"a bad pattern":          `{"type":"object","properties":{"a":{"pattern":"("}}}`,
		"a key twice":            `{"type":"object","type":"object"}`,
		"a huge number":          `{"type":"object","properties":{"a":{"minimum":1e99999999}}}`,
		"many parts":             `{"type":"object","properties":{"a":{}` + parts.String() + `}}`,
		"many levels":            `{"type":"object","not":` + strings.Repeat(`{"not":`, 100) + "{}" + strings.Repeat("}", 101),
		"many bytes":             `{"type":"object","description":"` + strings.Repeat("x", 300<<10) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := tool.NewRegistry(withSchema(schema))

			if r.Err() == nil || !strings.Contains(r.Err().Error(), "parameters: ") || r.Has("probe") {
				t.Errorf("got %v", r.Err())
			}
		})
	}
}

// Each level of the first doubles the work, and each level of the arguments doubles that of the
// second.
func TestSchemaBombsEnd(t *testing.T) {
	t.Parallel()
	var defs strings.Builder
	for i := range 40 {
		fmt.Fprintf(&defs, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for name, bomb := range map[string]struct{ schema, args string }{
		"allOf": {
			`{"type":"object","$ref":"#/$defs/d0","$defs":{` + defs.String() + `"d40":{"type":"object"}}}`, `{}`,
		},
		"recursion": {
			`{"type":"object","anyOf":[{"properties":{"x":{"$ref":"#"}},"required":["y"]},{"properties":{"x":{"$ref":"#"}},"required":["z"]}]}`,
			strings.Repeat(`{"x":`, 60) + "{}" + strings.Repeat("}", 60),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := registry(t, withSchema(bomb.schema))

			refused := r.Validate("probe", json.RawMessage(bomb.args))

			if refused == nil || refused.Text != "Invalid arguments for probe: /: cannot be checked: the schema takes too many steps for this value" {
				t.Errorf("got %+v", refused)
			}
		})
	}
}

func TestOlderDialectsAreRead(t *testing.T) {
	t.Parallel()
	r := registry(t, withSchema(`{
		"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
		"properties": {"a": {"$ref": "#/definitions/a"}}, "definitions": {"a": {"type": "integer"}}}`))

	good, bad := r.Validate("probe", []byte(`{"a":1}`)), r.Validate("probe", []byte(`{"a":"1"}`))

	if good != nil || bad == nil || bad.Text != "Invalid arguments for probe: /a: got string, want integer" {
		t.Errorf("got %+v, %+v", good, bad)
	}
}

// FuzzArguments wants no panic, the same answer twice, a text that is short, whole and on one tool,
// and that what is taken has a fingerprint and can be decoded.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `{"a":5}`, `{"a":"5","b":null}`, `{"a":1e400}`, `[{"a":1}]`, `{"a":5,"a":6}`, `{"c":[1,1,"x"]}`, "{\"\xff\":1}", `{"f~/g":-1e-2}`,
		`{"int":5.0,"tiny":128}`, `{"city":"a"}`, `{"city":"a","zone":"b"}`, `{"City":"a"}`, `{"x":{"x":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	typed := registry(f, takes[numbers](), takesAs[place]("place"))
	registries := map[string]*tool.Registry{
		"order": registry(f, withSchema(order)), "typed": typed, "itself": registry(f, withSchema(`{"type":"object","properties":{"x":{"$ref":"#"}},"additionalProperties":false}`)),
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		for _, r := range registries {
			for _, name := range r.Names() {
				askTwice(t, r, name, args)
			}
		}
		if typed.Validate("probe", args) == nil {
			if _, err := tool.Decode[numbers](tool.Call{Tool: "probe", Args: args}); err != nil {
				t.Errorf("%q is taken, and not decoded: %v", args, err)
			}
		}
		if typed.Validate("place", args) == nil {
			if got, err := tool.Decode[place](tool.Call{Tool: "place", Args: args}); err != nil || got.City == "" {
				t.Errorf("%q is taken, and decoded as %+v, %v", args, got, err)
			}
		}
	})
}

func askTwice(t *testing.T, r *tool.Registry, name string, args []byte) {
	t.Helper()
	first, second := r.Validate(name, args), r.Validate(name, args)
	if (first == nil) != (second == nil) || first != nil && first.Text != second.Text {
		t.Errorf("two answers: %+v, %+v", first, second)
	}
	if first == nil {
		if _, err := perdure.Fingerprint(name, args); err != nil {
			t.Errorf("taken, and without a fingerprint: %v", err)
		}
		return
	}
	if !strings.HasPrefix(first.Text, "Invalid arguments for "+name+": /") || len(first.Text) > 20*700 || !first.Refused {
		t.Errorf("got %q", first.Text)
	}
}
