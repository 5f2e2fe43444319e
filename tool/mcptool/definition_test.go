package mcptool

import (
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// logged returns a log and what was written to it.
func logged() (*slog.Logger, *strings.Builder) {
	var text strings.Builder
	return slog.New(slog.NewTextHandler(&text, nil)), &text
}

// TestToolNames: no two tools of a server have one name, a name does not depend on the order in
// which the server lists its tools, and the log names each tool that is renamed or left out.
func TestToolNames(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	for name, c := range map[string]struct {
		tools []string
		want  map[string]string // the name, or its beginning before a digest, by the server's name
		log   string
	}{
		"names as they are": {[]string{"a", "b-c"}, map[string]string{"a": "s__a", "b-c": "s__b-c"}, ""},
		"a dot is replaced": {[]string{"a.b"}, map[string]string{"a.b": "s__a_b"}, ""},
		"a.b and a_b (ayunis-core/ayunis-core#973)": {
			[]string{"a.b", "a_b"}, map[string]string{"a.b": "s__a_b_#", "a_b": "s__a_b"}, "renamed"},
		"three that become one (onyx-dot-app/onyx#12694)": {
			[]string{"a b", "a.b", "a:b"}, map[string]string{"a b": "s__a_b_#", "a.b": "s__a_b_#", "a:b": "s__a_b_#"}, "renamed"},
		"no letter is left (HKUDS/nanobot#5360)": {
			[]string{"获取天气", "查询时间", "日本"}, map[string]string{"获取天气": "s__tool_#", "查询时间": "s__tool_#", "日本": "s__tool_#"}, ""},
		"words with accents": {[]string{"größe", "grüße"}, map[string]string{"größe": "s__gr__e_#", "grüße": "s__gr__e_#"}, "renamed"},
		"too long (mastra-ai/mastra#6302)": {
			[]string{strings.Repeat("x", 80) + "1", strings.Repeat("x", 80) + "2"},
			map[string]string{strings.Repeat("x", 80) + "1": "s__" + strings.Repeat("x", 52) + "_#", strings.Repeat("x", 80) + "2": "s__" + strings.Repeat("x", 52) + "_#"}, ""},
		"one name twice": {[]string{"a", "a"}, map[string]string{"a": "s__a"}, "left out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var defs []*mcp.Tool
			for i, name := range c.tools {
				defs = append(defs, &mcp.Tool{Name: name, Description: strings.Repeat("x", i)})
			}
			log, text := logged()
			got := namesOf(named(defs, "s__", log))
			for server, want := range c.want {
				if begin, ok := strings.CutSuffix(want, "#"); ok && (!strings.HasPrefix(got[server], begin) || len(got[server]) != len(begin)+8) || !ok && got[server] != want {
					t.Errorf("%s is named %s, want %s", server, got[server], want)
				}
			}
			used := slices.Sorted(maps.Values(got))
			if len(got) != len(c.want) || len(slices.Compact(used)) != len(got) {
				t.Errorf("got %v", got)
			}
			for _, name := range used {
				if !valid.MatchString(name) {
					t.Errorf("%q is not a name", name)
				}
			}
			if !strings.Contains(text.String(), c.log) || c.log == "" && text.Len() > 0 {
				t.Errorf("logged %s", text)
			}
			slices.Reverse(defs)
			if again := namesOf(named(defs, "s__", log)); !maps.Equal(got, again) {
				t.Errorf("in another order: got %v, then %v", got, again)
			}
		})
	}
}

func namesOf(all []namedTool) map[string]string {
	names := map[string]string{}
	for _, t := range all {
		names[t.def.Name] = t.name
	}
	return names
}

