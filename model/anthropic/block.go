package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
)

// The kinds of content blocks that are used. Other kinds belong to the provider's own tools.
const (
	kindText     = "text"
	kindThinking = "thinking"
	kindRedacted = "redacted_thinking"
	kindToolUse  = "tool_use"
)

// block is one content block of an answer.
type block struct {
	kind      string
	first     bool // it is the first block of the answer
	closed    bool
	runes     charBuffer // of text and thinking
	thinking  strings.Builder
	signature strings.Builder

	start       string // the JSON of its start event
	textBefore  int    // bytes of the answer's text in front of it
	callsBefore int    // calls in front of it

	id, name      string          // of a call
	hasBrokenChar bool            // a piece of its arguments had a broken character, which the SDK replaced
	initial       string          // arguments in the start event; usually {}
	input         strings.Builder // arguments in later pieces
}

func newBlock(start sdk.ContentBlockStartEventContentBlockUnion, first bool) *block {
	b := &block{kind: start.Type, first: first, start: start.RawJSON(), id: valid(start.ID), name: valid(start.Name)}
	b.signature.WriteString(start.Signature)
	if b.kind == kindToolUse {
		b.initial = start.JSON.Input.Raw()
	}
	return b
}

// isRepeatedStart reports whether start repeats the start of this block.
func (b *block) isRepeatedStart(start sdk.ContentBlockStartEventContentBlockUnion) bool {
	return start.Type == b.kind && valid(start.ID) == b.id && valid(start.Name) == b.name
}

// addInput adds a piece of a call's arguments. raw is its encoding in the event.
func (b *block) addInput(piece, raw string) {
	b.input.WriteString(piece)
	intended := strings.Contains(raw, "\uFFFD") || strings.Contains(strings.ToLower(raw), `\ufffd`)
	b.hasBrokenChar = b.hasBrokenChar || strings.Contains(piece, "\uFFFD") && !intended
}

// call returns the call of a block and whether its arguments parse. call is nil if it cannot be
// said what was called.
//
// whole says whether the arguments are certainly complete. A nonempty object is complete if it
// parses. Other arguments, or none at all, may be the beginning of more, because an answer that
// reaches its length limit inside a call closes the block as usual.
func (b *block) call() (call *perdure.ToolCall, parses, whole bool) {
	input := strings.TrimSpace(b.input.String())
	raw := cmp.Or(input, strings.TrimSpace(b.initial))
	if raw == "" || raw == "null" {
		raw = "{}"
	}
	args := escapeBroken(raw)
	canonical, err := strictjson.Canonical([]byte(args))
	parses = err == nil && json.Valid([]byte(args))
	// A replacement must not turn broken text into valid arguments.
	if b.name == "" || b.hasBrokenChar || parses && args != raw {
		return nil, false, false
	}
	whole = parses && canonical[0] == '{' && (input != "" || string(canonical) != "{}")
	return &perdure.ToolCall{
		ID: perdure.CallID(b.id), Name: b.name, Arguments: json.RawMessage(args), ProviderFields: b.otherFields(),
	}, parses, whole
}

// escapeBroken returns arguments as valid UTF-8. A byte that belongs to no character becomes \xff,
// which is not valid JSON.
func escapeBroken(raw string) string {
	if utf8.ValidString(raw) {
		return raw
	}
	var out strings.Builder
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRuneInString(raw[i:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&out, `\x%02x`, raw[i])
		} else {
			out.WriteString(raw[i : i+size])
		}
		i += size
	}
	return out.String()
}
