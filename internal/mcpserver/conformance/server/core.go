package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// A minimal image and a minimal sound.
var (
	onePixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82")
	silence  = []byte("RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00@\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00")
)

const anyObject = `{"type":"object","properties":{}}`

// core adds the fixtures that the suite needs besides tasks.
func core(s *mcp.Server) {
	contents(s)
	talks(s)
	rounds(s)
	resources(s)
	prompts(s)
	triggers(s)
}

// plain adds a tool with the given schema directly to the SDK server.
func plain(s *mcp.Server, name, schema string, do mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{Name: name, Description: "A fixture of the conformance suite: " + name, InputSchema: json.RawMessage(schema)}, do)
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func fixed(r *mcp.CallToolResult) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return r, nil }
}

func of(blocks ...mcp.Content) mcp.ToolHandler { return fixed(&mcp.CallToolResult{Content: blocks}) }

func contents(s *mcp.Server) {
	embedded := func(uri, kind, body string) *mcp.EmbeddedResource {
		return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: kind, Text: body}}
	}
	image := &mcp.ImageContent{Data: onePixel, MIMEType: "image/png"}
	plain(s, "test_simple_text", anyObject, fixed(text("This is a simple text response for testing.")))
	plain(s, "test_image_content", anyObject, of(image))
	plain(s, "test_audio_content", anyObject, of(&mcp.AudioContent{Data: silence, MIMEType: "audio/wav"}))
	plain(s, "test_embedded_resource", anyObject, of(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")))
	plain(s, "test_multiple_content_types", anyObject, of(&mcp.TextContent{Text: "Multiple content types test:"}, image,
		embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)))
	failed := text("This tool intentionally returns an error for testing")
	failed.IsError = true
	plain(s, "test_error_handling", anyObject, fixed(failed))
	plain(s, "json_schema_2020_12_tool", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
		"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
		"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
		"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
		"additionalProperties":false}`, fixed(text("ok")))
	plain(s, "test_mcp_headers", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`, fixed(text("ok")))
}

// talks adds tools that send notifications while they run.
func talks(s *mcp.Server) {
	plain(s, "test_tool_with_logging", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i, said := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if i > 0 {
				if err := pause(ctx, 50*time.Millisecond); err != nil {
					return nil, err
				}
			}
			if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: "fixture", Data: said}); err != nil {
				return nil, err
			}
		}
		return text("logged three times"), nil
	})
	plain(s, "test_logging_tool", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("logged"), r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "said"})
	})
	plain(s, "test_tool_with_progress", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := r.Params.GetProgressToken()
		for i, n := range []float64{0, 50, 100} {
			if i > 0 {
				if err := pause(ctx, 50*time.Millisecond); err != nil {
					return nil, err
				}
			}
			if token != nil {
				if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Total: 100}); err != nil {
					return nil, err
				}
			}
		}
		return text("progress reported"), nil
	})
	asks(s)
}

