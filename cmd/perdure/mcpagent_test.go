package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMCPProxyAgent: an agent of mcp.json is a tool of a client, and what it was asked goes on over the death of the server.
func TestMCPProxyAgent(t *testing.T) {
	t.Parallel()
	data := shortDir(t)
	script := filepath.Join(data, "build.yaml")
	if err := os.WriteFile(script, []byte("steps:\n  - {text: \"built {{user}}\", delay: 300ms, repeat: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := fmt.Sprintf(`{"agents":{"build":{"description":"Builds things.","model":"scripted:%s","tools":["echo"]}}}`, script)
	if err := os.WriteFile(filepath.Join(data, "mcp.json"), []byte(home), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"mcp", "serve", "--data", data, "--tool", "ask_build"}
	c := startMCP(t, args...)
	listed, _ := json.Marshal(c.ask("tools/list", ""))
	if !strings.Contains(string(listed), `"ask_build"`) || !strings.Contains(string(listed), "Builds things.") || strings.Contains(string(listed), `"echo"`) {
		t.Fatalf("got %s, want the agent alone", listed)
	}
	id := c.begin("ask_build", `{"message":"a house"}`)
	c.kill()
	c = startMCP(t, args...)
	done, _ := json.Marshal(c.end(id)["result"])
	if !strings.Contains(string(done), `"answer":"built a house"`) {
		t.Errorf("got %s", done)
	}
	c.leave()
}
