package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

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
	lossy    bool            // a piece of its arguments held what is no character, and the SDK has put another in its place
	initial  string          // arguments that came with the start; mostly {}
	input    strings.Builder // arguments that came in pieces
}

func newBlock(start sdk.ContentBlockStartEventContentBlockUnion, first bool) *block {
	b := &block{kind: start.Type, first: first, id: valid(start.ID), name: valid(start.Name)}
	b.signature.WriteString(start.Signature)
	if b.kind == kindToolUse {
		b.initial = start.JSON.Input.Raw()
	}
	return b
}

// again reports whether start is the start of this block, come twice.
func (b *block) again(start sdk.ContentBlockStartEventContentBlockUnion) bool {
	return start.Type == b.kind && valid(start.ID) == b.id && valid(start.Name) == b.name
}

// addInput adds a piece of a call's arguments. raw is how it stood in the event.
func (b *block) addInput(piece, raw string) {
	b.input.WriteString(piece)
	said := strings.Contains(raw, "\uFFFD") || strings.Contains(strings.ToLower(raw), `\ufffd`)
	b.lossy = b.lossy || strings.Contains(piece, "\uFFFD") && !said
}

// call returns the call of a block as it stands, nil where nobody can say what was called, and whether its arguments parse.
//
// An object is whole when it parses. Other arguments, and none at all, may be the beginning of more: an answer that
// reaches its length inside of a call closes the block like any other. whole says that the call is not of that sort.
func (b *block) call() (call *perdure.ToolCall, parses, whole bool) {
	input := strings.TrimSpace(b.input.String())
	raw := cmp.Or(input, strings.TrimSpace(b.initial))
	if raw == "" || raw == "null" {
		raw = "{}"
	}
	args := shown(raw)
	canonical, err := perdure.CanonicalJSON([]byte(args))
	parses = err == nil && json.Valid([]byte(args))
	if b.name == "" || b.lossy || parses && args != raw { // what was no text must not become good by being shown
		return nil, false, false
	}
	whole = parses && canonical[0] == '{' && (input != "" || string(canonical) != "{}")
	return &perdure.ToolCall{ID: perdure.CallID(b.id), Name: b.name, Arguments: json.RawMessage(args)}, parses, whole
}

// shown returns arguments as valid UTF-8, in which a byte that belongs to no character stands as \xff, which JSON does
// not know.
func shown(raw string) string {
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
