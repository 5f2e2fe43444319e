package api_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/internal/api"
)

// opened remembers which codes were explained by some server, since each error of these tests asks.
var opened sync.Map

// explained opens the type of a problem on the server that answered, and wants what a reader needs
// there.
func (r *rig) explained(kind, code string) {
	r.t.Helper()
	if _, before := opened.LoadOrStore(kind, true); before {
		return
	}
	base, err := url.Parse(r.server.URL + "/v1/sessions")
	if err != nil {
		r.t.Fatal(err)
	}
	to, err := base.Parse(kind)
	if err != nil || to.Host != base.Host {
		r.t.Fatalf("%s: the type %q is no page of this server: %v", code, kind, err)
	}
	got := r.do(ask{method: "GET", path: to.Path, header: map[string]string{"Authorization": ""}})
	_, section, _ := strings.Cut(string(got.body), `<h2 id="`+to.Fragment+`">`)
	section, _, _ = strings.Cut(section, "<h2")
	for _, part := range []string{code + "</h2>", "<strong>What:</strong> ", "<strong>Why:</strong> ", "<strong>What to do:</strong> "} {
		if got.status != 200 || !strings.Contains(section, part) {
			r.t.Errorf("%s: %d, and its section has no %s: %s", to, got.status, part, section)
		}
	}
}

// TestH3Types: every code that a server can answer has a page, every code of the sources is one of
// those, and the page has no other ones.
func TestH3Types(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	seen := r.refusal(r.do(get("/v1/nothing")), 404, "not_found").Type
	for _, code := range api.Codes() {
		r.explained(strings.Replace(seen, "#not_found", "#"+code, 1), code)
	}

	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, one := range regexp.MustCompile(`(?:[cC]ode: *|problemClass\{http\.\w+, |\.Code[^"\n]*= [^"\n]*)"([a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(api.Codes(), one[1]) {
				t.Errorf("%s has the code %s, which Codes does not know", file, one[1])
			}
		}
	}
	if found < len(api.Codes()) {
		t.Errorf("found %d codes in the sources", found)
	}

	page, err := os.ReadFile("../../docs/reference/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, one := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(page), -1) {
		sections = append(sections, one[1])
	}
	if !slices.Equal(sections, api.Codes()) {
		t.Errorf("problems.md explains %v, and there are %v", sections, api.Codes())
	}
}

// TestH3PublicURL: a server that knows where its clients find it names the whole URL.
func TestH3PublicURL(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *api.Config) { cfg.URL = "https://example.com/perdure" })
	for _, q := range []ask{get("/v1/nothing"), get("/v1/tasks?no=1"), {method: "GET", path: "/v1/tasks", header: map[string]string{"Authorization": ""}}} {
		p := read[problem](t, r.do(q).body)
		if p.Type != "https://example.com/perdure/docs/reference/problems#"+p.Code {
			t.Errorf("got %+v", p)
		}
	}
}

// TestManual: the documents can be read without a token, and nothing else can.
func TestManual(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(cfg *api.Config) { cfg.Admission.Rate = 1 })
	stranger := func(method, path string) reply {
		t.Helper()
		return r.do(ask{method: method, path: path, header: map[string]string{"Authorization": ""}})
	}
	for range 3 { // requests that need no token use up no rate
		for path, form := range map[string]string{
			"/docs": "text/html; charset=utf-8", "/docs/concepts": "text/html; charset=utf-8", "/docs/how-to": "text/html; charset=utf-8",
			"/docs/reference/http.md": "text/markdown; charset=utf-8", "/llms.txt": "text/plain; charset=utf-8",
		} {
			got := stranger("GET", path)
			if got.status != 200 || got.header.Get("Content-Type") != form || got.header.Get("ETag") == "" || len(got.body) < 500 {
				t.Errorf("%s: got %d %v", path, got.status, got.header)
			}
			if head := stranger("HEAD", path); head.status != 200 || len(head.body) > 0 || head.header.Get("ETag") != got.header.Get("ETag") {
				t.Errorf("HEAD %s: got %d %v", path, head.status, head.header)
			}
			again := r.do(ask{method: "GET", path: path, header: map[string]string{"Authorization": "", "If-None-Match": got.header.Get("ETag")}})
			if again.status != http.StatusNotModified || len(again.body) > 0 {
				t.Errorf("%s again: got %d", path, again.status)
			}
		}
	}
	// the start page leads to the documentation
	if got := stranger("GET", "/"); got.status != 200 || !strings.Contains(string(got.body), "<h1") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	r.refusal(stranger("POST", "/"), 401, "unauthorized")
	if got := r.do(get("/v1/tools")); got.status != 200 {
		t.Errorf("a client with the token was slowed down by readers: %d", got.status)
	}
	// the client went to /docs
	if got := stranger("GET", "/docs/"); got.status != 200 || !strings.Contains(string(got.body), "<h1") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	for _, path := range []string{"/docs/nothing", "/docs/nothing.md", "/docs/%2e%2e/v1/sessions", "/docs/..%2fv1%2fsessions", "/docs/how-to/%2e%2e/%2e%2e/metrics"} {
		if got := stranger("GET", path); got.status != 404 || !strings.Contains(string(got.body), "Page not found") {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	r.refusal(stranger("GET", "/docs?no=1"), 400, "invalid")
	r.refusal(stranger("POST", "/docs"), 401, "unauthorized")
	r.refusal(stranger("DELETE", "/docs/concepts"), 401, "unauthorized")
	r.refusal(stranger("GET", "/docsx"), 401, "unauthorized")
	for _, path := range []string{"/docs/../v1/sessions", "/docs//v1/sessions", "/docs/./../metrics"} {
		if got := stranger("GET", path); got.status != 401 && got.status != 404 || strings.Contains(string(got.body), `"items"`) {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	bare := newRig(t, func(cfg *api.Config) { cfg.Manual = nil })
	bare.refusedBare("/", "/docs", "/docs/concepts", "/llms.txt")
}

// refusedBare asks a server without documents for them.
func (r *rig) refusedBare(paths ...string) {
	r.t.Helper()
	for _, path := range paths {
		if got := r.do(get(path)); got.status != 404 || got.header.Get("Content-Type") != "application/problem+json" {
			r.t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
}
