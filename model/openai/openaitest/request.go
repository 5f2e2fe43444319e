package openaitest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// Texts of the adapter that are not part of the conversation: the mark for images of results, which
// the protocol has no field for, and the answer between results and what the user says next.
const (
	imagesMark = "Images of the result of call "
	bridgeText = "I have read these results."
)

// The request of the protocol, as far as it is checked.
type (
	body struct {
		Model               string    `json:"model"`
		Messages            []message `json:"messages"`
		Tools               []tool    `json:"tools"`
		MaxTokens           *int      `json:"max_tokens"`
		MaxCompletionTokens *int      `json:"max_completion_tokens"`
		Stream              bool      `json:"stream"`
		StreamOptions       *struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	message struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCalls  []call          `json:"tool_calls"`
		ToolCallID string          `json:"tool_call_id"`
	}
	part struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	call struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	}
	tool struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
)

// requestError is the error text for a request, in the style of the provider.
type requestError string

func (r requestError) Error() string { return string(r) }

func refuse(format string, args ...any) error { return requestError(fmt.Sprintf(format, args...)) }

// checkedRequest is a checked request.
type checkedRequest struct {
	request   model.Request
	usage     bool // usage was requested
	openCalls []string
	lastRole  string // of the message before
}

// read checks a body and rebuilds the request.
func read(text []byte) (*checkedRequest, error) {
	var b body
	if err := perdure.DecodeKnownJSON(text, &b); err != nil {
		return nil, refuse("We could not parse the JSON body of your request: %v", err)
	}
	switch {
	case b.Model == "":
		return nil, refuse("you must provide a model parameter")
	case !b.Stream:
		return nil, refuse("this server only streams: set stream to true")
	case b.MaxTokens != nil && b.MaxCompletionTokens != nil:
		return nil, refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	case len(b.Messages) == 0:
		return nil, refuse("Invalid 'messages': empty array. Expected an array with minimum length 1.")
	}
	q := &checkedRequest{request: model.Request{Model: b.Model}, usage: b.StreamOptions != nil && b.StreamOptions.IncludeUsage}
	for _, limit := range []*int{b.MaxTokens, b.MaxCompletionTokens} {
		if limit != nil && *limit < 1 {
			return nil, refuse("Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got %d instead.", *limit)
		}
		if limit != nil {
			q.request.MaxTokens = *limit
		}
	}
	if err := q.tools(b.Tools); err != nil {
		return nil, err
	}
	for i, m := range b.Messages {
		if err := q.message(i, m); err != nil {
			return nil, err
		}
	}
	return q, q.checkComplete()
}

