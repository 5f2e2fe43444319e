package mcptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// emptyResult is a result that the SDK can decode. It stands for one that the SDK would refuse;
// that one is read with lenientResult.
var emptyResult = json.RawMessage(`{"content":[]}`)

// decodable returns the result of a call for the SDK.
func decodable(result json.RawMessage) json.RawMessage {
	var kind struct {
		Type string `json:"resultType"`
	}
	// The SDK handles results that ask for input.
	if perdure.DecodeKnownJSON(result, &kind) == nil && kind.Type == "input_required" || strictResult(result) != nil {
		return result
	}
	return emptyResult
}

// strictResult decodes a result that has the form of the protocol; nil: it has another form.
func strictResult(raw json.RawMessage) *mcp.CallToolResult {
	var has struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if perdure.DecodeKnownJSON(raw, &has) != nil || !bytes.HasPrefix(has.Content, []byte("[")) && !given(has.Structured) {
		return nil
	}
	var r mcp.CallToolResult
	if perdure.DecodeKnownJSON(raw, &r) != nil {
		return nil
	}
	return &r
}

// lenientResult reads the result of a call that has ended, whatever form the server gave it. A
// block of an unknown kind becomes a text that names it, and a result without content becomes a
// text of its JSON. raw is valid JSON.
func lenientResult(raw json.RawMessage) *mcp.CallToolResult {
	if r := strictResult(raw); r != nil {
		exact(r, raw)
		return r
	}
	fields := map[string]json.RawMessage{}
	_ = perdure.DecodeJSON(raw, &fields)                                          // no object: it has no members
	if inner := fields["toolResult"]; given(inner) && !given(fields["content"]) { // the form of version 2024-10-07
		return lenientResult(inner)
	}
	if isBlocks(raw) {
		fields["content"] = raw
	}
	r := &mcp.CallToolResult{Content: contentOf(fields["content"]), IsError: isTrue(fields["isError"])}
	if given(fields["structuredContent"]) {
		r.StructuredContent = fields["structuredContent"]
	}
	if len(r.Content) == 0 && r.StructuredContent == nil {
		r.Content = []mcp.Content{&mcp.TextContent{Text: plainText(raw)}}
	}
	meta := map[string]json.RawMessage{}
	if perdure.DecodeJSON(fields["_meta"], &meta) == nil && len(meta) > 0 {
		r.Meta = mcp.Meta{}
		for key, value := range meta {
			r.Meta[key] = value
		}
	}
	return r
}

// isBlocks reports whether a value is a list of blocks of content.
func isBlocks(value json.RawMessage) bool {
	type block struct {
		Type string `json:"type"`
	}
	var blocks []block
	return perdure.DecodeKnownJSON(value, &blocks) == nil && len(blocks) > 0 && !slices.Contains(blocks, block{})
}

// isTrue reads a Boolean, also one written as text or number.
func isTrue(value json.RawMessage) bool {
	text := strings.ToLower(plainText(value))
	return text == "true" || text == "1"
}

// contentOf reads content: blocks, one block, or a text.
func contentOf(value json.RawMessage) (all []mcp.Content) {
	if !given(value) {
		return nil
	}
	blocks := []json.RawMessage{value}
	if value[0] == '[' {
		_ = perdure.DecodeJSON(value, &blocks) // it is an array
	}
	for _, block := range blocks {
		all = append(all, blockOf(block))
	}
	return all
}

// blockOf reads one block of content.
func blockOf(block json.RawMessage) mcp.Content {
	var whole mcp.CallToolResult
	if perdure.DecodeKnownJSON(mustJSON(map[string]any{"content": []json.RawMessage{block}}), &whole) == nil && len(whole.Content) == 1 {
		return whole.Content[0]
	}
	if !bytes.HasPrefix(bytes.TrimSpace(block), []byte("{")) {
		return &mcp.TextContent{Text: plainText(block)}
	}
	fields := map[string]json.RawMessage{}
	_ = perdure.DecodeJSON(block, &fields) // it is an object
	kind := plainText(fields["type"])
	if text, ok := fields["text"]; ok && (kind == "" || kind == "text") {
		return &mcp.TextContent{Text: plainText(text)}
	}
	if raw, err := bytesOf(plainText(fields["data"])); err == nil && given(fields["mimeType"]) { // bytes are no text
		return &mcp.ImageContent{Data: raw, MIMEType: plainText(fields["mimeType"])}
	}
	return &mcp.TextContent{Text: fmt.Sprintf("[content of the kind %q, which is not known here: %s]", kind, block)}
}
