package local

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/payment"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Payments is what tools may pay, where the ports are the store's own (PA1). The zero value is nothing: tools that pay say so.
type Payments struct {
	Wallet Wallet        // moves the money; nil: nobody pays
	Policy PaymentPolicy // what is paid; its zero value refuses everything
}

// Wallet moves money. Only the payment authority has it.
type Wallet = payment.Wallet

// Transfer is one payment as a [Wallet] is told of it.
type Transfer = payment.Transfer

// WalletRefusal is the error of a [Wallet] that surely moved no money.
type WalletRefusal = payment.Refusal

// PaymentPolicy says what may be paid, by whom and to whom.
type PaymentPolicy = payment.Policy

// PaymentCaps bound what is paid in one currency.
type PaymentCaps = payment.Caps

// PaymentResolution is what somebody found out about a payment that nobody was sure of.
type PaymentResolution = payment.Resolution

// NewHTTPWallet returns the wallet behind a URL that the operator typed; authorization is sent as the header of that name.
// docs/how-to/let-tools-pay.md says what it sends. Invalid: what is wrong with the URL.
func NewHTTPWallet(url, authorization string) (Wallet, error) {
	w, err := payment.NewHTTP(url, authorization)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// paymentsOf makes the authority; nil: there is no wallet.
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
		Store: cfg.Store, Wallet: cfg.Payments.Wallet, Policy: cfg.Payments.Policy, Org: cfg.Org, Spec: spec, Log: cfg.Log,
	})
}

// paymentPort opens the authority for calls; nil: there is none.
func (e *Engine) paymentPort() func(perdure.SessionID, tool.Call) tool.Payments {
	if e.payments == nil {
		return nil
	}
	return e.payments.For
}

// Payments lists attempts to pay, the newest first: also those of sessions that are gone, and of earlier wallets.
func (e *Engine) Payments(ctx context.Context, filter store.PaymentFilter) (found []store.Payment, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		found, err = r.Payments(filter)
		return err
	})
	return found, err
}

// ResolvePayment records what somebody found out about a payment that was unknown. NotFound: there is no such request.
// Conflict: its outcome is known, or the wallet may answer yet. Unavailable: this engine has no wallet.
func (e *Engine) ResolvePayment(ctx context.Context, r PaymentResolution) (store.Payment, error) {
	if e.payments == nil {
		return store.Payment{}, fmt.Errorf("resolve payment: %w: this engine has no wallet", perdure.Unavailable)
	}
	return e.payments.Resolve(ctx, r)
}
