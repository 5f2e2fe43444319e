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

// notSent is the note of an attempt that was given back.
const notSent = "nothing was sent: the record of the attempt was not certain"

// pause is how long it is until an outcome is written again that could not be.
const pause = 50 * time.Millisecond

// carryOut asks the wallet and records what came of it. Once asked, the wallet is waited for, whatever becomes of ctx: an
// answer that nobody hears is worth nothing. It is asked nothing once until has passed, as in a process that stood still
// before this.
func (a *Authority) carryOut(ctx context.Context, p store.Payment, o tool.PaymentOrder, until time.Time) (tool.PaymentReceipt, error) {
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Wait)
	defer cancel()
	asked, stop := context.WithDeadline(asked, until)
	defer stop()
	var receipt string
	err := asked.Err()
	if err == nil {
		receipt, err = a.cfg.Wallet.Pay(asked, Transfer{
			Key: IDOf(p), Capability: p.Capability, Host: p.Host, Operation: p.Operation, Amount: o.Amount, Parameters: o.Parameters,
		})
	}
	end := store.PaymentEnd{Hash: p.Hash, Attempt: p.Attempt, Token: p.Token, State: store.PaymentPaid, Receipt: cut(receipt)}
	var refused *Refusal
	switch {
	case errors.As(err, &refused):
		end.State, end.Receipt, end.Note = store.PaymentRefused, "", cut(refused.Text)
	case err != nil:
		end.State, end.Receipt, end.Note = store.PaymentUnknown, "", cut(err.Error())
	}
	unrecorded := a.settle(ctx, end)
	a.cfg.Log.Info("a payment was carried out", "session", p.Session, "call", p.Call, "tool", p.Tool, "payment", IDOf(p), "state", end.State)
	p.State, p.Receipt = end.State, end.Receipt
	paid := receiptOf(p)
	switch {
	case end.State == store.PaymentRefused:
		return tool.PaymentReceipt{}, refuse(tool.PaymentRefused, "the wallet refused the payment %s, and no money moved; what it said stands in the payment's record", paid.ID)
	case end.State == store.PaymentUnknown:
		return tool.PaymentReceipt{}, refuse(tool.PaymentUnknown, "nobody knows whether the payment %s was made: do not pay again without checking", paid.ID)
	case unrecorded != nil:
		return tool.PaymentReceipt{}, &tool.PaymentError{
			Code: tool.PaymentUnknown, Text: fmt.Sprintf("the payment %s was made, but that could not be recorded: do not pay again", paid.ID), Receipt: &paid,
		}
	}
	return paid, nil
}

// settle records an outcome, again and again while the store is not available. What it cannot record stays in flight, and is
// unknown from its time on.
func (a *Authority) settle(ctx context.Context, end store.PaymentEnd) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Record)
	defer cancel()
	for {
		err := a.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			_, err := tx.SettlePayment(end)
			return err
		})
		if err == nil {
			return nil
		}
		if again := errors.Is(err, perdure.Unavailable) && ctx.Err() == nil; !again {
			a.cfg.Log.Error("the outcome of a payment was not recorded", "payment", end.Hash, "attempt", end.Attempt, "state", end.State, "error", err)
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// giveBack says of an attempt, of which nobody knows whether it was recorded, that nothing was sent for it.
func (a *Authority) giveBack(ctx context.Context, p store.Payment) {
	err := a.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		last, err := tx.Payment(p.Hash)
		if errors.Is(err, perdure.NotFound) || err == nil && last.Token != p.Token {
			return nil // it was not
		}
		if err == nil {
			_, err = tx.SettlePayment(store.PaymentEnd{Hash: p.Hash, Attempt: last.Attempt, Token: p.Token, State: store.PaymentRefused, Note: notSent})
		}
		return err
	})
	if err != nil {
		a.cfg.Log.Warn("an attempt to pay may stand in the store for which nothing was sent", "payment", p.Hash, "error", err)
	}
}

// Resolution is what somebody found out about an attempt that was unknown.
type Resolution struct {
	Hash    string // of the request
	Paid    bool   // else surely no money moved
	Receipt string // where it was paid
	By      string // who says so; required
	Note    string
}

// Resolve records what a person found out. NotFound: there is no such request. Conflict: its outcome is known, or the wallet
// may answer yet. Invalid: nobody says so.
func (a *Authority) Resolve(ctx context.Context, r Resolution) (p store.Payment, err error) {
	if r.By == "" {
		return p, fmt.Errorf("resolve payment %s: %w: say who found out", r.Hash, perdure.Invalid)
	}
	end := store.PaymentEnd{Hash: r.Hash, State: store.PaymentRefused, Note: r.Note, ResolvedBy: r.By}
	if r.Paid {
		end.State, end.Receipt = store.PaymentPaid, r.Receipt
	}
	err = a.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		last, err := tx.Payment(r.Hash)
		if err != nil {
			return err
		}
		if last.State != store.PaymentUnknown {
			return fmt.Errorf("resolve payment %s: %w: it is %s", r.Hash, perdure.Conflict, last.State)
		}
		end.Attempt, end.Token = last.Attempt, last.Token
		p, err = tx.SettlePayment(end)
		return err
	})
	return p, err
}

// List returns attempts, the newest first.
func (a *Authority) List(ctx context.Context, filter store.PaymentFilter) (found []store.Payment, err error) {
	err = a.cfg.Store.View(ctx, func(r store.Reader) error {
		found, err = r.Payments(filter)
		return err
	})
	return found, err
}

// cut keeps a text within what is stored.
func cut(text string) string { return text[:min(len(text), store.MaxReceiptBytes)] }