// TestReadableListing: a field of another form costs that field, and a tool without a name that
// tool.
func TestReadableListing(t *testing.T) {
	t.Parallel()
	const good = `{"inputSchema":{"type":"object"},"name":"good"}`
	for name, c := range map[string]struct{ tools, want, left string }{
		"annotations of another type": {`[{"name":"a","annotations":[1],"inputSchema":{}},` + good + `]`, `[{"inputSchema":{},"name":"a"},` + good + `]`, "annotations"},
		"a hint of another type": {
			`[{"name":"a","annotations":{"readOnlyHint":"yes","title":"A"},"inputSchema":{}}]`, `[{"annotations":{"title":"A"},"inputSchema":{},"name":"a"}]`, ""},
		"a title that is a number":   {`[{"name":"a","title":5,"inputSchema":{}}]`, `[{"inputSchema":{},"name":"a"}]`, "title"},
		"a description that is null": {`[{"name":"a","description":null,"inputSchema":{}}]`, `[{"inputSchema":{},"name":"a"}]`, ""},
		"a description that is a list": {
			`[{"name":"a","description":["x"],"inputSchema":{}}]`, `[{"inputSchema":{},"name":"a"}]`, "description"},
		"an output schema of another form (ThinkInAIXYZ/deepchat#2075)": {
			`[{"name":"a","outputSchema":"none","inputSchema":{}},` + good + `]`, `[{"inputSchema":{},"name":"a"},` + good + `]`, "outputSchema"},
		"a schema that is null (lightweight-component/aj-mcp#4)": {
			`[{"name":"a","inputSchema":null}]`, `[{"inputSchema":{"type":"object"},"name":"a"}]`, ""},
		"no schema (vercel-labs/mcp-for-next.js#9)": {`[{"name":"a"}]`, `[{"inputSchema":{"type":"object"},"name":"a"}]`, ""},
		"a schema under another name": {
			`[{"name":"a","input_schema":{"type":"object","properties":{}}}]`, `[{"inputSchema":{"type":"object","properties":{}},"input_schema":{"type":"object","properties":{}},"name":"a"}]`, ""},
		"a schema that is true": {`[{"name":"a","inputSchema":true}]`, `[{"inputSchema":{"type":"object"},"name":"a"}]`, "inputSchema"},
		"a schema in a text": {
			`[{"name":"a","inputSchema":"{\"type\":\"object\",\"properties\":{\"q\":{}}}"}]`, `[{"inputSchema":{"type":"object","properties":{"q":{}}},"name":"a"}]`, ""},
		"a schema of a text (sandialabs/atlas-ui-3#727)": {
			`[{"name":"a","inputSchema":{"type":"string"}}]`, `[{"inputSchema":{"type":"object"},"name":"a"}]`, ""},
		"icons and _meta of another form": {
			`[{"name":"a","icons":"x","_meta":[],"inputSchema":{}}]`, `[{"inputSchema":{},"name":"a"}]`, "icons"},
		"a tool without a name":    {`[{"inputSchema":{}},{"name":7},{"name":""},null,"x",` + good + `]`, `[` + good + `]`, "without a name"},
		"unknown fields stay":      {`[{"name":"a","execution":{"taskSupport":"optional"},"inputSchema":{}}]`, `[{"execution":{"taskSupport":"optional"},"inputSchema":{},"name":"a"}]`, ""},
		"the list is not a list":   {`{"a":{}}`, `[]`, "not a list"},
		"the list is null":         {`null`, `[]`, ""},
		"a required that is false": {`[{"name":"a","inputSchema":{"type":"object","required":false}}]`, `[{"inputSchema":{"type":"object","required":false},"name":"a"}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, left := readableListing(json.RawMessage(`{"tools":` + c.tools + `}`))
			if want := `{"tools":` + c.want + `}`; string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if all := strings.Join(left, "\n"); c.left == "" != (all == "") || !strings.Contains(all, c.left) {
				t.Errorf("left out: %q, want %q", left, c.left)
			}
			var decoded mcp.ListToolsResult
			if err := json.Unmarshal(got, &decoded); err != nil {
				t.Error(err)
			}
		})
	}
	for cursor, want := range map[string]string{`5`: `"5"`, `null`: ``, `{}`: ``, `"a"`: `"a"`} {
		got, _ := readableListing(json.RawMessage(`{"tools":[],"nextCursor":` + cursor + `}`))
		if has := strings.Contains(string(got), `"nextCursor":`+want); has != (want != "") || want == "" && strings.Contains(string(got), "nextCursor") {
			t.Errorf("the cursor %s: got %s", cursor, got)
		}
	}
}

// FuzzReadableListing: the SDK can decode what is left of any object.
func FuzzReadableListing(f *testing.F) {
	for _, seed := range []string{
		`{"tools":[{"name":"a","annotations":{"readOnlyHint":1}}],"nextCursor":3,"ttlMs":"x"}`, `{"tools":[{"name":"a","icons":[{"src":1}]}]}`, `{}`, `[]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := readableListing(json.RawMessage(text))
		var decoded mcp.ListToolsResult
		if string(got) != text && json.Unmarshal(got, &decoded) != nil {
			t.Errorf("%s becomes %s", text, got)
		}
		for _, one := range decoded.Tools {
			if one.Name == "" || len(schemaOf(one).Parameters) == 0 {
				t.Errorf("%s has a tool %+v", got, one)
			}
		}
	})
}
