package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/store/memory"
)

// TestR03WhoWasLetInIsAnswered opens a connection, and sends its request only after the server has
// begun to stop: the request is answered, and the server waits for it (R3).
func TestR03WhoWasLetInIsAnswered(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	inside := make(chan struct{})
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				close(inside)
			}
		},
	}
	noAPI := func() (*api.API, error) { return nil, errors.New("there is none to drain") }
	o := &listenerServer{listener: listener, server: server, conns: api.LimitConns(listener, 10)}
	o.current.Store(&noAPI)
	d := &apiServer{ended: make(chan struct{}), open: []*listenerServer{o}}
	ctx, stop := context.WithCancelCause(t.Context())
	closed := make(chan error, 1)
	go func() { closed <- d.run(ctx, stop) }()
	guest, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	<-inside
	stop(nil)
	close(d.ended)
	select { // the server has had time to close the connection
	case err := <-closed:
		t.Fatalf("closed with somebody inside: %v", err)
	case <-time.After(100 * time.Millisecond):
	}

	if _, err := io.WriteString(guest, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(guest), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "served" || !resp.Close {
		t.Errorf("answered %q, close %t, %v", body, resp.Close, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// called is an engine that returns its name in its list of tools.
type called struct {
	engine.Engine
	name string
}

// calledTools implements engine.Tools for called.
type calledTools struct {
	engine.Tools
	called
}

// Tools implements engine.Engine.
func (c called) Tools() engine.Tools { return calledTools{nil, c} }

func (c calledTools) List(context.Context) ([]engine.Tool, error) {
	return []engine.Tool{{Name: c.name, Parameters: []byte(`{}`)}}, nil
}

// TestDoorRenews: a lost worker is replaced by another one in the same process, behind the same
// listener, even if the database is unavailable at first (LG20).
func TestDoorRenews(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newAPIServer(called{name: "first"}, memory.New(memory.Config{}), t.TempDir(), slog.New(slog.DiscardHandler))
	d.tools = []string{"*"}
	d.add(listener, api.Config{Token: "0123456789abcdef0123456789abcdef"})
	opening := d.open[0]
	mcpBefore := opening.mcp
	goOn, second := make(chan struct{}), make(chan struct{})
	tries := 0
	run := d.renewWorker(func(context.Context) error {
		<-goOn
		return fmt.Errorf("run: %w", perdure.Lost)
	}, func(context.Context) (engine.Engine, func(context.Context) error, error) {
		if tries++; tries == 1 {
			return nil, nil, fmt.Errorf("%w: the database is away", perdure.Unavailable)
		}
		return called{name: "second"}, func(ctx context.Context) error {
			close(second)
			<-ctx.Done()
			return nil
		}, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.serveWorkers(ctx, run) }()

	before := listed(t, listener.Addr().String())
	close(goOn)
	<-second
	after := listed(t, listener.Addr().String())
	mcpAfter := opening.mcp
	stop()

	lost := d.renewWorker(func(context.Context) error { return perdure.Lost }, nil)(ctx)

	if lost != nil {
		t.Errorf("lost while it was stopped: %v, want nil", lost)
	}
	if !strings.Contains(before, `"first"`) || !strings.Contains(after, `"second"`) {
		t.Errorf("before: %s, after: %s", before, after)
	}
	if err := <-ended; err != nil || tries != 2 {
		t.Errorf("it ended with %v, after %d tries", err, tries)
	}
	// the end of the server waits for both
	for name, m := range map[string]*mcpHandler{"before": mcpBefore, "after": mcpAfter} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("what answered MCP %s goes on: %d", name, w.Code)
		}
	}
	if mcpAfter == mcpBefore {
		t.Error("what answers MCP asks the engine that is lost")
	}
}

// listed is the list of tools of the server.
func listed(t *testing.T, addr string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/v1/tools", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d: %s, %v", resp.StatusCode, body, err)
	}
	return string(body)
}
