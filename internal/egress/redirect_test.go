package egress_test

import (
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

// recorder is a server that notes what comes to it.
type recorder struct {
	mu   sync.Mutex
	seen []*http.Request
	body []string
}

func (r *recorder) note(req *http.Request) {
	text, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen, r.body = append(r.seen, req), append(r.body, string(text))
}

func (r *recorder) last(t *testing.T) (*http.Request, string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		t.Fatal("nothing came")
	}
	return r.seen[len(r.seen)-1], r.body[len(r.body)-1]
}

func (r *recorder) requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// sendsTo returns a server that redirects to where the query says.
func sendsTo(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(status)
	}
}

// both runs a law for Do and for a client.
func both(t *testing.T, g *egress.Guard, law func(t *testing.T, fetch func(req perdure.WebRequest) (int, error))) {
	t.Helper()
	t.Run("Do", func(t *testing.T) {
		law(t, func(req perdure.WebRequest) (int, error) {
			resp, err := g.Do(t.Context(), req)
			return resp.Status, err
		})
	})
	t.Run("Client", func(t *testing.T) {
		law(t, func(req perdure.WebRequest) (int, error) {
			r, err := http.NewRequestWithContext(t.Context(), req.Method, req.URL, strings.NewReader(string(req.Body)))
			if err != nil {
				return 0, err
			}
			maps.Copy(r.Header, req.Header)
			resp, err := g.Client(req.Purpose).Do(r)
			if err != nil {
				return 0, err
			}
			return resp.StatusCode, resp.Body.Close()
		})
	})
}

// TestS2RedirectInward: a public server cannot send a request to where it may not go.
func TestS2RedirectInward(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Config{List: perdure.NetworkList{Blocked: []string{"evil.test"}}})
	wire := newTripwire(t)
	from := serve(t, "a.test", sendsTo(http.StatusFound))
	cases := []struct{ to, rule string }{
		{"http://127.0.0.1:PORT/", "address"}, {"//127.0.0.1:PORT/", "address"}, {"http://[::1]:PORT/", "address"}, {"http://inward.test:PORT/", "address"},
		{"http://[::ffff:127.0.0.1]:PORT/", "address"}, {"http://169.254.169.254/latest/meta-data/", "address"}, {"http://8.8.8.8:22/", "address"},
		{"http://evil.test/", "blocked"}, {"file:///etc/passwd", "scheme"}, {"gopher://127.0.0.1:PORT/_x", "scheme"}, {"ftp://127.0.0.1/", "scheme"},
		{"unix:///var/run/docker.sock", "scheme"}, {"javascript:alert(1)", "scheme"}, {"dict://127.0.0.1:PORT/", "scheme"}, {"data:text/plain,x", "scheme"},
		{"http://2130706433:PORT/", "redirect"}, {"http://user:pass@127.0.0.1:PORT/", "redirect"}, {"http://127.1:PORT/", "redirect"}, {"http:///x", "redirect"},
		{"http://0x7f000001:PORT/", "redirect"}, {"http://a.test\\@127.0.0.1:PORT/", "redirect"}, {"http://a.test:0/", "redirect"},
	}
	both(t, g, func(t *testing.T, fetch func(perdure.WebRequest) (int, error)) {
		for _, c := range cases {
			_, err := fetch(perdure.WebRequest{URL: from + "/?to=" + escape(strings.ReplaceAll(c.to, "PORT", wire.port))})
			if err == nil {
				t.Fatalf("%s: followed", c.to)
			}
			if strings.HasSuffix(t.Name(), "Do") {
				if got := egressError(t, err); got.Code != perdure.EgressDenied || got.Rule != c.rule || !strings.HasPrefix(got.Text, "a.test redirects") {
					t.Errorf("%s: got %s, rule %q: %s; want rule %q", c.to, got.Code, got.Rule, got.Text, c.rule)
				}
			}
		}
	})
	if n := wire.hits.Load(); n != 0 {
		t.Errorf("%d connections inward", n)
	}
}

func escape(s string) string {
	return strings.NewReplacer("%", "%25", "&", "%26", "+", "%2B", "#", "%23", "\\", "%5C", " ", "%20").Replace(s)
}

// TestS2RedirectChecksTheSessionsList: each hop stands under the list of the request.
func TestS2RedirectChecksTheSessionsList(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Config{})
	var end recorder
	to := serve(t, "b.test", func(_ http.ResponseWriter, r *http.Request) { end.note(r) })
	from := serve(t, "a.test", sendsTo(http.StatusFound))
	for _, list := range []perdure.NetworkList{{Allowed: []string{"a.test"}}, {Blocked: []string{"*.b.test"}}, {Blocked: []string{to + "/x"}}} {
		_, err := g.Do(t.Context(), perdure.WebRequest{URL: from + "/?to=" + escape(to) + "/x/y", List: list})
		if got := egressError(t, err); got.Code != perdure.EgressDenied || got.Host != "b.test" || !strings.Contains(got.Text, "session's list") {
			t.Errorf("%v: got %+v", list, got)
		}
	}
	if len(end.seen) != 0 {
		t.Errorf("%d requests came", len(end.seen))
	}
}

