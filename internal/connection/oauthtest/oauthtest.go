// Package oauthtest is a small OAuth 2.0 provider for tests: the authorization-code flow with PKCE,
// refresh tokens that are valid once, and an API that wants a token.
//
// It imports the standard library only. The one thing to know: it is as strict as a provider may
// be. A code or a refresh token that comes a second time revokes the grant that it belongs to.
package oauthtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// The client that the provider knows.
const (
	ClientID     = "perdure-test"
	ClientSecret = "do-not-show-client-secret"
)

// Provider is a running provider.
type Provider struct {
	*httptest.Server

	mu        sync.Mutex
	life      int                // guarded by mu; seconds of an access token; 0: it says nothing
	deny      string             // guarded by mu; the error instead of a code; empty: every user agrees
	hold      chan struct{}      // guarded by mu; answers to refreshes wait until it is closed; nil: they do not
	codes     map[string]request // guarded by mu
	access    map[string]int     // guarded by mu; the grant of each valid access token
	refresh   map[string]int     // guarded by mu; the grant of each refresh token, also of used ones
	current   map[int]string     // guarded by mu; the valid refresh token of each grant
	made      int                // guarded by mu
	refreshes int                // guarded by mu
	requests  int                // guarded by mu; requests for a token
	status    int                // guarded by mu; the answer to requests for a token; 0: as requested
	code      string             // guarded by mu; the error code of that answer; empty: none
	calls     []string           // guarded by mu; the Authorization of each request to the API
}

// request is an authorization that waits for its code to be exchanged.
type request struct{ challenge, redirect string }

// New starts a provider that ends with the test.
func New(t *testing.T) *Provider {
	p := &Provider{life: 3600, codes: map[string]request{}, access: map[string]int{}, refresh: map[string]int{}, current: map[int]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("/api", p.api)
	mux.HandleFunc("GET /leave", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// Live sets how many seconds the next access tokens live; 0: the provider does not say.
func (p *Provider) Live(seconds int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life = seconds
}

// Deny lets users refuse from now on.
func (p *Provider) Deny(code string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deny = code
}

// Fail lets all requests for a token fail from now on, with a status and an error code, which may
// be empty. The status 0 ends that.
func (p *Provider) Fail(status int, code string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.code = status, code
}

// Requests returns how many requests for a token there were.
func (p *Provider) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Hold lets answers to refreshes wait until the returned function is called, or the test ends.
func (p *Provider) Hold(t *testing.T) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = make(chan struct{})
	release = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.hold)
		p.hold = nil
	})
	t.Cleanup(release)
	return release
}

// Revoke revokes all grants.
func (p *Provider) Revoke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.access)
	clear(p.current)
}

// Refreshes returns how many refreshes succeeded.
func (p *Provider) Refreshes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshes
}

// Calls returns the Authorization header of each request to the API.
func (p *Provider) Calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.calls...)
}

// Tokens returns every token that was ever given out.
func (p *Provider) Tokens() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := 1; n <= p.made; n++ {
		all = append(all, accessToken(n), refreshToken(n))
	}
	return all
}

// Config returns an oauth.json with this provider under a name. redirect may be empty.
func (p *Provider) Config(name, redirect string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(p.URL, "http://"), ":")
	text, _ := json.Marshal(map[string]any{"redirect_url": redirect, "providers": map[string]any{name: map[string]any{
		"authorize_url": p.URL + "/authorize", "token_url": p.URL + "/token", "client_id": ClientID, "client_secret": ClientSecret,
		"scopes": []string{"read"}, "hosts": []string{host}}}})
	return string(text)
}

// Agree opens the address of an authorization as the browser of a user who agrees, and follows the
// way back to the runtime. It returns the status and the text of the page that the user sees.
func (p *Provider) Agree(address string) (int, string, error) {
	resp, err := p.Client().Get(address)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// Answer opens the address of an authorization, and returns the query with which the browser would
// go back.
func (p *Provider) Answer(address string) (url.Values, error) {
	client := *p.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Get(address)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		return nil, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return back.Query(), nil
}

func accessToken(n int) string  { return fmt.Sprintf("access-token-%04d-of-the-test", n) }
func refreshToken(n int) string { return fmt.Sprintf("refresh-token-%04d-of-the-test", n) }

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case err != nil || back.Host == "" || q.Get("client_id") != ClientID || q.Get("state") == "":
		http.Error(w, "no client", http.StatusBadRequest)
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		http.Error(w, "no PKCE", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	answer := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	if p.deny != "" {
		answer.Set("error", p.deny)
	} else {
		p.made++
		code := fmt.Sprintf("code-%04d", p.made)
		p.codes[code] = request{q.Get("code_challenge"), back.String()}
		answer.Set("code", code)
	}
	p.mu.Unlock()
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests++
	status, code := p.status, p.code
	p.mu.Unlock()
	if status != 0 {
		refuse(w, status, code)
		return
	}
	id, secret, ok := r.BasicAuth()
	if !ok || id != ClientID || secret != ClientSecret {
		refuse(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	if r.FormValue("grant_type") == "refresh_token" {
		p.renew(w, r)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	begun, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !known || begun.redirect != r.FormValue("redirect_uri") || begun.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	p.grant(w, p.made)
}

// renew answers a refresh.
func (p *Provider) renew(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	hold, used := p.hold, r.FormValue("refresh_token")
	grant, known := p.refresh[used]
	valid := known && p.current[grant] == used
	delete(p.current, grant) // until the answer; a token that comes twice revokes the grant
	if valid {
		p.refreshes++
	}
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !valid {
		for token, of := range p.access {
			if of == grant {
				delete(p.access, token)
			}
		}
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	p.grant(w, grant)
}

// grant gives out the next tokens of a grant. The caller holds mu.
func (p *Provider) grant(w http.ResponseWriter, grant int) {
	p.made++
	access, refresh := accessToken(p.made), refreshToken(p.made)
	p.access[access], p.refresh[refresh], p.current[grant] = grant, grant, refresh
	answer := map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "bearer", "scope": "read profile"}
	if p.life > 0 {
		answer["expires_in"] = p.life
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	answer := map[string]string{"error_description": "of the test"}
	if code != "" {
		answer["error"] = code
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// api repeats the header Authorization in its response, so that a test sees whether it is masked.
func (p *Provider) api(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, r.Header.Get("Authorization"))
	if _, ok := p.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]; !ok {
		w.WriteHeader(http.StatusUnauthorized)
	}
	_, _ = fmt.Fprintf(w, "you sent %s and %s\n", r.Header.Get("Authorization"), r.URL.RawQuery)
}
