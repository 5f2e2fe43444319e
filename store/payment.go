package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// The bounds of an attempt to pay.
const (
	MaxPaymentMicros = 1_000_000_000_000_000 // of one attempt: a thousand million of its currency, so that no sum overflows
	MaxPaymentBytes  = 256                   // of each word that names what is paid
	MaxReceiptBytes  = 64 << 10              // of a receipt, and of a note
)

// PaymentState is how far an attempt to pay has come.
type PaymentState string

// The states of an attempt. Paid and refused are for good.
const (
	PaymentInFlight PaymentState = "in_flight" // recorded; the wallet is asked, or is going to be
	PaymentPaid     PaymentState = "paid"
	PaymentRefused  PaymentState = "refused" // surely no money moved
	PaymentUnknown  PaymentState = "unknown" // nobody knows; it counts as paid until somebody finds out
)

// Valid reports whether s is a state of an attempt.
func (s PaymentState) Valid() bool { return s == PaymentInFlight || s == PaymentUnknown || s.Final() }

// Final reports whether the attempt's outcome is known.
func (s PaymentState) Final() bool { return s == PaymentPaid || s == PaymentRefused }

// Payment is one attempt to pay (PA2). Its request is told by Hash; of one request there is one attempt that was not refused,
// and it is the last. The row is never removed: it outlives its session, which is then empty.
type Payment struct {
	Hash       string            // of the request
	Attempt    int               // of the request, from 1
	Token      perdure.Token     // of whoever carries it out
	Org        string            // whose caps it counts for; empty: there are no organisations
	Session    perdure.SessionID // that asked; empty: it was removed
	Turn       string            // whose cap it counts for: a turn of the root of the session's tree
	Call       perdure.CallID
	Tool       string
	Capability string
	Host       string // who is paid
	Operation  string // for what
	Currency   string
	Micros     int64  // millionths of the currency
	ApprovedBy string // the person who said yes to the call; empty: nobody had to
	State      PaymentState
	Receipt    string // of the wallet, as it came
	Note       string // why it was refused, or why nobody knows
	ResolvedBy string // who found out; empty: the wallet said it
	CreatedAt  time.Time
	Until      time.Time // then the wallet has answered, or nobody knows: an attempt in flight is unknown from here on
	SettledAt  time.Time // zero: not yet
}

// Check says whether an attempt may be recorded. Invalid: what is wrong with it.
func (p Payment) Check() error {
	for _, word := range []string{p.Hash, string(p.Token), string(p.Session), p.Turn, string(p.Call), p.Capability, p.Host, p.Operation, p.Currency} {
		if word == "" || len(word) > MaxPaymentBytes {
			return fmt.Errorf("%w payment %q: each word that names it has 1 to %d bytes", perdure.Invalid, p.Hash, MaxPaymentBytes)
		}
	}
	if len(p.Org) > MaxPaymentBytes || p.Attempt < 1 || p.Micros < 1 || p.Micros > MaxPaymentMicros {
		return fmt.Errorf("%w payment %q of %d millionths, attempt %d", perdure.Invalid, p.Hash, p.Micros, p.Attempt)
	}
	return nil
}

// At is the attempt as it stands at a moment: one that is in flight for too long is unknown.
func (p Payment) At(now time.Time) Payment {
	if p.State == PaymentInFlight && !now.Before(p.Until) {
		p.State = PaymentUnknown
	}
	return p
}

// Follows says whether p may be recorded after the last attempt of its request; the zero value is none. Conflict: that one was
// not refused, or p is not the next.
func (p Payment) Follows(last Payment) error {
	if last.Attempt > 0 && last.State != PaymentRefused || p.Attempt != last.Attempt+1 {
		return fmt.Errorf("%w: attempt %d is %s", perdure.Conflict, last.Attempt, last.State)
	}
	return nil
}

// PaymentEnd is the outcome of an attempt.
type PaymentEnd struct {
	Hash       string
	Attempt    int
	Token      perdure.Token // of whoever carries it out: the fence
	State      PaymentState  // paid, refused or unknown
	Receipt    string
	Note       string
	ResolvedBy string
}

// Check says whether an outcome may be recorded. Invalid: what is wrong with it.
func (e PaymentEnd) Check() error {
	if !e.State.Valid() || e.State == PaymentInFlight || max(len(e.Receipt), len(e.Note), len(e.ResolvedBy)) > MaxReceiptBytes {
		return fmt.Errorf("%w outcome %q of a payment, with a receipt of %d bytes", perdure.Invalid, e.State, len(e.Receipt))
	}
	return nil
}

// Of returns what becomes of an attempt. Lost: it is another's to settle. Conflict: its outcome is known, and is another one.
func (e PaymentEnd) Of(p Payment, now time.Time) (Payment, error) {
	switch {
	case p.Token != e.Token:
		return p, fmt.Errorf("%w: another carries it out", perdure.Lost)
	case p.State.Final() && (p.State != e.State || p.Receipt != e.Receipt):
		return p, fmt.Errorf("%w: it is %s already", perdure.Conflict, p.State)
	case p.State.Final():
		return p, nil
	}
	p.State, p.Receipt, p.Note, p.ResolvedBy, p.SettledAt = e.State, e.Receipt, e.Note, e.ResolvedBy, now
	if e.State == PaymentUnknown { // it may be settled yet
		p.SettledAt = time.Time{}
	}
	return p, nil
}

// PaymentFilter narrows a list of attempts. The zero value lists all of them.
type PaymentFilter struct {
	Org     string            // with OneOrg: of this organisation, which may be the empty one
	OneOrg  bool              // else of all
	Session perdure.SessionID // empty: of all
	State   PaymentState      // as it stands now; empty: any
	Limit   int               // the newest ones; 0: no limit
}

// PaymentScope says which attempts are added up.
type PaymentScope struct {
	Org      string
	Currency string
	Turn     string    // empty: of all turns
	Since    time.Time // recorded after it; zero: ever
}

// PaymentReader reads attempts to pay.
type PaymentReader interface {
	// Payment returns the last attempt of a request. NotFound: there is none.
	Payment(hash string) (Payment, error)
	// Payments lists attempts, the newest first. Invalid: the filter names a state that is none.
	Payments(filter PaymentFilter) ([]Payment, error)
	// PaymentSum adds up what counts: all attempts but those that were refused, in millionths of the currency. In a
	// transaction nobody else records an attempt of the organisation until its end, so caps are decided there (PA1).
	PaymentSum(scope PaymentScope) (int64, error)
}

// PaymentWriter writes attempts to pay. They stay when their session goes, without its id.
type PaymentWriter interface {
	// AddPayment records an attempt before money moves: it is in flight until d from now, by the store's clock. State,
	// Receipt, Note, ResolvedBy and all moments are the store's to set. Conflict: what Payment.Follows says. Invalid: what Check says.
	AddPayment(p Payment, d time.Duration) (Payment, error)
	// SettlePayment records the outcome of an attempt, also of one that was unknown. The same outcome again does nothing.
	// Lost, Conflict: what PaymentEnd.Of says. NotFound: there is no such attempt. Invalid: what Check says.
	SettlePayment(end PaymentEnd) (Payment, error)
}
