package remote_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sessionID = perdure.SessionID("session_0123456789abcdef0123456789abcdef")
	taskID    = perdure.TaskID("task_0123456789abcdef0123456789abcdef")
)

// pipes is a network of net.Pipe, so that a server and its client live in one bubble of synctest.
type pipes struct {
	conns chan net.Conn // unbuffered: a dialer waits for the server
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, fmt.Errorf("connection refused")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// inBubble creates an engine for a handler; both are in the caller's bubble of synctest, with its
// own time.
func inBubble(t *testing.T, cfg remote.Config, handle http.HandlerFunc) *remote.Engine {
	t.Helper()
	network := newPipes()
	server := &http.Server{Handler: handle}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(network) }()
	transport := &http.Transport{DialContext: network.dial}
	cfg.HTTP = &http.Client{Transport: transport}
	if cfg.URL == "" {
		cfg.URL = "unix:///run/perdure.sock"
	}
	eng, err := remote.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eng.Close()
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return eng
}

// problem responds with an error as the API does.
func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if status == http.StatusServiceUnavailable || code == "in_flight" {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "about:blank", "title": code, "status": status, "detail": detail, "code": code, "request_id": "r1", "later": []int{1},
	})
}

// reply responds with JSON.
func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// cut ends a connection in the middle of a response.
func cut(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"id":`)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// stream starts a response with a stream of events.
func stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "retry: 1000\n\n"+text)
	_ = http.NewResponseController(w).Flush()
}

// eventJSON is an event of the session with a seq.
func eventJSON(t *testing.T, seq int64) string {
	t.Helper()
	text, err := perdure.EncodeEvent(perdure.Event{
		ID: perdure.EventID(fmt.Sprintf("event_%032x", seq)), Seq: seq, At: time.Unix(seq, 0), Session: sessionID, Actor: "user",
		Fact: perdure.MessageReceived{Message: perdure.Text(fmt.Sprint("message ", seq)), Mode: perdure.ModeSteer},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eventFrame is the same event in a stream.
func eventFrame(t *testing.T, seq int64) string {
	t.Helper()
	return fmt.Sprintf("id: %d\nevent: message.received\ndata: %s\n\n", seq, eventJSON(t, seq))
}

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
