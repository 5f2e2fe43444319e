//go:build conformance

package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMCPProxyOthers runs two servers from npm behind the proxy, kills the proxy during a call, and
// checks for the result and one effect. make conformance says where they are.
func TestMCPProxyOthers(t *testing.T) {
	node, servers := os.Getenv("PERDURE_NODE"), os.Getenv("PERDURE_MCP_SERVERS")
	if node == "" || servers == "" {
		t.Fatal("PERDURE_NODE and PERDURE_MCP_SERVERS name them: run make conformance, which brings them")
	}
	t.Run("everything", func(t *testing.T) {
		t.Parallel()
		args := []string{"mcp", "proxy", "--data", shortDir(t), "--", node, filepath.Join(servers, "server-everything", "dist", "index.js")}
		p := startMCP(t, args...)
		id := p.begin("trigger-long-running-operation", `{"duration":4,"steps":4}`)
		<-time.After(time.Second)
		p.kill()
		p = startMCP(t, args...)
		if done := p.end(id); !strings.Contains(fmt.Sprint(done["result"]), "Long running operation completed") {
			t.Errorf("got %v", done)
		}
		p.leave()
	})
	t.Run("filesystem", func(t *testing.T) {
		t.Parallel()
		folder := shortDir(t)
		script := filepath.Join(servers, "server-filesystem", "dist", "index.js")
		args := []string{"mcp", "proxy", "--data", shortDir(t), "--", node, script, folder}
		if err := os.WriteFile(filepath.Join(folder, "a"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := startMCP(t, args...)
		p.ask("tools/list", "")
		server := strings.Fields(shellOut(t, "pgrep", "-f", "^"+node+" "+script+" "+folder))[0]
		shellOut(t, "kill", "-STOP", server) // so that it is still in the call
		id := p.begin("move_file", fmt.Sprintf(`{"source":"%[1]s/a","destination":"%[1]s/b"}`, folder))
		<-time.After(300 * time.Millisecond)
		p.kill()
		p = startMCP(t, args...)
		shellOut(t, "kill", "-CONT", server)
		// a second move would fail
		if done := p.end(id); !strings.Contains(fmt.Sprint(done["result"]), "Successfully moved") {
			t.Errorf("got %v", done)
		}
		p.leave()
	})
}
