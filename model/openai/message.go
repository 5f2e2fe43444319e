package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/model"
)

// imagesMark introduces the images of a result, followed by the id of its call, because a tool
// message can only contain text.
const imagesMark = "Images of the result of call "

// The messages of the protocol, as far as they are used.
type (
	message struct {
		Role       string `json:"role"`
		Content    any    `json:"content,omitempty"` // a string or []part; nil: none
		ToolCalls  []call `json:"tool_calls,omitempty"`
		ToolCallID string `json:"tool_call_id,omitempty"`
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
	}
	calledFunc struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
)

// transcript converts the messages of a request. The protocol requires the results of a step
// directly after its calls, so messages that came in between wait until the results are complete.
type transcript struct {
	wire     []message
	open     int       // calls of the last agent message that have no result yet
	images   []part    // of the results of this step
	deferred []message // messages that came before the results were complete
}

func messagesOf(req model.Request) []message {
	var t transcript
	if req.System != "" {
		t.wire = append(t.wire, message{Role: "system", Content: req.System})
	}
	for _, m := range req.Messages {
		switch m.Role {
		case perdure.RoleAgent:
			t.settle()
			t.agent(m)
		case perdure.RoleToolResult:
			t.results(m)
		default:
			t.user(m)
		}
	}
	t.settle()
	return t.wire
}

// settle ends a step: it adds the images of the results and then the waiting messages.
func (t *transcript) settle() {
	if len(t.images) > 0 {
		t.wire = append(t.wire, message{Role: "user", Content: contentOf(t.images)})
	}
	t.wire = append(t.wire, t.deferred...)
	t.open, t.images, t.deferred = 0, nil, nil
}

// agent adds an answer of the model. An answer without text and calls, as an interrupt leaves it,
// is left out, because providers refuse it. Thinking is not sent.
func (t *transcript) agent(m perdure.Message) {
	answer := message{Role: "assistant"}
	if text := m.Text(); strings.TrimSpace(text) != "" {
		answer.Content = text
	}
	for _, c := range m.Calls() {
		arguments := cmp.Or(strings.TrimSpace(string(c.Arguments)), "{}")
		// Some servers parse the arguments and would refuse the transcript.
		if _, err := strictjson.Canonical([]byte(arguments)); err != nil {
			arguments = quotedArguments(arguments)
		}
		answer.ToolCalls = append(answer.ToolCalls, call{
			ID: string(c.ID), Type: "function", Function: calledFunc{Name: c.Name, Arguments: arguments},
		})
	}
	if answer.Content != nil || len(answer.ToolCalls) > 0 {
		t.wire = append(t.wire, answer)
	}
	t.open = len(answer.ToolCalls)
}

// quotedArguments wraps arguments that do not parse in an object.
func quotedArguments(text string) string {
	quoted, err := json.Marshal(map[string]string{"arguments": text})
	if err != nil {
		return "{}"
	}
	return string(quoted)
}

func (t *transcript) results(m perdure.Message) {
	for _, p := range m.Parts {
		if p.Result == nil {
			if p.Text != "" { // words for a picture that is not sent
				t.images = append(t.images, part{Type: "text", Text: p.Text})
			}
			continue
		}
		r := *p.Result
		t.wire = append(t.wire, message{Role: "tool", ToolCallID: string(r.CallID), Content: resultText(r)})
		if len(r.Images) > 0 {
			t.images = append(t.images, part{Type: "text", Text: imagesMark + string(r.CallID) + ":"})
		}
		for _, image := range r.Images {
			t.images = append(t.images, imagePart(image))
		}
		t.open--
	}
	if t.open <= 0 && len(t.deferred) > 0 {
		t.settle()
	}
}

// resultText returns the JSON of a result. A tool message must not be empty.
func resultText(r perdure.ToolResult) string {
	if len(r.Result) > 0 {
		return string(r.Result)
	}
	if r.Error == "" {
		return "null"
	}
	text, err := json.Marshal(map[string]string{"error": r.Error})
	if err != nil {
		return "null"
	}
	return string(text)
}

// contentOf returns the content of a message. Text alone is a plain string, which every server
// accepts.
func contentOf(parts []part) any {
	var texts []string
	for _, p := range parts {
		if p.ImageURL != nil {
			return parts
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// user adds a message of a user or the runtime.
func (t *transcript) user(m perdure.Message) {
	var parts []part
	for _, p := range m.Parts {
		switch {
		case p.Image != nil:
			parts = append(parts, imagePart(*p.Image))
		case p.Text != "":
			parts = append(parts, part{Type: "text", Text: p.Text})
		}
	}
	if len(parts) == 0 {
		return // providers refuse an empty message
	}
	if m.Role == perdure.RoleNotification {
		parts = append([]part{{Type: "text", Text: model.NotificationMark}}, parts...)
	}
	msg := message{Role: "user", Content: contentOf(parts)}
	if t.open > 0 || len(t.images) > 0 {
		t.deferred = append(t.deferred, msg)
		if t.open <= 0 {
			t.settle()
		}
		return
	}
	t.wire = append(t.wire, msg)
}

func imagePart(image perdure.Image) part {
	return part{Type: "image_url", ImageURL: &imageURL{URL: "data:" + image.MediaType + ";base64," + image.Base64}}
}
