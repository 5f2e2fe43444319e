//go:build soak

package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/soak"
)

// TestMCPProxyKills kills a proxy at any moment of its calls: PERDURE_MCP_KILLS is the number of
// kills, each for a server with quick calls, like a file system, and for one that always sleeps,
// for about PERDURE_MCP_SLEEP seconds. Every reported result stays the same, every effect happens
// once, and a call has one task.
func TestMCPProxyKills(t *testing.T) {
	t.Parallel()
	kills := soak.Count(t, "PERDURE_MCP_KILLS", 4, 100)
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		data, world := shortDir(t), t.TempDir()
		args := []string{"mcp", "proxy", "--data", data, "--name", "files", "--", "mcpfixture", world}
		told := map[string]string{} // results, by task
		want := []string{}
		p := startMCP(t, args...)
		for n := range kills {
			name := fmt.Sprintf("f%d", n)
			letGo(t, world, name)
			call := fmt.Sprintf(`"name":"work.slowly","arguments":{"name":%q}`, name)
			key := fmt.Sprintf("k%d", n)
			p.send("tools/call", keyedMeta(key)+call)
			<-time.After(rand.N(12 * time.Millisecond))
			p.kill()
			p = startMCP(t, args...)
			id := p.keyed(key, call)
			if again := p.keyed(key, call); again != id {
				t.Errorf("the call %s has the tasks %s and %s", key, id, again)
			}
			text, _ := json.Marshal(p.end(id)["result"])
			if !strings.Contains(string(text), "did "+name) {
				t.Errorf("%s came to %s", name, text)
			}
			told[id] = string(text)
			want = append(want, "began "+name, "did "+name)
		}
		for id, before := range told {
			if now, _ := json.Marshal(p.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id))["result"]); string(now) != before {
				t.Errorf("task %s came to %s, and was reported as %s", id, now, before)
			}
		}
		p.leave()
		noted, err := os.ReadFile(filepath.Join(world, "noted"))
		if got := strings.TrimSpace(string(noted)); err != nil || got != strings.Join(want, "\n") {
			t.Errorf("the world saw %q, %v", got, err)
		}
		t.Logf("%d kills of a proxy before a server of quick calls: %d results as they were told, %d effects, each once", kills, len(told), len(want)/2)
	})
	t.Run("sleeper", func(t *testing.T) {
		t.Parallel()
		// the maximum, so half of it on average
		lives := 2 * time.Duration(soak.Count(t, "PERDURE_MCP_SLEEP", 0, 600)) * time.Second / time.Duration(kills)
		data, world := shortDir(t), t.TempDir()
		args := []string{"mcp", "proxy", "--data", data, "--name", "sleeper", "--", "mcpfixture", world}
		p := startMCP(t, args...)
		id := p.begin("work.slowly", `{"name":"s"}`)
		awaitNote(t, world, "began s")
		began := time.Now()
		for range kills {
			<-time.After(rand.N(max(lives, 50*time.Millisecond)))
			p.kill()
			p = startMCP(t, args...)
			if got := p.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id)); got["status"] != "working" {
				t.Fatalf("got %v", got)
			}
		}
		letGo(t, world, "s")
		if done := p.end(id); done["status"] != "completed" {
			t.Errorf("got %v", done)
		}
		p.leave()
		if noted, err := os.ReadFile(filepath.Join(world, "noted")); err != nil || string(noted) != "began s\ndid s\n" {
			t.Errorf("the world saw %q, %v", noted, err)
		}
		t.Logf("%d kills of a proxy before a server that sleeps for %s: one call, one effect", kills, time.Since(began).Round(time.Second))
	})
}

// listening is a proxy with a fixed address, over several processes.
type listening struct {
	t    *testing.T
	args []string

	mu  sync.Mutex
	cmd *exec.Cmd // guarded by mu
	url string    // guarded by mu; empty: it is dead
}

