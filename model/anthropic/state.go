package anthropic

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelhistory"
)

// thinkingField is the field of the state that holds the thinking blocks of an answer. The protocol
// has no such field: the blocks stand between the others.
const thinkingField = "thinking_blocks"

// placedBlock is a thinking block and its place in the answer.
type placedBlock struct {
	TextBefore  int             `json:"text_before,omitempty"`  // bytes of text in front of it
	CallsBefore int             `json:"calls_before,omitempty"` // calls in front of it
	Block       json.RawMessage `json:"block"`                  // as the provider sent it
}

// state returns what the provider wants back with the answer. An answer of the usual form, with one
// signed thinking block at its start, only needs the signature. Any other thinking is stored block
// by block, because a block is accepted only unchanged and in its place.
func (a *answer) state() (signature string, state *perdure.ProviderState) {
	state = &perdure.ProviderState{Family: a.family}
	if len(a.thinking) == 0 {
		return "", state
	}
	if only := a.thinking[0]; len(a.thinking) == 1 && only.first && only.isPlainThinking() {
		return valid(only.signature.String()), state
	}
	placed := make([]placedBlock, len(a.thinking))
	for i, b := range a.thinking {
		if b.kind == kindThinking && b.signature.Len() == 0 && strings.HasSuffix(a.family, " claude") {
			return "", state // the provider itself accepts no thinking without a signature
		}
		placed[i] = placedBlock{TextBefore: b.textBefore, CallsBefore: b.callsBefore, Block: b.whole()}
	}
	if text, err := json.Marshal(placed); err == nil {
		state.Fields = map[string]json.RawMessage{thinkingField: text}
	}
	return "", state
}

// isPlainThinking reports whether text and signature are all that a thinking block has.
func (b *block) isPlainThinking() bool {
	return b.kind == kindThinking && b.signature.Len() > 0 && b.thinking.Len() > 0 &&
		len(b.fieldsBut("type", "thinking", "signature")) == 0
}

// whole returns a thinking block as if it had arrived in one piece.
func (b *block) whole() json.RawMessage {
	if b.kind == kindRedacted {
		return json.RawMessage(b.start)
	}
	all := b.fieldsBut()
	set := func(name, text string) {
		if quoted, err := json.Marshal(text); err == nil {
			all[name] = quoted
		}
	}
	set("type", b.kind)
	set("thinking", b.thinking.String())
	if _, has := all["signature"]; has || b.signature.Len() > 0 {
		set("signature", valid(b.signature.String()))
	}
	text, err := json.Marshal(all)
	if err != nil {
		return json.RawMessage(b.start)
	}
	return text
}

// otherFields returns the fields of a call that the protocol does not have; nil: there are none.
// caller is left out, because the provider sends it and does not accept it everywhere.
func (b *block) otherFields() map[string]json.RawMessage {
	all := b.fieldsBut("type", "id", "name", "input", "caller")
	if len(all) == 0 {
		return nil
	}
	return all
}

// fieldsBut returns the fields of the start event with a value, without those of some names.
func (b *block) fieldsBut(names ...string) map[string]json.RawMessage {
	var start map[string]json.RawMessage
	all := map[string]json.RawMessage{}
	if perdure.DecodeKnownJSON([]byte(b.start), &start) != nil {
		return all
	}
	for name, value := range start {
		if !slices.Contains(names, name) && string(value) != "null" {
			all[name] = value
		}
	}
	return all
}

// placedThinking returns the thinking blocks of an answer for a request to the model with a name.
func placedThinking(a modelhistory.Answer, name string) []placedBlock {
	var placed []placedBlock
	if a.State != nil && perdure.DecodeKnownJSON(a.State.Fields[thinkingField], &placed) == nil && len(placed) > 0 {
		return placed
	}
	if a.Thinking == "" || a.Signature == "" || a.State == nil && foreignSignature(a.Model, name) {
		return nil
	}
	text, err := json.Marshal(sdk.NewThinkingBlock(a.Signature, a.Thinking))
	if err != nil {
		return nil
	}
	return []placedBlock{{Block: text}}
}

// foreignSignature reports whether a signature of an unknown family certainly comes from another
// provider, because this one would refuse it. Model names only tell that if a model of the provider
// itself is requested; a proxy may use any names.
func foreignSignature(answered, asked string) bool {
	return answered != "" && strings.HasPrefix(asked, "claude-") && !strings.HasPrefix(answered, "claude-")
}

// answerBlocks returns the blocks of an answer: text and calls, with the thinking in its place. No
// thinking stands at the end, because the provider refuses that.
func answerBlocks(a modelhistory.Answer, name string) []sdk.ContentBlockParamUnion {
	placed := placedThinking(a, name)
	if len(placed) == 0 {
		return plainBlocks(a.Texts, a.Calls)
	}
	var blocks []sdk.ContentBlockParamUnion
	text, calls := strings.Join(a.Texts, "\n"), a.Calls
	textDone, callsDone := 0, 0
	for _, p := range placed {
		at := min(max(p.TextBefore, textDone), len(text))
		for at > textDone && at < len(text) && !utf8.RuneStart(text[at]) {
			at--
		}
		n := min(max(p.CallsBefore, callsDone), len(calls))
		blocks = append(blocks, plainBlocks([]string{text[textDone:at]}, calls[callsDone:n])...)
		textDone, callsDone = at, n
		thinking := param.Override[sdk.ThinkingBlockParam](p.Block)
		blocks = append(blocks, sdk.ContentBlockParamUnion{OfThinking: &thinking})
	}
	blocks = append(blocks, plainBlocks([]string{text[textDone:]}, calls[callsDone:])...)
	for n := len(blocks); n > 0 && blocks[n-1].OfThinking != nil; n = len(blocks) {
		blocks = blocks[:n-1]
	}
	return blocks
}

// plainBlocks returns the blocks of texts and calls.
func plainBlocks(texts []string, calls []modelhistory.Call) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, text := range texts {
		blocks = append(blocks, textBlock(text)...)
	}
	for _, c := range calls {
		use := sdk.NewToolUseBlock(c.ID, c.Input, c.Name)
		if len(c.Fields) > 0 {
			more := map[string]any{}
			for name, value := range c.Fields {
				if !slices.Contains([]string{"type", "id", "name", "input"}, name) {
					more[name] = value
				}
			}
			use.OfToolUse.SetExtraFields(more)
		}
		blocks = append(blocks, use)
	}
	return blocks
}
