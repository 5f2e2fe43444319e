package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMCPProxyShared: two clients with the same command line share one server. When the proxy that
// holds it is killed in the middle of a call of the other client, that call is made once, and its
// result arrives.
func TestMCPProxyShared(t *testing.T) {
	t.Parallel()
	data, world := shortDir(t), t.TempDir()
	args := []string{"mcp", "proxy", "--data", data, "--", "mcpfixture", world}
	first := startMCP(t, args...)
	first.ask("tools/list", "")
	second := startMCP(t, args...)
	if tools, _ := second.ask("tools/list", "")["tools"].([]any); len(tools) != 1 {
		t.Fatalf("the second client sees %v", tools)
	}
	a, b := first.begin("work.slowly", `{"name":"a"}`), second.begin("work.slowly", `{"name":"b"}`)
	awaitNote(t, world, "began a")
	awaitNote(t, world, "began b")
	if servers := strings.Fields(shellOut(t, "pgrep", "-x", "-f", "mcpfixture "+world)); len(servers) != 1 {
		t.Errorf("%d servers run", len(servers))
	}
	letGo(t, world, "a")
	if done := first.end(a); done["status"] != "completed" {
		t.Errorf("got %v", done)
	}

	first.kill()
	second.ask("tools/list", "") // it is served again
	letGo(t, world, "b")

	if done := second.end(b); done["status"] != "completed" {
		t.Errorf("got %v", done)
	}
	third := startMCP(t, args...)
	third.ask("tools/list", "")
	second.leave() // the third takes the place of the second
	third.ask("tools/list", "")
	third.leave()
	if noted, err := os.ReadFile(filepath.Join(world, "noted")); err != nil || strings.Count(string(noted), "began") != 2 {
		t.Errorf("the world saw %q, %v", noted, err)
	}
	awaitGone(t, "mcpfixture "+world)
}

// TestMCPProxyHeld: a second proxy with another command line under one name, and one that listens,
// name the flag that helps.
func TestMCPProxyHeld(t *testing.T) {
	t.Parallel()
	data, world := shortDir(t), t.TempDir()
	first := startMCP(t, "mcp", "proxy", "--data", data, "--name", "one", "--", "mcpfixture", world)
	first.ask("tools/list", "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, more := range [][]string{{"--class", "work.slowly=pure"}, {"--listen", "127.0.0.1:0"}} {
		args := append([]string{"mcp", "proxy", "--data", data, "--name", "one"}, more...)
		said, err := exec.CommandContext(ctx, "perdure", append(args, "--", "mcpfixture", world)...).CombinedOutput()
		if ended := (*exec.ExitError)(nil); !errors.As(err, &ended) || ended.ExitCode() != 5 {
			t.Errorf("%v: %v", more, err)
		}
		if !strings.Contains(string(said), "the proxy one ") || !strings.Contains(string(said), "--name NAME") || strings.Contains(string(said), "use --data") {
			t.Errorf("%v: %s", more, said)
		}
	}
	first.leave()
	awaitGone(t, "mcpfixture "+world)
}

// relayEnd is a server of a relay, as the test plays it.
type relayEnd struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	left chan bool
}

func (r *relay) meets(t *testing.T) *relayEnd {
	t.Helper()
	here, there := net.Pipe()
	e := &relayEnd{t: t, conn: there, in: bufio.NewReader(there), left: make(chan bool, 1)}
	go func() { e.left <- r.serve(bufio.NewReader(here), here) }()
	return e
}

func (e *relayEnd) hears(want ...string) {
	e.t.Helper()
	for _, line := range want {
		got, err := e.in.ReadString('\n')
		if err != nil || strings.TrimSpace(got) != line {
			e.t.Fatalf("got %q, %v, want %q", got, err, line)
		}
	}
}

func (e *relayEnd) says(line string) {
	e.t.Helper()
	if _, err := io.WriteString(e.conn, line+"\n"); err != nil {
		e.t.Error(err)
	}
}

func (e *relayEnd) dies() {
	e.t.Helper()
	_ = e.conn.Close()
	if <-e.left {
		e.t.Fatal("the client has left")
	}
}

// TestRelayRepeats: the next server gets the handshake, and what was not answered; the client gets
// each answer once.
func TestRelayRepeats(t *testing.T) {
	t.Parallel()
	input, client := io.Pipe()
	heard, output := io.Pipe()
	answers := bufio.NewReader(heard)
	r := newRelay(t.Context(), input, output)
	send := func(lines ...string) {
		for _, line := range lines {
			if _, err := io.WriteString(client, line+"\n"); err != nil {
				t.Error(err)
			}
		}
	}
	answered := func(want string) {
		t.Helper()
		if got, err := answers.ReadString('\n'); err != nil || strings.TrimSpace(got) != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
	const (
		hello  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`
		ready  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		one    = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`
		two    = `{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{}}`
		three  = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{}}`
		cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`
	)

	first := r.meets(t)
	go send(hello)
	first.hears(hello)
	go first.says(`{"jsonrpc":"2.0","id":0,"result":{}}`)
	answered(`{"jsonrpc":"2.0","id":0,"result":{}}`)
	go send(ready, one, two, three, cancel)
	first.hears(ready, one, two, three, cancel)
	go first.says(`{"jsonrpc":"2.0","id":"b","result":{}}`)
	answered(`{"jsonrpc":"2.0","id":"b","result":{}}`)
	first.dies()

	second := r.meets(t)
	second.hears(hello, ready, one)
	second.says(`{"jsonrpc":"2.0","id":0,"result":{"again":true}}`)
	go second.says(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	answered(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if !<-second.left || r.failure() != nil {
		t.Errorf("the client has left: %v", r.failure())
	}
}

// FuzzRelay: whatever a client and a server write, the relay passes it on, and forgets requests
// only when they are answered.
func FuzzRelay(f *testing.F) {
	for _, line := range []string{`{"id":1,"method":"tools/call"}`, `{"id":1,"result":{}}`, `{"id":null}`, `[{"id":1}]`, `{"method":"notifications/cancelled","params":{"requestId":1}}`, `{`, ``} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = append(bytes.ReplaceAll(line, []byte("\n"), nil), '\n')
		var out bytes.Buffer
		r := &relay{out: &out}
		r.note([]byte(`{"id":"kept","method":"tools/call"}`))
		before := len(r.repeats())
		if !r.pass(line) || !bytes.Equal(out.Bytes(), line) {
			t.Fatalf("%q was passed as %q", line, out.Bytes())
		}
		if _, id := headOf(line); len(r.repeats()) < before && id != "text kept" {
			t.Errorf("%q answered a request", line)
		}
		r.note(line)
		r.repeats()
	})
}
