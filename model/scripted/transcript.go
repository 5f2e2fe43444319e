package scripted

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// transcript is the part of a request that conditions and templates can use.
type transcript struct {
	messages []perdure.Message
	attempt  int // from 1
}

func transcriptOf(req model.Request) transcript {
	return transcript{messages: req.Messages, attempt: max(req.Attempt, 1)}
}

// last returns the last message; an empty transcript has a zero one.
func (t transcript) last() perdure.Message {
	if len(t.messages) == 0 {
		return perdure.Message{}
	}
	return t.messages[len(t.messages)-1]
}

// latest returns the text of the last message with a role.
func (t transcript) latest(role perdure.Role) string {
	for _, m := range slices.Backward(t.messages) {
		if m.Role == role {
			return textOf(m)
		}
	}
	return ""
}

func (t transcript) count(role perdure.Role) int {
	n := 0
	for _, m := range t.messages {
		if m.Role == role {
			n++
		}
	}
	return n
}

// turnStep counts the agent messages since the last user message or notification.
func (t transcript) turnStep() int {
	n := 0
	for _, m := range slices.Backward(t.messages) {
		switch m.Role {
		case perdure.RoleUser, perdure.RoleNotification:
			return n
		case perdure.RoleAgent:
			n++
		}
	}
	return n
}

func (t transcript) called(tool string) bool {
	return slices.ContainsFunc(t.messages, func(m perdure.Message) bool {
		return slices.ContainsFunc(m.Calls(), func(c perdure.ToolCall) bool { return c.Name == tool })
	})
}

// result returns the latest result of a tool; nil: there is none.
func (t transcript) result(tool string) json.RawMessage {
	isCall := map[perdure.CallID]bool{}
	var latest json.RawMessage
	for _, m := range t.messages {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				isCall[p.Call.ID] = p.Call.Name == tool
			case p.Result != nil && isCall[p.Result.CallID]:
				latest = p.Result.Result
			}
		}
	}
	return latest
}

// textOf returns the text of a message; for a tool result it is the JSON.
func textOf(m perdure.Message) string {
	var texts []string
	for _, p := range m.Parts {
		switch {
		case p.Type == perdure.PartText:
			texts = append(texts, p.Text)
		case p.Result != nil:
			texts = append(texts, string(p.Result.Result))
		}
	}
	return strings.Join(texts, "\n")
}
