package toolschema_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/toolschema"
)

// limits are those of a checker that compiles everything.
func limits() toolschema.Limits {
	return toolschema.Limits{
		Enum:     10,
		Pattern:  func(text string) bool { _, err := regexp.Compile(text); return err == nil },
		Compiles: func(json.RawMessage) bool { return true },
	}
}

// checkableCases are schemas with what is checked of them, and a place that is left out.
type checkableCases map[string]struct{ schema, want, left string }

func (cases checkableCases) run(t *testing.T) {
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, left := toolschema.Checkable(json.RawMessage(c.schema), limits())
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if all := strings.Join(left, "\n"); c.left == "" != (all == "") || !strings.Contains(all, c.left) {
				t.Errorf("left out: %q, want %q", left, c.left)
			}
		})
	}
}

// TestCheckable: what cannot be checked is left out, and the rest stays.
func TestCheckable(t *testing.T) {
	checkableCases{
		"pattern with lookahead (backstage/backstage#35631)": {
			`{"type":"object","properties":{"q":{"type":"string","maxLength":9,"pattern":"^(?!x)"}},"required":["q"]}`,
			`{"properties":{"q":{"maxLength":9,"type":["string"]}},"required":["q"],"type":"object"}`, "/properties/q/pattern",
		},
		"exclusiveMinimum of draft 4 (Dokploy/mcp#74)": {
			`{"type":"object","properties":{"ttl":{"type":"integer","exclusiveMinimum":true,"minimum":0}}}`,
			`{"properties":{"ttl":{"exclusiveMinimum":0,"minimum":0,"type":["integer"]}},"type":"object"}`, "",
		},
		"items as a list (microsoft/vscode#244467)": {
			`{"type":"object","properties":{"p":{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":false}}}`,
			`{"properties":{"p":{"items":false,"prefixItems":[{"type":["string"]},{"type":["number"]}],"type":["array"]}},"type":"object"}`, "",
		},
		"required is null (MervinPraison/PraisonAI#3111)": {
			`{"type":"object","properties":{"q":{"type":"string"}},"required":null}`,
			`{"properties":{"q":{"type":["string"]}},"type":"object"}`, "/required",
		},
		"required with a default (confluentinc/mcp-confluent#482)": {
			`{"type":"object","properties":{"scale":{"type":"string","default":"css"},"q":{"type":"string"}},"required":["q","scale"]}`,
			`{"properties":{"q":{"type":["string"]},"scale":{"type":["string"]}},"required":["q"],"type":"object"}`, "",
		},
		"required with a default in a list (latitude-dev/latitude-llm#4615)": {
			`{"type":"object","properties":{"topics":{"type":"array","items":{"type":"object","properties":{"start":{"default":"latest"}},"required":["start"]}}}}`,
			`{"properties":{"topics":{"items":{"properties":{"start":{}},"type":["object"]},"type":["array"]}},"type":"object"}`, "",
		},
		"required among the properties (mastra-ai/mastra#23731)": {
			`{"type":"object","properties":{"coin":{"type":"string"},"required":["coin"]},"additionalProperties":false}`,
			`{"additionalProperties":false,"properties":{"coin":{"type":["string"]},"required":true},"type":"object"}`, "/properties/required",
		},
		"a draft-07 document behind a reference (NousResearch/hermes-agent#14804)": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/In","definitions":{"In":{"type":"object","required":["a"]}}}`,
			`{"$defs":{"d0":{"required":["a"],"type":["object"]}},"$ref":"#/$defs/d0","type":"object"}`, "",
		},
		"a reference to a property (NousResearch/hermes-agent#27180)": {
			`{"type":"object","properties":{"a":{"type":"number"},"b":{"$ref":"#/properties/a"}}}`,
			`{"$defs":{"d0":{"type":["number"]}},"properties":{"a":{"type":["number"]},"b":{"$ref":"#/$defs/d0"}},"type":"object"}`, "",
		},
		"a recursive reference": {
			`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"next":{"$ref":"#/$defs/N"}}}}}`,
			`{"$defs":{"d0":{"properties":{"next":{"$ref":"#/$defs/d0"}},"type":["object"]}},"properties":{"n":{"$ref":"#/$defs/d0"}},"type":"object"}`, "",
		},
		"a reference to the network": {
			`{"type":"object","properties":{"x":{"$ref":"https://example.com/s"}},"required":["x"]}`,
			`{"properties":{"x":{}},"required":["x"],"type":"object"}`, "/properties/x/$ref",
		},
		"its own $id": {
			`{"$id":"https://example.com/q","type":"object","properties":{"q":{"$ref":"https://example.com/q#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`,
			`{"$defs":{"d0":{"type":["string"]}},"properties":{"q":{"$ref":"#/$defs/d0"}},"type":"object"}`, "",
		},
		"an unknown type": {
			`{"type":"object","properties":{"q":{"type":"any","minLength":1}}}`,
			`{"properties":{"q":{"minLength":1}},"type":"object"}`, "/properties/q/type",
		},
		"nullable": {
			`{"type":"object","properties":{"q":{"type":"string","nullable":true,"enum":["a"]}}}`,
			`{"properties":{"q":{"enum":["a",null],"type":["string","null"]}},"type":"object"}`, "",
		},
		"a limit without a usable number": {
			`{"type":"object","properties":{"n":{"minimum":"0","maximum":1e999,"multipleOf":0,"minLength":-1,"maxLength":2.5}}}`,
			`{"properties":{"n":{}},"type":"object"}`, "/properties/n/minimum",
		},
		"an enum that is too long": {
			`{"type":"object","properties":{"n":{"enum":[1,2,3,4,5,6,7,8,9,10,11]}}}`,
			`{"properties":{"n":{}},"type":"object"}`, "/properties/n/enum",
		},
		"a text instead of a schema (sandialabs/atlas-ui-3#727)": {
			`{"type":"string","description":"the title"}`, `{"type":"object"}`, "",
		},
		"not an object": {`[]`, `{"type":"object"}`, "/: it is not a JSON object"},
		"null":          {`null`, `{"type":"object"}`, "/: it is not a JSON object"},
	}.run(t)
}