// asks adds tools that send requests to the client while they run.
func asks(s *mcp.Server) {
	plain(s, "test_sampling", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct {
			Prompt string `json:"prompt"`
		}
		if err := perdure.DecodeJSON(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		said, err := r.Session.CreateMessage(ctx, sampling(in.Prompt, 100))
		if err != nil {
			return nil, err
		}
		return text("LLM response: %s", said.Content.(*mcp.TextContent).Text), nil
	})
	plain(s, "test_elicitation", `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct {
			Message string `json:"message"`
		}
		if err := perdure.DecodeJSON(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		return elicited(ctx, r, "User response: action=%s, content=%s", in.Message, `{"type":"object","properties":{
			"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}`)
	})
	const completed = "Elicitation completed: action=%s, content=%s"
	plain(s, "test_elicitation_sep1034_defaults", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return elicited(ctx, r, completed, "Some defaults", `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
			"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`)
	})
	plain(s, "test_elicitation_sep1330_enums", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return elicited(ctx, r, completed, "Some choices", `{"type":"object","properties":{
			"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
			"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
			"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`)
	})
	plain(s, "test_reconnection", anyObject, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Extra != nil && r.Extra.CloseSSEStream != nil {
			r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 100 * time.Millisecond})
		}
		return text("Reconnection test completed successfully."), pause(ctx, 100*time.Millisecond)
	})
	plain(s, "test_missing_capability", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if caps := r.ClientCapabilities(); caps == nil || caps.Sampling == nil {
			return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "this needs sampling", Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`)}
		}
		return text("ok"), nil
	})
}

func sampling(prompt string, maxTokens int64) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: maxTokens, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}}}
}

func elicited(ctx context.Context, r *mcp.CallToolRequest, format, message, schema string) (*mcp.CallToolResult, error) {
	said, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(schema)})
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(said.Content)
	if err != nil {
		return nil, err
	}
	return text(format, said.Action, content), nil
}

// triggers adds tools that change the lists of tools and prompts.
func triggers(s *mcp.Server) {
	plain(s, "test_trigger_tool_change", anyObject, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		plain(s, "test_changing_tool", anyObject, fixed(text("ok")))
		s.RemoveTools("test_changing_tool")
		return text("changed"), nil
	})
	plain(s, "test_trigger_prompt_change", anyObject, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		said(s, "test_changing_prompt", nil, func(map[string]string) []*mcp.PromptMessage { return nil })
		s.RemovePrompts("test_changing_prompt")
		return text("changed"), nil
	})
}

func resources(s *mcp.Server) {
	add := func(uri, kind, description string, contents mcp.ResourceContents) {
		contents.URI, contents.MIMEType = uri, kind
		s.AddResource(&mcp.Resource{URI: uri, Name: strings.TrimPrefix(uri, "test://"), Description: description, MIMEType: kind},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&contents}}, nil
			})
	}
	add("test://static-text", "text/plain", "A text", mcp.ResourceContents{Text: "This is the content of the static text resource."})
	add("test://static-binary", "image/png", "A picture", mcp.ResourceContents{Blob: onePixel})
	add("test://watched-resource", "text/plain", "One to subscribe to", mcp.ResourceContents{Text: "Watched."})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", Description: "By id", MIMEType: "application/json"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			body := fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id)
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: body}}}, nil
		})
}

// said adds a prompt.
func said(s *mcp.Server, name string, args []string, messages func(map[string]string) []*mcp.PromptMessage) {
	p := &mcp.Prompt{Name: name, Description: "A fixture of the conformance suite: " + name}
	for _, a := range args {
		p.Arguments = append(p.Arguments, &mcp.PromptArgument{Name: a, Description: a, Required: true})
	}
	s.AddPrompt(p, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: messages(r.Params.Arguments)}, nil
	})
}

func user(c mcp.Content) *mcp.PromptMessage { return &mcp.PromptMessage{Role: "user", Content: c} }

func prompts(s *mcp.Server) {
	words := func(text string) *mcp.PromptMessage { return user(&mcp.TextContent{Text: text}) }
	said(s, "test_simple_prompt", nil, func(map[string]string) []*mcp.PromptMessage {
		return []*mcp.PromptMessage{words("This is a simple prompt for testing.")}
	})
	said(s, "test_prompt_with_arguments", []string{"arg1", "arg2"}, func(a map[string]string) []*mcp.PromptMessage {
		return []*mcp.PromptMessage{words(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"]))}
	})
	said(s, "test_prompt_with_embedded_resource", []string{"resourceUri"}, func(a map[string]string) []*mcp.PromptMessage {
		return []*mcp.PromptMessage{
			user(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: a["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."}}),
			words("Please process the embedded resource above."),
		}
	})
	said(s, "test_prompt_with_image", nil, func(map[string]string) []*mcp.PromptMessage {
		return []*mcp.PromptMessage{user(&mcp.ImageContent{Data: onePixel, MIMEType: "image/png"}), words("Please analyze the image above.")}
	})
}

// complete suggests the words that start with the argument.
func complete(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	values := []string{}
	for _, word := range []string{"paris", "park", "party"} {
		if strings.HasPrefix(word, r.Params.Argument.Value) {
			values = append(values, word)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}