func (q *checkedRequest) tools(tools []tool) error {
	for i, t := range tools {
		var schema map[string]any
		switch {
		case t.Type != "function":
			return refuse("Invalid value: 'tools[%d].type'. Supported values are: 'function'.", i)
		case !goodName(t.Function.Name):
			return refuse("Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]{1,64}$'.", i)
		case perdure.DecodeKnownJSON(t.Function.Parameters, &schema) != nil || schema["type"] != "object":
			return refuse("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"'.", t.Function.Name)
		}
		q.request.Tools = append(q.request.Tools, model.Tool{
			Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters,
		})
	}
	return nil
}

func goodName(name string) bool { return regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`).MatchString(name) }

// message adds one message.
func (q *checkedRequest) message(i int, m message) error {
	if m.Role != "tool" {
		if err := q.checkComplete(); err != nil {
			return err
		}
	}
	if err := q.checkOrder(i, m); err != nil {
		return err
	}
	parts, err := partsOf(m.Content)
	if err != nil {
		return refuse("Invalid content in 'messages[%d]': %v", i, err)
	}
	if len(parts) == 0 && len(m.ToolCalls) == 0 {
		return refuse("Invalid 'messages[%d].content': it is empty, and a message of role %s needs content.", i, m.Role)
	}
	switch m.Role {
	case "system", "developer":
		q.request.System = textOf(parts)
		return nil
	case "user":
		return q.user(parts)
	case "assistant":
		return q.assistant(i, parts, m.ToolCalls)
	case "tool":
		return q.result(i, m.ToolCallID, textOf(parts))
	}
	return refuse("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'.", m.Role)
}

// checkOrder checks that roles alternate, as Mistral and the chat templates of many models demand,
// and that the content is not missing, as llama.cpp demands.
func (q *checkedRequest) checkOrder(i int, m message) error {
	last := q.lastRole
	q.lastRole = m.Role
	switch {
	case m.Content == nil:
		return refuse("Invalid 'messages[%d].content': Field required", i)
	case i > 0 && m.Role == "system":
		return refuse("messages[%d]: System message must be at the beginning.", i)
	case m.Role != "tool" && m.Role == last:
		return refuse("messages[%d]: conversation roles must alternate user/assistant/user/assistant/...", i)
	case m.Role == "user" && last == "tool":
		return refuse("messages[%d]: Unexpected role 'user' after role 'tool'", i)
	}
	return nil
}

// checkComplete returns an error if a call has no result yet.
func (q *checkedRequest) checkComplete() error {
	if len(q.openCalls) == 0 {
		return nil
	}
	return refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s",
		strings.Join(q.openCalls, ", "))
}

// partsOf decodes content: a text, or a list of texts and images. Empty texts are refused in a
// list.
func partsOf(content json.RawMessage) ([]perdure.Part, error) {
	var text string
	if len(content) == 0 || string(content) == "null" {
		return nil, nil
	}
	if perdure.DecodeKnownJSON(content, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []perdure.Part{{Type: perdure.PartText, Text: text}}, nil
	}
	var list []part
	if err := perdure.DecodeKnownJSON(content, &list); err != nil {
		return nil, refuse("expected a string or an array of parts")
	}
	var parts []perdure.Part
	for _, p := range list {
		media, isURL := strings.CutPrefix(p.ImageURL.URL, "data:")
		media, base64, isData := strings.Cut(media, ";base64,")
		switch {
		case p.Type == "text" && p.Text != "":
			parts = append(parts, perdure.Part{Type: perdure.PartText, Text: p.Text})
		case p.Type == "image_url" && isURL && isData && base64 != "":
			parts = append(parts, perdure.Part{Type: perdure.PartImage, Image: &perdure.Image{MediaType: media, Base64: base64}})
		default:
			return nil, refuse("a part of type %q is empty, or not one of text and image_url with a data: URL", p.Type)
		}
	}
	return parts, nil
}

func textOf(parts []perdure.Part) string { return perdure.Message{Parts: parts}.Text() }

// user adds a message of a user, notifications, and the images of results, which one message may
// contain in another order: the images, the user's content, the notifications.
func (q *checkedRequest) user(parts []perdure.Part) error {
	var said perdure.Message
	var notes []string
	var into *perdure.ToolResult
	for _, p := range parts {
		id, isMark := strings.CutPrefix(p.Text, imagesMark)
		switch {
		case isMark && strings.HasSuffix(id, ":"):
			if into = q.resultOf(strings.TrimSuffix(id, ":")); into == nil {
				return refuse("there are images for a result of call %q, but no such result", id)
			}
			continue
		case p.Image != nil && into != nil:
			into.Images = append(into.Images, *p.Image)
			continue
		case p.Image != nil:
			said.Parts = append(said.Parts, p)
			continue
		}
		into = nil
		texts := strings.Split("\n\n"+p.Text, "\n\n"+model.NotificationMark+"\n")
		if text := strings.TrimPrefix(texts[0], "\n\n"); text != "" {
			said.Parts = append(said.Parts, perdure.Part{Type: perdure.PartText, Text: text})
		}
		notes = append(notes, texts[1:]...)
	}
	if len(said.Parts) > 0 {
		said.Role = perdure.RoleUser
		q.request.Messages = append(q.request.Messages, said)
	}
	for _, note := range notes {
		m := perdure.Text(note)
		m.Role = perdure.RoleNotification
		q.request.Messages = append(q.request.Messages, m)
	}
	return nil
}

// resultOf returns the result of a call, or nil.
func (q *checkedRequest) resultOf(id string) *perdure.ToolResult {
	for _, m := range q.request.Messages {
		if r := m.Parts[0].Result; r != nil && string(r.CallID) == id {
			return r
		}
	}
	return nil
}

func (q *checkedRequest) assistant(i int, parts []perdure.Part, calls []call) error {
	if len(calls) == 0 && textOf(parts) == bridgeText {
		return nil
	}
	for n, c := range calls {
		at := fmt.Sprintf("messages[%d].tool_calls[%d]", i, n)
		switch {
		case c.ID == "" || len(c.ID) > 40:
			return refuse("Invalid '%s.id': expected a string with a length between 1 and 40.", at)
		case slices.Contains(q.openCalls, c.ID):
			return refuse("Invalid '%s.id': %s stands for two calls of one message.", at, c.ID)
		case c.Type != "function":
			return refuse("Invalid value: '%s.type'. Supported values are: 'function'.", at)
		case !goodName(c.Function.Name):
			return refuse("Invalid '%s.function.name': string does not match pattern.", at)
		case c.Function.Arguments == nil || !json.Valid([]byte(*c.Function.Arguments)) || !strings.HasPrefix(*c.Function.Arguments, "{"):
			return refuse("Invalid '%s.function.arguments': expected a string with a JSON object.", at)
		}
		q.openCalls = append(q.openCalls, c.ID)
		parts = append(parts, perdure.Part{Type: perdure.PartToolCall, Call: &perdure.ToolCall{
			ID: perdure.CallID(c.ID), Name: c.Function.Name, Arguments: json.RawMessage(*c.Function.Arguments),
		}})
	}
	q.request.Messages = append(q.request.Messages, perdure.Message{Role: perdure.RoleAgent, Parts: parts})
	return nil
}

func (q *checkedRequest) result(i int, id, text string) error {
	at := slices.Index(q.openCalls, id)
	if at < 0 {
		return refuse("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls' (messages[%d], tool_call_id %q).", i, id)
	}
	q.openCalls = slices.Delete(q.openCalls, at, at+1)
	result := json.RawMessage(text)
	if !json.Valid(result) {
		var err error
		if result, err = json.Marshal(text); err != nil {
			return err
		}
	}
	q.request.Messages = append(q.request.Messages, perdure.Message{Role: perdure.RoleToolResult, Parts: []perdure.Part{
		{Type: perdure.PartToolResult, Result: &perdure.ToolResult{CallID: perdure.CallID(id), Result: result}},
	}})
	return nil
}
