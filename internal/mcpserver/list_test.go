package mcpserver_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/internal/mcpserver"
)

// TestForeignDefinitions: a definition without a schema of an object is shown with one; one that
// clients cannot be shown is left out, and the log says which. The other tools are served.
func TestForeignDefinitions(t *testing.T) {
	t.Parallel()
	foreign := func(name string, schema any) mcpserver.Exposed {
		return mcpserver.Exposed{Name: "echo", PublicName: name, Definition: &mcp.Tool{Name: "x", Description: "Theirs.", InputSchema: schema}}
	}
	var said bytes.Buffer // written while the server is made
	r := newRig(t, mcpserver.Config{Log: slog.New(slog.NewTextHandler(&said, nil)), Tools: []mcpserver.Exposed{
		foreign("none", nil), foreign("empty", object{}), foreign("untyped", object{"properties": object{"a": object{"type": "string"}}}),
		foreign("a_text", object{"type": "string"}), foreign("a_list", []any{}),
		foreign("a_header", object{"type": "object", "properties": object{"a": object{"type": "object", "x-mcp-header": "Bad Name"}}}),
		foreign("good", object{"type": "object", "required": []any{"text"}}),
	}})

	shown := map[string]string{}
	for _, entry := range r.want(withTasks, "tools/list", object{})["tools"].([]any) {
		one := entry.(object)
		shown[one["name"].(string)] = jsonOf(t, one["inputSchema"])
	}
	want := map[string]string{
		"none": `{"type":"object"}`, "empty": `{"type":"object"}`, "untyped": `{"properties":{"a":{"type":"string"}},"type":"object"}`,
		"good": `{"required":["text"],"type":"object"}`,
	}
	if got := jsonOf(t, shown); got != jsonOf(t, want) {
		t.Errorf("got %s", got)
	}
	for _, name := range []string{"a_text", "a_list", "a_header"} {
		if !strings.Contains(said.String(), "tool="+name) {
			t.Errorf("the log does not name %s: %s", name, said.String())
		}
		r.refused(withTasks, "tools/call", object{"name": name, "arguments": text}, refusal{0, -32602})
	}
	for name := range want {
		if got := r.call(withTasks, name, text, nil); textOf(got) != `{"said":"a"}` {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
