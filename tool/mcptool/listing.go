package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// methodList is the method that lists the tools of a server.
const methodList = "tools/list"

// readableListing returns an answer to tools/list that the SDK can decode, and what it leaves out:
// fields that do not have the form of the protocol, and tools without a name. The SDK would refuse
// the whole answer.
func readableListing(result json.RawMessage) (readable json.RawMessage, left []string) {
	fields := map[string]json.RawMessage{}
	if perdure.DecodeJSON(result, &fields) != nil {
		return result, nil // an object is the least that the protocol demands
	}
	var entries []json.RawMessage
	if err := perdure.DecodeJSON(fields["tools"], &entries); err != nil {
		left = append(left, "tools: not a list")
	}
	tools := []json.RawMessage{}
	for i, entry := range entries {
		tool, missed := readableTool(entry)
		for _, what := range missed {
			left = append(left, fmt.Sprintf("tools/%d: %s", i, what))
		}
		if tool != nil {
			tools = append(tools, tool)
		}
	}
	fields["tools"] = mustJSON(tools)
	if cursor := fields["nextCursor"]; len(cursor) > 0 && cursor[0] != '"' {
		delete(fields, "nextCursor")
		if n := json.Number(cursor); cursor[0] >= '0' && cursor[0] <= '9' {
			fields["nextCursor"] = mustJSON(n.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "tools" || fits(&mcp.ListToolsResult{}, map[string]json.RawMessage{"tools": json.RawMessage("[]"), name: fields[name]}) {
			continue
		}
		delete(fields, name)
		left = append(left, name+": it has another form")
	}
	return mustJSON(fields), left
}

// readableTool returns the definition of a tool without the fields that have another form; nil: it
// has no name. missed says what is left out.
func readableTool(entry json.RawMessage) (tool json.RawMessage, missed []string) {
	fields := map[string]json.RawMessage{}
	var name string
	if perdure.DecodeJSON(entry, &fields) != nil || perdure.DecodeJSON(fields["name"], &name) != nil || name == "" {
		return nil, []string{"a tool without a name"}
	}
	miss := func(field string) {
		delete(fields, field)
		missed = append(missed, fmt.Sprintf("%s of the tool %q has another form", field, name))
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		value := fields[field]
		switch {
		case field == "name":
		case string(value) == "null":
			delete(fields, field)
		case field == "inputSchema" || field == "outputSchema":
			if fields[field] = schemaOfObject(value); fields[field] == nil {
				miss(field)
			}
		case field == "annotations" && objectOf(value) != nil:
			fields[field] = partsThatFit(value)
		case !fits(&mcp.Tool{}, map[string]json.RawMessage{"name": fields["name"], field: value}):
			miss(field)
		}
	}
	for _, other := range []string{"input_schema", "parameters"} { // the names of model providers
		if fields["inputSchema"] == nil {
			fields["inputSchema"] = schemaOfObject(fields[other])
		}
	}
	if fields["inputSchema"] == nil {
		fields["inputSchema"] = anyObject
	}
	return mustJSON(fields), missed
}

// schemaOfObject returns a schema that does not say that it describes something else than an
// object; nil: it is none.
func schemaOfObject(value json.RawMessage) json.RawMessage {
	value = objectOf(value)
	fields := map[string]json.RawMessage{}
	if value == nil || perdure.DecodeJSON(value, &fields) != nil || fields["type"] == nil || string(fields["type"]) == `"object"` {
		return value
	}
	fields["type"] = json.RawMessage(`"object"`)
	return mustJSON(fields)
}

// objectOf returns a JSON object, also one that was encoded as a text; nil: it is none.
func objectOf(value json.RawMessage) json.RawMessage {
	var text string
	if perdure.DecodeJSON(value, &text) == nil && text != "" {
		value = json.RawMessage(text)
	}
	var fields map[string]json.RawMessage
	if perdure.DecodeJSON(value, &fields) != nil || fields == nil {
		return nil
	}
	return value
}

// partsThatFit returns annotations without the fields that have another form.
func partsThatFit(value json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{}
	_ = perdure.DecodeJSON(objectOf(value), &fields) // it is an object
	maps.DeleteFunc(fields, func(name string, value json.RawMessage) bool {
		return string(value) == "null" || !fits(&mcp.ToolAnnotations{}, map[string]json.RawMessage{name: value})
	})
	return mustJSON(fields)
}

// fits reports whether fields can be decoded into a type of the SDK.
func fits(into any, fields map[string]json.RawMessage) bool {
	return perdure.DecodeKnownJSON(mustJSON(fields), into) == nil
}

// readableList returns an answer to tools/list that the SDK can decode, and logs what it leaves
// out.
func (c *Client) readableList(result json.RawMessage) json.RawMessage {
	if len(result) == 0 {
		return result
	}
	readable, left := readableListing(result)
	for _, what := range left {
		c.cfg.Log.Warn("left out of the list of the MCP server's tools", "what", what)
	}
	return readable
}

// readableListMessage applies readableList to a whole message.
func (c *Client) readableListMessage(text []byte) []byte {
	fields := map[string]json.RawMessage{}
	if perdure.DecodeJSON(text, &fields) != nil || fields["result"] == nil {
		return text
	}
	fields["result"] = c.readableList(fields["result"])
	return mustJSON(fields)
}

// list lists the tools over a connection, page by page. The SDK then knows which arguments it must
// copy to headers. The list ends where it leads back to a page that was there before, and after
// some pages without a new tool.
func (c *Client) list(ctx context.Context, session *mcp.ClientSession) (all []*mcp.Tool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Patience)
	defer cancel()
	cursors, known := map[string]bool{}, map[string]*mcp.Tool{}
	params, useless := &mcp.ListToolsParams{}, 0
	for {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, t := range page.Tools {
			if other := known[t.Name]; other == nil || !reflect.DeepEqual(other, t) {
				known[t.Name] = t
				all = append(all, t)
			}
		}
		if useless++; len(all) > before {
			useless = 0
		}
		cursor := page.NextCursor
		switch {
		case cursor == "":
			return all, nil
		case len(all) > maxTools:
			c.cfg.Log.Warn("the MCP server lists too many tools; the others are left out", "tools", maxTools)
			return all[:maxTools], nil
		case cursors[cursor] || useless >= maxUselessPages:
			c.cfg.Log.Warn("the list of the MCP server's tools repeats itself; it counts as complete", "tools", len(all))
			return all, nil
		}
		cursors[cursor] = true
		params = &mcp.ListToolsParams{Cursor: cursor}
	}
}

// maxUselessPages is how many pages of a list may follow each other without a new tool.
const maxUselessPages = 10
