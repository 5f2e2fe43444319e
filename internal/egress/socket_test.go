package egress_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/internal/egress"
)

// TestSocket: the client reaches its socket and nothing else, whatever a URL, a redirect or the
// environment says. Not parallel: it sets the environment.
func TestSocket(t *testing.T) {
	wire := newTripwire(t)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:"+wire.port)
	dir, err := os.MkdirTemp("", "p") // a socket's path may hold 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://127.0.0.1:"+wire.port+"/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "here")
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	client := egress.Socket(path)
	t.Cleanup(client.CloseIdleConnections)

	for _, u := range []string{"http://localhost/", "http://127.0.0.1:" + wire.port + "/", "http://example.com/"} {
		resp, err := client.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(text) != "here" {
			t.Errorf("%s: got %q, %v", u, text, err)
		}
	}
	resp, err := client.Get("http://localhost/away")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusFound || wire.hits.Load() != 0 {
		t.Errorf("got %d and %d hits at the tripwire, want the redirect itself and none", resp.StatusCode, wire.hits.Load())
	}
	missing := egress.Socket(path + "x")
	resp, err = missing.Get("http://localhost/")
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: got %v", err)
	}
}
