package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestSecretInMCPHeader: a secret in a header of an MCP server over HTTP is inserted into the
// requests of its session, for its hosts only. The requests that ask for the tools have none, and
// nothing shows the value.
func TestSecretInMCPHeader(t *testing.T) {
	t.Parallel()
	server := sdk.NewServer(&sdk.Implementation{Name: "tickets", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "list", Description: "Lists tickets."},
		func(_ context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			text := fmt.Sprintf("the header has %d bytes: %s", len(req.Extra.Header.Get("X-Key")), req.Extra.Header.Get("X-Key"))
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
		})
	serves := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	var mu sync.Mutex
	seen := map[string]int{} // guarded by mu; requests by header
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get("X-Key")]++
		mu.Unlock()
		serves.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)

	p := newSecretPlace(t, nil)
	config := fmt.Sprintf(`{"mcpServers": {"tickets": {"url": %q, "headers": {"X-Key": "Bearer secret:API_KEY"}}}}`, web.URL)
	if err := os.WriteFile(filepath.Join(p.data, "mcp.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := func(hosts ...string) {
		p.session = strings.TrimSpace(p.output("session", "new", "--model", "scripted:"+filepath.Join(p.work, "agent.yaml"),
			"--capability", "mcp_tickets", "-o", "name"))
		if len(hosts) > 0 {
			p.secret("API_KEY", canarySecret, hosts...)
		}
	}
	for name, c := range map[string]struct {
		hosts []string
		want  string
	}{
		"its host":     {[]string{"127.0.0.1"}, fmt.Sprintf("the header has %d bytes", len("Bearer "+canarySecret))},
		"another host": {[]string{"tickets.example.com"}, "may be sent to tickets.example.com only, not to 127.0.0.1"},
		"no secret":    {nil, "does not exist in this session"},
	} {
		begin(c.hosts...)
		said := p.asks("tickets__list", map[string]any{})
		p.isNowhere(said)
		if !strings.Contains(said, c.want) {
			t.Errorf("%s: want %q: %s", name, c.want, said)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if seen[""] == 0 || seen["Bearer "+canarySecret] == 0 || len(seen) != 2 {
		t.Errorf("the requests had these headers: %v", seen)
	}
}
