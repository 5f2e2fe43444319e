package egress_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// TestS2Proxy: the environment names proxies, and they are not used. Not parallel: it sets the
// environment.
func TestS2Proxy(t *testing.T) {
	wire := newTripwire(t)
	for _, name := range strings.Fields("HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy") {
		t.Setenv(name, "http://127.0.0.1:"+wire.port)
	}
	server := serve(t, "a.test", func(http.ResponseWriter, *http.Request) {})
	control := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if err := fetch(t, &http.Client{Transport: control}, server); err == nil || wire.hits.Load() != 1 {
		t.Fatalf("an unguarded client: got %v and %d hits, want one at the proxy", err, wire.hits.Load())
	}

	both(t, newGuard(t, egress.Config{}), func(t *testing.T, fetch func(perdure.WebRequest) (int, error)) {
		if status, err := fetch(perdure.WebRequest{URL: server}); err != nil || status != http.StatusOK {
			t.Errorf("got %d, %v", status, err)
		}
	})

	if n := wire.hits.Load(); n != 1 {
		t.Errorf("%d connections to the proxy, want only the unguarded one", n)
	}
}

// TestS2AltSvc: a server cannot point to another place by Alt-Svc or the like.
func TestS2AltSvc(t *testing.T) {
	t.Parallel()
	wire := newTripwire(t)
	server := serve(t, "a.test", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Alt-Svc", `h2="127.0.0.1:`+wire.port+`"; ma=3600, h3=":`+wire.port+`", http/1.1="127.0.0.1:`+wire.port+`"`)
		w.Header().Set("Refresh", "0; url=http://127.0.0.1:"+wire.port)
		w.Header().Set("Content-Location", "http://127.0.0.1:"+wire.port)
		w.Header().Set("Link", "<http://127.0.0.1:"+wire.port+">; rel=preload")
		w.Header().Set("Connection", "close")
	})
	both(t, newGuard(t, egress.Config{}), func(t *testing.T, fetch func(perdure.WebRequest) (int, error)) {
		for range 3 {
			if _, err := fetch(perdure.WebRequest{URL: server}); err != nil {
				t.Error(err)
			}
		}
	})
	if n := wire.hits.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}
