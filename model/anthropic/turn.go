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
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/model"
)

// Texts for a user's turn that the API requires and the transcript does not have.
const (
	openingText  = "(The conversation begins here.)"
	continueText = "Continue."
)

// turns makes alternating turns of user and assistant; the first and the last are the user's. name
// is the requested model.
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
				add(sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion{sdk.NewTextBlock(openingText)})
			}
			add(sdk.MessageParamRoleAssistant, blocks)
			continue
		}
		add(sdk.MessageParamRoleUser, userBlocks(m))
	}
	switch n := len(all); {
	case n == 0:
		add(sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion{sdk.NewTextBlock(openingText)})
	case all[n-1].Role == sdk.MessageParamRoleAssistant:
		add(sdk.MessageParamRoleUser, []sdk.ContentBlockParamUnion{sdk.NewTextBlock(continueText)})
	}
	for _, turn := range all {
		resultsFirst(turn.Content)
	}
	return all
}

// resultsFirst moves the results of a step before other blocks, as the API requires.
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

// mayThink reports whether the provider accepts these turns with thinking enabled. If the last turn
// has results, the turn with their calls must start with its thinking.
func mayThink(turns []sdk.MessageParam) bool {
	n := len(turns)
	if n < 2 || turns[n-1].Content[0].OfToolResult == nil {
		return true
	}
	return turns[n-2].Content[0].OfThinking != nil
}

// agentBlocks translates an agent message; empty: it has nothing to send.
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
	if len(blocks) == 0 || m.Thinking == "" || m.Signature == "" || foreignSignature(m.Model, name) {
		return blocks
	}
	return slices.Insert(blocks, 0, sdk.NewThinkingBlock(m.Signature, m.Thinking))
}

// foreignSignature reports whether a signature certainly comes from another provider, because this
// one would refuse it. Model names only tell that if a model of the provider itself is requested; a
// proxy may use any names.
func foreignSignature(answered, asked string) bool {
	return answered != "" && strings.HasPrefix(asked, "claude-") && !strings.HasPrefix(answered, "claude-")
}

// userBlocks translates a message of a user, a tool or the runtime.
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

// textBlock makes a block from a text that is not blank. The provider refuses blank texts.
func textBlock(text string) []sdk.ContentBlockParamUnion {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return []sdk.ContentBlockParamUnion{sdk.NewTextBlock(valid(text))}
}

// resultBlock translates the result of a call. Its text is the JSON of the result.
func resultBlock(r perdure.ToolResult) *sdk.ToolResultBlockParam {
	own := &sdk.ToolResultBlockParam{ToolUseID: wireID(r.CallID)}
	if r.IsError() && len(r.Images) == 0 { // the API allows only text in an error; the text says that it is one
		own.IsError = param.NewOpt(true)
	}
	// An error must have a text.
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

// imageBlock returns an image, or a text if the provider does not accept its type.
func imageBlock(i perdure.Image) (*sdk.ImageBlockParam, *sdk.TextBlockParam) {
	switch kind := sdk.Base64ImageSourceMediaType(i.MediaType); kind {
	case sdk.Base64ImageSourceMediaTypeImageJPEG, sdk.Base64ImageSourceMediaTypeImagePNG,
		sdk.Base64ImageSourceMediaTypeImageGIF, sdk.Base64ImageSourceMediaTypeImageWebP:
		return &sdk.ImageBlockParam{Source: sdk.ImageBlockParamSourceUnion{
			OfBase64: &sdk.Base64ImageSourceParam{Data: i.Base64, MediaType: kind},
		}}, nil
	}
	return nil, &sdk.TextBlockParam{Text: "(An image of type " + valid(i.MediaType) + " was here. " +
		"Only JPEG, PNG, GIF and WebP can be shown.)"}
}

// inputOf returns arguments as the object that the API requires. Arguments that are not an object
// were refused before the call ran; they are wrapped in an object.
func inputOf(args json.RawMessage) json.RawMessage {
	if _, err := strictjson.Canonical(args); err != nil {
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

// wireID returns the id for a call in requests: its own, or a stable substitute if the API does not
// accept it.
func wireID(id perdure.CallID) string {
	if wirePattern().MatchString(string(id)) {
		return string(id)
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

const maxWireName = 128

// wireName returns a called tool's name in a form that the API accepts.
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
