package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// signKey signs what clients carry between rounds.
var signKey = []byte(rand.Text())

func signed(state string) string {
	mac := hmac.New(sha256.New, signKey)
	mac.Write([]byte(state))
	return state + "." + hex.EncodeToString(mac.Sum(nil))
}

// carried verifies and returns the state that a client sent back.
func carried(text string) (string, error) {
	state, _, _ := strings.Cut(text, ".")
	if text != signed(state) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState was modified"}
	}
	return state, nil
}

func question(message, property, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(
		fmt.Sprintf(`{"type":"object","properties":{%q:{"type":%q}},"required":[%q]}`, property, kind, property))}
}

// answered returns a property of a person's answer under a key.
func answered(r *mcp.CallToolRequest, key, property string) (any, bool) {
	e, ok := r.Params.InputResponses[key].(*mcp.ElicitResult)
	if !ok || e.Action != "accept" {
		return nil, false
	}
	v, ok := e.Content[property]
	return v, ok
}

func ask(requests mcp.InputRequestMap, state string) *mcp.CallToolResult {
	r := &mcp.CallToolResult{InputRequests: requests}
	if state != "" {
		r.RequestState = signed(state)
	}
	return r
}

// rounds adds tools that need several rounds of questions.
func rounds(s *mcp.Server) {
	plain(s, "test_input_required_result_elicitation", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if name, ok := answered(r, "user_name", "name"); ok {
			return text("Hello, %v!", name), nil
		}
		return ask(mcp.InputRequestMap{"user_name": question("What is your name?", "name", "string")}, ""), nil
	})
	plain(s, "test_streaming_elicitation", anyObject, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return ask(mcp.InputRequestMap{"user_name": question("What is your name?", "name", "string")}, ""), nil
	})
	plain(s, "test_input_required_result_sampling", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if said, ok := r.Params.InputResponses["capital_question"]; ok {
			return text("The model said: %s", words(said)), nil
		}
		return ask(mcp.InputRequestMap{"capital_question": sampling("What is the capital of France?", 100)}, ""), nil
	})
	plain(s, "test_input_required_result_list_roots", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if said, ok := r.Params.InputResponses["client_roots"]; ok {
			return text("The roots: %s", words(said)), nil
		}
		return ask(mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}, ""), nil
	})
	confirm := func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.RequestState != "" {
			if _, err := carried(r.Params.RequestState); err != nil {
				return nil, err
			}
			if _, ok := answered(r, "confirm", "ok"); ok {
				return text("state-ok"), nil
			}
		}
		return ask(mcp.InputRequestMap{"confirm": question("Please confirm", "ok", "boolean")}, "confirm"), nil
	}
	plain(s, "test_input_required_result_request_state", anyObject, confirm)
	plain(s, "test_input_required_result_tampered_state", anyObject, confirm)
	plain(s, "test_input_required_result_multiple_inputs", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(r.Params.InputResponses) >= 3 {
			if _, err := carried(r.Params.RequestState); err != nil {
				return nil, err
			}
			return text("All three were received."), nil
		}
		return ask(mcp.InputRequestMap{
			"user_name": question("What is your name?", "name", "string"), "greeting": sampling("Generate a greeting", 50), "client_roots": &mcp.ListRootsParams{},
		}, "three"), nil
	})
	several(s)
	promptRounds(s)
}

// several adds tools with rounds that depend on each other.
func several(s *mcp.Server) {
	plain(s, "test_input_required_result_multi_round", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		state := ""
		if r.Params.RequestState != "" {
			known, err := carried(r.Params.RequestState)
			if err != nil {
				return nil, err
			}
			state = known
		}
		if color, ok := answered(r, "step2", "color"); ok && state == "2" {
			return text("The color is %v.", color), nil
		}
		if _, ok := answered(r, "step1", "name"); ok && state == "1" {
			return ask(mcp.InputRequestMap{"step2": question("Step 2: What is your favorite color?", "color", "string")}, "2"), nil
		}
		return ask(mcp.InputRequestMap{"step1": question("Step 1: What is your name?", "name", "string")}, "1"), nil
	})
	plain(s, "test_input_required_result_capabilities", anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		requests := mcp.InputRequestMap{}
		caps := r.ClientCapabilities()
		if caps != nil && caps.Sampling != nil {
			requests["greeting"] = sampling("Generate a greeting", 50)
		}
		if caps != nil && caps.Elicitation != nil {
			requests["user_name"] = question("What is your name?", "name", "string")
		}
		return ask(requests, ""), nil
	})
}

// promptRounds adds a prompt that asks a question first.
func promptRounds(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for its context first"},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if said, ok := r.Params.InputResponses["user_context"]; ok {
				return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{user(&mcp.TextContent{Text: "The context: " + words(said)})}}, nil
			}
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": question("What context should the prompt use?", "context", "string")}}, nil
		})
}

// words encodes an answer as text.
func words(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
