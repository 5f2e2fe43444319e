package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mcpFixture is a simple MCP server on stdio with one tool: it logs the start, waits until a file
// exists, and logs the end. If the argument is the name of a method, it sends that request to its
// client, and returns the response. Further tools are in a file.
func mcpFixture() {
	dir := os.Args[1]
	asking := ""
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
			Params struct {
				Arguments struct {
					Name string `json:"name"`
				} `json:"arguments"`
				Meta struct {
					Progress json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || len(m.ID) == 0 {
			continue
		}
		result := `"result":{}`
		switch m.Method {
		case "":
			heard, _ := json.Marshal(string(m.Result) + string(m.Error))
			os.Stdout.WriteString(`{"jsonrpc":"2.0","id":` + asking + `,"result":{"content":[{"type":"text","text":` + string(heard) + `}]}}` + "\n")
			continue
		case "initialize":
			result = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fixture","version":"1"}}`
		case "server/discover":
			result = `"error":{"code":-32601,"message":"not here"}`
		case "tools/list":
			result = `"result":{"tools":[{"name":"work.slowly","description":"Works.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}}}` + moreTools(dir) + `]}`
		case "tools/call":
			if method := m.Params.Arguments.Name; strings.Contains(method, "/") {
				asking = string(m.ID)
				os.Stdout.WriteString(`{"jsonrpc":"2.0","id":"q","method":"` + method + `","params":{"message":"Which?","messages":[],"maxTokens":1,` +
					`"requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}},"required":["colour"]}}}` + "\n")
				continue
			}
			go func() {
				name := m.Params.Arguments.Name
				note(dir, "began "+name)
				for {
					if _, err := os.Stat(filepath.Join(dir, "go-"+name)); err == nil {
						break
					}
					<-time.After(5 * time.Millisecond)
				}
				note(dir, "did "+name)
				if events, err := os.ReadFile(filepath.Join(dir, "events")); err == nil { // one on each line
					for event := range strings.Lines(string(events)) {
						os.Stdout.WriteString(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.Params.Meta.Progress) +
							`,"progress":1,"_meta":{"io.github.perdure/event":` + strings.TrimSpace(event) + `}}}` + "\n")
					}
				}
				os.Stdout.WriteString(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[{"type":"text","text":"did ` + name + `"},{"type":"text","text":"twice said"}]}}` + "\n")
			}()
			continue
		}
		os.Stdout.WriteString(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + result + "}\n")
	}
}

// moreTools returns the tools of that file, each after a comma; without the file there are none.
func moreTools(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "tools"))
	return string(text)
}

// note appends a line to the log of the fixture.
func note(dir, text string) {
	f, err := os.OpenFile(filepath.Join(dir, "noted"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, text)
		_ = f.Close()
	}
}

// mcpClient speaks the newest MCP protocol on the stdio of a program.
type mcpClient struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
}

func startMCP(t *testing.T, args ...string) *mcpClient {
	t.Helper()
	c := &mcpClient{t: t, cmd: exec.Command("perdure", args...)}
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReaderSize(out, 1<<20)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// kill is kill -9.
func (c *mcpClient) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
}

// log is the log of the server behind the proxy.
func (c *mcpClient) log() string {
	logs, _ := filepath.Glob(filepath.Join(c.cmd.Args[4], "mcp-proxy", "*", "server.log"))
	var all []byte
	for _, name := range logs {
		text, _ := os.ReadFile(name)
		all = append(all, text...)
	}
	return string(all)
}

// leave closes the streams, and waits for the end.
func (c *mcpClient) leave() {
	c.t.Helper()
	if err := c.in.Close(); err != nil {
		c.t.Error(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("it ended with %v", err)
	}
}

// ask sends a request and reads its result.
func (c *mcpClient) ask(method, params string) map[string]any {
	c.t.Helper()
	c.id++
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	if params != "" {
		meta += "," + params
	}
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`+"\n", c.id, method, meta)
	for {
		text, err := c.out.ReadBytes('\n')
		if err != nil {
			c.t.Fatalf("%s: %v; %s", method, err, c.log())
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
func (c *mcpClient) begin(name, args string) string {
	c.t.Helper()
	made := c.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, name, args))
	id, ok := made["taskId"].(string)
	if !ok {
		c.t.Fatalf("%s is no task: %v", name, made)
	}
	return id
}

// end polls a task until it has ended.
func (c *mcpClient) end(id string) map[string]any {
	c.t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		got := c.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id))
		if got["status"] != "working" {
			return got
		}
		<-time.After(20 * time.Millisecond)
	}
	c.t.Fatalf("task %s does not end", id)
	return nil
}

