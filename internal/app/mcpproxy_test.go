package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMCPProxyURL: a proxy for a server over HTTP, which makes tasks of calls, is killed during
// one, and finds it again with the stored handle. That server is another proxy.
func TestMCPProxyURL(t *testing.T) {
	t.Parallel()
	world := t.TempDir()
	first := exec.Command("perdure", "mcp", "proxy", "--data", shortDir(t), "--listen", "127.0.0.1:0", "--", "mcpfixture", world)
	first.Stderr = os.Stderr
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = first.Process.Signal(os.Interrupt) // it may have ended
		_ = first.Wait()
		awaitGone(t, "mcpfixture "+world)
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"mcp", "proxy", "--data", shortDir(t), "--url", strings.TrimSpace(url)}
	p := startMCP(t, args...)
	id := p.begin("work.slowly", `{"name":"a"}`)
	awaitNote(t, world, "began a")
	for range 2 {
		<-time.After(300 * time.Millisecond)
		p.kill()
		p = startMCP(t, args...)
		p.ask("tools/list", "")
	}
	letGo(t, world, "a")
	if done := p.end(id); done["status"] != "completed" || !strings.Contains(fmt.Sprint(done["result"]), "did a") {
		t.Errorf("got %v", done)
	}
	p.leave()
	if noted, err := os.ReadFile(filepath.Join(world, "noted")); err != nil || string(noted) != "began a\ndid a\n" {
		t.Errorf("the world saw %q, %v", noted, err)
	}
}

// TestMCPProxyQuestions: a question of the server becomes one of the task; its other requests to
// the client are refused with an explanation.
func TestMCPProxyQuestions(t *testing.T) {
	t.Parallel()
	world := t.TempDir()
	p := startMCP(t, "mcp", "proxy", "--data", shortDir(t), "--", "mcpfixture", world)
	id := p.begin("work.slowly", `{"name":"elicitation/create"}`)
	var asked map[string]any
	for limit := time.Now().Add(time.Minute); asked == nil && time.Now().Before(limit); <-time.After(20 * time.Millisecond) {
		asked, _ = p.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id))["inputRequests"].(map[string]any)
	}
	for key, request := range asked {
		if text, _ := json.Marshal(request); !strings.Contains(string(text), "Which?") || !strings.Contains(string(text), "colour") {
			t.Errorf("got %s", text)
		}
		p.ask("tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"colour":"blue"}}}`, id, key))
	}
	if done := p.end(id); len(asked) != 1 || !strings.Contains(fmt.Sprint(done["result"]), `"colour":"blue"`) {
		t.Errorf("got %v, asked %v", done, asked)
	}
	for _, method := range []string{"sampling/createMessage", "roots/list"} {
		id := p.begin("work.slowly", fmt.Sprintf(`{"name":%q}`, method))
		if done := p.end(id); !strings.Contains(fmt.Sprint(done["result"]), method+" is not supported") {
			t.Errorf("got %v", done)
		}
	}
	p.leave()
	awaitGone(t, "mcpfixture "+world)
}

// TestMCPProxyDefinitions: a tool without a usable schema gets one; a tool without a name, or with
// the name of an earlier one, is left out; the others are served under their own names. A client
// that repeats a call after it read the reply makes a new call.
func TestMCPProxyDefinitions(t *testing.T) {
	t.Parallel()
	world := t.TempDir()
	more := `,{"name":"bare"},{"name":"","inputSchema":{"type":"object"}},{"name":"odd","inputSchema":{"type":"string"}},{"name":"task_list","inputSchema":{}},{"name":"a.b","inputSchema":{}},{"name":"a_b","inputSchema":{}},{"name":"a_b","inputSchema":{}}`
	if err := os.WriteFile(filepath.Join(world, "tools"), []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	letGo(t, world, "a")
	p := startMCP(t, "mcp", "proxy", "--data", shortDir(t), "--", "mcpfixture", world)

	var names []string
	for _, entry := range p.ask("tools/list", "")["tools"].([]any) {
		names = append(names, entry.(map[string]any)["name"].(string))
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "a.b a_b bare odd task_list work.slowly" {
		t.Errorf("got %s", got)
	}
	ids := map[string]bool{}
	for range 20 {
		ids[p.begin("work.slowly", `{"name":"a"}`)] = true
	}
	for id := range ids {
		p.end(id)
	}
	if noted, err := os.ReadFile(filepath.Join(world, "noted")); len(ids) != 20 || strings.Count(string(noted), "did a\n") != 20 {
		t.Errorf("20 calls are %d tasks, and the world saw %q, %v", len(ids), noted, err)
	}
	p.leave()
	awaitGone(t, "mcpfixture "+world)
}

// TestS15ServersEnvironment: a foreign server has the environment that it was started in, without
// Perdure's secrets.
func TestS15ServersEnvironment(t *testing.T) {
	t.Setenv("PERDURE_TOKEN", "perdure_of_ours")
	t.Setenv("THEIRS", "a word")
	world := t.TempDir()
	p := startMCP(t, "mcp", "proxy", "--data", shortDir(t), "--", "sh", "-c", `env >"$0/env"; exec mcpfixture "$0"`, world)
	p.ask("tools/list", "")
	p.leave()
	awaitGone(t, "mcpfixture "+world)

	env, err := os.ReadFile(filepath.Join(world, "env"))
	if err != nil || !strings.Contains(string(env), "THEIRS=a word\n") || strings.Contains(string(env), "perdure_of_ours") {
		t.Errorf("got %v, %q", err, env)
	}
}

// TestMCPProxyFolders: a proxy stays in its data directory, and has a hint if the path of its
// folder is too long for a socket.
func TestMCPProxyFolders(t *testing.T) {
	t.Parallel()
	data := shortDir(t)
	refused := func(name, dir string, says ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		said, err := exec.CommandContext(ctx, "perdure", "mcp", "proxy", "--data", dir, "--name", name, "--", "false").CombinedOutput()
		if err == nil {
			t.Errorf("%.80q is taken", name)
		}
		for _, word := range says {
			if !strings.Contains(string(said), word) {
				t.Errorf("%.80q: %q is not said in %s", name, word, said)
			}
		}
	}

	for _, name := range []string{"../../evil", "a/b", "/evil", "..", "."} {
		refused(name, filepath.Join(data, "data", "dir"), "--name")
	}
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("it made %v, %v", left, err)
	}
	refused(strings.Repeat("n", 120), data, "--data", "socket")
}
