package mcpserver

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// What a call may be answered with instead of its tool's own result (see Server.stillRunning and Server.unknown).
const (
	runningSchema = `{"type":"object","description":"Not the tool's own: the call goes on as a task.",` +
		`"properties":{"task_id":{"type":"string"},"state":{"type":"string"},"status_message":{"type":"string"}},"required":["task_id","state"]}`
	unknownSchema = `{"type":"object","description":"Not the tool's own: the outcome of the call is unknown.",` +
		`"properties":{"outcome":{"const":"unknown"},"call_id":{"type":"string"},"task_id":{"type":"string"},"resolve_command":{"type":"string"}},"required":["outcome","call_id"]}`
)

// promised is the tools as they are shown to a client, with the answers of ours that their calls may have among what their output may
// be: a client that holds a server to its schema would throw those away, and with them the task, or that the call may have happened (M9).
func (s *Server) promised(p peer, tools []*mcp.Tool) []*mcp.Tool {
	shown := slices.Clone(tools)
	for i, t := range shown {
		x, ok := s.tools[t.Name]
		if !ok || t.OutputSchema == nil || p.tasks && x.tool.Class == perdure.Pure && x.Task != TaskForbidden {
			continue // with Tasks a pure call is a task or has its own result
		}
		one := *t
		one.OutputSchema = withOurs(t.OutputSchema)
		shown[i] = &one
	}
	return shown
}

// definitions are where a schema keeps what it refers to.
var definitions = []string{"$defs", "definitions"}

// elsewhere finds a reference to a place of its own document, other than its definitions.
var elsewhere = regexp.MustCompile(`"\$(ref|dynamicRef|recursiveRef)":"#([^/"]|"|/[^"]*")`)

// withOurs is a schema of a tool's output, or one of ours. References into its definitions hold, since these stay at the root; one that
// has others is better not shown than shown wrong. nil: none is shown.
func withOurs(schema any) any {
	text := marshal(schema)
	theirs := map[string]json.RawMessage{}
	if perdure.DecodeKnownJSON(text, &theirs) != nil || theirs["$id"] != nil {
		return nil // true and false are schemas of anything; in a document of its own, references are to that
	}
	for _, ref := range elsewhere.FindAllString(string(text), -1) {
		_, to, _ := strings.Cut(ref, `":"#/`)
		if in, _, deep := strings.Cut(to, "/"); !deep || !slices.Contains(definitions, in) {
			return nil
		}
	}
	whole := map[string]json.RawMessage{}
	for _, name := range append([]string{"$schema"}, definitions...) {
		if at, ok := theirs[name]; ok {
			whole[name] = at
			delete(theirs, name)
		}
	}
	if kind := string(theirs["type"]); kind == `"object"` || kind == "" { // the root has to say so, by the specification
		whole["type"] = json.RawMessage(`"object"`)
	}
	whole["anyOf"] = marshal([]any{theirs, json.RawMessage(runningSchema), json.RawMessage(unknownSchema)})
	return whole
}
