// Package webhook is a receiver of webhooks. It accepts deliveries that Perdure signed and handles
// each event once.
//
// It may import anything. The one thing to know: the signature covers the bytes of the body as
// received, so it is verified before the body is parsed as JSON.
package webhook

import (
	"io"
	"net/http"
	"sync"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Receiver handles webhook deliveries.
type Receiver struct {
	Keys []*standard.Webhook     // the valid secrets: one, or two during a rotation
	Take func(body []byte) error // handles an event; after an error the event is delivered again

	mu sync.Mutex
	// seen has the ids of the handled deliveries. A real receiver stores them where they survive a
	// restart.
	seen map[string]bool // guarded by mu
}

// New returns a receiver that accepts the given secrets, in the form that perdure webhook create
// prints.
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

// ServeHTTP implements http.Handler: it handles one delivery.
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

// signed reports whether one of the keys signed the delivery. Verify compares in constant time and
// refuses signatures that are more than five minutes old.
func (r *Receiver) signed(body []byte, header http.Header) bool {
	for _, key := range r.Keys {
		if key.Verify(body, header) == nil {
			return true
		}
	}
	return false
}
