package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Limits of a payment attempt.
const (
	// of one attempt: a thousand million of its currency, so that no sum overflows
	MaxPaymentMicros = 1_000_000_000_000_000
	MaxPaymentBytes  = 256      // of each field that identifies the payment
	MaxReceiptBytes  = 64 << 10 // of a receipt, and of a note
)

// PaymentState is the state of a payment attempt.
type PaymentState string

// The states of an attempt. Paid and refused are final.
const (
	PaymentInFlight PaymentState = "in_flight" // recorded; the wallet is or will be asked
	PaymentPaid     PaymentState = "paid"
	PaymentRefused  PaymentState = "refused" // certainly no money moved
	PaymentUnknown  PaymentState = "unknown" // the outcome is not known; it counts as paid until it is resolved
)

// Valid reports whether s is a state of an attempt.
func (s PaymentState) Valid() bool { return s == PaymentInFlight || s == PaymentUnknown || s.Final() }

// Final reports whether the attempt's outcome is known.
func (s PaymentState) Final() bool { return s == PaymentPaid || s == PaymentRefused }

// Payment is one attempt to pay. Hash identifies its request; a request has at most one attempt
// that was not refused, and it is the last one. The row is never removed: it outlives its session,
// whose id is then empty.
type Payment struct {
	Hash       string            // of the request
	Attempt    int               // of the request, starting at 1
	Token      perdure.Token     // of the owner that carries it out
	Org        string            // whose limits it counts against; empty: there are no organisations
	Session    perdure.SessionID // empty: it was removed
	Turn       string            // whose limit it counts against: a turn of the root session
	Call       perdure.CallID
	Tool       string
	Capability string
	Host       string // the payee
	Operation  string // what is paid for
	Currency   string
	Micros     int64  // millionths of the currency
	ApprovedBy string // person who approved the call; empty: no approval was needed
	State      PaymentState
	Receipt    string // of the wallet, unchanged
	Note       string // why it was refused, or why its outcome is unknown
	ResolvedBy string // who resolved it; empty: the wallet answered
	CreatedAt  time.Time
	Until      time.Time // from then on, an attempt in flight is unknown
	SettledAt  time.Time // zero: not yet
}

// Check checks an attempt. Invalid: the error says what is wrong.
func (p Payment) Check() error {
	for _, word := range []string{p.Hash, string(p.Token), string(p.Session), p.Turn, string(p.Call), p.Capability,
		p.Host, p.Operation, p.Currency} {
		if word == "" || len(word) > MaxPaymentBytes {
			return fmt.Errorf("%w payment %q: each identifying field needs 1 to %d bytes", perdure.Invalid, p.Hash,
				MaxPaymentBytes)
		}
	}
	if len(p.Org) > MaxPaymentBytes || p.Attempt < 1 || p.Micros < 1 || p.Micros > MaxPaymentMicros {
		return fmt.Errorf("%w payment %q of %d millionths, attempt %d", perdure.Invalid, p.Hash, p.Micros, p.Attempt)
	}
	return nil
}

// At returns the attempt as of a time: an attempt that is in flight for too long is unknown.
func (p Payment) At(now time.Time) Payment {
	if p.State == PaymentInFlight && !now.Before(p.Until) {
		p.State = PaymentUnknown
	}
	return p
}

// Follows checks that p may follow the last attempt of its request; the zero value means none.
// Conflict: the last attempt was not refused, or p is not the next one.
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
	Token      perdure.Token // the fence: token of the owner that carries it out
	State      PaymentState  // paid, refused or unknown
	Receipt    string
	Note       string
	ResolvedBy string
}

// Check checks an outcome. Invalid: the error says what is wrong.
func (e PaymentEnd) Check() error {
	if !e.State.Valid() || e.State == PaymentInFlight ||
		max(len(e.Receipt), len(e.Note), len(e.ResolvedBy)) > MaxReceiptBytes {
		return fmt.Errorf("%w outcome %q of a payment, with a receipt of %d bytes", perdure.Invalid, e.State,
			len(e.Receipt))
	}
	return nil
}

// Apply returns the attempt with its outcome. Lost: another owner settles it. Conflict: its outcome
// is known and different.
func (e PaymentEnd) Apply(p Payment, now time.Time) (Payment, error) {
	switch {
	case p.Token != e.Token:
		return p, fmt.Errorf("%w: another owner carries it out", perdure.Lost)
	case p.State.Final() && (p.State != e.State || p.Receipt != e.Receipt):
		return p, fmt.Errorf("%w: it is %s already", perdure.Conflict, p.State)
	case p.State.Final():
		return p, nil
	}
	p.State, p.Receipt, p.Note, p.ResolvedBy, p.SettledAt = e.State, e.Receipt, e.Note, e.ResolvedBy, now
	if e.State == PaymentUnknown { // it may still be settled
		p.SettledAt = time.Time{}
	}
	return p, nil
}

// PaymentFilter narrows a list of attempts. The zero value lists all of them.
type PaymentFilter struct {
	Org     string            // with OneOrg: the organisation, possibly the empty one
	OneOrg  bool              // otherwise all organisations
	Session perdure.SessionID // empty: of all
	State   PaymentState      // as of now; empty: any
	Limit   int               // the newest ones; 0: no limit
}

// PaymentScope selects attempts to add up.
type PaymentScope struct {
	Org      string
	Currency string
	Turn     string    // empty: of all turns
	Since    time.Time // recorded after that; zero: ever
}

// PaymentReader reads payment attempts.
type PaymentReader interface {
	// Get returns the last attempt of a request. NotFound: there is none.
	Get(hash string) (Payment, error)
	// List lists attempts, the newest first. Invalid: the filter names an unknown state.
	List(filter PaymentFilter) ([]Payment, error)
	// Sum adds up all attempts that were not refused, in millionths of the currency. Until
	// the end of the transaction nobody else records an attempt of the organisation, so that limits
	// can be checked against the sum.
	Sum(scope PaymentScope) (int64, error)
}

// PaymentWriter writes payment attempts. They stay without session id when their session is
// removed.
type PaymentWriter interface {
	// Add records an attempt before money moves. It is in flight until d from now, by the
	// store's clock. The store sets State, Receipt, Note, ResolvedBy and all times. Conflict: as
	// Payment.Follows says. Invalid: as Check says.
	Add(p Payment, d time.Duration) (Payment, error)
	// Settle records the outcome of an attempt, including an unknown one. The same outcome
	// again does nothing. Lost, Conflict: as PaymentEnd.Of says. NotFound: no such attempt.
	// Invalid: as Check says.
	Settle(end PaymentEnd) (Payment, error)
}
