package openai

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelhistory"
	"github.com/perdure/perdure/model"
)

// imagesMark introduces the images of a result, followed by the id of its call, because a tool
// message can only contain text.
const imagesMark = "Images of the result of call "

// bridgeText stands between results and what the user says next. Mistral and the chat templates of
// several models refuse a user message directly after a tool message.
const bridgeText = "I have read these results."

// The messages of the protocol, as far as they are used.
type (
	message struct {
		Role       string `json:"role"`
		Content    any    `json:"content"` // a string or []part; nil: null
		ToolCalls  []call `json:"tool_calls,omitempty"`
		ToolCallID string `json:"tool_call_id,omitempty"`

		fields fields // what the provider wants back
	}
	part struct {
		Type     string    `json:"type"`
		Text     string    `json:"text,omitempty"`
		ImageURL *imageURL `json:"image_url,omitempty"`
	}
	imageURL struct {
		URL string `json:"url"`
	}
	call struct {
		ID       string     `json:"id"`
		Type     string     `json:"type"`
		Function calledFunc `json:"function"`

		fields fields
	}
	calledFunc struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`

		fields fields
	}
	fields map[string]json.RawMessage
)

// MarshalJSON adds the fields that the provider wants back.
func (m message) MarshalJSON() ([]byte, error) {
	type plain message
	return withFields(plain(m), m.fields)
}

// MarshalJSON adds the fields that the provider wants back.
func (c call) MarshalJSON() ([]byte, error) {
	type plain call
	return withFields(plain(c), c.fields)
}

// MarshalJSON adds the fields that the provider wants back.
func (f calledFunc) MarshalJSON() ([]byte, error) {
	type plain calledFunc
	return withFields(plain(f), f.fields)
}

// withFields encodes a struct with at least one field, followed by other fields.
func withFields(v any, more fields) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil || len(more) == 0 {
		return text, err
	}
	tail, err := json.Marshal(map[string]json.RawMessage(more))
	if err != nil {
		return nil, err
	}
	return append(append(text[:len(text)-1], ','), tail[1:]...), nil
}

// transcript writes the turns of a conversation as messages.
type transcript struct {
	server serverRules
	wire   []message
}

// messagesOf returns the messages of a request to a model of a family.
func messagesOf(req model.Request, family string, server serverRules) []message {
	t := transcript{server: server}
	if req.System != "" {
		t.wire = append(t.wire, message{Role: "system", Content: req.System})
	}
	rules := modelhistory.Rules{Family: family, OwnID: server.acceptsOwnID, OtherID: server.acceptsOtherID}
	for _, turn := range modelhistory.Turns(req.Messages, rules) {
		if turn.Agent {
			t.agent(turn)
		} else {
			t.user(turn)
		}
	}
	t.fillThinking()
	return t.wire
}

// agent adds the answers of a turn as one message.
func (t *transcript) agent(turn modelhistory.Turn) {
	m := message{Role: "assistant"}
	var texts []string
	for _, a := range turn.Answers {
		texts = append(texts, a.Texts...)
		for _, c := range a.Calls {
			m.ToolCalls = append(m.ToolCalls, t.call(c))
		}
		if a.State != nil {
			m.fields = t.state(a)
		}
	}
	isSigned := slices.ContainsFunc(m.ToolCalls, func(c call) bool { return c.fields[extraContent] != nil })
	if t.server.signedCalls && len(m.ToolCalls) > 0 && !isSigned {
		first := &m.ToolCalls[0]
		first.fields = withField(first.fields, extraContent, json.RawMessage(noSignature))
	}
	if len(texts) > 0 || len(m.ToolCalls) == 0 || !t.server.nullContent {
		m.Content = strings.Join(texts, "\n")
	}
	t.wire = append(t.wire, m)
}

// call returns a call with its fields. Those of its function stand in a field of their own.
func (t *transcript) call(c modelhistory.Call) call {
	made := call{ID: c.ID, Type: "function", Function: calledFunc{Name: c.Name, Arguments: string(c.Input)}}
	made.fields = t.server.accepted(c.Fields, callFields)
	var ofFunction fields
	if perdure.DecodeKnownJSON(c.Fields[functionField], &ofFunction) == nil {
		made.Function.fields = t.server.accepted(ofFunction, functionFields)
	}
	return made
}

// state returns the fields of an answer that its provider wants back.
func (t *transcript) state(a modelhistory.Answer) fields {
	all := maps.Clone(a.State.Fields)
	if all == nil {
		all = fields{}
	}
	thinking, err := json.Marshal(a.Thinking)
	if err == nil {
		for _, name := range a.State.ThinkingAs {
			all[name] = thinking
		}
	}
	return t.server.accepted(all, "role content tool_calls tool_call_id")
}

// noThinking is the thinking of a message that has none. Some versions of servers that demand the
// field refuse an empty text.
const noThinking = `" "`

// fillThinking adds the thinking that the server demands of each message of the agent. DeepSeek and
// Moonshot do so as soon as one answer had it, although a model does not think before each answer,
// and other models wrote some of them.
func (t *transcript) fillThinking() {
	demanded := t.server.demanded
	if slices.ContainsFunc(t.wire, func(m message) bool { return m.fields[reasoningContent] != nil }) {
		demanded = demanded.with(reasoningContent)
	}
	for i := range t.wire {
		m := &t.wire[i]
		if m.Role != "assistant" {
			continue
		}
		for _, name := range demanded.list() {
			if m.fields[name] == nil {
				m.fields = withField(m.fields, name, json.RawMessage(noThinking))
			}
		}
	}
}

// user adds the results of a turn, each as a message, and the rest as one message: the images of
// the results, then what the user says, and last the notifications. Nothing that a tool writes can
// end a notification, so no text of the user may stand after one.
func (t *transcript) user(turn modelhistory.Turn) {
	var images []part
	for _, r := range turn.Results {
		t.wire = append(t.wire, message{Role: "tool", ToolCallID: r.ID, Content: modelhistory.ResultText(r.ToolResult)})
		if len(r.Images) > 0 {
			images = append(images, part{Type: "text", Text: imagesMark + r.ID + ":"})
		}
		for _, image := range r.Images {
			images = append(images, imagePart(image))
		}
	}
	parts, plain := contentParts(turn.Content)
	parts = append(images, parts...)
	if len(parts) == 0 {
		return
	}
	if len(turn.Results) > 0 {
		t.wire = append(t.wire, message{Role: "assistant", Content: bridgeText})
	}
	m := message{Role: "user", Content: parts}
	if plain && len(images) == 0 { // every server accepts a plain string
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
		m.Content = strings.Join(texts, "\n\n")
	}
	t.wire = append(t.wire, m)
}

// contentParts returns the content of a turn, and whether it is text only.
func contentParts(content []modelhistory.Content) (parts []part, plain bool) {
	sorted := slices.Clone(content)
	slices.SortStableFunc(sorted, func(a, b modelhistory.Content) int { return rank(a) - rank(b) })
	plain = true
	for _, c := range sorted {
		if c.Image != nil {
			parts, plain = append(parts, imagePart(*c.Image)), false
			continue
		}
		parts = append(parts, part{Type: "text", Text: c.Text})
	}
	return parts, plain
}

func rank(c modelhistory.Content) int {
	if c.Notification {
		return 1
	}
	return 0
}

func imagePart(image perdure.Image) part {
	return part{Type: "image_url", ImageURL: &imageURL{URL: "data:" + image.MediaType + ";base64," + image.Base64}}
}
