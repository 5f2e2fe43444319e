package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
)

// content is a block of a result.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Data     string `json:"data,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
}

// toolResult is tools/call's result as we make it.
type toolResult struct {
	Content    []content       `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
}

// resultOf is the result of a call that has ended, as the fields of an MCP result.
func (s *Server) resultOf(x exposed, made ofCall) (json.RawMessage, error) {
	r := made.Result
	switch {
	case r.ErrorKind == perdure.ErrorUnknown || made.Task != nil && made.Task.State == perdure.TaskUnknown:
		return json.Marshal(s.unknown(made))
	case r.IsError():
		return json.Marshal(toolResult{Content: []content{{Type: "text", Text: r.Error}}, IsError: true})
	case r.ConnectionRequired != "":
		return json.Marshal(toolResult{Content: []content{{Type: "text", Text: "This tool needs a connection that is not set up: " + r.ConnectionRequired}}, IsError: true})
	case x.Verbatim:
		if cut, ok := cutShort(r.Result); ok {
			return json.Marshal(s.tooLong(made, cut))
		}
		return r.Result, nil
	}
	return json.Marshal(plainResult(*r))
}

// cutResult is what stands in the place of a result that is longer than is kept.
type cutResult struct {
	Truncated bool            `json:"truncated"`
	Bytes     int             `json:"bytes"` // of the whole
	Head      string          `json:"head"`
	Path      string          `json:"path"`    // of the file that its beginning is kept in; empty: it is not kept
	Content   json.RawMessage `json:"content"` // of an MCP result, which a cut one is not
}

// cutShort reads what was an MCP result, where it was cut.
func cutShort(result json.RawMessage) (cut cutResult, ok bool) {
	ok = perdure.DecodeKnownJSON(result, &cut) == nil && cut.Truncated && cut.Bytes > 0 && cut.Content == nil
	return cut, ok
}

// tooLong is the result of a call that was made, whose own result is not there whole. It is an error: what a tool promises of its
// results does not hold for half of one, and strict clients would refuse it.
func (s *Server) tooLong(made ofCall, cut cutResult) toolResult {
	where := "It is not kept."
	if cut.Path != "" {
		where = fmt.Sprintf("As much of it as is kept: %s file cat %s %s", s.cfg.Command, made.key.Session, cut.Path)
	}
	return toolResult{IsError: true, Content: []content{
		{Type: "text", Text: fmt.Sprintf("The call was made, and came to a result of %d bytes, which is too long: do not repeat it, ask for less. %s", cut.Bytes, where)},
		{Type: "text", Text: cut.Head},
	}}
}

// plainResult is a tool's own result: what it says as text, an object also as structured content, then its images.
func plainResult(r perdure.ToolResult) toolResult {
	out := toolResult{}
	var text string
	switch {
	case perdure.DecodeJSON(r.Result, &text) == nil:
	default:
		var compact bytes.Buffer
		if json.Compact(&compact, r.Result) == nil {
			text = compact.String()
		}
		if strings.HasPrefix(text, "{") {
			out.Structured = json.RawMessage(text)
		}
	}
	out.Content = append(out.Content, content{Type: "text", Text: text})
	for _, image := range r.Images {
		out.Content = append(out.Content, content{Type: "image", Data: image.Base64, MIMEType: image.MediaType})
	}
	return out
}

// unknown is the honest third outcome: it may or may not have happened, and only a person finds out. It names one task, by the id that the
// command takes which resolves it.
func (s *Server) unknown(made ofCall) toolResult {
	said := map[string]any{"outcome": "unknown", "call_id": string(made.ID)}
	resolve := fmt.Sprintf("%s call resolve %s", s.cfg.Command, made.key)
	if made.Task != nil {
		resolve = fmt.Sprintf("%s task resolve %s", s.cfg.Command, made.Task.ID)
		said["task_id"] = string(made.Task.ID)
	}
	said["resolve_command"] = resolve
	text, _ := json.Marshal(said) // texts only
	return toolResult{
		Content: []content{{Type: "text", Text: "The outcome of this call is unknown: it was interrupted while running, and may or may not have happened. " +
			"Do not repeat this call before it is resolved: until then the same call is not made again, and has this answer. A person looks, and says what happened: " + resolve}},
		Structured: text, IsError: true,
	}
}

// isFailure reports a result that the old wire calls failed.
func isFailure(fields json.RawMessage) bool {
	var r struct {
		IsError bool `json:"isError"`
	}
	return perdure.DecodeKnownJSON(fields, &r) == nil && r.IsError
}
