package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

// TestDoSimple: the request arrives as given, and the response comes back as sent, whatever its
// status.
func TestDoSimple(t *testing.T) {
	t.Parallel()
	var end recorder
	server := serve(t, "a.test", func(w http.ResponseWriter, r *http.Request) {
		end.note(r)
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("short and stout"))
	})

	resp, err := newGuard(t, egress.Config{}).Do(t.Context(), perdure.WebRequest{
		Method: "PUT", URL: strings.Replace(server, "a.test", "A.Test.", 1) + "/x/../p%61th?q=a b#part", Header: map[string][]string{"x-ask": {"1", "2"}}, Body: []byte("in")})

	if err != nil {
		t.Fatal(err)
	}
	r, body := end.last(t)
	if r.Method != "PUT" || r.RequestURI != "/path?q=a%20b" || body != "in" || strings.Join(r.Header["X-Ask"], ",") != "1,2" || "http://"+r.Host != server {
		t.Errorf("got %s %s %q for %s, %v", r.Method, r.RequestURI, body, r.Host, r.Header)
	}
	if resp.Status != http.StatusTeapot || string(resp.Body) != "short and stout" || resp.Truncated || resp.URL != server+"/path?q=a%20b" || resp.Header["X-Answer"][0] != "yes" {
		t.Errorf("got %+v", resp)
	}
}

// TestDoHeader: only the guard decides the destination and the framing of a message.
func TestDoHeader(t *testing.T) {
	t.Parallel()
	var end recorder
	server := serve(t, "a.test", func(_ http.ResponseWriter, r *http.Request) { end.note(r) })
	header := map[string][]string{}
	for _, name := range strings.Fields("Host host Connection Keep-Alive Proxy-Connection Proxy-Authorization Te Trailer transfer-encoding Upgrade Content-Length Expect Accept-Encoding") {
		header[name] = []string{"evil.test"}
	}

	if _, err := newGuard(t, egress.Config{}).Do(t.Context(), perdure.WebRequest{Method: "POST", URL: server, Header: header, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}

	r, _ := end.last(t)
	if "http://"+r.Host != server || r.ContentLength != 1 || strings.Contains(fmt.Sprint(r.Header, r.TransferEncoding, r.Trailer), "evil") {
		t.Errorf("got Host %s, length %d, %v", r.Host, r.ContentLength, r.Header)
	}
}

// TestDoInvalid: a request that cannot be sent as it is asked for is not sent.
func TestDoInvalid(t *testing.T) {
	t.Parallel()
	var end recorder
	server := serve(t, "a.test", func(_ http.ResponseWriter, r *http.Request) { end.note(r) })
	g := newGuard(t, egress.Config{MaxRequestBytes: 10})
	field := func(name, value string) map[string][]string { return map[string][]string{name: {value}} }
	cases := []struct {
		name string
		req  perdure.WebRequest
		text string
	}{
		{"body over the cap", perdure.WebRequest{URL: server, Body: make([]byte, 11)}, "the body has 11 bytes; at most 10 are allowed"},
		{"tunnel", perdure.WebRequest{URL: server, Method: "connect"}, "refused"},
		{"echo", perdure.WebRequest{URL: server, Method: "TRACE"}, "refused"},
		{"method with a space", perdure.WebRequest{URL: server, Method: "GET /"}, "method"},
		{"line end in a value", perdure.WebRequest{URL: server, Header: field("X-A", "1\r\nHost: evil")}, "control character"},
		{"line end in a name", perdure.WebRequest{URL: server, Header: field("X-A\r\nB", "1")}, "name"},
		{"empty name", perdure.WebRequest{URL: server, Header: field("", "1")}, "name"},
		{"huge header", perdure.WebRequest{URL: server, Header: field("X-A", strings.Repeat("a", 300_000))}, "at most 262144 are allowed"},
		{"no URL", perdure.WebRequest{}, "start it with http"},
		{"password", perdure.WebRequest{URL: "http://me:hush@a.test/"}, "user or a password"},
		{"password in a URL that does not parse", perdure.WebRequest{URL: "http://me:hush@a.test:x/%zz"}, "does not parse"},
	}
	for _, c := range cases {
		_, err := g.Do(t.Context(), c.req)
		got := egressError(t, err)
		if got.Code != perdure.EgressInvalid || !strings.Contains(got.Text, c.text) || strings.Contains(got.Error(), "hush") || !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
	if len(end.seen) != 0 {
		t.Errorf("%d requests came", len(end.seen))
	}
}

// TestDoLimit: the body is cut at the smaller of both limits, and only a longer one is said to be
// cut.
func TestDoLimit(t *testing.T) {
	t.Parallel()
	server := serve(t, "a.test", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("0123456789")) })
	cases := []struct {
		guard, ask int64
		want       string
		cut        bool
	}{{0, 0, "0123456789", false}, {10, 0, "0123456789", false}, {9, 0, "012345678", true}, {9, 100, "012345678", true}, {100, 3, "012", true}, {5, -1, "01234", true}, {0, 10, "0123456789", false}}
	for _, c := range cases {
		resp, err := newGuard(t, egress.Config{MaxResponseBytes: c.guard}).Do(t.Context(), perdure.WebRequest{URL: server, MaxBytes: c.ask})
		if err != nil || string(resp.Body) != c.want || resp.Truncated != c.cut {
			t.Errorf("%+v: got %q, cut %v, %v", c, resp.Body, resp.Truncated, err)
		}
	}
}

