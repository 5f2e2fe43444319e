//go:build contact

package contact

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// httpPeer is an MCP server of somebody else over HTTP, which has the tools of
// server-everything.
type httpPeer struct {
	name, module string
	command      func(t *testing.T, port string) []string
	portVariable string // names the port; empty: the command does
}

func httpPeers() []httpPeer {
	const everything = "@modelcontextprotocol/server-everything"
	script := func(t *testing.T, name, path string) string {
		t.Helper()
		folder, _ := module(t, name)
		return filepath.Join(folder, path)
	}
	return []httpPeer{
		{name: "everything", module: everything,
			command: func(t *testing.T, _ string) []string {
				return []string{script(t, everything, "dist/index.js"), "streamableHttp"}
			},
			portVariable: "PORT"},
		{name: "gateway", module: "mcp-proxy", // in front of the same server on stdio
			command: func(t *testing.T, port string) []string {
				return []string{script(t, "mcp-proxy", "dist/bin/mcp-proxy.mjs"), "--host", "127.0.0.1", "--port", port, "--",
					nodeProgram(t), script(t, everything, "dist/index.js"), "stdio"}
			}},
	}
}

// TestServerForgetsSession kills a server over HTTP between two calls of a run, and starts it
// again: its session is gone, and the second call has a result all the same.
func TestServerForgetsSession(t *testing.T) {
	for _, p := range httpPeers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			tryRestart(t, p)
		})
	}
}

func tryRestart(t *testing.T, p httpPeer) {
	_, version := module(t, p.module)
	seen := newRow(p.module+" over HTTP", version)
	h := newHome(t)
	port := freePort(t)
	node, words := nodeProgram(t), p.command(t, port)
	start := func() *exec.Cmd { // also in the goroutine of a request, so it does not end the test
		server := exec.Command(node, words...)
		server.Env = slices.Clone(h.env)
		if p.portVariable != "" {
			server.Env = append(server.Env, p.portVariable+"="+port)
		}
		server.Stderr = os.Stderr
		if err := errors.Join(server.Start(), awaitPort(port)); err != nil {
			t.Error(err)
		}
		return server
	}
	stop := func(server *exec.Cmd) {
		if server.Process != nil {
			_ = server.Process.Kill() // it may have ended
			_ = server.Wait()
		}
	}
	server := start()
	t.Cleanup(func() { stop(server) })
	h.server(p.name, map[string]any{"url": "http://127.0.0.1:" + port + "/mcp"})
	restart := func(step int) {
		if step == 1 {
			stop(server)
			server = start()
		}
	}
	echo := func(text string) call { return call{p.name + "__echo", map[string]any{"message": text}} }
	model := newChatServer(t, restart, echo("before"), echo("after"))

	tested := h.perdure("mcp", "test", "--name", p.name)
	ran := h.perdure("run", "--model", "openai:m", "--base-url", model.url, "--capability", "mcp_"+p.name, "go")

	seen.protocol, seen.tools = protocolOf(tested.stderr), strconv.Itoa(strings.Count(tested.stdout, p.name+"__"))
	seen.kinds, seen.quirks = "text", "its sessions end with it"
	if seen.protocol == "2026-07-28" {
		seen.quirks = "no sessions"
	}
	if ran.code != 0 {
		t.Errorf("run: %s", ran)
	}
	for i, want := range []string{"Echo: before", "Echo: after"} {
		if text, _ := model.last(t).answer(i); !strings.Contains(text, want) {
			t.Errorf("call %d: %q is not in %.300q", i, want, text)
		}
	}
	if states := h.callStates(); !slices.Equal(states, []string{"settled", "settled"}) {
		t.Errorf("the calls are %v", states)
	}
	if !t.Failed() {
		seen.called, seen.killed, seen.died = "2 of 2 as expected", "not tried", "between two calls: both have results"
	}
}

// freePort returns a port that is free now.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// awaitPort waits until a server answers HTTP.
func awaitPort(port string) error {
	for limit := time.Now().Add(waitTime); time.Now().Before(limit); <-time.After(20 * time.Millisecond) {
		if answer, err := http.Get("http://127.0.0.1:" + port + "/"); err == nil {
			return answer.Body.Close()
		}
	}
	return fmt.Errorf("no server answers on port %s within %s", port, waitTime)
}