// TestCheckableOpposites: no keyword that is kept refuses what the whole schema accepts.
func TestCheckableOpposites(t *testing.T) {
	checkableCases{
		"not and oneOf count only whole": {
			`{"type":"object","not":{"required":["x"],"propertyNames":{"pattern":"(?=a)"}},"oneOf":[{"required":["a"]},{"properties":{"b":{"pattern":"(?=b)"}}}]}`,
			`{"anyOf":[{"required":["a"]},{"properties":{"b":{}}}],"type":"object"}`, "/not",
		},
		"additionalProperties depends on patternProperties": {
			`{"type":"object","patternProperties":{"^(?!x)":{}},"additionalProperties":false}`,
			`{"patternProperties":{},"type":"object"}`, "/additionalProperties",
		},
		"if depends on its condition": {
			`{"type":"object","if":{"properties":{"a":{"pattern":"(?!x)"}}},"then":{"required":["b"]},"else":{"required":["c"]}}`,
			`{"type":"object"}`, "/if",
		},
		"a reference inside not is whole only if its target is": {
			`{"type":"object","not":{"$ref":"#/$defs/s"},"$defs":{"s":{"required":["a"],"propertyNames":{"pattern":"(?!x)"}}}}`,
			`{"$defs":{"d0":{"propertyNames":{},"required":["a"]}},"type":"object"}`, "/not",
		},
	}.run(t)
}

