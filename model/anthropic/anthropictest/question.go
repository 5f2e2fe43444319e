package anthropictest

import (
	"bytes"
	"encoding/json"

	"github.com/perdure/perdure"
)

// apiRequest is a request of the API. Fields that are not checked are listed because unknown ones
// are refused.
type apiRequest struct {
	Model     string    `json:"model"`
	MaxTokens *int      `json:"max_tokens"`
	Messages  []message `json:"messages"`
	System    content   `json:"system"`
	Tools     []toolDef `json:"tools"`
	Thinking  *thinking `json:"thinking"`
	Stream    bool      `json:"stream"`

	CacheControl  *cacheControl   `json:"cache_control"`
	Metadata      json.RawMessage `json:"metadata"`
	ServiceTier   string          `json:"service_tier"`
	StopSequences []string        `json:"stop_sequences"`
	Temperature   *float64        `json:"temperature"`
	TopK          *int            `json:"top_k"`
	TopP          *float64        `json:"top_p"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// block is a content block of any type; the fields of other types stay zero.
type block struct {
	Type         string          `json:"type"`
	Text         *string         `json:"text"`
	Source       *source         `json:"source"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      content         `json:"content"`
	IsError      bool            `json:"is_error"`
	Thinking     string          `json:"thinking"`
	Signature    string          `json:"signature"`
	Data         string          `json:"data"`
	CacheControl *cacheControl   `json:"cache_control"`
}

func (b block) text() string {
	if b.Text == nil {
		return ""
	}
	return *b.Text
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

type toolDef struct {
	Type         string          `json:"type"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens"`
	Display      string `json:"display"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

// content is a list of blocks, or a string that stands for one text block.
type content []block

// UnmarshalJSON decodes both forms.
func (c *content) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte(`"`)) {
		var s string
		if err := perdure.DecodeJSON(text, &s); err != nil {
			return err
		}
		*c = content{{Type: "text", Text: &s}}
		return nil
	}
	var blocks []block
	if err := perdure.DecodeJSON(text, &blocks); err != nil {
		return err
	}
	*c = blocks
	return nil
}
