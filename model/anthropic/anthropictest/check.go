package anthropictest

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// Requirements of the provider.
const (
	minBudget     = 1024 // tokens of thinking
	maxCacheMarks = 4
	imageTypes    = "image/jpeg image/png image/gif image/webp"
)

var (
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

// check returns what the provider would refuse, in about its words, or nil.
func (q apiRequest) check() *fault {
	switch {
	case q.Model == "":
		return malformed("model: Field required")
	case q.MaxTokens == nil:
		return malformed("max_tokens: Field required")
	case *q.MaxTokens < 1:
		return malformed("max_tokens: must be greater than or equal to 1")
	case len(q.Messages) == 0:
		return malformed("messages: at least one message is required")
	case !q.Stream:
		return malformed("stream: this server only answers as a stream")
	case q.cacheMarks() > maxCacheMarks:
		return malformed("A maximum of %d blocks with cache_control may be provided. Found %d.", maxCacheMarks, q.cacheMarks())
	}
	for _, err := range []*fault{checkBlocks("system", q.System, "text"), q.checkTools(), q.checkTurns(), q.checkThinking()} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (q apiRequest) checkTools() *fault {
	seen := map[string]bool{}
	for i, t := range q.Tools {
		at := fmt.Sprintf("tools.%d.custom", i)
		var schema struct {
			Type string `json:"type"`
		}
		switch {
		case !toolName.MatchString(t.Name):
			return malformed("%s.name: String should match pattern '%s'", at, toolName)
		case seen[t.Name]:
			return malformed("tools: Tool names must be unique.")
		case len(t.InputSchema) == 0:
			return malformed("%s.input_schema: Field required", at)
		case perdure.DecodeKnownJSON(t.InputSchema, &schema) != nil || schema.Type != "object":
			return malformed("%s.input_schema.type: Input should be 'object'", at)
		}
		seen[t.Name] = true
	}
	return nil
}

// checkTurns checks each turn, and that the turns fit together.
func (q apiRequest) checkTurns() *fault {
	calls := map[string]bool{} // ids of all calls so far
	for i, m := range q.Messages {
		at := fmt.Sprintf("messages.%d", i)
		switch {
		case m.Role != "user" && m.Role != "assistant":
			return malformed("%s.role: Input should be 'user' or 'assistant'", at)
		case i == 0 && m.Role != "user":
			return malformed("%s: first message must use the \"user\" role", at)
		case i > 0 && m.Role == q.Messages[i-1].Role:
			return malformed("%s: roles must alternate between \"user\" and \"assistant\", but found multiple %q roles in a row", at, m.Role)
		case len(m.Content) == 0:
			return malformed("%s: all messages must have non-empty content", at)
		case i == len(q.Messages)-1 && m.Role == "assistant":
			return malformed("This model does not support assistant message prefill. The conversation must end with a user message.")
		}
		allowed := "text image tool_result"
		if m.Role == "assistant" {
			allowed = "text tool_use thinking redacted_thinking"
		}
		if err := checkBlocks(at+".content", m.Content, allowed); err != nil {
			return err
		}
		var before []block
		if i > 0 {
			before = q.Messages[i-1].Content
		}
		if err := checkCalls(at, m, before, calls); err != nil {
			return err
		}
	}
	return nil
}

// checkCalls checks that this turn starts with exactly the results of the previous turn's calls.
func checkCalls(at string, m message, before []block, calls map[string]bool) *fault {
	var asked, answered []string
	for _, b := range before {
		if b.Type == "tool_use" {
			asked = append(asked, b.ID)
		}
	}
	for i, b := range m.Content {
		switch b.Type {
		case "tool_use":
			if calls[b.ID] {
				return malformed("%s: `tool_use` ids must be unique", at)
			}
			calls[b.ID] = true
		case "tool_result":
			if !slices.Contains(asked, b.ToolUseID) {
				return malformed("%s.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, i, b.ToolUseID)
			}
			if slices.Contains(answered, b.ToolUseID) {
				return malformed("%s.content.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", at, i, b.ToolUseID)
			}
			if len(answered) == i { // after another block a result does not count
				answered = append(answered, b.ToolUseID)
			}
		}
	}
	for _, id := range asked {
		if !slices.Contains(answered, id) {
			return malformed("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", at, id)
		}
	}
	return nil
}

// checkThinking checks the requirements for requests with thinking.
func (q apiRequest) checkThinking() *fault {
	if q.Thinking == nil || q.Thinking.Type != "enabled" {
		return nil
	}
	if q.Thinking.BudgetTokens < minBudget {
		return malformed("thinking.enabled.budget_tokens: Input should be greater than or equal to %d", minBudget)
	}
	if q.Thinking.BudgetTokens >= *q.MaxTokens {
		return malformed("`max_tokens` must be greater than `thinking.budget_tokens`")
	}
	n := len(q.Messages)
	if n < 2 || q.Messages[n-1].Content[0].Type != "tool_result" {
		return nil
	}
	if first := q.Messages[n-2].Content[0].Type; !strings.HasSuffix(first, "thinking") {
		return malformed("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.", n-2, first)
	}
	return nil
}

// checkBlocks checks blocks one by one. allowed are the permitted types.
func checkBlocks(at string, blocks content, allowed string) *fault {
	for i, b := range blocks {
		if err := b.check(fmt.Sprintf("%s.%d", at, i), allowed); err != nil {
			return err
		}
	}
	if n := len(blocks); n > 0 && strings.HasSuffix(blocks[n-1].Type, "thinking") {
		return malformed("%s: The final block in an assistant message cannot be `thinking`.", at)
	}
	return nil
}

func (b block) check(at, allowed string) *fault {
	if !slices.Contains(strings.Fields(allowed), b.Type) {
		return malformed("%s: Input tag '%s' found using 'type' does not match any of the expected tags: %s", at, b.Type, allowed)
	}
	switch b.Type {
	case "text":
		if strings.TrimSpace(b.text()) == "" {
			return malformed("%s: text content blocks must contain non-whitespace text", at)
		}
	case "image":
		return b.checkImage(at)
	case "tool_use":
		switch {
		case !callID.MatchString(b.ID):
			return malformed("%s.tool_use.id: String should match pattern '%s'", at, callID)
		case !toolName.MatchString(b.Name):
			return malformed("%s.tool_use.name: String should match pattern '%s'", at, toolName)
		case !strings.HasPrefix(string(b.Input), "{"):
			return malformed("%s.tool_use.input: Input should be a valid dictionary", at)
		}
	case "tool_result":
		if !callID.MatchString(b.ToolUseID) {
			return malformed("%s.tool_result.tool_use_id: String should match pattern '%s'", at, callID)
		}
		if b.IsError && len(b.Content) == 0 {
			return malformed("%s.tool_result: content cannot be empty if `is_error` is true", at)
		}
		return checkBlocks(at+".tool_result.content", b.Content, "text image")
	case "thinking":
		if b.Signature == "" {
			return malformed("%s.thinking.signature: Field required", at)
		}
	}
	return nil
}

func (b block) checkImage(at string) *fault {
	if b.Source == nil || b.Source.Type != "base64" {
		return malformed("%s.image.source: this server takes base64 only", at)
	}
	if !slices.Contains(strings.Fields(imageTypes), b.Source.MediaType) {
		return malformed("%s.image.source.base64.media_type: Input should be one of %s", at, imageTypes)
	}
	if data, err := base64.StdEncoding.DecodeString(b.Source.Data); err != nil || len(data) == 0 {
		return malformed("%s.image.source.base64: invalid base64 data", at)
	}
	return nil
}

// cacheMarks counts the cache marks of the request.
func (q apiRequest) cacheMarks() int {
	n := 0
	count := func(c *cacheControl) {
		if c != nil {
			n++
		}
	}
	count(q.CacheControl)
	for _, t := range q.Tools {
		count(t.CacheControl)
	}
	for _, b := range q.System {
		count(b.CacheControl)
	}
	for _, m := range q.Messages {
		for _, b := range m.Content {
			count(b.CacheControl)
			for _, inner := range b.Content {
				count(inner.CacheControl)
			}
		}
	}
	return n
}
