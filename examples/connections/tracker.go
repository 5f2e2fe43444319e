package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// tokenPrefix begins the tokens of the tracker. A real service knows its tokens.
const tokenPrefix = "tracker-token-"

// tracker is the service at which users authorize, here a part of the program. Opening its address
// is consent; a real service asks first.
type tracker struct {
	mu    sync.Mutex
	codes map[string]string // guarded by mu; the challenge of PKCE, by code
}

func newTracker() *tracker { return &tracker{codes: map[string]string{}} }

// serve adds the two addresses of the service.
func (t *tracker) serve(routes *http.ServeMux) {
	routes.HandleFunc("GET /authorize", t.authorize)
	routes.HandleFunc("POST /token", t.token)
}

// authorize sends the browser back with a code.
func (t *tracker) authorize(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	back, err := url.Parse(asked.Get("redirect_uri"))
	if err != nil || back.Hostname() != "127.0.0.1" || asked.Get("code_challenge_method") != "S256" {
		http.Error(w, "want an address of this machine, and PKCE", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	t.mu.Lock()
	t.codes[code] = asked.Get("code_challenge")
	t.mu.Unlock()
	back.RawQuery = url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token exchanges a code for a token, once.
func (t *tracker) token(w http.ResponseWriter, r *http.Request) {
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	t.mu.Lock()
	challenge, known := t.codes[r.PostFormValue("code")]
	delete(t.codes, r.PostFormValue("code"))
	t.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !known || challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant"}) // the client reads the status
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{ // without the answer the client has no token
		"access_token": tokenPrefix + rand.Text(), "token_type": "Bearer", "expires_in": 3600, "scope": "issues",
	})
}

// issues is the API of the service.
func (t *tracker) issues(token string) (int, error) {
	if !strings.HasPrefix(token, tokenPrefix) {
		return 0, errors.New("the tracker does not know the token")
	}
	return 3, nil
}
