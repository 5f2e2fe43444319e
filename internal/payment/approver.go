package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"strconv"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// approverTime is how long an approver may take to answer. No answer is a no.
const approverTime = 10 * time.Second

// maxDecisionBytes limits the answer of an approver.
const maxDecisionBytes = 64 << 10

// Approver is an authority outside of this program that must allow each payment. It is asked after
// the policy, the caps and the approval of a person, and before anything is recorded or paid. It
// must be safe for concurrent use.
type Approver interface {
	// Approve returns nil if the payment may be made. The error is a *[Denial] when the approver
	// refuses. After any other error the payment is not made either.
	Approve(ctx context.Context, q Question) error
}

// Question is a payment that an approver is asked about.
type Question struct {
	ID         string            `json:"id"` // of the request; the same one may be asked about again
	Org        string            `json:"org,omitempty"`
	Session    perdure.SessionID `json:"session_id"`
	Call       perdure.CallID    `json:"call_id"`
	Tool       string            `json:"tool"`
	Capability string            `json:"capability"`
	Host       string            `json:"host"`
	Operation  string            `json:"operation"`
	Amount     tool.Amount       `json:"amount"`
	Parameters json.RawMessage   `json:"parameters"`
}

// Denial is the error of an approver that refuses a payment.
type Denial struct{ Reason string }

// Error returns the reason.
func (d *Denial) Error() string { return "denied: " + d.Reason }

// approve asks the approver. No answer is a no.
func (p callPayments) approve(ctx context.Context, attempt store.Payment, o tool.PaymentRequest) error {
	ctx, cancel := context.WithTimeout(ctx, approverTime)
	defer cancel()
	err := p.a.cfg.Approver.Approve(ctx, Question{
		ID: "pay_" + attempt.Hash, Org: attempt.Org, Session: p.session, Call: p.call.ID, Tool: p.call.Tool, Capability: p.capability,
		Host: o.Host, Operation: o.Operation, Amount: o.Amount, Parameters: o.Parameters,
	})
	var denied *Denial
	switch {
	case err == nil:
		return nil
	case errors.As(err, &denied) && denied.Reason != "":
		return refuse(tool.PaymentDenied, "the payment authority denies it: %.300q; nothing was paid", denied.Reason)
	case errors.As(err, &denied):
		return refuse(tool.PaymentDenied, "the payment authority denies it; nothing was paid")
	}
	p.a.cfg.Log.Warn("payment authority not available, so the payment is not made", "session", p.session, "call", p.call.ID,
		"tool", p.call.Tool, "error", err)
	return refuse(tool.PaymentUnasked, "the payment authority does not answer, and without its answer nothing is paid; try again later")
}

// HTTPApprover is an approver behind one URL, which the operator configures. It receives a POST
// with the question, signed as webhooks are, and answers 200 with
// {"decision": "allow" or "deny", "reason": …}. Any other answer is no permission.
type HTTPApprover struct {
	url    string
	signer *standard.Webhook
	client *http.Client
}

var _ Approver = (*HTTPApprover)(nil)

// NewHTTPApprover returns the approver at a URL; secret is whsec_ and base64. Invalid: what is
// wrong with the URL or the secret.
func NewHTTPApprover(url, secret string) (*HTTPApprover, error) {
	client, err := egress.ForURL(url)
	if err != nil {
		return nil, fmt.Errorf("URL of the payment authority: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	signer, err := standard.NewWebhook(secret)
	if err != nil || secret == "" {
		return nil, fmt.Errorf("%w secret of the payment authority: want whsec_ and base64", perdure.Invalid)
	}
	return &HTTPApprover{url: url, signer: signer, client: client}, nil
}

// Close closes the idle connections.
func (h *HTTPApprover) Close() { h.client.CloseIdleConnections() }

// paymentQuestion is the body of a question, in the form of a webhook.
type paymentQuestion struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      Question  `json:"data"`
}

// Approve sends the question once.
func (h *HTTPApprover) Approve(ctx context.Context, q Question) error {
	now := time.Now().UTC()
	body, err := json.Marshal(paymentQuestion{"payment.requested", now, q})
	if err != nil {
		return err
	}
	signature, err := h.signer.Sign(q.ID, now, body)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", q.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature)
	resp, err := h.client.Do(req)
	if err != nil {
		var asked *neturl.Error
		if errors.As(err, &asked) { // without the address, which may be known only to its owner
			err = asked.Err
		}
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDecisionBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it answered %s", resp.Status)
	}
	return readDecision(text)
}

// readDecision returns nil only if an answer allows the payment.
func readDecision(text []byte) error {
	var d struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
	}
	if len(text) > maxDecisionBytes {
		return fmt.Errorf("its answer has more than %d bytes", maxDecisionBytes)
	}
	if err := perdure.DecodeKnownJSON(text, &d); err != nil {
		return fmt.Errorf("its answer cannot be read: %w", err)
	}
	switch d.Decision {
	case "allow":
		return nil
	case "deny":
		return &Denial{Reason: d.Reason}
	}
	return fmt.Errorf("its answer has the decision %.40q; want allow or deny", d.Decision)
}
