package perdure

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Role says where a message of the transcript comes from.
type Role string

// The roles. The model receives a notification as a user message with a marker.
const (
	RoleUser         Role = "user"
	RoleAgent        Role = "agent"
	RoleToolResult   Role = "tool_result"
	RoleNotification Role = "notification"
)

// Mode says what a message does to a running turn.
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

// PartType is the type of a content part.
type PartType string

// The content parts.
const (
	PartText       PartType = "text"
	PartImage      PartType = "image"
	PartImageFile  PartType = "image_file"
	PartToolCall   PartType = "tool_call"
	PartToolResult PartType = "tool_result"
)

// Image is an image in base64 with its media type or, in the result of a tool, a reference to an
// image that is stored with the session.
type Image struct {
	ID        ImageID `json:"id,omitempty"`     // of the stored image; empty: the image is in Base64
	Base64    string  `json:"base64,omitempty"` // empty for a stored image
	MediaType string  `json:"media_type"`
}

// imageBytes is the assumed size of a stored image where the size of a context is estimated: about
// what providers count for one.
const imageBytes = 6000

// contextBytes is the size of the image for an estimate.
func (i Image) contextBytes() int {
	if i.ID != "" {
		return imageBytes
	}
	return len(i.Base64)
}

// ImageFile refers to an image that is stored with the session. The model receives the image
// itself, or a text if the image no longer exists.
type ImageFile struct {
	ID ImageID `json:"id"`
}

// ToolCall is a call that the model asked for.
type ToolCall struct {
	ID             CallID          `json:"id"`
	Name           string          `json:"name"`
	Arguments      json.RawMessage `json:"arguments"`                  // as the model wrote them
	ProviderCallID string          `json:"provider_call_id,omitempty"` // the provider's id, if the runtime replaced it
	// ProviderFields are fields of the call that belong to the ProviderState of its message.
	ProviderFields map[string]json.RawMessage `json:"provider_fields,omitempty"`
}

// ProviderState is what a provider wants back with an answer that it gave, such as the signature of
// hidden thinking. The runtime stores the fields unread and unchanged. Only a request to the same
// family contains them, because another provider would refuse them.
type ProviderState struct {
	Family string `json:"family"` // protocol, server and kind of model
	// ThinkingAs names the fields that return the Thinking of the message.
	ThinkingAs []string                   `json:"thinking_as,omitempty"`
	Fields     map[string]json.RawMessage `json:"fields,omitempty"` // other fields of the answer
}

// Part is a piece of a message's content. Exactly the field that Type names is set.
type Part struct {
	Type      PartType    `json:"type"`
	Text      string      `json:"text,omitempty"`
	Image     *Image      `json:"image,omitempty"`
	ImageFile *ImageFile  `json:"image_file,omitempty"`
	Call      *ToolCall   `json:"tool_call,omitempty"`
	Result    *ToolResult `json:"tool_result,omitempty"`
	Untrusted bool        `json:"untrusted,omitempty"` // from outside; no authority over the agent wrote it
}

// Message is an entry of the transcript, or an input that waits to enter it.
type Message struct {
	ID          MessageID      `json:"id,omitempty"`
	Role        Role           `json:"role"`
	Parts       []Part         `json:"parts"`
	Mode        Mode           `json:"mode,omitempty"`     // inputs only
	Model       string         `json:"model,omitempty"`    // the model asked for, or the one that answered
	Thinking    string         `json:"thinking,omitempty"` // agent only, with its signature
	Signature   string         `json:"signature,omitempty"`
	State       *ProviderState `json:"provider_state,omitempty"` // agent only; nil: the provider is not known
	Interrupted bool           `json:"interrupted,omitempty"`    // agent only: the stream broke or was stopped
	// Metadata is for the host: tools, hooks and routing see it, the model does not. Inputs only.
	Metadata map[string]string `json:"metadata,omitempty"`
	At       time.Time         `json:"at,omitzero"`
}

// Text returns a user message with one text part.
func Text(text string) Message {
	return Message{Role: RoleUser, Parts: []Part{{Type: PartText, Text: text}}}
}

// WithKey returns the message with an id that follows from a key of the sender, which is any text.
// A session receives only one message of a key: sending it again, also from another process,
// changes nothing. Another content under the same key is Conflict.
func (m Message) WithKey(key string) Message {
	m.ID = IDForKey[MessageID](key)
	return m
}

// MessageError says what is wrong with a message that a user sends. It is Invalid.
type MessageError struct {
	Field string // path of JSON names, separated by slashes, such as parts/0/image/base64
	Text  string // what is wrong with it and what to do
}

