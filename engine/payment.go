package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Payments reads what tools have paid, and records what a person found out about payments with an
// unknown outcome (PA1, PA2). Payments outlive their sessions and the wallet that made them.
type Payments interface {
	// List lists attempts to pay, newest first. Invalid: the filter names an unknown state.
	List(ctx context.Context, filter PaymentFilter) ([]Payment, error)
	// Get returns an attempt. NotFound: there is no such attempt.
	Get(ctx context.Context, id string) (Payment, error)
	// Resolve records a person's resolution of a payment whose outcome is unknown. No money moves.
	// NotFound: there is no such attempt. Conflict: its outcome is known, or the wallet may still
	// answer, or the attempt is not the last one of its request. Invalid: o.By is empty or
	// o.Receipt is given for a payment that did not happen.
	Resolve(ctx context.Context, id string, o PaymentResolution) (Payment, error)
}

// The states of a payment. Paid and refused are final.
const (
	PaymentInFlight = "in_flight" // recorded; the wallet is or will be asked
	PaymentPaid     = "paid"
	PaymentRefused  = "refused" // certainly no money moved
	PaymentUnknown  = "unknown" // the outcome is not known; it counts as paid until it is resolved
)

// Payment is one attempt to pay.
type Payment struct {
	ID         string            `json:"id"` // the idempotency key that the wallet received
	State      string            `json:"state" enum:"in_flight,paid,refused,unknown"`
	Amount     string            `json:"amount"` // a decimal number
	Currency   string            `json:"currency"`
	Host       string            `json:"host"`      // the payee
	Operation  string            `json:"operation"` // what is paid for
	Capability string            `json:"capability"`
	Tool       string            `json:"tool"`
	Session    perdure.SessionID `json:"session_id,omitempty"` // empty: it was deleted
	Call       perdure.CallID    `json:"call_id"`
	Turn       string            `json:"turn_id"` // whose limit it counts against: a turn of the root session
	Org        string            `json:"org,omitempty"`
	ApprovedBy string            `json:"approved_by,omitempty"` // empty: no approval was needed
	Receipt    string            `json:"receipt,omitempty"`     // as the wallet gave it
	Note       string            `json:"note,omitempty"`        // why it was refused, or why its outcome is unknown
	ResolvedBy string            `json:"resolved_by,omitempty"` // empty: the wallet answered
	CreatedAt  time.Time         `json:"created_at"`
	SettledAt  time.Time         `json:"settled_at,omitzero"` // zero: its outcome is not known
}

// PaymentFilter narrows a list of payments. The zero value lists all.
type PaymentFilter struct {
	Session perdure.SessionID // empty: of any session
	State   string            // as of now; empty: any
	Limit   int               // 0: no limit
}

// PaymentResolution is what a person found out about a payment.
type PaymentResolution struct {
	Happened bool   // whether money moved
	Receipt  string // what proves it; only if Happened
	Note     string
	By       string // who found out
}
