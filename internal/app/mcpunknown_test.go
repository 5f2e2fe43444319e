package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dyingServer writes an MCP server on stdio whose only tool, charge, appends a line to a file and
// dies, until another file exists.
func dyingServer(t *testing.T) (script, charged, stay string) {
	t.Helper()
	dir := t.TempDir()
	script, charged, stay = filepath.Join(dir, "server.sh"), filepath.Join(dir, "charged"), filepath.Join(dir, "stay")
	text := `say() { printf '%s\n' "$1"; }
while read -r line; do
	id=$(say "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\("[^"]*"\).*/\1/p')
	case $line in
	*'"method":"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shop","version":"1"}}}' ;;
	*'"method":"tools/list"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"charge","inputSchema":{"type":"object"}}]}}' ;;
	*'"method":"tools/call"'*)
		echo charged >>` + charged + `
		[ -e ` + stay + ` ] || exit 1
		say '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"charged"}]}}' ;;
	*) [ -z "$id" ] || say '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"not here"}}' ;;
	esac
done
`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return script, charged, stay
}

// wantLines checks how many lines a file has.
func wantLines(t *testing.T, path string, want int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if got := strings.Count(string(text), "\n"); err != nil || got != want {
		t.Errorf("%s has %d lines, %v, want %d", filepath.Base(path), got, err, want)
	}
}

// TestMCPProxyUnknown: a server dies during a call. The same call in new requests, even of the next
// proxy, has the unknown outcome of the first, until a person has resolved it. A new key is a new
// call.
func TestMCPProxyUnknown(t *testing.T) {
	t.Parallel()
	script, charged, stay := dyingServer(t)
	args := []string{"mcp", "proxy", "--data", shortDir(t), "--name", "shop", "--", "sh", script}
	p := startMCP(t, args...)
	first := p.begin("charge", `{"amount":5}`)
	outcome := fmt.Sprint(p.end(first)["result"])
	if !strings.Contains(outcome, "outcome:unknown") || strings.Contains(outcome, "resolve_url") {
		t.Errorf("got %s", outcome)
	}
	for round := range 2 {
		if again := p.begin("charge", `{"amount":5}`); again != first {
			t.Errorf("round %d: got task %s, want %s", round, again, first)
		}
		p.kill()
		p = startMCP(t, args...)
	}
	wantLines(t, charged, 1)

	if err := os.WriteFile(stay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if done := p.end(p.keyed("another", `"name":"charge","arguments":{"amount":5}`)); !strings.Contains(fmt.Sprint(done), "text:charged") {
		t.Errorf("under a new key: got %v", done)
	}
	wantLines(t, charged, 2)

	result, ok := p.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, first))["result"].(map[string]any)
	if !ok {
		t.Fatal("the first task has no result")
	}
	words := strings.Fields(fmt.Sprint(result["structuredContent"].(map[string]any)["resolve_command"]))
	if out, err := exec.Command(words[0], append(words[1:], "--did-not-happen")...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", words, err, out)
	}
	if next := p.begin("charge", `{"amount":5}`); next == first || !strings.Contains(fmt.Sprint(p.end(next)), "text:charged") {
		t.Errorf("after the word: got task %s, want a new call that charges", next)
	}
	wantLines(t, charged, 3)
	p.leave()
}

// TestRunUnknown: a model that repeats the call with an unknown outcome gets that outcome, and
// charges again only by naming it.
func TestRunUnknown(t *testing.T) {
	t.Parallel()
	script, charged, stay := dyingServer(t)
	data, steps := shortDir(t), filepath.Join(t.TempDir(), "steps.yaml")
	for path, text := range map[string]string{
		filepath.Join(data, "mcp.json"): fmt.Sprintf(`{"mcpServers": {"shop": {"command": "sh", "args": [%q]}}}`, script),
		steps: `steps:
  - calls: [{id: call_first, name: shop__charge, args: {amount: 5}}]
  - calls: [{id: call_again, name: shop__charge, args: {amount: 5}}]
  - {text: "I stop."}
  - calls: [{id: call_meant, name: shop__charge, args: {amount: 5, perdure_repeats: call_first}}]
  - {text: "Charged."}
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("perdure", "--data", data, "run", "--model", "scripted:"+steps, "--capability", "mcp_shop", "charge 5").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "/call_first") || !strings.Contains(string(out), `additional argument "perdure_repeats": "call_first"`) {
		t.Errorf("got %v: %s", err, out)
	}
	wantLines(t, charged, 1)

	if err := os.WriteFile(stay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = exec.Command("perdure", "--data", data, "run", "--session", "last", "charge 5 more").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Charged.") {
		t.Errorf("got %v: %s", err, out)
	}
	wantLines(t, charged, 2)
}
