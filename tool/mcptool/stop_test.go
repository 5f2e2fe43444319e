package mcptool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/mcptool"
)

// mute is a server over HTTP with sessions that never answers a call.
type mute struct {
	stream bool // it begins a stream of events for a call, and says nothing on it

	asked chan struct{} // gets a word for each call, of which there is one
	over  chan struct{} // closed at the end of the test

	mu    sync.Mutex
	after []string // guarded by mu; what came since the call
	call  bool     // guarded by mu
}

func (m *mute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &asked) // invalid JSON has no method
	m.mu.Lock()
	if m.call && r.Method != http.MethodGet { // the stream of messages is opened beside the calls
		m.after = append(m.after, r.Method+" "+asked.Method)
	}
	m.call = m.call || asked.Method == "tools/call"
	m.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case asked.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mute","version":"1"}}}`, asked.ID)
	case asked.Method == "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"does","inputSchema":{"type":"object"}}]}}`, asked.ID)
	case asked.Method == "tools/call":
		if m.stream {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
		}
		m.asked <- struct{}{}
		<-m.over
	case len(asked.ID) > 0:
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not here"}}`, asked.ID)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// leave makes a call, lets the process end once the server has it, and closes the connection. It
// returns what the call came to.
func leave(t *testing.T, c *mcptool.Client, asked <-chan struct{}) tool.Result {
	t.Helper()
	all, err := mcptool.Tools(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	came := make(chan tool.Result, 1) // of one call
	call := tool.Call{Tool: "does", Args: json.RawMessage(`{}`), Key: "key", Execution: 1}
	go func() { came <- all[0].Run(ctx, call, tool.Env{Call: call}) }()
	within(t, "the server has the call", asked)
	end(perdure.CauseShutdown)
	var result tool.Result
	returned, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(returned)
		result = <-came
	}()
	within(t, "the call has returned", returned)
	go func() {
		defer close(closed)
		if err := c.Close(true); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	within(t, "the connection is closed", closed)
	return result
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
	}
}

// TestCloseWhileACallRuns closes the connection to a server over HTTP that never answers a call.
// The server receives neither a cancel of the call nor the end of the session: the call continues
// there.
func TestCloseWhileACallRuns(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%t", stream), func(t *testing.T) {
			t.Parallel()
			m := &mute{stream: stream, asked: make(chan struct{}, 1), over: make(chan struct{})}
			web := httptest.NewServer(m)
			t.Cleanup(func() {
				close(m.over)
				web.Close()
			})
			c, err := mcptool.Open(t.Context(), mcptool.Config{URL: web.URL + "/mcp", HTTP: web.Client()})
			if err != nil {
				t.Fatal(err)
			}

			leave(t, c, m.asked)

			m.mu.Lock()
			defer m.mu.Unlock()
			if got := strings.Join(m.after, ", "); got != "" {
				t.Errorf("after the call the server got %s", got)
			}
		})
	}
}

// TestCloseLeavesACallToItsBroker closes the connection while a server on stdio answers nothing.
// The broker keeps running, and the same call, made again, gets the answer of the one run.
func TestCloseLeavesACallToItsBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := keepShell(t, speaks(`echo >> '`+dir+`/ran'; while [ ! -e '`+dir+`/go' ]; do sleep 0.05; done; `+saysDone))
	asked := make(chan struct{})
	go func() {
		for ran := []byte(nil); len(ran) == 0 && t.Context().Err() == nil; ran, _ = os.ReadFile(filepath.Join(dir, "ran")) {
			<-time.After(5 * time.Millisecond)
		}
		close(asked)
	}()
	c, err := mcptool.Open(t.Context(), mcptool.Config{Dial: func(ctx context.Context) (io.ReadWriteCloser, error) { return k.connect(ctx) }})
	if err != nil {
		t.Fatal(err)
	}

	leave(t, c, asked)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := run(t, k.does(t, perdure.AtMostOnce), "key")

	if ran, _ := os.ReadFile(filepath.Join(dir, "ran")); !bytes.Equal(ran, []byte("\n")) || !strings.Contains(fmt.Sprintf("%+v %s", again, again.Value), "done") {
		t.Errorf("ran %d times, and came to %+v", bytes.Count(ran, []byte("\n")), again)
	}
}
