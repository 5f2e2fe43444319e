package mcpserver

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// Schemas of the results that this server may return instead of the tool's own (see
// Server.stillRunning and Server.unknown).
const (
	runningSchema = `{"type":"object","description":"Not a result of the tool itself: the call continues as a task.",` +
		`"properties":{"task_id":{"type":"string"},"state":{"type":"string"},"status_message":{"type":"string"}},"required":["task_id","state"]}`
	unknownSchema = `{"type":"object","description":"Not a result of the tool itself: the outcome of the call is unknown.",` +
		`"properties":{"outcome":{"const":"unknown"},"call_id":{"type":"string"},"task_id":{"type":"string"},"resolve_command":{"type":"string"}},"required":["outcome","call_id"]}`
)

// withServerResults returns the tools as shown to a client. Their output schemas also allow the
// results of this server. Otherwise a client that validates results would discard these, and with
// them the id of the task, or the information that the call may have happened (M9).
func (s *Server) withServerResults(p peer, tools []*mcp.Tool) []*mcp.Tool {
	shown := slices.Clone(tools)
	for i, t := range shown {
		x, ok := s.tools[t.Name]
		if !ok || t.OutputSchema == nil || p.tasks && x.tool.Class == perdure.Pure && x.Task != TaskForbidden {
			continue // with Tasks, a pure call becomes a task or returns the tool's own result
		}
		one := *t
		one.OutputSchema = unionSchema(t.OutputSchema)
		shown[i] = &one
	}
	return shown
}

// definitions are the keywords under which a schema stores subschemas.
var definitions = []string{"$defs", "definitions"}

// refersOutside matches a reference within the same document that does not point into its
// definitions.
var refersOutside = regexp.MustCompile(`"\$(ref|dynamicRef|recursiveRef)":"#([^/"]|"|/[^"]*")`)

// unionSchema returns the union of a tool's output schema and those of this server. Definitions
// stay at the root, so references into them remain valid. For a schema with other references it
// returns nil: no output schema is better than a wrong one.
func unionSchema(schema any) any {
	text := marshal(schema)
	theirs := map[string]json.RawMessage{}
	if perdure.DecodeKnownJSON(text, &theirs) != nil || theirs["$id"] != nil {
		return nil // true and false accept everything; with $id, references resolve against another document
	}
	for _, ref := range refersOutside.FindAllString(string(text), -1) {
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
	if kind := string(theirs["type"]); kind == `"object"` || kind == "" { // required by the specification
		whole["type"] = json.RawMessage(`"object"`)
	}
	whole["anyOf"] = marshal([]any{theirs, json.RawMessage(runningSchema), json.RawMessage(unknownSchema)})
	return whole
}