// TestCheckableDepth: a schema that is too deep or too large is checked as far as possible.
func TestCheckableDepth(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 300) + `{}` + strings.Repeat(`}}`, 300)
	wide := make([]string, 3000)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"p%d":{"type":"object","properties":{"a":{"type":"string"}}}`, i)
	}
	size := limits()
	size.Compiles = func(schema json.RawMessage) bool { return len(schema) < 150_000 }
	for name, schema := range map[string]string{
		"deep": deep, "wide": `{"type":"object","required":["p0"],"properties":{` + strings.Join(wide, ",") + `}}`,
	} {
		got, left := toolschema.Checkable(json.RawMessage(schema), size)
		if !strings.Contains(string(got), `"properties"`) || len(left) == 0 {
			t.Errorf("%s: got %.80s…, left out %v", name, got, left)
		}
	}
	size.Compiles = func(json.RawMessage) bool { return false }
	if got, left := toolschema.Checkable(json.RawMessage(deep), size); string(got) != `{"type":"object"}` || len(left) != 1 {
		t.Errorf("got %s, %v", got, left)
	}
}

// portableCases are schemas in the form that providers are sent.
type portableCases map[string]struct{ schema, want string }

func (cases portableCases) run(t *testing.T) {
	t.Parallel()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, changed := toolschema.Portable(json.RawMessage(c.schema))
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if (len(changed) > 0) != (c.want != c.schema) {
				t.Errorf("changed: %q", changed)
			}
			if again, more := toolschema.Portable(got); len(more) > 0 {
				t.Errorf("a second time it changes %q to %s", more, again)
			}
		})
	}
}

// TestPortable: combinations at the root and references are written out, and the arguments stay
// described.
func TestPortable(t *testing.T) {
	portableCases{
		"nothing to change": {
			`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}`,
			`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}`,
		},
		"choices at the root (anomalyco/opencode#35516)": {
			`{"type":"object","properties":{"route":{"type":"string"},"file":{"type":"string"}},"anyOf":[{"required":["route"]},{"required":["file"]}]}`,
			`{"description":"At least one of these is required: route, or file.","properties":{"file":{"type":"string"},"route":{"type":"string"}},"type":"object"}`,
		},
		"choices at the root with their own properties (langchain-ai/langchain#39271)": {
			`{"type":"object","oneOf":[{"type":"object","properties":{"id":{"type":"string"},"content":{"type":"string"}},"required":["id","content"]},` +
				`{"type":"object","properties":{"id":{"type":"string"},"url":{"type":"string"}},"required":["id","url"]}]}`,
			`{"description":"Exactly one of these is required: id and content, or id and url.",` +
				`"properties":{"content":{"type":"string"},"id":{"type":"string"},"url":{"type":"string"}},"required":["id"],"type":"object"}`,
		},
		"allOf with a condition": {
			`{"type":"object","properties":{"kind":{"enum":["a","b"]}},"required":["kind"],"allOf":[{"if":{"properties":{"kind":{"const":"a"}}},"then":{"properties":{"a":{"type":"number"}},"required":["a"]}},{"required":["x"]}]}`,
			`{"properties":{"a":{"type":"number"},"kind":{"enum":["a","b"],"type":"string"}},"required":["kind","x"],"type":"object"}`,
		},
		"references (charmbracelet/crush#3782)": {
			`{"type":"object","properties":{"tasks":{"type":"array","items":{"$ref":"#/$defs/T"}}},"$defs":{"T":{"type":"object","properties":{"title":{"type":"string"}}}}}`,
			`{"properties":{"tasks":{"items":{"properties":{"title":{"type":"string"}},"type":"object"},"type":"array"}},"type":"object"}`,
		},
		"a description beside a reference (anomalyco/opencode#12295)": {
			`{"type":"object","properties":{"q":{"$ref":"#/definitions/Q","description":"asked"}},"definitions":{"Q":{"type":"string","description":"any"}}}`,
			`{"properties":{"q":{"description":"asked","type":"string"}},"type":"object"}`,
		},
		"a recursive reference": {
			`{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":{"next":{"$ref":"#/$defs/N"}}}}}`,
			`{"properties":{"n":{"properties":{"next":{"description":"Of the same form as the value that contains it.","type":"object"}},"type":"object"}},"type":"object"}`,
		},
		"a reference that leads nowhere (google-gemini/gemini-cli#13142)": {
			`{"type":"object","properties":{"q":{"$ref":"#/$defs/Gone","description":"what"},"r":{"$ref":"https://example.com/s"}}}`,
			`{"properties":{"q":{"description":"what"},"r":{}},"type":"object"}`,
		},
	}.run(t)
}

