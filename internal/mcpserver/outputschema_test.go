package mcpserver_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/tool"
)

// outputSchema is the output schema of a tool as a client is shown it; nil: none.
func (r *rig) outputSchema(a questionPart, name string) any {
	r.t.Helper()
	for _, entry := range r.want(a, "tools/list", object{})["tools"].([]any) {
		if one := entry.(object); one["name"] == name {
			return one["outputSchema"]
		}
	}
	r.t.Fatalf("there is no tool %s", name)
	return nil
}

// TestM09OutputSchema: the output schema shown to a client accepts the tool's own results, and
// those that the server may return instead: that the call continues, and that its outcome is
// unknown.
func TestM09OutputSchema(t *testing.T) {
	t.Parallel()
	theirs := object{
		"type": "object", "$defs": object{"n": object{"type": "integer"}}, "properties": object{"id": object{"$ref": "#/$defs/n"}},
		"required": []any{"id"}, "additionalProperties": false,
	}
	foreign := func(name string, schema any) mcpserver.Exposed {
		return mcpserver.Exposed{Name: name, Definition: &mcp.Tool{InputSchema: object{"type": "object"}, OutputSchema: schema}}
	}
	r := newRig(t, mcpserver.Config{SoftBudget: 20 * time.Millisecond, Tools: []mcpserver.Exposed{
		foreign("hold_charge", theirs), foreign("hold", theirs), foreign("note", object{"type": "object", "properties": object{"a": object{"$ref": "#"}}}),
		foreign("charge", nil), foreign("echo", object{"type": "object", "properties": object{"a": object{"$ref": "#/properties/b"}, "b": object{}}}),
	}})

	running := r.call(questionPart{}, "hold_charge", text, nil)["structuredContent"]
	r.Entered(t, "hold_charge", 1)
	r.restart()
	lost := r.until(withTasks, running.(object)["task_id"].(string), "completed")["result"].(object)["structuredContent"]
	if lost.(object)["outcome"] != "unknown" {
		t.Fatalf("got %v", lost)
	}

	// without Tasks, with them
	for name, withOurs := range map[string][2]bool{"hold_charge": {true, true}, "hold": {true, false}} {
		for i, a := range []questionPart{{}, withTasks} {
			shown := r.outputSchema(a, name)
			if shown.(object)["type"] != "object" {
				t.Errorf("%s: the root of %v is not of type object", name, shown)
			}
			for value, want := range map[string]bool{
				`{"id":5}`: true, `{"id":"x"}`: false, `{}`: false, `{"id":5,"more":1}`: false, jsonOf(t, running): withOurs[i], jsonOf(t, lost): withOurs[i],
			} {
				if got := tool.CheckJSON(json.RawMessage(jsonOf(t, shown)), json.RawMessage(value)) == ""; got != want {
					t.Errorf("%s, with Tasks %t: %s is taken: %t, want %t", name, a.tasks, value, got, want)
				}
			}
		}
	}
	for _, name := range []string{"note", "charge", "echo"} { // refers to a definition elsewhere, or has none
		if got := r.outputSchema(questionPart{}, name); got != nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
	r.ReleaseAll()
}
