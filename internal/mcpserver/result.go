package mcpserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// content is a content block of a result.
type content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Data     string `json:"data,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
}

// toolResult is a tools/call result made by this server.
type toolResult struct {
	Content    []content       `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
}

// resultOf returns the result of a finished call, as the fields of an MCP result.
func (s *Server) resultOf(x exposed, made trackedCall) (json.RawMessage, error) {
	r := made.Result
	switch {
	case r.ErrorKind == perdure.ErrorUnknown || made.Task != nil && made.Task.State == perdure.TaskUnknown:
		return json.Marshal(s.unknownResult(made))
	case r.IsError():
		return json.Marshal(toolResult{Content: append([]content{{Type: "text", Text: r.Error}}, images(*r)...), IsError: true})
	case r.ConnectionRequired != "":
		return json.Marshal(toolResult{Content: []content{{Type: "text", Text: "This tool needs a connection that is not set up: " + r.ConnectionRequired}}, IsError: true})
	case x.Verbatim:
		if cut, ok := parseTruncated(r.Result); ok {
			return json.Marshal(s.truncatedResult(made, cut))
		}
		return r.Result, nil
	}
	return json.Marshal(plainResult(*r))
}

// cutResult is the stored replacement of a result that exceeds the size limit.
type cutResult struct {
	Truncated bool            `json:"truncated"`
	Bytes     int             `json:"bytes"` // of the full result
	Head      string          `json:"head"`
	Path      string          `json:"path"`    // file with the stored beginning; empty: not stored
	Content   json.RawMessage `json:"content"` // set only in a complete MCP result
}

// parseTruncated parses a result that was truncated; ok is false for a complete one.
func parseTruncated(result json.RawMessage) (cut cutResult, ok bool) {
	ok = perdure.DecodeKnownJSON(result, &cut) == nil && cut.Truncated && cut.Bytes > 0 && cut.Content == nil
	return cut, ok
}

// truncatedResult returns the result of a call whose own result was truncated. It is marked as an
// error, because a partial result may violate the tool's output schema, and strict clients would
// reject it.
func (s *Server) truncatedResult(made trackedCall, cut cutResult) toolResult {
	where := "The full result was not stored."
	if cut.Path != "" {
		where = fmt.Sprintf("To see the stored beginning, run: %s file cat %s %s", s.cfg.Command, made.key.Session, cut.Path)
	}
	return toolResult{IsError: true, Content: []content{
		{Type: "text", Text: fmt.Sprintf("The call succeeded, but its result of %d bytes is too long. Do not repeat it; ask for less. %s", cut.Bytes, where)},
		{Type: "text", Text: cut.Head},
	}}
}

// plainResult converts a tool's own result: its value as text, an object also as structured
// content, then its images.
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
	out.Content = append(append(out.Content, content{Type: "text", Text: text}), images(r)...)
	return out
}

// imageUnavailable stands for an image that no longer exists.
const imageUnavailable = "[image unavailable]"

// withImages returns a call with the bytes of the images in its result, which are stored with the
// session.
func (s *Server) withImages(ctx context.Context, made trackedCall) (trackedCall, error) {
	if made.Result == nil || len(made.Result.Images) == 0 {
		return made, nil
	}
	result := *made.Result
	result.Images = slices.Clone(result.Images)
	for i, image := range result.Images {
		if image.ID == "" {
			continue
		}
		found, err := s.cfg.Engine.Images().Get(ctx, made.key.Session, image.ID, true)
		switch {
		case errors.Is(err, perdure.NotFound):
			result.Images[i] = perdure.Image{}
		case err != nil:
			return made, err
		default:
			result.Images[i] = perdure.Image{MediaType: found.ContentType, Base64: base64.StdEncoding.EncodeToString(found.Content)}
		}
	}
	made.Result = &result
	return made, nil
}

// images returns the images of a result.
func images(r perdure.ToolResult) (blocks []content) {
	for _, image := range r.Images {
		if image.Base64 == "" {
			blocks = append(blocks, content{Type: "text", Text: imageUnavailable})
			continue
		}
		blocks = append(blocks, content{Type: "image", Data: image.Base64, MIMEType: image.MediaType})
	}
	return blocks
}

// unknownResult returns the result of a call with an unknown outcome: its effect may or may not
// have happened, and only a person can find out. The result names the task by the id that the
// resolve command accepts.
func (s *Server) unknownResult(made trackedCall) toolResult {
	fields := map[string]any{"outcome": "unknown", "call_id": string(made.ID)}
	resolve := fmt.Sprintf("%s call resolve %s", s.cfg.Command, made.key)
	if made.Task != nil {
		resolve = fmt.Sprintf("%s task resolve %s", s.cfg.Command, made.Task.ID)
		fields["task_id"] = string(made.Task.ID)
	}
	fields["resolve_command"] = resolve
	text, _ := json.Marshal(fields) // strings always encode
	return toolResult{
		Content: []content{{Type: "text", Text: "The outcome of this call is unknown: it was interrupted while running, and may or may not have happened. " +
			"Do not repeat it: until it is resolved, the same call is not made again and returns this answer. A person must find out what happened and then run: " + resolve}},
		Structured: text, IsError: true,
	}
}

// isFailure reports whether 2025-11-25 calls a result failed.
func isFailure(fields json.RawMessage) bool {
	var r struct {
		IsError bool `json:"isError"`
	}
	return perdure.DecodeKnownJSON(fields, &r) == nil && r.IsError
}
