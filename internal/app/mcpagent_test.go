package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// TestMCPProxyAgent: an agent of mcp.json is a tool for a client, and its request survives the
// death of the server.
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

// TestMCPProxyServers: an agent that selected a server of mcp.json has its tools; each session has
// its own server process, which ends with the program.
func TestMCPProxyServers(t *testing.T) {
	t.Parallel()
	data, world := shortDir(t), t.TempDir()
	script := filepath.Join(data, "build.yaml")
	steps := "steps:\n  - calls: [{name: world__work_slowly, args: {name: \"{{user}}\"}}]\n  - {text: \"{{result \\\"world__work_slowly\\\"}}\", repeat: true}\n"
	if err := os.WriteFile(script, []byte(steps), 0o600); err != nil {
		t.Fatal(err)
	}
	home := fmt.Sprintf(`{"agents":{"build":{"model":"scripted:%s","capabilities":["mcp_world"]}},"mcpServers":{"world":{"command":"mcpfixture","args":["%s"]},"gone":{"command":"/nothing/here"}}}`, script, world)
	if err := os.WriteFile(filepath.Join(data, "mcp.json"), []byte(home), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startMCP(t, "mcp", "serve", "--data", data, "--tool", "ask_build")
	for _, name := range []string{"a", "b"} {
		letGo(t, world, name)
		id := c.begin("ask_build", fmt.Sprintf(`{"message":%q}`, name))
		done, _ := json.Marshal(c.end(id)["result"])
		if !strings.Contains(string(done), "did "+name) {
			t.Errorf("got %s", done)
		}
	}
	if servers := strings.Fields(shellOut(t, "pgrep", "-f", "^mcpfixture "+world)); len(servers) != 2 {
		t.Errorf("%d servers, want one of each session", len(servers))
	}
	c.leave()
	awaitGone(t, "mcpfixture "+world)
	noted, err := os.ReadFile(filepath.Join(world, "noted"))
	if err != nil || string(noted) != "began a\ndid a\nbegan b\ndid b\n" {
		t.Errorf("the world saw %q, %v", noted, err)
	}
}

// TestMCPServerEvents: a server reports events of its own, which stand in the journal before the
// result of their call. What is no event costs nothing.
func TestMCPServerEvents(t *testing.T) {
	t.Parallel()
	data, world := shortDir(t), t.TempDir()
	script := filepath.Join(data, "build.yaml")
	steps := "steps:\n  - calls: [{name: world__work_slowly, args: {name: a}}]\n  - {text: done, repeat: true}\n"
	home := fmt.Sprintf(`{"agents":{"build":{"model":"scripted:%s","capabilities":["mcp_world"]}},"mcpServers":{"world":{"command":"mcpfixture","args":["%s"]}}}`, script, world)
	for path, text := range map[string]string{
		script: steps, filepath.Join(data, "mcp.json"): home,
		filepath.Join(world, "events"): `{"name":"image.pushed","data":{"tag":"v1"}}` + "\n" + `{"name":"Not A Name","data":1}` + "\n" + `7` + "\n" + `{"name":"image.signed"}` + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := startMCP(t, "mcp", "serve", "--data", data, "--tool", "ask_build")
	letGo(t, world, "a")
	done, _ := json.Marshal(c.end(c.begin("ask_build", `{"message":"go"}`))["result"])
	c.leave()
	awaitGone(t, "mcpfixture "+world)

	var kinds []string
	for _, session := range strings.Fields(shellOut(t, "perdure", "session", "list", "--data", data, "-o", "name")) {
		for line := range strings.Lines(shellOut(t, "perdure", "event", "list", session, "--data", data, "-o", "jsonl")) {
			e, err := perdure.DecodeEvent([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			end, isEnd := e.Fact.(perdure.ToolCompleted)
			if _, ok := e.Fact.(perdure.ToolEvent); ok || isEnd && strings.HasPrefix(end.Name, "world__") {
				kinds = append(kinds, string(e.Type()))
			}
		}
	}
	want := "x.world__work_slowly.image.pushed x.world__work_slowly.image.signed tool.completed"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got %q, want %q; the answer is %s", got, want, done)
	}
}
