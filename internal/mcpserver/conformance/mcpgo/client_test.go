// Package mcpgo drives our MCP server with the client of mcp-go, which knows no Tasks.
//
// It is a module of its own, so that the product requires nothing of it. The one thing to know:
// make conformance says where the fixture server is, in PERDURE_MCP_URL.
package mcpgo

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

func TestClient(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) { drive(t, version) })
	}
}

func drive(t *testing.T, version string) {
	url := os.Getenv("PERDURE_MCP_URL")
	if url == "" {
		t.Fatal("PERDURE_MCP_URL names the server: run make conformance")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.NewStreamableHttpClient(url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	begin := mcp.InitializeRequest{}
	begin.Params.ProtocolVersion, begin.Params.ClientInfo = version, mcp.Implementation{Name: "mcp-go", Version: "1"}
	began, err := c.Initialize(ctx, begin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("mcp-go speaks %s with us", began.ProtocolVersion)
	listed, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, one := range listed.Tools {
		names[one.Name] = true
	}
	for _, name := range []string{"greet", "slow_compute", "failing_job", "task_result"} { // M9: it knows no Tasks
		if !names[name] {
			t.Errorf("it does not see %s", name)
		}
	}
	call := func(name string, args map[string]any) *mcp.CallToolResult {
		t.Helper()
		request := mcp.CallToolRequest{}
		request.Params.Name, request.Params.Arguments = name, args
		got, err := c.CallTool(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := call("greet", map[string]any{"name": "World"}); got.IsError || !strings.Contains(textOf(got), "Hello, World!") {
		t.Errorf("got %+v", got)
	}
	if got := call("slow_compute", map[string]any{"seconds": 1, "label": "a"}); got.IsError || textOf(got) == "" {
		t.Errorf("got %+v", got)
	}
	failing := mcp.CallToolRequest{}
	failing.Params.Name = "failing_job" // which runs as a task only
	if got, err := c.CallTool(ctx, failing); err == nil {
		t.Errorf("got %+v", got)
	}
}

// textOf is the text of a result.
func textOf(r *mcp.CallToolResult) string {
	var all []string
	for _, one := range r.Content {
		if text, ok := one.(mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}
