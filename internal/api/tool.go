package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// ofTool is the path of a tool.
type ofTool struct {
	Name string `path:"name" example:"get_current_time" doc:"The tool."`
}

type oneTool struct{ Body engine.Tool }

// directCall is the body of a call outside any session.
type directCall struct {
	Args json.RawMessage `json:"args" doc:"What the tool's input_schema asks for."`
}

type toolAnswer struct{ Body perdure.ToolResult }

func (a *API) toolOperations() {
	read(a, operation{id: "list-tools", path: "/v1/tools", summary: "List the tools, in the order of their registration"}, a.listTools)
	read(a, operation{
		id: "get-tool", path: "/v1/tools/{name}", summary: "Show a tool", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *ofTool) (*oneTool, error) {
		t, err := a.findTool(ctx, in.Name)
		return &oneTool{Body: t}, err
	})
	write(a, operation{
		id: "call-tool", path: "/v1/tools/{name}/call", summary: "Call a pure or idempotent tool, outside any session", errors: []int{http.StatusNotFound},
	}, body[directCall]{example: directCall{Args: json.RawMessage(`{}`)}}, a.callTool)
	a.payloads()
}

func (a *API) listTools(ctx context.Context, _ *struct{}) (*page[engine.Tool], error) {
	tools, err := a.cfg.Engine.Tools(ctx)
	if err != nil {
		return nil, err
	}
	return pageOf(tools, len(tools), nil), nil
}

func (a *API) findTool(ctx context.Context, name string) (engine.Tool, error) {
	tools, err := a.cfg.Engine.Tools(ctx)
	if err != nil {
		return engine.Tool{}, err
	}
	for _, t := range tools {
		if t.Name == name {
			return t, nil
		}
	}
	return engine.Tool{}, fmt.Errorf("tool %s: %w", name, perdure.NotFound)
}

func (a *API) callTool(ctx context.Context, in *ofTool, body directCall) (*toolAnswer, error) {
	if len(body.Args) == 0 {
		return nil, invalid("/args", "it is required; {} is no arguments")
	}
	result, err := a.cfg.Engine.CallTool(ctx, in.Name, body.Args)
	return &toolAnswer{Body: result}, err
}