// awaitNote waits until the log of the fixture has a line.
func awaitNote(t *testing.T, dir, line string) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if text, _ := os.ReadFile(filepath.Join(dir, "noted")); bytes.Contains(text, []byte(line+"\n")) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("nobody noted %q", line)
}

func letGo(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "go-"+name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMCPProxy: a call continues while its proxy is killed, its result exists afterwards, and it
// was made once. When the server itself is killed, the class decides.
func TestMCPProxy(t *testing.T) {
	t.Parallel()
	data, world := shortDir(t), t.TempDir()
	args := []string{"mcp", "proxy", "--data", data, "--name", "fixture", "--", "mcpfixture", world}
	p := startMCP(t, args...)
	tools, _ := p.ask("tools/list", "")["tools"].([]any)
	if len(tools) != 1 || tools[0].(map[string]any)["name"] != "work.slowly" || tools[0].(map[string]any)["description"] != "Works." {
		t.Fatalf("got %v, want the server's own tool", tools)
	}

	id := p.begin("work.slowly", `{"name":"a"}`)
	awaitNote(t, world, "began a")
	p.kill()
	letGo(t, world, "a")
	awaitNote(t, world, "did a") // while no proxy runs
	p = startMCP(t, args...)
	done := p.end(id)
	if text, _ := json.Marshal(done["result"]); done["status"] != "completed" || string(text) != `{"content":[{"text":"did a","type":"text"},{"text":"twice said","type":"text"}]}` {
		t.Errorf("got %v", done)
	}

	id = p.begin("work.slowly", `{"name":"b"}`)
	awaitNote(t, world, "began b")
	for range 3 { // killed repeatedly while it runs
		p.kill()
		p = startMCP(t, args...)
		p.ask("tools/list", "")
	}
	letGo(t, world, "b")
	if done := p.end(id); done["status"] != "completed" {
		t.Errorf("got %v", done)
	}

	// The server itself dies during a call: its outcome is unknown, and the next call has another
	// server.
	id = p.begin("work.slowly", `{"name":"c"}`)
	awaitNote(t, world, "began c")
	shellOut(t, "pkill", "-9", "-f", "^mcpfixture "+world)
	if lost := p.end(id); lost["status"] != "completed" || !strings.Contains(fmt.Sprint(lost["result"]), "outcome:unknown") {
		t.Errorf("got %v", lost)
	}
	p.leave()
	noted, err := os.ReadFile(filepath.Join(world, "noted"))
	if err != nil || string(noted) != "began a\ndid a\nbegan b\ndid b\nbegan c\n" {
		t.Errorf("the world saw %q, %v: each once", noted, err)
	}
	if left, _ := exec.Command("pgrep", "-f", "mcpfixture "+world).Output(); len(left) > 0 {
		awaitGone(t, "mcpfixture "+world)
	}
}

// awaitGone waits until no process has these words in its command line.
func awaitGone(t *testing.T, words string) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); {
		if left, _ := exec.Command("pgrep", "-f", words).Output(); len(left) == 0 {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Errorf("the server is left behind")
}

func shellOut(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v %s", name, args, err, out)
	}
	return string(out)
}

// keyedMeta is the part of a request that contains the client's key of a call.
func keyedMeta(key string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.github.perdure/key":"` + key + `"},`
}

// send sends a request without reading the response.
func (c *mcpClient) send(method, params string) {
	c.id++
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`+"\n", c.id, method, params)
}

// keyed calls a tool with a key and returns its task.
func (c *mcpClient) keyed(key, call string) string {
	c.t.Helper()
	c.send("tools/call", keyedMeta(key)+call)
	for {
		text, err := c.out.ReadBytes('\n')
		if err != nil {
			c.t.Fatalf("%s: %v; %s", key, err, c.log())
		}
		var m struct {
			ID     int `json:"id"`
			Result struct {
				TaskID string `json:"taskId"`
			} `json:"result"`
		}
		if json.Unmarshal(text, &m) == nil && m.ID == c.id {
			return m.Result.TaskID
		}
	}
}