// TestPortableForms: what is missing, of an older draft or of another form is corrected or left
// out.
func TestPortableForms(t *testing.T) {
	portableCases{
		"no properties (nextlevelbuilder/goclaw#321)": {`{"type":"object"}`, `{"properties":{},"type":"object"}`},
		"no type": {`{"properties":{"a":{"properties":{"b":{"minimum":1}}},"c":{"items":{"enum":["x"]}}}}`, `{"properties":{"a":{"properties":{"b":{"minimum":1,"type":"number"}},"type":"object"},"c":{"items":{"enum":["x"],"type":"string"},"type":"array"}},"type":"object"}`},
		"an array without items (apify/apify-mcp-server#36)": {
			`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]}}}`,
			`{"properties":{"a":{"items":{},"type":"array"},"b":{"items":{},"type":["array","null"]}},"type":"object"}`,
		},
		"tuples (microsoft/vscode#244467)": {
			`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},{"type":"number"}]},"b":{"type":"array","prefixItems":[{"type":"string"},{"type":"string"}]}}}`,
			`{"properties":{"a":{"items":{"anyOf":[{"type":"string"},{"type":"number"}]},"type":"array"},"b":{"items":{"type":"string"},"type":"array"}},"type":"object"}`,
		},
		"draft 4 (Dokploy/mcp#74)": {
			`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","type":"object","properties":{"n":{"type":"integer","minimum":0,"exclusiveMinimum":true},"m":{"type":"integer","maximum":5,"exclusiveMaximum":false},"r":{"type":"string","required":true}}}`,
			`{"properties":{"m":{"maximum":5,"type":"integer"},"n":{"exclusiveMinimum":0,"minimum":0,"type":"integer"},"r":{"type":"string"}},"type":"object"}`,
		},
		"types of other languages (lightweight-component/aj-mcp#5)": {
			`{"type":"object","properties":{"a":{"type":"Boolean"},"b":{"type":"int"},"c":{"type":"any"},"d":{"type":["string","nonsense"]}}}`,
			`{"properties":{"a":{"type":"boolean"},"b":{"type":"integer"},"c":{},"d":{}},"type":"object"}`,
		},
		"values of another form": {
			`{"type":"object","description":null,"properties":{"a":{"type":"string","enum":[],"title":5,"minLength":"3"},"b":null,"c":true,"d":"string","required":["a"]},"required":["a","a"]}`,
			`{"properties":{"a":{"type":"string"},"b":{},"c":{},"d":{}},"required":["a"],"type":"object"}`,
		},
		"a type beside choices (NousResearch/hermes-agent#14804)": {
			`{"type":"object","properties":{"a":{"type":"string","anyOf":[{"maxLength":2},{"enum":["long"]}]}}}`,
			`{"properties":{"a":{"anyOf":[{"maxLength":2,"type":"string"},{"enum":["long"],"type":"string"}]}},"type":"object"}`,
		},
		"a text instead of a schema (sandialabs/atlas-ui-3#727)": {`{"type":"string","description":"the title"}`, `{"description":"the title","properties":{},"type":"object"}`},
		"not an object": {`[]`, `[]`},
	}.run(t)
}

// TestPortableSize: references that multiply end.
func TestPortableSize(t *testing.T) {
	t.Parallel()
	var defs []string
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`, i, i+1, i+1))
	}
	schema := `{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(defs, ",") + `}}`
	got, changed := toolschema.Portable(json.RawMessage(schema))
	if len(got) > 200_000 || len(changed) == 0 || !json.Valid(got) {
		t.Errorf("%d bytes, %d changes", len(got), len(changed))
	}
}

// TestPlain: every schema has one type, and nothing but the plainest keywords.
func TestPlain(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"type":"number","minimum":1}],"description":"how many"},` +
		`"b":{"type":["null","array"],"items":{}},"c":{"enum":["x","y"]},"d":{}},"required":["a","gone"],"additionalProperties":false}`
	want := `{"properties":{"a":{"description":"how many","type":"number"},"b":{"items":{"type":"string"},"type":"array"},` +
		`"c":{"enum":["x","y"],"type":"string"},"d":{"type":"string"}},"required":["a"],"type":"object"}`
	if got := toolschema.Plain(json.RawMessage(schema)); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzSchemas: no text breaks the readers of schemas, and what they write is JSON with a type.
func FuzzSchemas(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`, `{"$ref":"#"}`, `{"oneOf":[{"$ref":"#"}]}`, `{"if":{},"then":1}`,
		`{"items":[[]],"additionalItems":{}}`, `{"dependencies":{"a":["b"],"c":{}}}`, `{"$id":"x","$ref":"x#/%zz/~1"}`, `{"enum":[1e999]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checked, _ := toolschema.Checkable(json.RawMessage(text), limits())
		portable, _ := toolschema.Portable(json.RawMessage(text))
		for _, made := range []json.RawMessage{checked, portable, toolschema.Plain(json.RawMessage(text))} {
			var root struct{ Type any }
			if string(made) != text && (json.Unmarshal(made, &root) != nil || root.Type != "object") {
				t.Errorf("%s becomes %s", text, made)
			}
		}
	})
}
