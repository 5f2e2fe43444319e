package mcptool_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// TestHeadersAreMirrored: an argument that a tool's definition puts into a header is there, also on
// a connection that came later.
func TestHeadersAreMirrored(t *testing.T) {
	t.Parallel()
	plain := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)
	plain.AddTool(&mcp.Tool{Name: "where", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "here"}}}, nil
	})
	serves := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return plain }, &mcp.StreamableHTTPOptions{Stateless: true})
	var mu sync.Mutex
	var seen []string // guarded by mu
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/call" {
			mu.Lock()
			seen = append(seen, r.Header.Get("Mcp-Param-Region"))
			mu.Unlock()
		}
		serves.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	c, err := mcptool.Open(t.Context(), mcptool.Config{URL: web.URL, HTTP: web.Client()})
	if err != nil {
		t.Fatal(err)
	}
	all, err := mcptool.Tools(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		call := tool.Call{Tool: "where", Args: json.RawMessage(`{"region":"north"}`), Key: "k", Execution: 1}
		if r := all[0].Run(t.Context(), call, tool.Env{Call: call}); !r.IsSuccess() {
			t.Errorf("got %+v", r)
		}
		if err := c.Close(false); err != nil { // the next call connects anew
			t.Error(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 2 || seen[0] != "north" || seen[1] != "north" {
		t.Errorf("the header said %q, want north twice", seen)
	}
}
