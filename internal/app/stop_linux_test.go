package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/egress"
)

// shortStop is the stop timeout of these tests.
const shortStop = "PERDURE_STOP_TIMEOUT=2s"

// silentServer is an HTTP server that never responds, except to the initialization of an MCP
// client.
type silentServer struct {
	*httptest.Server
	asked chan string // requests without a response; capacity: more than any test sends
}

func newSilentServer(t *testing.T) *silentServer {
	t.Helper()
	s, over := &silentServer{asked: make(chan string, 1000)}, make(chan struct{})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m) // other bodies have no method
		result := ""
		switch m.Method {
		case "initialize":
			result = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"silent","version":"1"}}`
		case "tools/list":
			result = `"result":{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}`
		case "server/discover":
			result = `"error":{"code":-32601,"message":"not here"}`
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if result != "" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, result)
			return
		}
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.asked <- r.URL.Path + " " + m.Method
		<-over
	}))
	t.Cleanup(func() {
		close(over)
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// isAsked waits for a request.
func (s *silentServer) isAsked(t *testing.T, what string) {
	t.Helper()
	for limit := time.After(waitTime); ; {
		select {
		case asked := <-s.asked:
			if strings.HasSuffix(asked, what) {
				return
			}
		case <-limit:
			t.Fatalf("nobody asks %q within %s", what, waitTime)
		}
	}
}

// running is a process of the program that is to be stopped.
type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	said  *bytes.Buffer // read when it has ended
	ended chan error    // receives the result
}

func (p place) begin(args ...string) *running {
	p.t.Helper()
	r := &running{t: p.t, cmd: p.command(args...), said: &bytes.Buffer{}, ended: make(chan error, 1)}
	r.cmd.Stderr, r.cmd.Stdout = r.said, r.said
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	p.t.Cleanup(func() { _ = r.cmd.Process.Kill() }) // it may have ended
	return r
}

// stop sends SIGTERM, and checks the exit code.
func (r *running) stop(want int) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	select {
	case err := <-r.ended:
		if code := exitCodeOf(err); code != want {
			r.t.Errorf("it ended with %d, want %d: %s", code, want, r.said)
		}
	case <-time.After(waitTime):
		r.t.Fatalf("it has not ended %s after SIGTERM", waitTime)
	}
}

// exitCodeOf is the exit code of a process after Wait.
func exitCodeOf(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// newStopPlace is a place with a short stop timeout and the given MCP servers.
func newStopPlace(t *testing.T, servers string) place {
	t.Helper()
	p := place{t: t, data: shortDir(t), work: t.TempDir(), env: []string{shortStop, "OPENAI_API_KEY=k"}}
	if err := os.WriteFile(filepath.Join(p.data, "mcp.json"), []byte(`{"mcpServers":{`+servers+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endBrokers(t, p.data) })
	return p
}

// endBrokers ends the keeper processes of the MCP servers of a data directory: a stop keeps those
// whose server has a call.
func endBrokers(t *testing.T, data string) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		line, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(line), "\x00mcp\x00keep\x00--socket\x00"+data+"/") {
			continue // it has ended, or is something else
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
		}
	}
}

// calling is a script whose model calls a tool once.
func (p place) calling(tool, args string) string {
	p.t.Helper()
	path := filepath.Join(p.work, "s.json")
	text := fmt.Sprintf(`{"steps":[{"calls":[{"name":%q,"args":%s}]},{"text":"end","repeat":true}]}`, tool, args)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return "scripted:" + path
}

// states are those of the calls of the newest session.
func (p place) states() string {
	p.t.Helper()
	var all []struct{ State, Outcome string }
	if err := json.Unmarshal([]byte(p.output("call", "list", "last", "-o", "json")), &all); err != nil {
		p.t.Fatal(err)
	}
	return fmt.Sprint(all)
}

// noted waits until the fixture has logged a line, and returns its full log.
func (p place) noted(dir, what string) string {
	p.t.Helper()
	for limit := time.Now().Add(waitTime); ; <-time.After(5 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "noted"))
		if strings.Contains(string(text), what) {
			return string(text)
		}
		if time.Now().After(limit) {
			p.t.Fatalf("%q is not noted within %s: %q", what, waitTime, text)
		}
	}
}

// TestStopWhileAnMCPServerOnStdioIsSilent: the run ends. The next one treats the call as after kill
// -9, and the server received it once.
func TestStopWhileAnMCPServerOnStdioIsSilent(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*running){"SIGTERM": func(r *running) { r.stop(exitInterrupted) }, "SIGKILL": (*running).killed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			p := newStopPlace(t, fmt.Sprintf(`"f":{"command":"mcpfixture","args":[%q]}`, dir))
			r := p.begin("run", "--model", p.calling("f__work_slowly", `{"name":"x"}`), "--capability", "mcp_f", "go")
			p.noted(dir, "began x")

			cut(r)
			again := p.begin("run", "--last")

			if code := exitCodeOf(<-again.ended); code != 8 {
				t.Errorf("the next run ended with %d: %s", code, again.said)
			}
			if got := p.states(); !strings.Contains(got, "unknown") {
				t.Errorf("the call is %s", got)
			}
			if err := os.WriteFile(filepath.Join(dir, "go-x"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := p.noted(dir, "did x"); strings.Count(got, "began") != 1 {
				t.Errorf("the server was asked more than once: %q", got)
			}
		})
	}
}

// killed is kill -9.
func (r *running) killed() {
	_ = r.cmd.Process.Kill() // it has not ended by itself
	<-r.ended
}

// TestStopWhileAnMCPServerOverHTTPIsSilent: the run ends, and the next one reports an unknown
// outcome for the call, which cannot be found again.
func TestStopWhileAnMCPServerOverHTTPIsSilent(t *testing.T) {
	t.Parallel()
	s := newSilentServer(t)
	p := newStopPlace(t, fmt.Sprintf(`"f":{"url":"%s/mcp"}`, s.URL))
	r := p.begin("run", "--model", p.calling("f__wait", `{}`), "--capability", "mcp_f", "go")
	s.isAsked(t, "tools/call")

	r.stop(exitInterrupted)
	again := p.begin("run", "--last")
	<-again.ended

	if got := p.states(); !strings.Contains(got, "unknown") || len(s.asked) > 0 {
		t.Errorf("the call is %s, and the server was asked %d times more", got, len(s.asked))
	}
}

// TestStopWhileAModelIsSilent: the run ends, and the next one repeats the request.
func TestStopWhileAModelIsSilent(t *testing.T) {
	t.Parallel()
	s, p := newSilentServer(t), newStopPlace(t, "")
	r := p.begin("run", "--model", "openai:m", "--base-url", s.URL+"/v1", "go")
	s.isAsked(t, "/v1/chat/completions ")

	r.stop(exitInterrupted)
	r = p.begin("run", "--last")
	s.isAsked(t, "/v1/chat/completions ")
	r.stop(exitInterrupted)
}

// TestStopOfAServer ends servers while their peers are silent. The data directory is free for the
// next one each time.
func TestStopOfAServer(t *testing.T) {
	t.Parallel()
	for name, law := range map[string]func(t *testing.T, d *doorway, s *silentServer){
		"a webhook receiver": func(t *testing.T, d *doorway, s *silentServer) {
			d.start()
			rules := egress.Rules{Webhooks: []string{strings.TrimPrefix(s.URL, "http://")}}
			if err := rules.Write(filepath.Join(d.data, egress.RulesFile)); err != nil {
				t.Fatal(err)
			}
			if r, _ := d.insist(post{"/v1/webhooks", "hook", `{"url":"` + s.URL + `/hook","types":["turn.completed"]}`}); r.status != http.StatusCreated {
				t.Fatalf("new webhook: %d %s", r.status, r.body)
			}
			id := d.begin(d.script("steps: [{text: hello, repeat: true}]"), "s")
			d.insist(say(id, "m", "go"))
			s.isAsked(t, "/hook ")
		},
		"a collector of spans": func(t *testing.T, d *doorway, s *silentServer) {
			d.serve = []string{"--otlp-endpoint", s.URL}
			d.start()
			id := d.begin(d.script("steps: [{text: hello, repeat: true}]"), "s")
			d.insist(say(id, "m", "go"))
			d.rest(id)
		},
		"a model": func(t *testing.T, d *doorway, s *silentServer) {
			d.start()
			id := d.begin("openai:m@"+s.URL+"/v1", "s")
			d.insist(say(id, "m", "go"))
			s.isAsked(t, "/v1/chat/completions ")
		},
		"an MCP server": func(t *testing.T, d *doorway, s *silentServer) {
			if err := os.WriteFile(filepath.Join(d.data, "mcp.json"), fmt.Appendf(nil, `{"mcpServers":{"f":{"url":"%s/mcp"}}}`, s.URL), 0o600); err != nil {
				t.Fatal(err)
			}
			d.start()
			made, _ := d.insist(post{"/v1/sessions", "s", fmt.Sprintf(`{"agent":{"model":%q,"capabilities":["mcp_f"]}}`, d.calling("f__wait", `{}`))})
			var session struct{ ID string }
			made.into(t, &session)
			d.insist(post{"/v1/sessions/" + session.ID + "/messages", "m", `{"content":[{"type":"text","text":"go"}]}`})
			s.isAsked(t, "tools/call")
		},
		"a follower that does not read": followsUnread,
		"a request that never ends":     asksWithoutEnd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoorway(t, nil)
			d.data = shortDir(t)
			d.env = []string{shortStop, "OPENAI_API_KEY=k"}
			law(t, d, newSilentServer(t))
			end := time.AfterFunc(waitTime, func() { _ = d.server.Process.Kill() }) // the exit code differs then

			d.stop()
			end.Stop()
			d.start()
			d.stop()
		})
	}
}

// followsUnread follows a session, and does not read what the server sends.
func followsUnread(t *testing.T, d *doorway, _ *silentServer) {
	d.start()
	id := d.begin(d.script("steps: [{text: "+strings.Repeat("much ", 100_000)+", repeat: true}]"), "s")
	for i := range 12 {
		d.insist(say(id, fmt.Sprint("m", i), "go"))
		d.rest(id)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /v1/sessions/%s/events?after=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", id, d.token)
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("it follows: %q, %v", line, err)
	}
}

// asksWithoutEnd starts a request, and sends no body.
func asksWithoutEnd(t *testing.T, d *doorway, _ *silentServer) {
	d.start()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", d.token)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("it is read: %q, %v", line, err)
	}
}

// TestStopOfMCPCommands ends servers for MCP clients, and keepers of MCP servers, while a call runs
// or the server ignores signals.
func TestStopOfMCPCommands(t *testing.T) {
	t.Parallel()
	t.Run("mcp proxy", func(t *testing.T) {
		t.Parallel()
		s, p := newSilentServer(t), newStopPlace(t, "")
		r := p.converses("mcp", "proxy", "--data", p.data, "--url", s.URL+"/mcp")
		r.calls("wait", `{}`)
		s.isAsked(t, "tools/call")
		r.stop(exitInterrupted)
	})
	t.Run("mcp serve", func(t *testing.T) {
		t.Parallel()
		s := newSilentServer(t)
		p := newStopPlace(t, fmt.Sprintf(`"f":{"url":"%s/mcp"}`, s.URL))
		r := p.converses("mcp", "serve", "--data", p.data, "--tool", "f__wait")
		r.calls("f__wait", `{}`)
		s.isAsked(t, "tools/call")
		r.stop(exitInterrupted)
	})
	t.Run("mcp keep", func(t *testing.T) {
		t.Parallel()
		p := newStopPlace(t, "")
		up := filepath.Join(p.data, "up")
		r := p.begin("mcp", "keep", "--socket", filepath.Join(p.data, "s"), "--", "sh", "-c", `trap "" INT TERM; touch "$0"; while :; do sleep 0.1; done`, up)
		for limit := time.Now().Add(waitTime); ; <-time.After(5 * time.Millisecond) {
			if _, err := os.Stat(up); err == nil {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("the server is not up: %s", r.said)
			}
		}
		r.stop(exitInterrupted)
	})
}

// converses is begin for a command that speaks MCP on stdio.
func (p place) converses(args ...string) *conversing {
	p.t.Helper()
	cmd := p.command(args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	c := &conversing{running: running{t: p.t, cmd: cmd, said: &bytes.Buffer{}, ended: make(chan error, 1)}}
	cmd.Stderr = c.said
	c.mcpClient = &mcpClient{t: p.t, cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	return c
}

// conversing is a command with a client on its stdio.
type conversing struct {
	running
	*mcpClient
}

// calls starts a call, as a client without tasks: it has no response while it runs.
func (c *conversing) calls(name, args string) {
	c.running.t.Helper()
	c.ask("tools/list", "")
	c.send("tools/call", fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"name":%q,"arguments":%s`, name, args))
	go func() { c.ended <- c.running.cmd.Wait() }()
}

// TestSecondSignalEndsAtOnce: another signal ends a stop that may take an hour. The data directory
// is free then.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSilentServer(t)
	p := newStopPlace(t, fmt.Sprintf(`"f":{"url":"%s/mcp"}`, s.URL))
	p.env = append(p.env, "PERDURE_STOP_TIMEOUT=1h")
	r := p.begin("run", "--model", p.calling("f__wait", `{}`), "--capability", "mcp_f", "go")
	s.isAsked(t, "tools/call")

	code := r.signalled()

	if code != exitInterrupted || !strings.Contains(r.said.String(), "exited at once") {
		t.Errorf("it ended with %d: %s", code, r.said)
	}
	p.output("session", "new", "--model", p.calling("f__wait", `{}`))
}

// signalled sends one signal after another until the end, and returns the exit code.
func (r *running) signalled() int {
	r.t.Helper()
	limit := time.After(waitTime)
	for {
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case err := <-r.ended:
			return exitCodeOf(err)
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			r.t.Fatalf("it has not ended %s after many signals", waitTime)
		}
	}
}