// TestS2RedirectDropsCredentials: header fields that are not known to be harmless are not sent to
// another origin (regression: a redirect was followed with the secret header).
func TestS2RedirectDropsCredentials(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Config{})
	var end recorder
	sink := func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		end.note(r)
	}
	from := serve(t, "a.test", sink)
	port := from[strings.LastIndex(from, ":"):]
	other := serve(t, "b.test", sink)
	header := map[string][]string{}
	secrets := strings.Fields("Authorization Cookie X-Api-Key X-Auth-Token Api-Secret X-Custom Idempotency-Key Private-Token X-Goog-Iap-Jwt-Assertion Referer")
	for _, name := range secrets {
		header[name] = []string{"hush"}
	}
	header["Accept"], header["Content-Type"], header["User-Agent"] = []string{"text/html"}, []string{"text/plain"}, []string{"perdure"}
	cases := []struct {
		name, path string
		kept       bool
	}{
		{"same origin", "/?to=/here", true},
		{"another host, same port", "/?to=http://b.test" + port + "/", false},
		{"another host and port", "/?to=" + other + "/", false},
		{"another port", "/?to=http://a.test:" + portOf(t, other) + "/", false},
		{"there, and on", "/?to=" + other + "/?to=/here", false},
		{"there and back", "/?to=" + other + "/?to=" + from + "/", false},
	}
	both(t, g, func(t *testing.T, fetch func(perdure.WebRequest) (int, error)) {
		for _, c := range cases {
			if _, err := fetch(perdure.WebRequest{Method: "POST", URL: from + c.path, Header: header, Body: []byte("text")}); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			got, body := end.last(t)
			for _, name := range secrets {
				if name == "Referer" && c.kept {
					continue // a client writes its own
				}
				if kept := got.Header.Get(name) == "hush"; kept != c.kept {
					t.Errorf("%s: %s was kept: %v", c.name, name, kept)
				}
			}
			if got.Header.Get("Referer") != "" && !c.kept {
				t.Errorf("%s: sent the Referer %q", c.name, got.Header.Get("Referer"))
			}
			if got.Header.Get("Accept") != "text/html" || got.Method != "POST" || body != "text" {
				t.Errorf("%s: got %s %q, Accept %q", c.name, got.Method, body, got.Header.Get("Accept"))
			}
		}
	})
}

// TestS2RedirectKeepsTLS: https does not become http.
func TestS2RedirectKeepsTLS(t *testing.T) {
	t.Parallel()
	var end recorder
	plain := serve(t, "b.test", func(_ http.ResponseWriter, r *http.Request) { end.note(r) })
	server := httptest.NewTLSServer(sendsTo(http.StatusFound))
	t.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	g, err := egress.New(egress.Config{Resolver: names{"example.com": {"127.0.0.1"}, "b.test": {"127.0.0.1"}},
		Listed: []egress.Listing{{Host: "example.com"}, {Host: "b.test"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	g.Trust(pool)
	from := "https://example.com:" + portOf(t, server.URL) // a name of httptest's certificate
	both(t, g, func(t *testing.T, fetch func(perdure.WebRequest) (int, error)) {
		_, err := fetch(perdure.WebRequest{URL: from + "/?to=" + plain})
		wants(t, err, perdure.EgressDenied, perdure.RuleRedirect)
		if status, err := fetch(perdure.WebRequest{URL: from + "/"}); err != nil && strings.HasSuffix(t.Name(), "Do") || err == nil && status != http.StatusFound {
			t.Errorf("without a Location: got %d, %v", status, err)
		}
	})
	if len(end.seen) != 0 {
		t.Error("a request came over http")
	}
}

// TestRedirectCount: five redirects are followed, a sixth is not.
func TestRedirectCount(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Config{})
	server := serve(t, "a.test", func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		if n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d", n-1), http.StatusFound)
		}
	})
	both(t, g, func(t *testing.T, fetch func(perdure.WebRequest) (int, error)) {
		if status, err := fetch(perdure.WebRequest{URL: server + "/5"}); err != nil || status != http.StatusOK {
			t.Errorf("five: got %d, %v", status, err)
		}
		_, err := fetch(perdure.WebRequest{URL: server + "/6"})
		wants(t, err, perdure.EgressDenied, perdure.RuleRedirect)
	})
}

// TestRedirectMethod: method and body follow the HTTP standard.
func TestRedirectMethod(t *testing.T) {
	t.Parallel()
	g := newGuard(t, egress.Config{})
	var end recorder
	var got []string
	for _, status := range []int{301, 302, 303, 307, 308} {
		from := serve(t, "a.test", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/end" {
				end.note(r)
				return
			}
			http.Redirect(w, r, "/end", status)
		})
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
			header := map[string][]string{"Content-Type": {"text/plain"}}
			resp, err := g.Do(t.Context(), perdure.WebRequest{Method: method, URL: from, Header: header, Body: []byte("x")})
			if err != nil || resp.URL != from+"/end" {
				t.Fatalf("%d %s: got %q, %v", status, method, resp.URL, err)
			}
			r, body := end.last(t)
			got = append(got, fmt.Sprintf("%d %s: %s %s%s", status, method, r.Method, body, r.Header.Get("Content-Type")))
		}
	}
	keep := func(status int, methods ...string) (lines []string) {
		for _, m := range methods {
			lines = append(lines, fmt.Sprintf("%d %s: %s xtext/plain", status, m, m))
		}
		return lines
	}
	want := slices.Concat(
		keep(301, "GET", "HEAD"), []string{"301 POST: GET "}, keep(301, "PUT", "DELETE"),
		keep(302, "GET", "HEAD"), []string{"302 POST: GET "}, keep(302, "PUT", "DELETE"),
		keep(303, "GET", "HEAD"), []string{"303 POST: GET ", "303 PUT: GET ", "303 DELETE: GET "},
		keep(307, "GET", "HEAD", "POST", "PUT", "DELETE"), keep(308, "GET", "HEAD", "POST", "PUT", "DELETE"))
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}