// Error names the field and says what to do.
func (e *MessageError) Error() string {
	return string(Invalid) + " message: " + e.Field + ": " + e.Text
}

// Unwrap returns Invalid.
func (e *MessageError) Unwrap() error { return Invalid }

// CheckInput returns a *[MessageError] if a user may not send the message (O4). Every way into a
// session calls it, itself or through its engine, so that a message is refused everywhere for the
// same reason. The length is not checked, because only the HTTP API limits it, with its bodies.
func (m Message) CheckInput() error {
	_, idErr := ParseID[MessageID](string(m.ID))
	switch {
	case m.ID != "" && idErr != nil:
		return wrongMessage("id", "%.80q is not the id of a message: use message_ and 32 lower-case "+
			"hexadecimal digits, or leave it out", m.ID)
	case m.Role != "" && m.Role != RoleUser:
		return wrongMessage("role", "%.40q cannot be sent: use user, or leave it out", m.Role)
	case !m.Mode.Valid():
		return wrongMessage("mode", "%.40q is not a mode: use steer, queue, interrupt or reject", m.Mode)
	case m.Thinking != "" || m.Signature != "" || m.State != nil || m.Interrupted:
		return wrongMessage("thinking", "only an answer of a model has it: leave out thinking, signature, "+
			"provider_state and interrupted")
	case MetadataBytes(m.Metadata) > MaxMessageMetadataBytes:
		return wrongMessage("metadata", "keys and values have %d bytes, but at most %d are allowed: put what is "+
			"large into a part or a file", MetadataBytes(m.Metadata), MaxMessageMetadataBytes)
	case len(m.Parts) == 0:
		return wrongMessage("parts", "the message is empty: give at least one part")
	}
	for i, part := range m.Parts {
		if err := part.checkInput(fmt.Sprintf("parts/%d", i)); err != nil {
			return err
		}
	}
	return nil
}

// MaxMessageMetadataBytes is the size of all keys and values of a message's metadata.
const MaxMessageMetadataBytes = 16 << 10

// MetadataBytes returns the size of all keys and values.
func MetadataBytes(metadata map[string]string) (n int) {
	for key, value := range metadata {
		n += len(key) + len(value)
	}
	return n
}

// checkInput checks one part of a message that a user sends. at is the path of the part.
func (p Part) checkInput(at string) error {
	own := Part{Type: p.Type, Untrusted: p.Untrusted} // p without the content of another type
	switch p.Type {
	case PartText:
		own.Text = p.Text
	case PartImage:
		own.Image = p.Image
	case PartImageFile:
		own.ImageFile = p.ImageFile
	default:
		return wrongMessage(at+"/type", "%.40q cannot be sent: use text, image or image_file", p.Type)
	}
	if own != p || own.Text == "" && own.Image == nil && own.ImageFile == nil {
		return wrongMessage(at, "a part of type %[1]s must have a non-empty %[1]s and no other content: "+
			"correct the content or the type", p.Type)
	}
	switch p.Type {
	case PartImage:
		return p.Image.checkInput(at + "/image")
	case PartImageFile:
		if _, err := ParseID[ImageID](string(p.ImageFile.ID)); err != nil {
			return wrongMessage(at+"/image_file/id", "%.80q is not the id of an image: use image_ and 32 "+
				"lower-case hexadecimal digits", p.ImageFile.ID)
		}
	}
	return nil
}

// checkInput checks an image that a user sends. at is its path.
func (i *Image) checkInput(at string) error {
	if i.ID != "" {
		return wrongMessage(at+"/id", "a part of type image has its bytes in base64: to name a stored image, use a part of type image_file")
	}
	if _, err := base64.StdEncoding.DecodeString(i.Base64); err != nil || i.Base64 == "" {
		return wrongMessage(at+"/base64", "it is empty or not base64: give the bytes of the image in base64")
	}
	if !strings.HasPrefix(i.MediaType, "image/") {
		return wrongMessage(at+"/media_type", "%.80q is not the type of an image: use one such as image/png", i.MediaType)
	}
	return nil
}

func wrongMessage(field, format string, args ...any) error {
	return &MessageError{Field: field, Text: fmt.Sprintf(format, args...)}
}

// Untrusted reports whether a part of the message came from outside.
func (m Message) Untrusted() bool {
	return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Untrusted || p.Result != nil && p.Result.Untrusted })
}

// ReadUntrusted reports whether the context contains anything that came from outside. Earlier turns
// count, because the model reads them again with every step, and so do messages that were left out,
// because their content may persist in the summary.
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

// Usage counts tokens. It contains no cost. A zero count means that the provider reported none.
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

// addTokens adds counts of a provider, which may be wrong: negative counts are 0, and the sum does
// not overflow.
func addTokens(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