// TestDoBomb: the limit counts bytes after decompression, also when the caller speaks of encodings.
func TestDoBomb(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for range 4 {
		_, _ = w.Write(make([]byte, 1<<20))
	}
	_ = w.Close()
	server := serve(t, "a.test", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}
	})

	resp, err := newGuard(t, egress.Config{}).Do(t.Context(), perdure.WebRequest{URL: server, MaxBytes: 1000, Header: map[string][]string{"Accept-Encoding": {"gzip"}}})

	if err != nil || !resp.Truncated || !bytes.Equal(resp.Body, make([]byte, 1000)) {
		t.Errorf("got %d bytes, cut %v, %v", len(resp.Body), resp.Truncated, err)
	}
}

// TestDoEndless: no more is read of a body than is kept.
func TestDoEndless(t *testing.T) {
	t.Parallel()
	server := serve(t, "a.test", func(w http.ResponseWriter, _ *http.Request) {
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1000))
		}
	})

	resp, err := newGuard(t, egress.Config{Timeout: 5 * time.Second}).Do(t.Context(), perdure.WebRequest{URL: server, MaxBytes: 10})

	if err != nil || !resp.Truncated || len(resp.Body) != 10 {
		t.Errorf("got %d bytes, cut %v, %v", len(resp.Body), resp.Truncated, err)
	}
}

// TestDoTransport: what goes wrong on the way is Unavailable, and is not tried again.
func TestDoTransport(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 10)
	hangUp := serve(t, "a.test", func(w http.ResponseWriter, _ *http.Request) {
		came <- struct{}{}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	breakOff := serve(t, "a.test", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("half"))
	})
	hugeHeader := serve(t, "a.test", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-A", strings.Repeat("a", 300_000)) })
	gone := httptest.NewServer(nil)
	gone.Close()
	cases := map[string]string{
		hangUp: "no response from a.test", breakOff: "the response of a.test broke off after 4 bytes", hugeHeader: "no response from a.test",
		"http://a.test:" + portOf(t, gone.URL): "no connection to a.test", "http://nowhere.test/": "the name nowhere.test was not found",
	}
	g := newGuard(t, egress.Config{})
	for u, text := range cases {
		_, err := get(t, g, u)
		if got := egressError(t, err); got.Code != perdure.EgressTransport || !strings.Contains(got.Text, text) || !errors.Is(err, perdure.Unavailable) {
			t.Errorf("%s: got %v, want %q", u, got, text)
		}
	}
	if len(came) != 1 {
		t.Errorf("the request was sent %d times", len(came))
	}
}

