package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Wallet moves money. Only the authority uses it. It must be safe for concurrent use.
type Wallet interface {
	// Pay carries out one transfer and returns the receipt as text. A second transfer with the same
	// key is the same transfer and moves no money. The error is a *[Refusal] when certainly no
	// money moved; after any other error the outcome is unknown. Pay tries once, and returns soon
	// after ctx ends.
	Pay(ctx context.Context, t Transfer) (receipt string, err error)
}

// Transfer is one payment as it is sent to a wallet.
type Transfer struct {
	Key        string          `json:"-"` // idempotency key
	Capability string          `json:"capability"`
	Host       string          `json:"host"`
	Operation  string          `json:"operation"`
	Amount     tool.Amount     `json:"amount"`
	Parameters json.RawMessage `json:"parameters"`
}

// Refusal is the error of a transfer that certainly moved no money.
type Refusal struct{ Text string }

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// HTTP is a wallet behind one URL, which the operator configures. It receives a POST with the
// transfer as JSON and the key in the header Idempotency-Key. 200 and 201 mean that it is paid,
// with the body as the receipt. A 4xx that rejects the request itself is a refusal, and so is a
// server that cannot be connected to. Everything else leaves the outcome unknown: 409, 5xx, a
// redirect, no response, a truncated receipt.
type HTTP struct {
	url           string
	authorization string
	client        *http.Client
}

var _ Wallet = (*HTTP)(nil)

// NewHTTP returns the wallet at a URL. authorization is the value of the header Authorization;
// empty: none is sent. Invalid: what is wrong with the URL.
func NewHTTP(url, authorization string) (*HTTP, error) {
	client, err := egress.ForURL(url)
	if err != nil {
		return nil, fmt.Errorf("payment URL: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &HTTP{url: url, authorization: authorization, client: client}, nil
}

// Close closes the idle connections.
func (w *HTTP) Close() { w.client.CloseIdleConnections() }

// Pay carries out one transfer.
func (w *HTTP) Pay(ctx context.Context, t Transfer) (string, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return "", &Refusal{Text: fmt.Sprintf("the transfer cannot be encoded: %v", err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return "", &Refusal{Text: fmt.Sprintf("the transfer cannot be sent: %v", err)}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", t.Key)
	if w.authorization != "" {
		req.Header.Set("Authorization", w.authorization)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return "", sendError(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, store.MaxReceiptBytes+1))
	switch {
	case resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated:
		if err != nil {
			return "", fmt.Errorf("read the wallet's receipt: %w", err)
		}
		return string(text), nil
	case isRejection(resp.StatusCode):
		return "", &Refusal{Text: fmt.Sprintf("%s: %.500s", resp.Status, text)}
	}
	return "", fmt.Errorf("the wallet answered %s: %.500s", resp.Status, text)
}

// isRejection reports whether a status means that the request was rejected and nothing was done.
func isRejection(status int) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
	}, status)
}

// sendError is the error of a request without a response: a refusal if nothing can have arrived. It
// leaves out the address, which may be known only to its owner.
func sendError(err error) error {
	var asked *neturl.Error
	if errors.As(err, &asked) {
		err = asked.Err
	}
	var dial *net.OpError
	var guard *perdure.EgressError
	if errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &guard) && guard.Code != perdure.EgressTransport {
		return &Refusal{Text: fmt.Sprintf("nothing was sent: %v", err)}
	}
	return fmt.Errorf("the wallet did not answer: %w", err)
}
