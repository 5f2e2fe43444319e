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

// Wallet moves money (PA1). Only the authority has it. Safe for concurrent use.
type Wallet interface {
	// Pay carries out one transfer and returns the receipt, as text. A transfer of the same key again is the same transfer,
	// and moves nothing. The error is a *[Refusal] when surely no money moved; after any other one nobody knows. It tries
	// once, and returns soon after ctx has ended.
	Pay(ctx context.Context, t Transfer) (receipt string, err error)
}

// Transfer is one payment as a wallet is told of it.
type Transfer struct {
	Key        string          `json:"-"` // idempotency key
	Capability string          `json:"capability"`
	Host       string          `json:"host"`
	Operation  string          `json:"operation"`
	Amount     tool.Amount     `json:"amount"`
	Parameters json.RawMessage `json:"parameters"`
}

// Refusal is the error of a transfer that surely moved no money.
type Refusal struct{ Text string }

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// HTTP is a wallet behind one URL that the operator typed. It is sent a POST with the transfer as JSON and its key in the
// header Idempotency-Key. 200 and 201 say that it is paid, with the body as the receipt; a 4xx that says what is wrong with
// the request is a refusal, and so is a server that cannot be connected to. All else leaves it open: 409, 5xx, a
// redirect, no answer, half a receipt.
type HTTP struct {
	url           string
	authorization string
	client        *http.Client
}

var _ Wallet = (*HTTP)(nil)

// NewHTTP returns the wallet at a URL. authorization is sent as the header of that name; empty: none. Invalid: what is wrong
// with the URL.
func NewHTTP(url, authorization string) (*HTTP, error) {
	client, err := egress.ForURL(url)
	if err != nil {
		return nil, fmt.Errorf("payment URL: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &HTTP{url: url, authorization: authorization, client: client}, nil
}

// Close drops the idle connections.
func (w *HTTP) Close() { w.client.CloseIdleConnections() }

// Pay carries out one transfer.
func (w *HTTP) Pay(ctx context.Context, t Transfer) (string, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return "", &Refusal{Text: fmt.Sprintf("the transfer cannot be written: %v", err)}
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
			return "", fmt.Errorf("the wallet's receipt broke off: %w", err)
		}
		return string(text), nil
	case refuses(resp.StatusCode):
		return "", &Refusal{Text: fmt.Sprintf("%s: %.500s", resp.Status, text)}
	}
	return "", fmt.Errorf("the wallet answered %s: %.500s", resp.Status, text)
}

// refuses reports whether a status says that nothing was done because of what the request is.
func refuses(status int) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
	}, status)
}

// sendError is the error of a request without an answer: a refusal when nothing can have arrived.
// The address is left out: it may be one that only its owner knows.
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
