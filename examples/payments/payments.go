// Package payments has the two servers that payments need: a wallet, which moves the money, and an
// authority, which must allow each payment. Both are fakes: no money moves.
//
// It may import anything. The one thing to know: a wallet that receives the same idempotency key
// twice makes one payment, because Perdure may ask again after a crash of the wallet.
package payments

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/perdure/perdure"
)

// maxBody limits a request.
const maxBody = 1 << 20

// Transfer is a payment as the wallet receives it.
type Transfer struct {
	Capability string `json:"capability"`
	Host       string `json:"host"`
	Operation  string `json:"operation"`
	Amount     struct {
		Value    string `json:"value"` // a decimal number
		Currency string `json:"currency"`
	} `json:"amount"`
}

// Wallet is a wallet without money.
type Wallet struct {
	Authorization string // what the header Authorization must be

	mu   sync.Mutex
	made map[string]Transfer // guarded by mu; by idempotency key
}

// ServeHTTP makes one payment.
func (w *Wallet) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	key := req.Header.Get("Idempotency-Key")
	var t Transfer
	switch {
	case req.Header.Get("Authorization") != w.Authorization:
		http.Error(out, "who are you?", http.StatusUnauthorized)
		return
	case key == "" || read(out, req, &t) != nil:
		http.Error(out, "want a transfer and an idempotency key", http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made == nil {
		w.made = map[string]Transfer{}
	}
	w.made[key] = t // a real wallet stores it where it survives a restart
	fmt.Fprintf(out, "receipt for %s %s to %s", t.Amount.Value, t.Amount.Currency, t.Host)
}

// read decodes the body of a request.
func read(out http.ResponseWriter, req *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(out, req.Body, maxBody))
	if err != nil {
		return err
	}
	return perdure.DecodeKnownJSON(body, into)
}

// Made returns the payments that were made, by their idempotency keys.
func (w *Wallet) Made() map[string]Transfer {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]Transfer{}
	for key, t := range w.made {
		all[key] = t
	}
	return all
}

// NewAuthority returns an authority for the secret that Perdure signs with.
func NewAuthority(secret string, allow func(Question) (ok bool, why string)) (*Authority, error) {
	key, err := standard.NewWebhook(secret)
	return &Authority{Key: key, Allow: allow}, err
}

// Authority decides about payments.
type Authority struct {
	Key *standard.Webhook // of the secret that Perdure signs with
	// Allow decides about a payment; otherwise it says why not.
	Allow func(Question) (ok bool, why string)
}

// Question is a payment that the authority is asked about.
type Question struct {
	ID      string `json:"id"`
	Session string `json:"session_id"`
	Tool    string `json:"tool"`
	Transfer
}

// ServeHTTP answers one question. The signature is checked before the body is read as JSON.
func (a *Authority) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(out, req.Body, maxBody))
	var asked struct {
		Type string   `json:"type"`
		Data Question `json:"data"`
	}
	switch {
	case err != nil || a.Key.Verify(body, req.Header) != nil:
		http.Error(out, "the signature is wrong", http.StatusUnauthorized)
		return
	case perdure.DecodeKnownJSON(body, &asked) != nil || asked.Type != "payment.requested":
		http.Error(out, "want a payment", http.StatusBadRequest)
		return
	}
	answer := struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason,omitempty"`
	}{Decision: "allow"}
	if ok, why := a.Allow(asked.Data); !ok {
		answer.Decision, answer.Reason = "deny", why
	}
	_ = json.NewEncoder(out).Encode(answer) // Perdure does not pay without the answer
}
