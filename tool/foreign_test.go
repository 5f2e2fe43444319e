package tool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// foreign makes a tool with a schema from outside.
func foreign(schema string) (tool.Tool, tool.ForeignSchema) {
	found := tool.ReadForeignSchema(json.RawMessage(schema))
	return plain{spec: tool.Spec{Name: "out", Description: "A tool of another program.", Class: perdure.AtMostOnce,
		Parameters: found.Parameters, Checked: found.Checked}}, found
}

// TestForeignSchemas: the model reads the schema as it is, and everything that can be checked is.
func TestForeignSchemas(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 200) + `{}` + strings.Repeat(`}}`, 200)
	for name, c := range map[string]struct{ schema, good, bad, shown string }{
		"lookahead (backstage/backstage#35631)": {
			`{"type":"object","properties":{"q":{"type":"string","description":"what","pattern":"^(?!x)"}},"required":["q"]}`, `{"q":"a"}`, `{}`, `"pattern":"^(?!x)"`},
		"exclusiveMinimum of draft 4 (Dokploy/mcp#74)": {
			`{"type":"object","properties":{"q":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`, `{"q":1}`, `{"q":0}`, `"exclusiveMinimum":true`},
		"items as a list (microsoft/vscode#244467)": {
			`{"type":"object","properties":{"q":{"type":"array","items":[{"type":"number"}]}}}`, `{"q":[1,"x"]}`, `{"q":["x"]}`, `"items":[`},
		"$id": {`{"$id":"https://example.com/q","type":"object","properties":{"q":{"type":"string"}}}`, `{"q":"a"}`, `{"q":1}`, `"q"`},
		"a remote reference": {
			`{"type":"object","properties":{"q":{"type":"string"},"r":{"$ref":"https://example.com/r.json"}}}`, `{"r":5,"q":"a"}`, `{"q":1}`, `"q"`},
		"no type at the root":        {`{"properties":{"q":{"type":"string"}}}`, `{"q":"a"}`, `{"q":1}`, `"type":"object"`},
		"an unknown type":            {`{"type":"object","properties":{"q":{"type":"text"},"n":{"type":"number"}}}`, `{"q":1}`, `{"n":"x"}`, `"text"`},
		"required is true (draft 3)": {`{"type":"object","properties":{"q":{"type":"string","required":true}}}`, `{}`, `{"q":1}`, `"q"`},
		"required with a default (confluentinc/mcp-confluent#482)": {
			`{"type":"object","properties":{"q":{"type":"string","default":"x"}},"required":["q"],"additionalProperties":false}`, `{}`, `{"q":1}`, `"required"`},
		"nullable":                  {`{"type":"object","properties":{"q":{"type":"string","nullable":true}}}`, `{"q":null}`, `{"q":1}`, `"nullable"`},
		"null among the values":     {`{"type":"object","properties":{"q":{"enum":["a",null]}}}`, `{"q":null}`, `{"q":"b"}`, `null`},
		"an empty list of required": {`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","required":[],"properties":{"q":{"type":"string"}}}`, `{}`, `{"q":1}`, `"q"`},
		"properties is null":        {`{"type":"object","properties":null,"required":["q"]}`, `{"q":1}`, `{}`, `"required"`},
		"draft 7 with a reference beside words": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"q":{"$ref":"#/definitions/q","maxLength":1}},"definitions":{"q":{"type":"string"}}}`,
			`{"q":"long"}`, `{"q":1}`, `"maxLength"`},
		"2019-09":    {`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","dependentRequired":{"a":["b"]}}`, `{"a":1,"b":2}`, `{"a":1}`, `"a"`},
		"a format":   {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"q":{"type":"string","format":"email"}}}`, `{"q":"no mail"}`, `{"q":1}`, `"format"`},
		"a deep one": {deep, `{"a":{"a":{}}}`, `{"a":1}`, `"a"`},
		"a root that is a text (sandialabs/atlas-ui-3#727)": {`{"type":"string","description":"a title"}`, `{"x":1}`, `[]`, `a title`},
		"no schema (lightweight-component/aj-mcp#4)":        {`null`, `{"x":1}`, `[]`, `object`},
		"true": {`true`, `{"x":1}`, `[]`, `object`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, _ := foreign(c.schema)
			set := tool.NewRegistry(made)
			if err := set.Err(); err != nil {
				t.Fatal(err)
			}
			if wrong := set.Validate("out", json.RawMessage(c.good)); wrong != nil {
				t.Errorf("%s is refused: %s", c.good, wrong.Text)
			}
			if set.Validate("out", json.RawMessage(c.bad)) == nil {
				t.Errorf("%s is accepted", c.bad)
			}
			if shown := string(set.Definitions()[0].Parameters); !strings.Contains(shown, c.shown) {
				t.Errorf("the model reads %s", shown)
			}
		})
	}
}

// TestForeignBomb: what takes too long to check is left to the program that the tool belongs to.
func TestForeignBomb(t *testing.T) {
	t.Parallel()
	var defs []string
	for i := range 30 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	made, _ := foreign(`{"type":"object","properties":{"q":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(defs, ",") + `,"d30":{"type":"string"}}}`)
	set := tool.NewRegistry(made)
	if wrong := set.Validate("out", json.RawMessage(`{"q":"a"}`)); set.Err() != nil || wrong != nil {
		t.Errorf("got %v, %v", set.Err(), wrong)
	}
	made, _ = foreign(`{"type":"object","properties":{"q":{"$ref":"#/$defs/d0"}},"$defs":{"d0":{"$ref":"#/$defs/d0"}}}`)
	set = tool.NewRegistry(made)
	if wrong := set.Validate("out", json.RawMessage(`{"q":"a"}`)); set.Err() != nil || wrong != nil {
		t.Errorf("a reference to itself: got %v, %v", set.Err(), wrong)
	}
}

// FuzzForeignSchema: a value that a whole schema accepts is accepted by the part of it that is
// checked, and every schema makes a tool.
func FuzzForeignSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"pattern":"(?!x)"}},"not":{"required":["b"]}}`, `{"a":"x"}`},
		{`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"],"propertyNames":{"pattern":"(?=b)"}}]}`, `{"a":1,"b":2}`},
		{`{"type":"object","unevaluatedProperties":false,"allOf":[{"properties":{"a":{}}}]}`, `{"a":1}`},
		{`{"type":"object","properties":{"a":{"contains":{"type":"string"},"maxContains":1}}}`, `{"a":["x",1]}`},
		{`{"type":"object","dependentSchemas":{"a":{"required":["b"]}},"dependencies":{"c":["d"]}}`, `{"a":1,"b":1}`},
		{`{"type":"object","properties":{"a":{"prefixItems":[{"type":"string"}],"items":false}}}`, `{"a":["x"]}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, schema, args string) {
		made, found := foreign(schema)
		set := tool.NewRegistry(made)
		if err := set.Err(); err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		whole := tool.NewRegistry(plain{spec: tool.Spec{Name: "out", Description: "The same.", Class: perdure.Pure, Parameters: json.RawMessage(schema)}})
		if whole.Err() != nil || whole.Validate("out", json.RawMessage(args)) != nil {
			return
		}
		if wrong := set.Validate("out", json.RawMessage(args)); wrong != nil {
			t.Errorf("%s accepts %s, but %s says: %s", schema, args, found.Checked, wrong.Text)
		}
	})
}
