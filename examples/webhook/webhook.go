// Package webhook is a receiver of webhooks: it takes what Perdure signed, each event once.
//
// It may import anything. The one thing to know: the signature is over the bytes of the body as they came, so they are verified
// before anything reads them as JSON.
package webhook

import (
	"io"
	"net/http"
	"sync"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Receiver takes webhooks. Keys are the secrets that are good: one, or both while one is rotated.
type Receiver struct {
	Keys []*standard.Webhook
	Take func(body []byte) error // does the work; an error has the event sent again

	mu   sync.Mutex
	seen map[string]bool // guarded by mu: the ids that were taken; keep yours where a restart does not lose it
}

// New makes a receiver for secrets as perdure webhook create shows them.
func New(take func([]byte) error, secrets ...string) (*Receiver, error) {
	r := &Receiver{Take: take, seen: map[string]bool{}}
	for _, secret := range secrets {
		key, err := standard.NewWebhook(secret)
		if err != nil {
			return nil, err
		}
		r.Keys = append(r.Keys, key)
	}
	return r, nil
}

// ServeHTTP takes one delivery.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 10<<20))
	if err != nil || !r.signed(body, req.Header) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := req.Header.Get("Webhook-Id"); !r.seen[id] {
		if err := r.Take(body); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.seen[id] = true
	}
	w.WriteHeader(http.StatusNoContent)
}

// signed compares in constant time, and refuses what was signed more than five minutes ago.
func (r *Receiver) signed(body []byte, header http.Header) bool {
	for _, key := range r.Keys {
		if key.Verify(body, header) == nil {
			return true
		}
	}
	return false
}
