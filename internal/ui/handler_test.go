package ui_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/access"
	"github.com/perdure/perdure/internal/ui"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

const rootToken = "perdure_the-root-token-of-a-test-which-is-long-eno"

// rig is a handler over a store of tokens and an API that reports the header that it gets.
type rig struct {
	t       *testing.T
	store   store.Store
	links   *ui.Links
	handler http.Handler
	socket  http.Handler
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, store: memory.New(memory.Config{}), links: &ui.Links{}}
	r.links.SetAddress("http://127.0.0.1:7373")
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Api", r.Method+" "+r.URL.Path)
		w.Header().Set("X-Got", r.Header.Get("Authorization"))
		w.Header().Set("X-Cookie", r.Header.Get("Cookie"))
	})
	var err error
	cfg := ui.Config{API: api, Browsers: r, Links: r.links, Keyring: access.NewKeyring(access.Config{Store: r.store, Root: rootToken})}
	if r.handler, err = ui.New(cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Local, cfg.Keyring = true, nil
	if r.socket, err = ui.New(cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

// Create implements ui.Browsers.
func (r *rig) Create(_ context.Context, expires time.Time) (string, error) {
	secret := "perdure_" + (rand.Text() + rand.Text())[:43]
	sum := sha256.Sum256([]byte(secret))
	token := store.AccessToken{ID: perdure.DeriveID[perdure.TokenID](perdure.Secret{1}, time.Now(), secret), Hash: hex.EncodeToString(sum[:]), Name: "web UI", Org: "default",
		Scopes: []string{"read"}, By: "operator", CreatedAt: time.Now(), ExpiresAt: expires}
	return secret, r.store.InTx(r.t.Context(), func(tx store.Tx) error { return tx.Tokens().Put(token) })
}

// Revoke implements ui.Browsers.
func (r *rig) Revoke(_ context.Context, id perdure.TokenID) error {
	return r.store.InTx(r.t.Context(), func(tx store.Tx) error {
		token, err := tx.Tokens().Get(id)
		if err != nil {
			return err
		}
		token.RevokedAt, token.RevokedBy = time.Now(), "operator"
		return tx.Tokens().Put(token)
	})
}

// do sends a request: METHOD PATH, an optional body, and headers as name, value, ….
func (r *rig) do(what, body string, headers ...string) *http.Response {
	r.t.Helper()
	method, target, _ := strings.Cut(what, " ")
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	req.Host = "127.0.0.1:7373"
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w.Result()
}

// linkCode returns the code of a new link.
func (r *rig) linkCode() string {
	r.t.Helper()
	address, _, ok := r.links.Create()
	before, code, found := strings.Cut(address, "#link=")
	if !ok || !found || before != "http://127.0.0.1:7373/ui/" {
		r.t.Fatalf("got %q %v", address, ok)
	}
	return code
}

// signedIn signs a browser in, and returns its cookie.
func (r *rig) signedIn(body string, headers ...string) *http.Cookie {
	r.t.Helper()
	res := r.do("POST /ui/session", body, headers...)
	if res.StatusCode != 204 || len(res.Cookies()) != 1 {
		r.t.Fatalf("got %d %v", res.StatusCode, res.Header)
	}
	return res.Cookies()[0]
}

// header returns the Cookie header for a cookie.
func header(c *http.Cookie) string { return c.Name + "=" + c.Value }

// TestLinkSignsInOnce: a link signs in one browser, with a token of its own, and signing out
// revokes that token.
func TestLinkSignsInOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := `{"link":"` + r.linkCode() + `"}`

	cookie := r.signedIn(body)
	if again := r.do("POST /ui/session", body); again.StatusCode != 401 {
		t.Errorf("a link that was used: got %d", again.StatusCode)
	}
	if got := r.do("POST /ui/session", `{"link":"unknown"}`); got.StatusCode != 401 || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %v", got.StatusCode, got.Header)
	}

	res := r.do("GET /v1/sessions", "", "Cookie", header(cookie))
	if got := res.Header.Get("X-Got"); !strings.HasPrefix(got, "Bearer perdure_") || strings.Contains(got, rootToken) {
		t.Errorf("the API got %q", got)
	}
	if got := res.Header.Get("X-Cookie"); got != "" {
		t.Errorf("the API got the cookie %q", got)
	}

	out := r.do("DELETE /ui/session", "", "Cookie", header(cookie))
	if out.StatusCode != 204 || out.Cookies()[0].MaxAge >= 0 {
		t.Errorf("got %d %v", out.StatusCode, out.Cookies())
	}
	secret := strings.TrimPrefix(cookie.Value, "link.")
	if got := r.do("POST /ui/session", `{"token":"`+secret+`"}`); got.StatusCode != 401 {
		t.Errorf("the token of a browser that signed out: got %d", got.StatusCode)
	}
}

