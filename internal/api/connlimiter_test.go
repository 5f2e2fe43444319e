package api_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/api"
)

// TestBounded: a connection beyond the limit is asked to come back later, and there is room again
// after another one is closed.
func TestBounded(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	gone := make(chan struct{}, 4)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }),
		ConnState: func(c net.Conn, s http.ConnState) {
			if _, can := c.(interface{ CloseWrite() error }); !can {
				t.Error("the server cannot end what it sends before the connection")
			}
			if s == http.StateClosed {
				gone <- struct{}{}
			}
		},
	}
	go func() { _ = server.Serve(api.LimitConns(inner, 2)); close(served) }() // it ends with ErrServerClosed
	defer func() { server.Close(); <-served }()
	ask := func() (net.Conn, string) {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		head := make([]byte, len("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1"))
		n, _ := io.ReadAtLeast(conn, head, len("HTTP/1.1 503"))
		return conn, string(head[:n])
	}
	first, got := ask()
	if !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Fatalf("got %q", got)
	}
	if _, got := ask(); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("got %q", got)
	}
	// nothing: it was closed before it was read
	if _, got := ask(); got != "" && !strings.HasPrefix(got, "HTTP/1.1 503") {
		t.Errorf("got %q", got)
	}
	first.Close()
	<-gone
	if _, got := ask(); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("got %q", got)
	}
}
