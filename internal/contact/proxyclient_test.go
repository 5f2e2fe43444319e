//go:build contact

package contact

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// proxyClient is an MCP client of a proxy on stdio. It supports tasks.
type proxyClient struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log *strings.Builder // stderr of the proxy
	id  int
}

// startProxy starts a proxy in front of a server.
func (h *home) startProxy(command []string, env map[string]string) *proxyClient {
	h.t.Helper()
	args := append([]string{"mcp", "proxy", "--data", h.data, "--name", "p", "--"}, command...)
	c := &proxyClient{t: h.t, cmd: exec.Command(perdureProgram(h.t), args...), log: &strings.Builder{}}
	c.cmd.Env, c.cmd.Dir, c.cmd.Stderr, c.cmd.WaitDelay = h.env, h.work, c.log, time.Second
	for name, value := range env {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReaderSize(out, 1<<20)
	if err := c.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.kill)
	return c
}

// kill is kill -9.
func (c *proxyClient) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
}

// leave closes the streams, and waits for the end.
func (c *proxyClient) leave() {
	c.t.Helper()
	if err := c.in.Close(); err != nil {
		c.t.Error(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the proxy ended with %v: %s", err, c.log)
	}
}

// ask sends a request and reads its result. Params are the fields of the request, as JSON without
// braces.
func (c *proxyClient) ask(method, params string) map[string]any {
	c.t.Helper()
	c.id++
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"contact","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	if params != "" {
		meta += "," + params
	}
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`+"\n", c.id, method, meta)
	for {
		text, err := c.out.ReadBytes('\n')
		if err != nil {
			c.kill() // so that its log is complete
			c.t.Fatalf("%s: %v; %s", method, err, c.log)
		}
		var m struct {
			ID     int            `json:"id"`
			Result map[string]any `json:"result"`
			Error  any            `json:"error"`
		}
		if json.Unmarshal(text, &m) != nil || m.ID != c.id {
			continue
		}
		if m.Error != nil {
			c.t.Fatalf("%s: %v", method, m.Error)
		}
		return m.Result
	}
}

// begin calls a tool and returns its task.
func (c *proxyClient) begin(name string, args any) string {
	c.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		c.t.Fatal(err)
	}
	made := c.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, name, text))
	id, ok := made["taskId"].(string)
	if !ok {
		c.t.Fatalf("%s is no task: %v", name, made)
	}
	return id
}

// end polls a task until it has ended.
func (c *proxyClient) end(id string) map[string]any {
	c.t.Helper()
	for limit := time.Now().Add(waitTime); time.Now().Before(limit); <-time.After(20 * time.Millisecond) {
		got := c.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id))
		if got["status"] != "working" {
			return got
		}
	}
	c.t.Fatalf("task %s does not end", id)
	return nil
}
