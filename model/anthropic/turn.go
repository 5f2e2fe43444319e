package anthropic

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// What stands in for a user where the wire wants one and the transcript has none.
const (
	opening = "(The conversation begins here.)"
	goOn    = "Continue."
)

// turns makes turns of user and assistant that alternate, from and to a user's. name is the model that is asked.
func turns(transcript []perdure.Message, name string) []sdk.MessageParam {
	var all []sdk.MessageParam
	add := func(role sdk.MessageParamRole, blocks []sdk.ContentBlockParamUnion) {
		if len(blocks) == 0 {
			return
		}
		if n := len(all); n > 0 && all[n-1].Role == role {
			all[n-1].Content = append(all[n-1].Content, blocks...)
			return
		}
		all = append(all, sdk.MessageParam{Role: role, Content: blocks})
	}
	for _, m := range transcript {
		if m.Role == perdure.RoleAgent {
			blocks := agentBlocks(m, name)
			if len(blocks) > 0 && len(all) == 0 {
				add(sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion{sdk.NewTextBlock(opening)})
			}
			add(sdk.MessageParamRoleAssistant, blocks)
			continue
		}
		add(sdk.MessageParamRoleUser, userBlocks(m))
	}
	switch n := len(all); {
	case n == 0:
		add(sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion{sdk.NewTextBlock(opening)})
	case all[n-1].Role == sdk.MessageParamRoleAssistant:
		add(sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion{sdk.NewTextBlock(goOn)})
	}
	for _, turn := range all {
		resultsFirst(turn.Content)
	}
	return all
}

// resultsFirst puts the results of a step before what else came meanwhile, as the wire wants them.
func resultsFirst(blocks []sdk.ContentBlockParamUnion) {
	rank := func(b sdk.ContentBlockParamUnion) int {
		if b.OfToolResult != nil {
			return 0
		}
		return 1
	}
	if slices.ContainsFunc(blocks, func(b sdk.ContentBlockParamUnion) bool { return b.OfToolResult != nil }) {
		slices.SortStableFunc(blocks, func(a, b sdk.ContentBlockParamUnion) int { return rank(a) - rank(b) })
	}
}

// mayThink reports whether the provider takes these turns with thinking on: where the last turn brings results, the one
// that asked for them must begin with its thinking.
func mayThink(turns []sdk.MessageParam) bool {
	n := len(turns)
	if n < 2 || turns[n-1].Content[0].OfToolResult == nil {
		return true
	}
	return turns[n-2].Content[0].OfThinking != nil
}

// agentBlocks translates what the agent said; empty: nothing that can be sent.
func agentBlocks(m perdure.Message, name string) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, p := range m.Parts {
		switch {
		case p.Type == perdure.PartText:
			blocks = append(blocks, textBlock(p.Text)...)
		case p.Type == perdure.PartToolCall && p.Call != nil:
			blocks = append(blocks, sdk.NewToolUseBlock(wireID(p.Call.ID), inputOf(p.Call.Arguments), wireName(p.Call.Name)))
		}
	}
	if len(blocks) == 0 || m.Thinking == "" || m.Signature == "" || foreign(m.Model, name) {
		return blocks
	}
	return slices.Insert(blocks, 0, sdk.NewThinkingBlock(m.Signature, m.Thinking))
}

// foreign reports whether a signature is surely somebody else's: the provider refuses those. Names tell only where a
// model of the provider itself is asked; whoever stands in between may give any.
func foreign(answered, asked string) bool {
	return answered != "" && strings.HasPrefix(asked, "claude-") && !strings.HasPrefix(answered, "claude-")
}

// userBlocks translates what a person, a tool or the runtime said.
func userBlocks(m perdure.Message) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, p := range m.Parts {
		switch {
		case p.Type == perdure.PartToolResult && p.Result != nil:
			blocks = append(blocks, sdk.ContentBlockParamUnion{OfToolResult: resultBlock(*p.Result)})
		case p.Type == perdure.PartImage && p.Image != nil:
			image, text := imageBlock(*p.Image)
			blocks = append(blocks, sdk.ContentBlockParamUnion{OfImage: image, OfText: text})
		case p.Type == perdure.PartText && m.Role == perdure.RoleNotification && strings.TrimSpace(p.Text) != "":
			blocks = append(blocks, textBlock(model.NotificationMark+"\n"+p.Text)...)
		case p.Type == perdure.PartText:
			blocks = append(blocks, textBlock(p.Text)...)
		}
	}
	return blocks
}

// textBlock makes a block of a text that is not blank; the provider refuses those that are.
func textBlock(text string) []sdk.ContentBlockParamUnion {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return []sdk.ContentBlockParamUnion{sdk.NewTextBlock(valid(text))}
}

// resultBlock translates the result of a call. Its text is the result's JSON as it stands.
func resultBlock(r perdure.ToolResult) *sdk.ToolResultBlockParam {
	own := &sdk.ToolResultBlockParam{ToolUseID: wireID(r.CallID)}
	if r.IsError() {
		own.IsError = param.NewOpt(true)
	}
	// An error needs words.
	text := cmp.Or(strings.TrimSpace(valid(string(r.Result))), strings.TrimSpace(valid(r.Error)), string(r.ErrorKind))
	if text != "" {
		own.Content = append(own.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: text}})
	}
	for _, i := range r.Images {
		image, text := imageBlock(i)
		own.Content = append(own.Content, sdk.ToolResultBlockParamContentUnion{OfImage: image, OfText: text})
	}
	return own
}

// imageBlock returns one of the two: a picture, or a text where the provider takes no picture of that kind.
func imageBlock(i perdure.Image) (*sdk.ImageBlockParam, *sdk.TextBlockParam) {
	switch kind := sdk.Base64ImageSourceMediaType(i.MediaType); kind {
	case sdk.Base64ImageSourceMediaTypeImageJPEG, sdk.Base64ImageSourceMediaTypeImagePNG,
		sdk.Base64ImageSourceMediaTypeImageGIF, sdk.Base64ImageSourceMediaTypeImageWebP:
		return &sdk.ImageBlockParam{Source: sdk.ImageBlockParamSourceUnion{
			OfBase64: &sdk.Base64ImageSourceParam{Data: i.Base64, MediaType: kind},
		}}, nil
	}
	return nil, &sdk.TextBlockParam{Text: "(A picture of type " + valid(i.MediaType) + " stood here. Only JPEG, PNG, GIF and WebP can be shown.)"}
}

// inputOf returns arguments as the object that the wire wants. What is no object was refused before it ran, and is
// shown inside of one.
func inputOf(args json.RawMessage) json.RawMessage {
	if _, err := perdure.CanonicalJSON(args); err != nil {
		quoted, _ := json.Marshal(string(args)) // a string always encodes
		return json.RawMessage(`{"arguments":` + string(quoted) + `}`)
	}
	switch {
	case isObject(args):
		return args
	case len(args) > 0 && json.Valid(args):
		return json.RawMessage(`{"arguments":` + string(args) + `}`)
	}
	return json.RawMessage("{}")
}

var wirePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]+$`) })

// wireID returns the id under which a call is sent: its own, or always the same other one where the wire does not take it.
func wireID(id perdure.CallID) string {
	if wirePattern().MatchString(string(id)) {
		return string(id)
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

const maxWireName = 128

// wireName returns the name of a tool that was called; it may be one that no tool has.
func wireName(name string) string {
	own := strings.Map(func(r rune) rune {
		if wirePattern().MatchString(string(r)) {
			return r
		}
		return '_'
	}, name)
	if own == "" {
		return "_"
	}
	return own[:min(len(own), maxWireName)]
}