// TestTokenSignsIn: a token that a person enters stays theirs: signing out does not revoke it.
func TestTokenSignsIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret, err := r.Create(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{rootToken, secret} {
		cookie := r.signedIn(`{"token":" ` + token + ` "}`)
		if got := r.do("GET /v1/sessions", "", "Cookie", header(cookie)).Header.Get("X-Got"); got != "Bearer "+token {
			t.Errorf("the API got %q", got)
		}
		r.do("DELETE /ui/session", "", "Cookie", header(cookie))
		r.signedIn(`{"token":"` + token + `"}`)
	}
	for _, body := range []string{"", "{}", "null", "[]", `{"token":""}`, `{"token":"a","link":"b"}`, `{"token":"a b"}`, "{\"token\":\"a\\n\"}", `{"other":"x"}`, strings.Repeat(" ", 5000) + "{}"} {
		if got := r.do("POST /ui/session", body); got.StatusCode != 400 && got.StatusCode != 401 {
			t.Errorf("%.40q: got %d", body, got.StatusCode)
		}
	}
	if got := r.do("POST /ui/session", `{"token":"perdure_unknown"}`); got.StatusCode != 401 {
		t.Errorf("got %d", got.StatusCode)
	}
	if got := r.do("PUT /ui/session", ""); got.StatusCode != 405 {
		t.Errorf("got %d", got.StatusCode)
	}
}

// TestTokensAreNotGuessed: an address that sent many invalid tokens has to wait.
func TestTokensAreNotGuessed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 100 {
		if got := r.do("POST /ui/session", `{"token":"perdure_wrong"}`); got.StatusCode == 429 {
			if got.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			return
		}
	}
	t.Error("100 invalid tokens in a row were checked")
}

// TestCookies: over HTTPS the cookie has the prefix that pins it to its host. Plain HTTP is for
// this machine only, and the cookies of two servers do not replace each other.
func TestCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := `{"token":"` + rootToken + `"}`
	for _, c := range []struct {
		host, origin, name string
		secure             bool
	}{
		{"127.0.0.1:7373", "http://127.0.0.1:7373", "perdure-7373", false},
		{"localhost:8080", "http://localhost:8080", "perdure-8080", false},
		{"[::1]:7373", "http://[::1]:7373", "perdure-7373", false},
		{"example.com", "https://example.com", "__Host-perdure", true},
		{"127.0.0.1:7373", "https://127.0.0.1:7373", "__Host-perdure", true},
	} {
		got := r.signedIn(body, "Host", c.host, "Origin", c.origin, "Sec-Fetch-Site", "same-origin")
		if got.Name != c.name || got.Secure != c.secure || !got.HttpOnly || got.SameSite != http.SameSiteStrictMode || got.Path != "/" || got.Domain != "" || got.MaxAge <= 0 {
			t.Errorf("%s: got %v", c.origin, got)
		}
		if api := r.do("GET /v1/sessions", "", "Host", c.host, "Cookie", header(got)); api.Header.Get("X-Got") == "" {
			t.Errorf("%s: the API got no token", c.origin)
		}
	}
	if got := r.do("POST /ui/session", body, "Host", "192.168.1.5:7373", "Origin", "http://192.168.1.5:7373"); got.StatusCode != 403 || len(got.Cookies()) != 0 {
		t.Errorf("plain HTTP from another machine: got %d", got.StatusCode)
	}
	plain := http.Cookie{Name: "perdure-7373", Value: "token." + rootToken}
	for _, host := range []string{"192.168.1.5:7373", "evil.example:7373"} {
		if got := r.do("GET /v1/sessions", "", "Host", host, "Cookie", header(&plain)); got.Header.Get("X-Got") != "" {
			t.Errorf("%s: a cookie for plain HTTP counts", host)
		}
	}
}