func (l *listening) start() {
	l.t.Helper()
	cmd := exec.Command("perdure", l.args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		l.t.Fatalf("it does not start: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cmd, l.url = cmd, strings.TrimSpace(url)
}

func (l *listening) kill(signal os.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cmd != nil {
		_ = l.cmd.Process.Signal(signal) // it may have ended
		_ = l.cmd.Wait()
	}
	l.cmd, l.url = nil, ""
}

var errAway = errors.New("nobody answers")

// ask sends a request, and returns its result, or its MCP error.
func (l *listening) ask(ctx context.Context, method, name, params string) (result map[string]any, err error) {
	l.mu.Lock()
	url := l.url
	l.mu.Unlock()
	if url == "" {
		return nil, errAway
	}
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},`
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, meta, params)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, errAway
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, errAway
	}
	if _, data, ok := bytes.Cut(text, []byte("data: ")); ok {
		text = data
	}
	var m struct {
		Result map[string]any `json:"result"`
		Error  any            `json:"error"`
	}
	if json.Unmarshal(bytes.TrimSpace(text), &m) != nil {
		return nil, errAway // it died while it sent the response
	}
	if m.Error != nil {
		return nil, fmt.Errorf("%s %s: %v", method, name, m.Error)
	}
	return m.Result, nil
}

// TestMCPProxyPolls kills a server PERDURE_MCP_POLL_KILLS times while clients make calls and poll
// them: every returned handle is found from then on, and ends (M1).
func TestMCPProxyPolls(t *testing.T) {
	t.Parallel()
	kills := soak.Count(t, "PERDURE_MCP_POLL_KILLS", 4, 1000)
	world := t.TempDir()
	l := &listening{t: t, args: []string{"mcp", "proxy", "--data", shortDir(t), "--listen", "127.0.0.1:0", "--", "mcpfixture", world}}
	l.start()
	t.Cleanup(func() { l.kill(os.Interrupt) })
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	given := &given{names: map[string]string{}}
	for client := range 4 {
		group.Go(func() { given.client(ctx, l, world, client) })
	}
	for range kills {
		given.await(given.seen() + 4) // it is up, and clients are working
		<-time.After(rand.N(60 * time.Millisecond))
		l.kill(os.Kill)
		l.start()
	}
	stop()
	group.Wait()
	given.allEnd(l, world)
	t.Logf("%d kills, %d handles given out, %d polls: every handle came to its end, every effect once", kills, len(given.names), given.polls)
}

// given is the handles that clients received.
type given struct {
	mu    sync.Mutex
	names map[string]string // guarded by mu; names of the calls, by handle
	polls int               // guarded by mu
}

// seen counts the responses to clients.
func (g *given) seen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.polls + len(g.names)
}

// await waits until clients have received n responses, but not for long: they may all be blocked.
func (g *given) await(n int) {
	for limit := time.Now().Add(5 * time.Second); g.seen() < n && time.Now().Before(limit); {
		<-time.After(5 * time.Millisecond)
	}
}

// client calls and polls until ctx ends.
func (g *given) client(ctx context.Context, l *listening, world string, client int) {
	var own []string
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("c%dn%d", client, n)
		letGo(l.t, world, name)
		made, err := l.ask(l.t.Context(), "tools/call", "work.slowly", fmt.Sprintf(`"name":"work.slowly","arguments":{"name":%q}`, name))
		if id, ok := made["taskId"].(string); ok {
			own = append(own, id)
			g.mu.Lock()
			g.names[id] = name
			g.mu.Unlock()
		} else if err != nil && !errors.Is(err, errAway) {
			l.t.Errorf("%v", err)
		}
		for range min(3, len(own)) {
			id := own[len(own)-1-rand.IntN(min(len(own), 20))]
			_, err := l.ask(l.t.Context(), "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
			if errors.Is(err, errAway) {
				break
			}
			if err != nil {
				l.t.Errorf("a handle that was given out: %v", err)
				return
			}
			g.mu.Lock()
			g.polls++
			g.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(5+rand.IntN(30)) * time.Millisecond):
		}
	}
}

// allEnd checks that every task ends, with one effect.
func (g *given) allEnd(l *listening, world string) {
	t := l.t
	for id := range g.names {
		for limit := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
			got, err := l.ask(t.Context(), "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
			if err != nil {
				t.Fatalf("a handle that was given out: %v", err)
			}
			if got["status"] == "completed" {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("task %s is %v", id, got)
			}
		}
	}
	noted, err := os.ReadFile(filepath.Join(world, "noted"))
	if err != nil {
		t.Fatal(err)
	}
	did := map[string]int{}
	for _, text := range strings.Split(string(noted), "\n") {
		did[text]++
	}
	for id, name := range g.names {
		if did["did "+name] != 1 {
			t.Errorf("the effect of %s, task %s, is there %d times", name, id, did["did "+name])
		}
	}
}