// waits returns a server that says when a request came, may write something, and then waits until
// it has gone.
func waits(t *testing.T, beginning string) (server string, came chan struct{}) {
	t.Helper()
	came = make(chan struct{}, 10)
	return serve(t, "a.test", func(w http.ResponseWriter, r *http.Request) {
		if beginning != "" {
			_, _ = w.Write([]byte(beginning))
			_ = http.NewResponseController(w).Flush()
		}
		came <- struct{}{}
		<-r.Context().Done()
	}), came
}

// TestDoTimeouts: a slow header and a slow body both end.
func TestDoTimeouts(t *testing.T) {
	t.Parallel()
	silent, _ := waits(t, "")
	slow, _ := waits(t, "beginning")

	_, err := get(t, newGuard(t, egress.Config{HeaderTimeout: 20 * time.Millisecond}), silent)
	if got := egressError(t, err); got.Code != perdure.EgressTransport || got.Text != "a.test sent no response header within 20ms" {
		t.Errorf("header: got %v", got)
	}
	for _, server := range []string{silent, slow} {
		_, err = get(t, newGuard(t, egress.Config{Timeout: 20 * time.Millisecond}), server)
		if got := egressError(t, err); got.Code != perdure.EgressTransport || got.Text != "a.test took more than 20ms" {
			t.Errorf("whole: got %v", got)
		}
	}
}

// stuck is a resolver that answers when its ctx ends.
type stuck chan struct{}

func (s stuck) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	s <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestDoCause: when ctx ends, its cause is the error, wherever the request was.
func TestDoCause(t *testing.T) {
	t.Parallel()
	silent, heard := waits(t, "")
	slow, begun := waits(t, "beginning")
	asked := make(stuck, 1)
	cases := []struct {
		name, url string
		cfg       egress.Config
		came      chan struct{}
	}{
		{"looking up", "http://a.test/", egress.Config{Resolver: asked}, asked},
		{"waiting for the header", silent, egress.Config{}, heard},
		{"reading the body", slow, egress.Config{}, begun},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-c.came; cancel(perdure.CauseInterrupt) }()

			_, err := newGuard(t, c.cfg).Do(ctx, perdure.WebRequest{URL: c.url})

			if err != error(perdure.CauseInterrupt) {
				t.Errorf("got %v, want the cause", err)
			}
		})
	}
}

// TestDoPurpose: a host that is listed for one purpose stays refused for all others, and for none
// (EG5).
func TestDoPurpose(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	port := portOf(t, server.URL)
	other := newTripwire(t)
	g := newGuard(t, egress.Config{
		Listed:   []egress.Listing{{Purpose: "model", Host: "127.0.0.1:" + port}, {Purpose: "name", Host: "LocalHost:" + port}},
		Resolver: names{"localhost": {"127.0.0.1", "::1"}, "rebound.test": {"127.0.0.1"}}})
	cases := []struct {
		purpose, url string
		open         bool
	}{
		{"model", server.URL, true}, {"model", "http://[::ffff:127.0.0.1]:" + port, true}, {"name", "http://localhost:" + port, true},
		{"", server.URL, false}, {"tool", server.URL, false}, {"mcp", server.URL, false}, {"Model", server.URL, false}, {"name", server.URL, false},
		{"model", "http://127.0.0.1:" + other.port, false}, {"model", "http://127.0.0.2:" + port, false}, {"model", "http://[::1]:" + port, false},
		{"model", "http://localhost:" + port, false}, {"model", "http://rebound.test:" + port, false}, {"model", "https://127.0.0.1/", false},
	}
	both(t, g, func(t *testing.T, fetch func(perdure.WebRequest) (int, error)) {
		for range 2 { // once cold, once when a connection of the open purpose is warm
			for _, c := range cases {
				_, err := fetch(perdure.WebRequest{Purpose: c.purpose, URL: c.url})
				if c.open && err != nil {
					t.Errorf("%+v: got %v", c, err)
				} else if !c.open {
					wants(t, err, perdure.EgressDenied, perdure.RuleAddress)
				}
			}
		}
	})
	if n := other.hits.Load(); n != 0 {
		t.Errorf("%d connections to an unlisted port", n)
	}
}

