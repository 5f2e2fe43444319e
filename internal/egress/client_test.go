package egress_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

func fetch(t *testing.T, c *http.Client, rawURL string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rawURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	buffer := bufio.NewReader(resp.Body)
	_, _ = buffer.WriteTo(discard{})
	return resp.Body.Close()
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestClientStreams: a stream lasts longer than the timeouts and grows larger than the limits, and
// each piece arrives when it is sent.
func TestClientStreams(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	server := serve(t, "a.test", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = w.Write([]byte("data: piece\n"))
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	const headerTimeout = 500 * time.Millisecond
	g := newGuard(t, egress.Config{MaxResponseBytes: 5, Timeout: time.Nanosecond, HeaderTimeout: headerTimeout})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := g.Client("").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	past := time.After(headerTimeout) // started later than the guard's own
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		if i == 2 {
			<-past
		}
		if !lines.Scan() || lines.Text() != "data: piece" {
			t.Fatalf("piece %d: got %q, %v", i, lines.Text(), lines.Err())
		}
		next <- struct{}{}
	}
}

// TestClientEnds: the header has a timeout, and a context that ends says why.
func TestClientEnds(t *testing.T) {
	t.Parallel()
	slow, _ := waits(t, "") // the time may be over before it hears of the request
	err := fetch(t, newGuard(t, egress.Config{HeaderTimeout: 20 * time.Millisecond}).Client(""), slow)
	wants(t, err, perdure.EgressTransport, "")

	silent, heard := waits(t, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-heard; cancel(perdure.CauseInterrupt) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, silent, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := newGuard(t, egress.Config{}).Client("").Do(req); !errors.Is(err, perdure.CauseInterrupt) {
		t.Errorf("got %v, %v, want the cause", resp, err)
	}
}

// TestClientKeepsConnections: requests of one purpose share a connection, until Close; those of two
// do not.
func TestClientKeepsConnections(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	u := "http://a.test:" + portOf(t, server.URL)
	g := newGuard(t, egress.Config{Listed: []egress.Listing{{Purpose: "p", Host: "a.test"}}})
	steps := []struct {
		purpose string
		close   bool
		want    int64
	}{{"", false, 1}, {"", false, 1}, {"p", false, 2}, {"p", false, 2}, {"", true, 3}}
	for i, s := range steps {
		if s.close {
			g.Close()
		}
		if err := fetch(t, g.Client(s.purpose), u); err != nil {
			t.Fatal(err)
		}
		if got := opened.Load(); got != s.want {
			t.Errorf("step %d: %d connections, want %d", i, got, s.want)
		}
	}
}

// TestClientChecksURLs: a client applies the operator's list, sends only the Host that it checked,
// and reports denials to the audit log.
func TestClientChecksURLs(t *testing.T) {
	t.Parallel()
	var end recorder
	server := serve(t, "a.test", func(_ http.ResponseWriter, r *http.Request) { end.note(r) })
	denials := 0
	g := newGuard(t, egress.Config{List: perdure.NetworkList{Blocked: []string{"b.test", server + "/no"}}, OnDenied: func(perdure.EgressError) { denials++ }})
	for _, u := range []string{"http://b.test/", server + "/no", server + "/%6eo/x", server + "//no;v=1/x"} {
		wants(t, fetch(t, g.Client(""), u), perdure.EgressDenied, perdure.RuleBlocked)
	}
	wants(t, fetch(t, g.Client(""), "ftp://a.test/"), perdure.EgressDenied, perdure.RuleScheme)
	wants(t, fetch(t, g.Client(""), "http://me:hush@a.test/"), perdure.EgressInvalid, "")
	if denials != 5 || len(end.seen) != 0 {
		t.Errorf("%d denials were reported, %d requests came: want 5, 0", denials, len(end.seen))
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "b.test"
	resp, err := g.Client("").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if r, _ := end.last(t); "http://"+r.Host != server {
		t.Errorf("sent Host %s", r.Host)
	}
}

// TestForURL: the base URL is open, and nothing else that is private.
func TestForURL(t *testing.T) {
	t.Parallel()
	other := newTripwire(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	c, err := egress.ForURL(server.URL + "/v1/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	if err := fetch(t, c, server.URL+"/v1/models"); err != nil {
		t.Errorf("its own server: %v", err)
	}
	for _, u := range []string{"http://127.0.0.1:" + other.port, server.URL + "/?to=http://127.0.0.1:" + other.port, "http://localhost:" + portOf(t, server.URL), "http://10.0.0.1/"} {
		wants(t, fetch(t, c, u), perdure.EgressDenied, perdure.RuleAddress)
	}
	if n := other.hits.Load(); n != 0 {
		t.Errorf("%d connections to another port", n)
	}
}

// TestForURLAddress: an address of IPv6 is listed as well as one of IPv4.
func TestForURLAddress(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	base := "http://[::1]:" + portOf(t, gone.URL)
	c, err := egress.ForURL(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	wants(t, fetch(t, c, base), perdure.EgressTransport, "")
	wants(t, fetch(t, c, gone.URL), perdure.EgressDenied, perdure.RuleAddress)
}

// TestForURLInvalid: the error says what is wrong with a base URL.
func TestForURLInvalid(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"": "no scheme", "localhost:11434": `"localhost"`, "//a.test": "no scheme", "ftp://a.test": `"ftp"`, "http://": "no host", "http:///v1": "no host", "https://me:hush@a.test": "user",
		"http://a.test/?x=1": "must not have a query", "http://a.test?": "must not have a query", "http://a.test/#x": "or a fragment", "http://a.test:0": "port", "http://127.1": "odd form", "http://a.test/%zz": "parse", "http://ä.test": "xn--",
	}
	for base, text := range cases {
		_, err := egress.ForURL(base)
		if got := egressError(t, err); !errors.Is(err, perdure.Invalid) || !contains(got.Text, text) || contains(got.Error(), "hush") {
			t.Errorf("%q: got %v, want %q", base, got, text)
		}
	}
}
