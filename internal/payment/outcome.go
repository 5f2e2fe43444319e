package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// notSent is the note of an attempt that markNotSent gave back.
const notSent = "nothing was sent: the record of the attempt was not certain"

// retryPause is how long settle waits before it tries to record an outcome again.
const retryPause = 50 * time.Millisecond

// carryOut asks the wallet to pay and records the outcome. Once the wallet has been asked, carryOut
// waits for its answer even if ctx ends: without the answer the outcome would be unknown. After
// until it does not ask the wallet any more, for instance because the process was suspended before
// this call: by then the attempt may have been resolved as not paid.
func (a *Authority) carryOut(ctx context.Context, p store.Payment, o tool.PaymentRequest, until time.Time) (tool.PaymentReceipt, error) {
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Wait)
	defer cancel()
	asked, stop := context.WithDeadline(asked, until)
	defer stop()
	var receipt string
	err := asked.Err()
	if err == nil {
		receipt, err = a.cfg.Wallet.Pay(asked, Transfer{
			Key: IdempotencyKey(p), Capability: p.Capability, Host: p.Host, Operation: p.Operation, Amount: o.Amount, Parameters: o.Parameters,
		})
	}
	end := store.PaymentEnd{Hash: p.Hash, Attempt: p.Attempt, Token: p.Token, State: store.PaymentPaid, Receipt: limitText(receipt)}
	var refused *Refusal
	switch {
	case errors.As(err, &refused):
		end.State, end.Receipt, end.Note = store.PaymentRefused, "", limitText(refused.Text)
	case err != nil:
		end.State, end.Receipt, end.Note = store.PaymentUnknown, "", limitText(err.Error())
	}
	unrecorded := a.settle(ctx, end)
	a.cfg.Log.Info("payment carried out", "session", p.Session, "call", p.Call, "tool", p.Tool, "payment", IdempotencyKey(p), "state", end.State)
	p.State, p.Receipt = end.State, end.Receipt
	paid := receiptOf(p)
	switch {
	case end.State == store.PaymentRefused:
		return tool.PaymentReceipt{}, refuse(tool.PaymentRefused, "the wallet refused payment %s, and no money moved; its answer is in the payment's record", paid.ID)
	case end.State == store.PaymentUnknown:
		return tool.PaymentReceipt{}, refuse(tool.PaymentUnknown, "it is unknown whether payment %s was made; do not pay again before it is checked", paid.ID)
	case unrecorded != nil:
		return tool.PaymentReceipt{}, &tool.PaymentError{
			Code: tool.PaymentUnknown, Text: fmt.Sprintf("payment %s was made, but this could not be recorded; do not pay again", paid.ID), Receipt: &paid,
		}
	}
	return paid, nil
}

// settle records an outcome, and retries while the store is unavailable. An outcome that it cannot
// record leaves the attempt in flight, which becomes unknown when its time is over.
func (a *Authority) settle(ctx context.Context, end store.PaymentEnd) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Record)
	defer cancel()
	for {
		err := a.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			_, err := tx.Payments().Settle(end)
			return err
		})
		if err == nil {
			return nil
		}
		if again := errors.Is(err, perdure.Unavailable) && ctx.Err() == nil; !again {
			a.cfg.Log.Error("payment outcome not recorded", "payment", end.Hash, "attempt", end.Attempt, "state", end.State, "error", err)
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

// markNotSent settles an attempt as not sent. The commit that recorded the attempt failed without a
// certain answer, so the row may or may not exist.
func (a *Authority) markNotSent(ctx context.Context, p store.Payment) {
	err := a.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		last, err := tx.Payments().Get(p.Hash)
		if errors.Is(err, perdure.NotFound) || err == nil && last.Token != p.Token {
			return nil // the attempt was not recorded
		}
		if err == nil {
			_, err = tx.Payments().Settle(store.PaymentEnd{Hash: p.Hash, Attempt: last.Attempt, Token: p.Token, State: store.PaymentRefused, Note: notSent})
		}
		return err
	})
	if err != nil {
		a.cfg.Log.Warn("unsent payment attempt may remain in the store", "payment", p.Hash, "error", err)
	}
}

// Resolution is what a person found out about an attempt with an unknown outcome.
type Resolution struct {
	Hash    string // of the request
	Attempt int    // of the request; 0: the last one
	Paid    bool   // false: surely no money moved
	Receipt string // only if Paid
	By      string // who found out; required
	Note    string
}

// Resolve records what a person found out, and an entry in the audit log, in one commit. It needs
// no wallet. NotFound: there is no such request. Conflict: its outcome is known, or the wallet may
// still answer, or a later attempt was made. Invalid: By is empty, or a receipt is given for what
// was not paid.
func Resolve(ctx context.Context, s store.Store, r Resolution) (p store.Payment, err error) {
	switch {
	case r.By == "":
		return p, fmt.Errorf("resolve payment %s: %w: name the person who found out", r.Hash, perdure.Invalid)
	case !r.Paid && r.Receipt != "":
		return p, fmt.Errorf("resolve payment %s: %w: a payment that did not happen has no receipt", r.Hash, perdure.Invalid)
	}
	end := store.PaymentEnd{Hash: r.Hash, State: store.PaymentRefused, Note: r.Note, ResolvedBy: r.By}
	if r.Paid {
		end.State, end.Receipt = store.PaymentPaid, r.Receipt
	}
	err = s.InTx(ctx, func(tx store.Tx) error {
		last, err := tx.Payments().Get(r.Hash)
		if err != nil {
			return err
		}
		if r.Attempt != 0 && r.Attempt != last.Attempt {
			return fmt.Errorf("resolve payment %s: %w: it was made again, as attempt %d", r.Hash, perdure.Conflict, last.Attempt)
		}
		if last.State != store.PaymentUnknown {
			return fmt.Errorf("resolve payment %s: %w: it is %s", r.Hash, perdure.Conflict, last.State)
		}
		end.Attempt, end.Token = last.Attempt, last.Token
		if p, err = tx.Payments().Settle(end); err != nil {
			return err
		}
		return tx.Audit().Add(store.AuditEntry{
			Org: p.Org, Actor: r.By, Action: "payment.resolved", Subject: IdempotencyKey(p), Session: p.Session,
			Detail: map[string]string{"state": string(p.State), "amount": tool.Amount{Micros: p.Micros, Currency: p.Currency}.String(), "host": p.Host},
		})
	})
	return p, err
}

// limitText limits a text to what the store accepts.
func limitText(text string) string { return text[:min(len(text), store.MaxReceiptBytes)] }