// TestListedName: a listed name opens private addresses, but no metadata; typing the address does.
func TestListedName(t *testing.T) {
	t.Parallel()
	known := names{"gateway.test": {"10.0.0.7"}, "linked.test": {"169.254.1.1"}, "cloud.test": {"169.254.169.254"}, "six.test": {"fd00:ec2::254"}, "mixed.test": {"10.0.0.7", "100.100.100.200"}}
	var listed []egress.Listing
	for name := range known {
		listed = append(listed, egress.Listing{Host: name})
	}
	listed = append(listed, egress.Listing{Host: "169.254.169.254"}, egress.Listing{Host: "fd00::7"}, egress.Listing{Host: "[fd00::8]:80"})
	g, err := egress.New(egress.Config{Resolver: known, Listed: listed})
	if err != nil {
		t.Fatal(err)
	}
	post := new(gatePost)
	g.LastGate(post.see)
	for host, open := range map[string]bool{"gateway.test": true, "linked.test": false, "cloud.test": false, "six.test": false, "mixed.test": false,
		"169.254.169.254": true, "[fd00::7]": true, "[fd00::8]": true, "[fd00::8]:81": false, "10.0.0.7": false} {
		_, err := get(t, g, "http://"+host+"/")
		if got := egressError(t, err); (got.Code == perdure.EgressTransport) != open || (len(post.take()) == 1) != open {
			t.Errorf("%s: got %v, want open: %v", host, got, open)
		}
	}
}

// TestCheck: what can be known of a URL when it is saved is known without a lookup or a packet.
func TestCheck(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Config{Resolver: names{}, List: perdure.NetworkList{Blocked: []string{"evil.test"}}, Listed: []egress.Listing{{Purpose: "model", Host: "127.0.0.1:8080"}}})
	list := perdure.NetworkList{Blocked: []string{"no.test"}}
	cases := []struct{ purpose, url, rule string }{
		{"", "http://10.0.0.1/", "address"}, {"", "http://127.0.0.1:8080/", "address"}, {"", "http://a.test:25/", "address"}, {"", "http://evil.test/", "blocked"},
		{"", "http://no.test/", "blocked"}, {"", "ftp://a.test/", "scheme"}, {"", "http://[::1]/", "address"}, {"model", "http://127.0.0.1/", "address"},
	}
	for _, c := range cases {
		wants(t, g.Check(c.purpose, c.url, list), perdure.EgressDenied, c.rule)
	}
	wants(t, g.Check("", "http://127.1/", list), perdure.EgressInvalid, "")
	for purpose, u := range map[string]string{"": "http://any.test/", "model": "http://127.0.0.1:8080/v1", "other": "https://8.8.8.8/"} {
		if err := g.Check(purpose, u, list); err != nil {
			t.Errorf("%s: got %v", u, err)
		}
	}
}

// TestNewInvalid: what cannot be read is refused when the guard is made.
func TestNewInvalid(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", ":80", "http://a.test", "a.test/x", "a.test?x", "user@a.test", "127.1", "a.test:x", "a.test:0", "10.0.0.0/8", "*.a.test", "a b"} {
		if _, err := egress.New(egress.Config{Listed: []egress.Listing{{Host: host}}}); !errors.Is(err, perdure.Invalid) {
			t.Errorf("listed %q: got %v, want Invalid", host, err)
		}
	}
	if _, err := egress.New(egress.Config{List: perdure.NetworkList{Blocked: []string{"http://"}}}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("broken list: got %v, want Invalid", err)
	}
}

// TestDialOnlyTCP: no other network than TCP leaves, so no Unix socket does (S2).
func TestDialOnlyTCP(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Config{})
	for _, network := range []string{"unix", "udp", "ip", ""} {
		if conn, err := g.Dial(t.Context(), "", network, "a.test:80"); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%s: got %v, %v", network, conn, err)
		}
	}
	for _, u := range []string{"unix:///tmp/x", "http+unix://%2Ftmp%2Fx/", "http://%2Ftmp%2Fx/", "http:///tmp/x"} {
		_, err := get(t, g, u)
		if got := egressError(t, err); got.Code == perdure.EgressTransport {
			t.Errorf("%s: got %v", u, got)
		}
	}
}
