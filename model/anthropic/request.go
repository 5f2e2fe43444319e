package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/model"
)

// request makes the provider's request. An error is an *model.Error.
func (m *Model) request(req model.Request) (sdk.MessageNewParams, []option.RequestOption, error) {
	name := cmp.Or(req.Model, m.cfg.Name)
	if name == "" {
		return sdk.MessageNewParams{}, nil, &model.Error{Code: model.ModelUnavailable, Text: "neither the request nor the configuration names a model"}
	}
	if req.MaxTokens < 0 {
		return sdk.MessageNewParams{}, nil, &model.Error{Code: model.Misconfigured,
			Text: fmt.Sprintf("MaxTokens is %d: use a number of tokens, or 0", req.MaxTokens)}
	}
	tools, err := m.toolsOf(req.Tools)
	if err != nil {
		return sdk.MessageNewParams{}, nil, err
	}
	params := sdk.MessageNewParams{
		Model: name, MaxTokens: m.maxTokensOf(name, cmp.Or(req.MaxTokens, m.cfg.MaxTokens)), Messages: turns(req.Messages, name, m.family(name)), Tools: tools,
	}
	if text := strings.TrimSpace(valid(req.Prefix)); text != "" {
		params.Messages = append(params.Messages, sdk.NewAssistantMessage(sdk.NewTextBlock(strings.TrimRight(valid(req.Prefix), " \t\r\n"))))
	}
	if text := valid(req.System); strings.TrimSpace(text) != "" {
		params.System = []sdk.TextBlockParam{{Text: text, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	var options []option.RequestOption
	if budget := m.cfg.ThinkingTokens; budget > 0 && req.Prefix == "" && int64(budget) < params.MaxTokens && mayThink(params.Messages) {
		// With the typed field, the SDK prints a warning to stderr for some models.
		options = append(options, option.WithJSONSet("thinking", struct {
			Type   string `json:"type"`
			Budget int    `json:"budget_tokens"`
		}{"enabled", budget}))
	}
	return params, options, nil
}

// toolsOf translates the tools. The last one marks the end of what the provider caches.
func (m *Model) toolsOf(tools []model.Tool) ([]sdk.ToolUnionParam, error) {
	var all []sdk.ToolUnionParam
	tools = m.tools.Describe(tools)
	for i, t := range tools {
		schema := t.Parameters
		if _, err := strictjson.Canonical(schema); err != nil || !isObject(schema) {
			return nil, &model.Error{Code: model.InvalidToolSchema,
				Text: fmt.Sprintf("the parameters of tool %q are not a JSON object", t.Name), Err: err}
		}
		own := sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](schema)}
		if t.Description != "" {
			own.Description = param.NewOpt(valid(t.Description))
		}
		if i == len(tools)-1 {
			own.CacheControl = sdk.NewCacheControlEphemeralParam()
		}
		all = append(all, sdk.ToolUnionParam{OfTool: &own})
	}
	return all, nil
}

// isObject reports whether text is a JSON object.
func isObject(text []byte) bool {
	return strings.HasPrefix(strings.TrimSpace(string(text)), "{") && json.Valid(text)
}
