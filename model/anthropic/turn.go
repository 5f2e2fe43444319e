package anthropic

import (
	"cmp"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelhistory"
)

// maxOtherID is the longest id of a call that is not substituted, unless the provider gave it.
const maxOtherID = 64

// turns writes the turns of a conversation for the model with a name, of a family.
func turns(transcript []perdure.Message, name, family string) []sdk.MessageParam {
	rules := modelhistory.Rules{
		Family:  family,
		OwnID:   func(id string) bool { return modelhistory.IsPlainID(id, len(id)) },
		OtherID: func(id string) bool { return modelhistory.IsPlainID(id, maxOtherID) },
	}
	var all []sdk.MessageParam
	for _, turn := range modelhistory.Turns(transcript, rules) {
		if !turn.Agent {
			all = append(all, sdk.NewUserMessage(userBlocks(turn)...))
			continue
		}
		var blocks []sdk.ContentBlockParamUnion
		for _, a := range turn.Answers {
			blocks = append(blocks, answerBlocks(a, name)...)
		}
		all = append(all, sdk.NewAssistantMessage(blocks...))
	}
	return all
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

// userBlocks writes a turn of the user: the results first, as the API requires.
func userBlocks(turn modelhistory.Turn) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, r := range turn.Results {
		blocks = append(blocks, sdk.ContentBlockParamUnion{OfToolResult: resultBlock(r)})
	}
	for _, c := range turn.Content {
		if c.Image == nil {
			blocks = append(blocks, textBlock(c.Text)...)
			continue
		}
		image, text := imageBlock(*c.Image)
		blocks = append(blocks, sdk.ContentBlockParamUnion{OfImage: image, OfText: text})
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
func resultBlock(r modelhistory.Result) *sdk.ToolResultBlockParam {
	own := &sdk.ToolResultBlockParam{ToolUseID: r.ID}
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
