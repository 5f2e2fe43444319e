package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/perdure/perdure"
)

// The kinds of content blocks that are looked at. The others belong to the provider's own tools.
const (
	kindText     = "text"
	kindThinking = "thinking"
	kindRedacted = "redacted_thinking"
	kindToolUse  = "tool_use"
)

// block is one content block of an answer.
type block struct {
	kind      string
	first     bool // nothing stood before it
	closed    bool
	runes     runes // of text and thinking
	signature strings.Builder

	id, name string          // of a call
	initial  string          // arguments that came with the start; mostly {}
	input    strings.Builder // arguments that came in pieces
}

func newBlock(start sdk.ContentBlockStartEventContentBlockUnion, first bool) *block {
	b := &block{kind: start.Type, first: first, id: valid(start.ID), name: valid(start.Name)}
	b.signature.WriteString(start.Signature)
	if b.kind == kindToolUse {
		b.initial = valid(start.JSON.Input.Raw())
	}
	return b
}

// again reports whether start is the start of this block, come twice.
func (b *block) again(start sdk.ContentBlockStartEventContentBlockUnion) bool {
	return start.Type == b.kind && valid(start.ID) == b.id && valid(start.Name) == b.name
}

// call returns the call of a closed block, and nil where it has no name or its arguments do not parse (TN7).
//
// An object is whole when it parses. Other arguments, and none at all, may be the beginning of more: an answer that
// reaches its length inside of a call closes the block like any other. sure says that the call is not of that sort.
func (b *block) call() (call *perdure.ToolCall, sure bool) {
	input := strings.TrimSpace(valid(b.input.String()))
	args := cmp.Or(input, strings.TrimSpace(b.initial))
	canonical, err := perdure.CanonicalJSON([]byte(args))
	switch {
	case err != nil, args != "" && !json.Valid([]byte(args)), b.name == "":
		return nil, true
	case args == "", args == "null":
		args = "{}"
	}
	sure = canonical[0] == '{' && (input != "" || string(canonical) != "{}")
	return &perdure.ToolCall{ID: perdure.CallID(b.id), Name: b.name, Arguments: json.RawMessage(args)}, sure
}
