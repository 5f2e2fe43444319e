package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// hostileSchema is a schema that no registry admits, and what is said of it.
type hostileSchema struct{ schema, fault string }

// inside puts a schema where the property a is described.
func inside(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }

// beside puts keywords beside those of the arguments.
func beside(keywords string) string { return `{"type":"object",` + keywords + `}` }

func hostileSchemas() []hostileSchema {
	const fetched = "schemas are never fetched"
	list := []hostileSchema{
		// references to elsewhere
		{inside(`{"$ref":"http://169.254.169.254/latest/meta-data"}`), fetched}, {inside(`{"$ref":"https://example.com/a.json"}`), fetched}, {inside(`{"$ref":"https://example.com/a.json#/$defs/b"}`), fetched},
		{inside(`{"$ref":"file:///etc/passwd"}`), fetched}, {inside(`{"$ref":"/etc/passwd"}`), fetched}, {inside(`{"$ref":"other.json"}`), fetched}, {inside(`{"$ref":"../other.json"}`), fetched},
		{inside(`{"$ref":"//example.com/a"}`), fetched}, {inside(`{"$ref":"?a"}`), fetched}, {inside(`{"$ref":"ftp://example.com/a"}`), fetched}, {inside(`{"$ref":"urn:example:a"}`), fetched}, {inside(`{"$ref":"data:application/json,{}"}`), fetched},
		{inside(`{"$ref":"gopher://127.0.0.1:70/"}`), fetched}, {inside(`{"$ref":"jar:file:///a.jar!/b"}`), ""}, {inside(`{"$ref":"HTTPS://EXAMPLE.COM/A"}`), ""}, {inside(`{"$ref":"http://[::1]:80/"}`), fetched},
		{inside(`{"$dynamicRef":"https://example.com/a.json#b"}`), fetched}, {inside(`{"$dynamicRef":"other.json#b"}`), fetched}, {inside(`{"$dynamicRef":"#nowhere"}`), "nowhere"},
		{beside(`"$id":"https://example.com/a.json","properties":{"a":{"$ref":"b.json"}}`), fetched}, {beside(`"$id":"file:///etc/","properties":{"a":{"$ref":"passwd"}}`), fetched},
		{inside(`{"$id":"http://127.0.0.1/x/","properties":{"b":{"$ref":"y"}}}`), fetched}, {beside(`"$id":"http://[::1"`), ""}, {beside(`"$id":5`), ""}, {beside(`"$id":"#a/b c"`), ""},
		{beside(`"allOf":[{"$ref":"https://example.com/a.json"}]`), fetched}, {beside(`"if":{"$ref":"https://example.com/a.json"}`), fetched}, {beside(`"dependentSchemas":{"a":{"$ref":"https://example.com/a.json"}}`), fetched},
		{beside(`"propertyNames":{"$ref":"https://example.com/a.json"}`), fetched}, {beside(`"patternProperties":{"^a":{"$ref":"https://example.com/a.json"}}`), fetched}, {beside(`"additionalProperties":{"$ref":"https://example.com/a.json"}`), fetched},
		{beside(`"$defs":{"b":{"$ref":"https://example.com/a.json"}},"properties":{"a":{"$ref":"#/$defs/b"}}`), fetched}, {beside(`"$recursiveRef":"https://example.com/a.json","$schema":"https://json-schema.org/draft/2019-09/schema"`), ""},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"$ref":"https://example.com/a.json"}},"allOf":[{"$ref":"#/definitions/a"}]}`, fetched},
		// dialects
		{beside(`"$schema":"https://example.com/dialect"`), fetched}, {beside(`"$schema":"file:///etc/passwd"`), fetched}, {beside(`"$schema":"#"`), ""}, {beside(`"$schema":5`), ""}, {beside(`"$schema":"dialect"`), ""},
		// references to nowhere and no JSON pointer
		{inside(`{"$ref":"#/$defs/a"}`), "/$defs/a"}, {inside(`{"$ref":"#nowhere"}`), "nowhere"}, {inside(`{"$ref":"#/properties/~2"}`), ""}, {inside(`{"$ref":5}`), ""}, {inside(`{"$ref":"#/type"}`), ""}, {inside(`{"$ref":"%zz"}`), ""},
		// patterns
		{inside(`{"pattern":"("}`), "pattern"}, {inside(`{"pattern":"(?=a)"}`), "pattern"}, {inside(`{"pattern":"(a)\\1"}`), "pattern"}, {inside(`{"pattern":"(a{1000}){1000}"}`), "pattern"}, {inside(`{"pattern":"((a{100}){100}){100}"}`), "pattern"},
		{inside(`{"pattern":"a{1001}"}`), "pattern"}, {inside(`{"pattern":"([a-z]{50}[0-9]{50}){20}([A-Z]{99}b){20}"}`), "pattern"}, {inside(`{"pattern":"` + strings.Repeat("(", 2000) + strings.Repeat(")", 2000) + `"}`), "pattern"},
		{inside(`{"pattern":"` + strings.Repeat("a", 6000) + `"}`), "pattern"}, {beside(`"patternProperties":{"(a{1000}){1000}":{}}`), ""}, {beside(`"patternProperties":{"(":{}}`), ""}, {inside(`{"pattern":5}`), ""}, {inside(`{"pattern":"\\pQQ"}`), "pattern"},
		{beside(`"properties":{"a":{"pattern":"a{900}b{900}"},"b":{"pattern":"c{900}d{900}"},"c":{"pattern":"e{900}f{900}"}}`), "pattern"},
		// no JSON, or not what is meant
		{`{`, "cut off"}, {`{} {}`, "text after"}, {`{"type":"object","type":"object"}`, "/type: duplicate key"}, {inside(`{"enum":["a"],"enum":["b"]}`), "/properties/a/enum: duplicate key"}, {`{"type":"object","a":"\ud800"}`, "half of a surrogate pair"}, {"{\"type\":\"object\",\"a\":\"\xff\"}", "not UTF-8"}, {"\ufeff{\"type\":\"object\"}", "byte order mark"},
		{`{}`, `not of "type": "object"`}, {`true`, `not of "type": "object"`}, {`null`, `not of "type": "object"`}, {`[]`, `not of "type": "object"`}, {`5`, `not of "type": "object"`}, {`"object"`, "object"}, {`{"type":["object","null"]}`, `not of "type": "object"`}, {`{"Type":"object"}`, `not of "type": "object"`},
		{beside(`"required":"a"`), "required"}, {beside(`"properties":[]`), "properties"}, {inside(`{"type":"text"}`), "type"}, {inside(`{"minLength":-1}`), "minLength"}, {inside(`{"minimum":"1"}`), "minimum"}, {inside(`{"multipleOf":0}`), "multipleOf"}, {inside(`{"enum":"a"}`), "enum"}, {inside(`5`), ""}, {beside(`"allOf":[]`), "allOf"},
		// size
		{inside(`{"minimum":1e99999999}`), "number out of range"}, {inside(`{"const":1e-99999999}`), "number out of range"}, {inside(`{"enum":[` + strings.Repeat("9", 1100) + `]}`), "number out of range"},
		{beside(`"description":"` + strings.Repeat("x", 300<<10) + `"`), "more than 262144 bytes"}, {beside(`"not":` + strings.Repeat(`{"not":`, 120) + "{}" + strings.Repeat("}", 120)), "levels"}, {beside(`"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)), "nested deeper than 1000"},
		{beside(`"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500)), "levels"}, {beside(`"allOf":[` + strings.Repeat(`{},`, 3000) + `{}]`), "parts"}, {inside(`{"enum":[` + strings.Repeat(`1,`, 60_000) + `1]}`), "an enum has 60001 values"},
	}
	return list
}

// TestS9HostileSchemas wants each hostile schema refused, soon, without a request to anybody.
func TestS9HostileSchemas(t *testing.T) {
	t.Parallel()
	schemas := hostileSchemas()
	if len(schemas) < 60 {
		t.Errorf("only %d schemas", len(schemas))
	}
	for _, c := range schemas {
		t.Run(fmt.Sprintf("%.70q", c.schema), func(t *testing.T) {
			t.Parallel()

			begun := time.Now()
			r := tool.NewRegistry(withSchema(c.schema))
			took := time.Since(begun)

			err := r.Err()
			if !errors.Is(err, perdure.Invalid) || !strings.Contains(fmt.Sprint(err), "parameters: ") || !strings.Contains(fmt.Sprint(err), c.fault) || r.Has("probe") {
				t.Errorf("got %v, want %q", err, c.fault)
			}
			if took > 30*time.Second { // without the bounds it would be years; BenchmarkCompile has the figure
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestS9Bombs: what can be compiled can be asked, and ends.
func TestS9Bombs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, args string }{
		"itself":          {beside(`"$ref":"#"`), `{}`},
		"two in a circle": {beside(`"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}`), `{}`},
		"a dynamic one":   {beside(`"$dynamicAnchor":"m","allOf":[{"$dynamicRef":"#m"}]`), `{}`},
		"a wide enum":     {inside(`{"items":{"enum":[` + strings.Repeat(`"x",`, 4999) + `"y"]}}`), `{"a":[` + strings.Repeat(`"z",`, 20_000) + `"z"]}`},
		"nested anyOf":    {beside(`"$defs":{"n":{"anyOf":[{"items":{"$ref":"#/$defs/n"}},{"items":{"$ref":"#/$defs/n"}}],"type":"array"}},"properties":{"a":{"$ref":"#/$defs/n"}}`), `{"a":` + strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tool.NewRegistry(withSchema(c.schema))
			if r.Err() != nil {
				if !errors.Is(r.Err(), perdure.Invalid) {
					t.Errorf("got %v", r.Err())
				}
				return
			}
			begun := time.Now()

			refused := r.Validate("probe", json.RawMessage(c.args))

			if refused == nil || !refused.Refused || len(refused.Text) > 20*700 {
				t.Errorf("got %+v", refused)
			}
			// with the race detector, beside others; without end it would be years
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestS9Tags: tags that cannot be meant are refused by the name of the field and of the tag.
func TestS9Tags(t *testing.T) {
	t.Parallel()
	for fault, probe := range map[string]tool.Tool{
		"A: the tag pattern: error parsing regexp": takes[struct {
			A string `pattern:"("`
		}](),
		"A: the tag pattern: error parsing regexp: inv": takes[struct {
			A string `pattern:"(a{1000}){1000}"`
		}](),
		"A: the tag pattern does not fit": takes[struct {
			A int `pattern:"a"`
		}](),
		"A: the tag min: \"NaN\" is not a JSON number": takes[struct {
			A float64 `min:"NaN"`
		}](),
		"A: the tag max: strconv": takes[struct {
			A int `max:"many"`
		}](),
		"A: the tag minLength: -1 is negative": takes[struct {
			A string `minLength:"-1"`
		}](),
		"A: the tag maxItems does not fit": takes[struct {
			A string `maxItems:"1"`
		}](),
		"A: the tag enum: strconv": takes[struct {
			A int `enum:"1,1.5"`
		}](),
		"A: the tag enum: \"Inf\" is not a JSON number": takes[struct {
			A *float64 `enum:"1,Inf"`
		}](),
		"A: the tag enum: a boolean cannot have an enum": takes[struct {
			A bool `enum:"true"`
		}](),
		"A: the tag default: 9 does not match its own schema": takes[struct {
			A int `max:"5" default:"9"`
		}](),
		"A: the tag default: d does not match its own schema": takes[struct {
			A string `enum:"a,b" default:"d"`
		}](),
		"A: the tag default: AB does not match its own schema": takes[struct {
			A string `pattern:"^[a-z]+$" default:"AB"`
		}](),
		"A: the tag default: 1.5 does not match its own schema": takes[struct {
			A int `default:"1.5"`
		}](),
		"A: the tag default: 300 does not match its own schema": takes[struct {
			A uint8 `default:"300"`
		}](),
		"A: the tag default: null does not match its own schema": takes[struct {
			A *int `default:"null"`
		}](),
		"A: the tag default: [\"c\"] does not match its own": takes[struct {
			A []string `enum:"a,b" default:"[\"c\"]"`
		}](),
		"A: the tag default: {\"x\":1} does not match its own": takes[struct {
			A place `default:"{\"x\":1}"`
		}](),
		`A: the tag default: "{\"a\":1,\"a\":1}" is not JSON`: takes[struct {
			A map[string]int `default:"{\"a\":1,\"a\":1}"`
		}](),
		"A: the tag default: \"\" is not JSON": takes[struct {
			A int `default:""`
		}](),
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()

			if err := tool.NewRegistry(probe).Err(); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), fault) {
				t.Errorf("got %v, want %q", err, fault)
			}
		})
	}
}

// takes is a tool whose arguments are of a type.
func takes[In any]() tool.Tool { return takesAs[In]("probe") }

func takesAs[In any](name string) tool.Tool {
	return tool.New(named(name), func(context.Context, In, tool.Env) (any, error) { return nil, nil })
}

// TestTagsReachThroughPointersAndLists: enum, pattern and defaults count there too (TL24).
func TestTagsReachThroughPointersAndLists(t *testing.T) {
	t.Parallel()
	type in struct {
		Kind  *string  `json:"kind" enum:"a,b"`
		Level *int     `json:"level" enum:"1,2" default:"2"`
		Tags  []string `json:"tags,omitempty" enum:"x,y" maxItems:"2"`
	}
	for args, want := range map[string]string{
		`{"kind":"c"}`:           "/kind: value must be one of 'a', 'b'",
		`{"level":3}`:            "/level: value must be one of 1, 2",
		`{"tags":["x","z"]}`:     "/tags/1: value must be one of 'x', 'y'",
		`{"tags":["x","x","x"]}`: "/tags: got 3 items, want at most 2",
		`{"kind":null}`:          "/kind: got null, want string",
	} {
		if _, result := captured[in](t, args); result.Text != "Invalid arguments for probe: "+want {
			t.Errorf("%s: got %q", args, result.Text)
		}
	}
	if got, _ := captured[in](t, `{}`); got.Level == nil || *got.Level != 2 || got.Kind != nil {
		t.Errorf("got %+v", got)
	}
}

// TestS7Arguments: text that two readers could read in two ways never reaches a tool, whatever its
// schema.
func TestS7Arguments(t *testing.T) {
	t.Parallel()
	r := registry(t, withSchema(`{"type":"object"}`))
	for args, fault := range map[string]string{
		`{"a":1,"a":2}`: "/: invalid JSON at /a: duplicate key", `{"a":{"b":1,"\u0062":2}}`: "/: invalid JSON at /a/b: duplicate key", `{"a":[{},{"":1,"":1}]}`: "/: invalid JSON at /a/1/: duplicate key",
		`{"a":"\ud800"}`: `/: invalid JSON at /a: \ud800 is half of a surrogate pair and not a character`, `{"\udc00":1}`: `/: invalid JSON: \udc00 is half`, `{"a":["\ud83d\ud83d"]}`: `/: invalid JSON at /a/0: \ud83d is half`,
		"{\"a\":\"\xff\"}": "/: invalid JSON at /a: the byte 0xff in a string is not UTF-8", "{\"\xed\xa0\x80\":1}": "/: invalid JSON: the byte 0xed", "\ufeff{}": "/: invalid JSON: it begins with a byte order mark",
		`{`: "/: invalid JSON: it is cut off", `{"a":"`: "/: invalid JSON: it is cut off", `{}{}`: "/: invalid JSON: text after the value", `{}null`: "/: invalid JSON: text after the value", `{'a':1}`: "/: invalid JSON: want a key in quotes",
		`{"a":1,}`: "/: invalid JSON: want a key in quotes", `{"a":01}`: "/: invalid JSON at /a: a number starts with 0", `{"a":NaN}`: "/: invalid JSON at /a: want a value", `{"a":1e1001}`: "/: number out of range", `{"a":1e-1001}`: "/: number out of range",
		`{"a":1e` + strings.Repeat("9", 200) + `}`: "/: invalid JSON: an exponent has more than 100 digits", `{"a":` + strings.Repeat("[", 100_000): "/: invalid JSON at /a/0", "{\"a\":\"\n\"}": "/: invalid JSON at /a: the character U+000A",
		`[]`: "/: got array, want object", `null`: "/: got null, want object", `"{}"`: "/: got string, want object", "\u00a0": "/: invalid JSON: want a value", "\x00": "/: invalid JSON: want a value",
	} {
		t.Run(fmt.Sprintf("%.40q", args), func(t *testing.T) {
			t.Parallel()

			refused := r.Validate("probe", json.RawMessage(args))

			if refused == nil || !refused.Refused || !strings.HasPrefix(refused.Text, "Invalid arguments for probe: "+fault) || len(refused.Text) > 700 {
				t.Errorf("got %+v, want %q", refused, fault)
			}
		})
	}
}

// FuzzSchema: whatever the schema, it is admitted or refused, soon, and one that is admitted can be
// asked.
func FuzzSchema(f *testing.F) {
	for _, c := range hostileSchemas() {
		if len(c.schema) < 2000 {
			f.Add([]byte(c.schema))
		}
	}
	f.Add([]byte(order))
	f.Fuzz(func(t *testing.T, schema []byte) {
		begun := time.Now()
		r := tool.NewRegistry(withSchema(string(schema)))
		if err := r.Err(); err != nil && !errors.Is(err, perdure.Invalid) {
			t.Errorf("got %v", err)
		}
		if r.Err() == nil {
			for _, args := range []string{`{}`, `{"a":[{"a":{}},1,"x",null]}`, `{"a":{"b":{"a":[]}}}`} {
				_ = r.Validate("probe", json.RawMessage(args))
			}
		}
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	properties := make([]string, 950)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"p%d":{"type":"string","pattern":"^a%d","enum":["a%d"]}`, i, i%100, i)
	}
	for name, schema := range map[string]string{"order": order, "largest": beside(`"properties":{` + strings.Join(properties, ",") + `}`)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := tool.NewRegistry(withSchema(schema)).Err(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
