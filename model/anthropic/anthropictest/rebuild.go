package anthropictest

import (
	"encoding/json"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// request returns the request for the model. What the API does not carry is lost: session, attempt,
// and the borders between consecutive messages of a user.
func (q apiRequest) request() model.Request {
	req := model.Request{Model: q.Model, System: textOf(q.System), MaxTokens: *q.MaxTokens, Attempt: 1}
	for _, t := range q.Tools {
		req.Tools = append(req.Tools, model.Tool{Name: t.Name, Description: t.Description, Parameters: t.InputSchema})
	}
	for _, m := range q.Messages {
		if m.Role == "assistant" {
			req.Messages = append(req.Messages, agentMessage(m.Content))
			continue
		}
		req.Messages = append(req.Messages, userMessages(m.Content)...)
	}
	return req
}

func agentMessage(blocks []block) perdure.Message {
	m := perdure.Message{Role: perdure.RoleAgent}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartText, Text: b.text()})
		case "thinking":
			m.Thinking, m.Signature = b.Thinking, b.Signature
		case "tool_use":
			m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartToolCall, Call: &perdure.ToolCall{ID: perdure.CallID(b.ID), Name: b.Name, Arguments: b.Input}})
		}
	}
	return m
}

// userMessages returns one message for each result and each notification; consecutive user blocks
// are one message.
func userMessages(blocks []block) []perdure.Message {
	var all []perdure.Message
	for _, b := range blocks {
		role, part := perdure.RoleUser, perdure.Part{Type: perdure.PartText, Text: b.text()}
		switch inner, ok := notification(b); {
		case b.Type == "tool_result":
			role, part = perdure.RoleToolResult, perdure.Part{Type: perdure.PartToolResult, Result: result(b)}
		case b.Type == "image":
			part = perdure.Part{Type: perdure.PartImage, Image: image(b)}
		case ok:
			role, part.Text = perdure.RoleNotification, inner
		}
		if n := len(all); n > 0 && role == perdure.RoleUser && all[n-1].Role == role {
			all[n-1].Parts = append(all[n-1].Parts, part)
			continue
		}
		all = append(all, perdure.Message{Role: role, Parts: []perdure.Part{part}})
	}
	return all
}

func notification(b block) (string, bool) {
	return strings.CutPrefix(b.text(), model.NotificationMark+"\n")
}

// result returns the result of a call. A text that is not JSON becomes a JSON string.
func result(b block) *perdure.ToolResult {
	r := &perdure.ToolResult{CallID: perdure.CallID(b.ToolUseID)}
	for _, inner := range b.Content {
		if inner.Type == "image" {
			r.Images = append(r.Images, *image(inner))
		}
	}
	text := textOf(b.Content)
	switch {
	case json.Valid([]byte(text)):
		r.Result = json.RawMessage(text)
	case text != "":
		quoted, err := json.Marshal(text)
		if err != nil {
			panic(err) // strings always encode
		}
		r.Result = quoted
	}
	if b.IsError {
		r.Error, r.ErrorKind = text, perdure.ErrorTool
	}
	return r
}

func image(b block) *perdure.Image {
	return &perdure.Image{Base64: b.Source.Data, MediaType: b.Source.MediaType}
}

// textOf joins the texts of blocks.
func textOf(blocks []block) string {
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.text())
		}
	}
	return strings.Join(texts, "\n")
}
