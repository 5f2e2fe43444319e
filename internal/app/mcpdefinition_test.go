package app

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMCPDefinitions: what a server or mcp.json gets wrong about one tool costs that tool at most,
// in the program as a user has it: it starts, offers the other tools, and says what it left out.
func TestMCPDefinitions(t *testing.T) {
	t.Parallel()
	data, world := shortDir(t), t.TempDir()
	more := `,{"name":"a.b","inputSchema":{"type":"object"}},{"name":"a_b","inputSchema":{"type":"object"}},{"name":"a_b","description":"again","inputSchema":{"type":"object"}},` +
		`{"name":"获取","inputSchema":null},{"name":"odd","title":7,"annotations":[],"inputSchema":{"type":"object","properties":{"q":{"type":"string","pattern":"^(?!x)"}},"oneOf":[{"required":["q"]}]}},{"title":"none"}`
	if err := os.WriteFile(filepath.Join(world, "tools"), []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	entry, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"world": map[string]any{
		"command": "mcpfixture", "args": []string{world}, "tools": []string{"work.slowly", "a.b", "a_b", "获取", "odd", "gone_tool"},
		"classes": map[string]string{"gone_class": "pure", "odd": "pure"}, "agents": []string{"gone_*"},
	}}})
	script := filepath.Join(data, "script.yaml")
	for name, text := range map[string]string{filepath.Join(data, "mcp.json"): string(entry), script: "steps: [{text: fine, repeat: true}]"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("perdure", "--data", data, "run", "--model", "scripted:"+script, "--capability", "mcp_world", "hi")
	said, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "fine") {
		t.Fatalf("%v: %s", err, said)
	}
	for _, part := range []string{"gone_tool", "gone_class", "gone_*", "a.b", "a_b"} {
		if !strings.Contains(string(said), part) {
			t.Errorf("nothing is said about %s: %s", part, said)
		}
	}
	var warned strings.Builder
	test := exec.Command("perdure", "--data", data, "mcp", "test", "--name", "world")
	test.Stderr = &warned
	listed, err := test.Output()
	if err != nil {
		t.Fatal(err, warned.String())
	}
	for _, part := range []string{"gone_tool", "gone_class", "gone_*", "a.b", "a_b"} {
		if !strings.Contains(warned.String(), part) {
			t.Errorf("mcp test says nothing about %s: %s", part, warned.String())
		}
	}
	for _, name := range []string{"world__work_slowly", "world__a_b ", "world__a_b_", "world__tool_", "world__odd"} {
		if !strings.Contains(string(listed), name) {
			t.Errorf("there is no %s: %s", name, listed)
		}
	}
	if strings.Count(string(listed), "\n") != 5 {
		t.Errorf("got %s", fmt.Sprint(string(listed)))
	}
}
