package mcpserver

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// definition returns an exposed tool as shown to clients (M10).
func (x exposed) definition() *mcp.Tool {
	if x.Definition != nil {
		shown := *x.Definition
		shown.Name, shown.InputSchema = x.PublicName, ofObject(shown.InputSchema)
		return &shown
	}
	schema := x.tool.Parameters
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	title := cmp.Or(x.tool.DisplayName, x.PublicName)
	return &mcp.Tool{
		Name: x.PublicName, Title: title, Description: x.tool.Description, InputSchema: schema,
		Annotations: annotationsOf(x.tool, title),
	}
}

// annotationsOf returns the annotations of a tool. A flag that is left out has its default in the
// protocol, which is the worse case.
func annotationsOf(t engine.Tool, title string) *mcp.ToolAnnotations {
	h := t.Hints
	if h == nil { // the engine is a server of an earlier version
		return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: t.Class == perdure.Pure}
	}
	return &mcp.ToolAnnotations{
		Title: title, ReadOnlyHint: h.ReadOnly, DestructiveHint: &h.Destructive, IdempotentHint: h.Idempotent, OpenWorldHint: &h.OpenWorld,
	}
}

// ofObject adds the type that some servers omit from the schema of arguments: it is always an
// object.
func ofObject(schema any) any {
	var fields map[string]json.RawMessage
	if perdure.DecodeKnownJSON(marshal(schema), &fields) != nil || fields["type"] != nil {
		return schema
	}
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	fields["type"] = json.RawMessage(`"object"`)
	return fields
}

// legacyTools is tools/list of 2025-11-25, where each tool states whether it may run as a task.
type legacyTools struct {
	*mcp.ListToolsResult
	tools map[string]exposed
}

// MarshalJSON adds execution.taskSupport.
func (l *legacyTools) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(l.ListToolsResult)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := perdure.DecodeJSON(text, &fields); err != nil {
		return nil, err
	}
	shown := []map[string]json.RawMessage{}
	if err := perdure.DecodeJSON(fields["tools"], &shown); err != nil {
		return nil, err
	}
	for i, t := range l.Tools {
		if x, ok := l.tools[t.Name]; ok {
			shown[i]["execution"] = marshal(map[string]string{"taskSupport": x.Task})
		}
	}
	fields["tools"] = marshal(shown)
	return json.Marshal(fields)
}

// adaptTools adapts tools/list: it hides the task tools from clients with Tasks, completes the
// output schemas, and on 2025-11-25 states which tools can be tasks.
func (s *Server) adaptTools(p peer, listed *mcp.ListToolsResult) (mcp.Result, error) {
	shown := *listed
	shown.Tools = s.withServerResults(p, listed.Tools)
	if p.tasks {
		shown.Tools = slices.DeleteFunc(shown.Tools, func(t *mcp.Tool) bool { return s.isTaskTool(t.Name) })
	}
	if p.modern {
		return &shown, nil
	}
	return &legacyTools{&shown, s.tools}, nil
}

// initialized is the result of initialize with the capability tasks, which the SDK does not know.
type initialized struct{ *mcp.InitializeResult }

// MarshalJSON adds capabilities.tasks.
func (i *initialized) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(i.InitializeResult)
	if err != nil {
		return nil, err
	}
	fields, caps := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := perdure.DecodeJSON(text, &fields); err != nil {
		return nil, err
	}
	if err := perdure.DecodeJSON(fields["capabilities"], &caps); err != nil {
		return nil, err
	}
	delete(caps, "extensions")
	caps["tasks"] = json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
	fields["capabilities"] = marshal(caps)
	return json.Marshal(fields)
}

func withTasks(r *mcp.InitializeResult) (mcp.Result, error) {
	if r.ProtocolVersion < "2025-11-25" || r.ProtocolVersion >= modernVersion {
		return r, nil
	}
	return &initialized{r}, nil
}

// rawSchema returns a JSON schema given as text.
func rawSchema(text string) json.RawMessage { return json.RawMessage(text) }
