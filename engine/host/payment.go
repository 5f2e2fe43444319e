package host

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Payments configures payments of tools, for the store's own ports (PA1). The zero value allows
// none, and tools that pay return an error.
type Payments struct {
	Wallet Wallet        // moves the money; nil: no payments
	Policy PaymentPolicy // which payments are allowed; the zero value refuses all
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

// PaymentResolution is a person's resolution of a payment with an unknown outcome.
type PaymentResolution = payment.Resolution

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
		Log: cfg.Log,
	})
}

// paymentPort returns the payment port for calls; nil: none.
func (e *Host) paymentPort() func(perdure.SessionID, tool.Call) tool.Payments {
	if e.payments == nil {
		return nil
	}
	return e.payments.For
}

// Payments lists attempted payments, newest first, including those of deleted sessions and of
// earlier wallets.
func (e *Host) Payments(ctx context.Context, filter store.PaymentFilter) ([]store.Payment, error) {
	return store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Payment, error) { return r.Payments().List(filter) })
}

// ResolvePayment records a person's resolution of a payment whose outcome is unknown. NotFound: no
// such request. Conflict: its outcome is known, or the wallet may still answer. Unavailable: this
// engine has no wallet.
func (e *Host) ResolvePayment(ctx context.Context, r PaymentResolution) (store.Payment, error) {
	if e.payments == nil {
		return store.Payment{}, fmt.Errorf("resolve payment: %w: this engine has no wallet", perdure.Unavailable)
	}
	return e.payments.Resolve(ctx, r)
}
