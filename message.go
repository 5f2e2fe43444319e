package perdure

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// Role says who a message of the transcript comes from (O3).
type Role string

// The roles. A notification is given to the model as a user message with a marker.
const (
	RoleUser         Role = "user"
	RoleAgent        Role = "agent"
	RoleToolResult   Role = "tool_result"
	RoleNotification Role = "notification"
)

// Mode says what a message does to a turn that runs (DL10).
type Mode string

// The modes. The zero value is steer.
const (
	ModeSteer     Mode = "steer"     // enters the transcript at the next safe point
	ModeQueue     Mode = "queue"     // waits for the end of the turn and starts the next one
	ModeInterrupt Mode = "interrupt" // interrupts the turn, then starts the next one
	ModeReject    Mode = "reject"    // refused with Conflict while a turn runs
)

// Valid reports whether m is a mode; the zero value counts as steer.
func (m Mode) Valid() bool {
	return m == "" || m == ModeSteer || m == ModeQueue || m == ModeInterrupt || m == ModeReject
}

// PartType is the type of one content part (O4).
type PartType string

// The content parts.
const (
	PartText       PartType = "text"
	PartImage      PartType = "image"
	PartImageFile  PartType = "image_file"
	PartToolCall   PartType = "tool_call"
	PartToolResult PartType = "tool_result"
)

// Image is a picture in base64 with its media type.
type Image struct {
	Base64    string `json:"base64"`
	MediaType string `json:"media_type"`
}

// ImageFile names a picture that is kept with the session (IM1). A model is sent the picture itself; one that is not there any
// more is a text that says so.
type ImageFile struct {
	ID ImageID `json:"id"`
}

// ToolCall is one invocation that the model asked for.
type ToolCall struct {
	ID             CallID          `json:"id"`
	Name           string          `json:"name"`
	Arguments      json.RawMessage `json:"arguments"`                  // as the model wrote them
	ProviderCallID string          `json:"provider_call_id,omitempty"` // the provider's own id, when ours replaced it (N7)
}

// Part is one piece of a message's content; exactly the field that its type names is set.
type Part struct {
	Type      PartType    `json:"type"`
	Text      string      `json:"text,omitempty"`
	Image     *Image      `json:"image,omitempty"`
	ImageFile *ImageFile  `json:"image_file,omitempty"`
	Call      *ToolCall   `json:"tool_call,omitempty"`
	Result    *ToolResult `json:"tool_result,omitempty"`
	Untrusted bool        `json:"untrusted,omitempty"` // it came from outside, and nobody who may give orders wrote it (S3)
}

// Message is one entry of a transcript, or an input on its way there.
type Message struct {
	ID          MessageID         `json:"id,omitempty"`
	Role        Role              `json:"role"`
	Parts       []Part            `json:"parts"`
	Mode        Mode              `json:"mode,omitempty"`        // inputs only
	Model       string            `json:"model,omitempty"`       // the model asked for, or the one that answered
	Thinking    string            `json:"thinking,omitempty"`    // agent only, with its signature
	Signature   string            `json:"signature,omitempty"`   //
	Interrupted bool              `json:"interrupted,omitempty"` // agent only: the stream broke or was stopped
	Metadata    map[string]string `json:"metadata,omitempty"`
	At          time.Time         `json:"at,omitzero"`
}

// Text makes a user's message of one text part.
func Text(text string) Message {
	return Message{Role: RoleUser, Parts: []Part{{Type: PartText, Text: text}}}
}

// Untrusted reports whether a part of the message came from outside.
func (m Message) Untrusted() bool {
	return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Untrusted || p.Result != nil && p.Result.Untrusted })
}

// ReadUntrusted reports whether anything that came from outside stands before the model: also from turns before this one,
// since it reads them again with each step, and what was left out of the context may live on in its summary.
func (s *Session) ReadUntrusted() bool { return slices.ContainsFunc(s.Transcript, Message.Untrusted) }

// Text joins the text parts with newlines.
func (m Message) Text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == PartText {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Calls returns the tool calls of the message, in the model's order.
func (m Message) Calls() []ToolCall {
	var calls []ToolCall
	for _, p := range m.Parts {
		if p.Type == PartToolCall && p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return calls
}

// Usage counts tokens. Cost is the provider's business and is not guessed here; a zero count means none was reported.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	CachedTokens int64 `json:"cached_tokens,omitempty"`
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:  addTokens(u.InputTokens, v.InputTokens),
		OutputTokens: addTokens(u.OutputTokens, v.OutputTokens),
		CachedTokens: addTokens(u.CachedTokens, v.CachedTokens),
	}
}

// addTokens adds counts that a provider may say anything of: none is negative, and no sum goes round.
func addTokens(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