// TestOtherOrigins: a page of another origin, on another site or on another port of this machine,
// uses no cookie of ours and signs nobody in.
func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cookie := header(r.signedIn(`{"token":"` + rootToken + `"}`))
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:3000"},
	} {
		for _, what := range []string{"GET /v1/sessions", "POST /v1/sessions", "DELETE /v1/sessions/x"} {
			if got := r.do(what, "", append(headers, "Cookie", cookie)...); got.Header.Get("X-Got") != "" {
				t.Errorf("%s with %v: the API got a token", what, headers)
			}
		}
		if got := r.do("POST /ui/session", `{"token":"`+rootToken+`"}`, headers...); got.StatusCode != 403 {
			t.Errorf("sign-in with %v: got %d", headers, got.StatusCode)
		}
	}
	// a browser that does not say which site a request comes from still says its origin
	if got := r.do("POST /v1/sessions", "", "Cookie", cookie, "Origin", "http://127.0.0.1:3000"); got.StatusCode != 403 {
		t.Errorf("got %d", got.StatusCode)
	}
	if got := r.do("POST /v1/sessions", "", "Cookie", cookie, "Origin", "http://127.0.0.1:7373"); got.Header.Get("X-Got") == "" {
		t.Error("a page of this origin is refused")
	}
	// a token of its own is not affected, whatever the cookie says
	if got := r.do("GET /v1/sessions", "", "Cookie", cookie, "Authorization", "Bearer other"); got.Header.Get("X-Got") != "Bearer other" {
		t.Errorf("got %q", got.Header.Get("X-Got"))
	}
	// outside the API a cookie means nothing
	for _, path := range []string{"/mcp", "/metrics", "/docs"} {
		if got := r.do("GET "+path, "", "Cookie", cookie); got.Header.Get("X-Got") != "" || got.Header.Get("X-Api") == "" {
			t.Errorf("%s: got %v", path, got.Header)
		}
	}
}

// TestSocketGivesLinks: who may open the socket gets a link, and no pages; over the network nobody
// gets one.
func TestSocketGivesLinks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if got := r.do("POST /ui/link", ""); got.StatusCode == 201 {
		t.Errorf("got %d over the network", got.StatusCode)
	}
	r.handler = r.socket
	res := r.do("POST /ui/link", "")
	var link struct {
		URL     string    `json:"url"`
		Expires time.Time `json:"expires_at"`
	}
	if err := json.NewDecoder(res.Body).Decode(&link); err != nil || res.StatusCode != 201 || !strings.HasPrefix(link.URL, "http://127.0.0.1:7373/ui/#link=") || time.Until(link.Expires) <= 0 {
		t.Errorf("got %d %+v %v", res.StatusCode, link, err)
	}
	if got := r.do("GET /ui/link", ""); got.StatusCode != 405 {
		t.Errorf("got %d", got.StatusCode)
	}
	if got := r.do("GET /ui/", ""); got.Header.Get("X-Api") != "GET /ui/" {
		t.Errorf("got %v", got.Header)
	}
	r.links.SetAddress("")
	if got := r.do("POST /ui/link", ""); got.StatusCode != 409 {
		t.Errorf("without pages: got %d", got.StatusCode)
	}
}

// TestPages: the root leads to the UI; each page gets the index, with addresses relative to the
// root of the UI; files with a hash in their name are kept for ever.
func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{"/", "/ui"} {
		if got := r.do("GET "+path, ""); got.StatusCode != 302 || got.Header.Get("Location") != "ui/" {
			t.Errorf("%s: got %d to %q", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	if got := r.do("POST /", ""); got.Header.Get("X-Api") == "" {
		t.Error("a write to the root does not reach the API")
	}
	for path, up := range map[string]string{"/ui/": "./", "/ui/index.html": "./", "/ui/sessions": "./", "/ui/sessions/session_1": "../", "/ui/sessions/a%2Fb%2fc": "../", "/ui/a/b/c": "../../"} {
		got := r.do("GET "+path, "")
		page := text(t, got)
		if got.StatusCode != 200 || !strings.Contains(page, `<base href="`+up+`"`) || strings.Count(page, "<base ") != 1 {
			t.Errorf("%s: got %d %.300s", path, got.StatusCode, page)
		}
		policy := got.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("got the policy %q", policy)
		}
		if got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("Referrer-Policy") != "no-referrer" || got.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("got %v", got.Header)
		}
		if regexp.MustCompile(`<script(?:>|[^>]*[^>]>[^<])|<style|\son\w+=|\sstyle=`).MatchString(page) {
			t.Errorf("the page has an inline script or style: %s", page)
		}
	}
	script := regexp.MustCompile(`src="\./(assets/[^"]+\.js)"`).FindStringSubmatch(text(t, r.do("GET /ui/", "")))
	if script == nil {
		t.Fatal("the page has no script")
	}
	got := r.do("GET /ui/"+script[1], "", "Accept-Encoding", "gzip, br")
	if got.StatusCode != 200 || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") || got.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/javascript") {
		t.Errorf("got %d %v", got.StatusCode, got.Header)
	}
	if again := r.do("GET /ui/"+script[1], "", "If-None-Match", got.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("got %d", again.StatusCode)
	}
	if missing := r.do("GET /ui/assets/none.js", ""); missing.StatusCode != 404 {
		t.Errorf("a file of another version: got %d", missing.StatusCode)
	}
	if post := r.do("POST /ui/", ""); post.StatusCode != 405 {
		t.Errorf("got %d", post.StatusCode)
	}
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	var out strings.Builder
	if err := res.Write(&out); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(out.String(), "\r\n\r\n")
	return body
}
