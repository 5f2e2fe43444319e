package host

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Payments configures payments of tools, for the store's own ports (PA1). The zero value allows
// none, and tools that pay return an error.
type Payments struct {
	Wallet Wallet        // moves the money; nil: no payments
	Policy PaymentPolicy // which payments are allowed; the zero value refuses all
	// Authority is asked before each payment that the policy allows; nil: nobody is.
	Authority PaymentAuthority
}

// Wallet moves money. Only the payment authority uses it.
type Wallet = payment.Wallet

// Transfer is one payment as a [Wallet] receives it.
type Transfer = payment.Transfer

// WalletRefusal is the error of a [Wallet] that certainly moved no money.
type WalletRefusal = payment.Refusal

// PaymentPolicy decides who may pay what to whom.
type PaymentPolicy = payment.Policy

// PaymentCaps limits the payments in one currency.
type PaymentCaps = payment.Caps

// PaymentAuthority is somebody else who must allow a payment before money moves.
type PaymentAuthority = payment.Approver

// PaymentQuestion is what a [PaymentAuthority] is asked.
type PaymentQuestion = payment.Question

// PaymentDenial is the error of a [PaymentAuthority] that refuses a payment.
type PaymentDenial = payment.Denial

// NewHTTPWallet returns a wallet that is reached at a URL; authorization is sent in the
// Authorization header. docs/how-to/let-tools-pay.md describes the protocol. Invalid: the URL is
// not acceptable.
func NewHTTPWallet(url, authorization string) (Wallet, error) {
	w, err := payment.NewHTTP(url, authorization)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// NewHTTPPaymentAuthority returns an authority that is reached at a URL. Each question is signed
// with the secret, as webhooks are. docs/how-to/let-tools-pay.md describes the protocol. Invalid:
// the URL or the secret is not acceptable.
func NewHTTPPaymentAuthority(url, secret string) (PaymentAuthority, error) {
	a, err := payment.NewHTTPApprover(url, secret)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// paymentsOf creates the payment authority; nil: no wallet is configured.
func paymentsOf(cfg Config) (*payment.Authority, error) {
	if cfg.Payments.Wallet == nil {
		return nil, nil
	}
	spec := func(name string) (tool.Spec, bool) {
		t, ok := cfg.Tools.Get(name)
		if !ok {
			return tool.Spec{}, false
		}
		return t.Spec(), true
	}
	return payment.New(payment.Config{
		Store: cfg.Store, Wallet: cfg.Payments.Wallet, Policy: cfg.Payments.Policy, Org: cfg.Org, Spec: spec,
		Approver: cfg.Payments.Authority, Log: cfg.Log,
	})
}

// paymentPort returns the payment port for calls; nil: none.
func (e *Host) paymentPort() func(perdure.SessionID, tool.Call) tool.Payments {
	if e.payments == nil {
		return nil
	}
	return e.payments.For
}

// paymentOf returns an attempt as callers see it.
func paymentOf(p store.Payment) engine.Payment {
	return engine.Payment{
		ID: payment.IdempotencyKey(p), State: string(p.State), Amount: tool.Amount{Micros: p.Micros, Currency: p.Currency}.Value(),
		Currency: p.Currency, Host: p.Host, Operation: p.Operation, Capability: p.Capability, Tool: p.Tool, Session: p.Session,
		Call: p.Call, Turn: p.Turn, Org: p.Org, ApprovedBy: p.ApprovedBy, Receipt: p.Receipt, Note: p.Note,
		ResolvedBy: p.ResolvedBy, CreatedAt: p.CreatedAt, SettledAt: p.SettledAt,
	}
}

// sees reports whether an attempt is shown to a caller; a caller without an owner sees all. What
// the engine counts under a name of its own belongs to the default org.
func (e hostPayments) sees(ctx context.Context, p store.Payment) bool {
	owner, one := engine.OwnerFromContext(ctx)
	org := p.Org
	if org == e.cfg.Org {
		org = ""
	}
	return !one || cmp.Or(org, budget.DefaultOrg) == owner.Org
}

// List lists payments, newest first, including those of deleted sessions and of earlier wallets.
func (e hostPayments) List(ctx context.Context, f engine.PaymentFilter) (found []engine.Payment, err error) {
	if f.State != "" && !store.PaymentState(f.State).Valid() {
		return nil, fmt.Errorf("list payments: %w state %.40q: use in_flight, paid, refused or unknown", perdure.Invalid, f.State)
	}
	all, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Payment, error) {
		return r.Payments().List(store.PaymentFilter{Session: f.Session, State: store.PaymentState(f.State)})
	})
	for _, p := range all {
		if f.Limit > 0 && len(found) == f.Limit {
			break
		}
		if e.sees(ctx, p) {
			found = append(found, paymentOf(p))
		}
	}
	return found, err
}

// Get returns a payment.
func (e hostPayments) Get(ctx context.Context, id string) (engine.Payment, error) {
	p, err := e.find(ctx, id)
	return paymentOf(p), err
}

// find returns an attempt of the caller's org.
func (e hostPayments) find(ctx context.Context, id string) (store.Payment, error) {
	missing := fmt.Errorf("payment %.100q: %w", id, perdure.NotFound)
	hash, attempt, ok := parsePaymentID(id)
	if !ok {
		return store.Payment{}, missing
	}
	all, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Payment, error) {
		last, err := r.Payments().Get(hash)
		if err != nil || last.Attempt == attempt || attempt > last.Attempt {
			return []store.Payment{last}, err
		}
		return r.Payments().List(store.PaymentFilter{}) // an earlier attempt, which was refused
	})
	if err != nil {
		return store.Payment{}, fmt.Errorf("payment %.100q: %w", id, err)
	}
	for _, p := range all {
		if p.Hash == hash && p.Attempt == attempt && e.sees(ctx, p) {
			return p, nil
		}
	}
	return store.Payment{}, missing
}

// parsePaymentID is the inverse of payment.IdempotencyKey.
func parsePaymentID(id string) (hash string, attempt int, ok bool) {
	rest, isPayment := strings.CutPrefix(id, "pay_")
	hash, number, numbered := strings.Cut(rest, "_")
	attempt, err := strconv.Atoi(number)
	return hash, attempt, isPayment && numbered && err == nil && attempt > 0
}

// Resolve records a person's resolution, and an entry in the audit log, in one commit. It needs no
// wallet: no money moves.
func (e hostPayments) Resolve(ctx context.Context, id string, o engine.PaymentResolution) (engine.Payment, error) {
	known, err := e.find(ctx, id)
	if err != nil {
		return engine.Payment{}, err
	}
	p, err := payment.Resolve(ctx, e.cfg.Store, payment.Resolution{Hash: known.Hash, Attempt: known.Attempt, Paid: o.Happened,
		Receipt: o.Receipt, By: o.By, Note: o.Note})
	return paymentOf(p), err
}
