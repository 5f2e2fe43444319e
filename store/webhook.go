package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

// maxSealedBytes limits a sealed secret of a webhook.
const maxSealedBytes = 4 << 10

// Webhook is the row of a webhook. Its secrets are stored sealed only.
type Webhook struct {
	webhook.Webhook
	Sealed []byte `json:"sealed"` // the signing secret
	// the previous secret, which also signs until FormerUntil; empty: none
	Former      []byte    `json:"former,omitempty"`
	FormerUntil time.Time `json:"former_until,omitzero"`
	// Rotation is the id of the request that last rotated the secret, so that a repeated request is
	// recognised; empty: none.
	Rotation  string    `json:"rotation,omitempty"`
	RotatedAt time.Time `json:"rotated_at,omitzero"` // zero: never
	// From holds, for some sessions, the sequence number after which the webhook gets events: for
	// those that had unprocessed events when the webhook was enabled. A session without an entry
	// starts at its cursor.
	From map[perdure.SessionID]int64 `json:"from,omitempty"`
}

// Check checks a row. Invalid: the error says what is wrong.
func (w Webhook) Check() error {
	if err := w.Webhook.Check(); err != nil {
		return err
	}
	if len(w.Sealed) > maxSealedBytes || len(w.Former) > maxSealedBytes {
		return fmt.Errorf("%w webhook %s: its secret is too long", perdure.Invalid, w.ID)
	}
	return nil
}

// HookSpan is the part of a journal that was not processed for webhooks: the events after From, up
// to To.
type HookSpan struct {
	Session  perdure.SessionID
	From, To int64
}

// HookDeliveryFilter narrows a list of deliveries.
type HookDeliveryFilter struct {
	Webhook perdure.WebhookID
	// DueBy selects the queued deliveries that are due by then, the longest due first. Zero: all,
	// the newest first.
	DueBy  time.Time
	Before perdure.WebhookDeliveryID // without DueBy: only older ones; empty: from the newest
	Limit  int                       // 0: no limit
}

// WebhookReader reads webhooks and the queue of their deliveries. From its first read of a webhook
// to its end, a transaction excludes others from writing webhooks and from advancing their cursors.
type WebhookReader interface {
	// Get returns a webhook. NotFound: there is none.
	Get(id perdure.WebhookID) (Webhook, error)
	// List lists webhooks by id, which is the order of creation.
	List() ([]Webhook, error)
	// Spans lists up to limit sessions whose journals have events not yet processed for
	// webhooks; 0 means all. A restored session starts after the events that it was restored with.
	Spans(limit int) ([]HookSpan, error)
	// Delivery returns a delivery. NotFound: there is none.
	Delivery(id perdure.WebhookDeliveryID) (webhook.Delivery, error)
	// Deliveries lists deliveries of a webhook.
	Deliveries(filter HookDeliveryFilter) ([]webhook.Delivery, error)
}

// WebhookWriter writes webhooks and their queue. The deliveries of a session are removed with it.
type WebhookWriter interface {
	// Put adds or replaces a webhook. It names the version that was read, 0 for a new one,
	// and returns the row as stored: its version is one higher, and the store sets UpdatedAt.
	// Conflict: the row has another version, or exists already. Invalid: as Check says.
	Put(w Webhook) (Webhook, error)
	// Remove removes a webhook with its deliveries, and reports whether it existed.
	Remove(id perdure.WebhookID) (bool, error)
	// Move records that a span was processed; with an empty session: everything of all
	// sessions. The deliveries of the span are written in the same transaction. Conflict: another
	// caller recorded it, or the session was removed.
	Move(span HookSpan) error
	// AddDelivery queues a delivery, and reports whether it did: an existing id is not queued
	// again.
	AddDelivery(d webhook.Delivery) (bool, error)
	// UpdateDelivery replaces a delivery. NotFound: it does not exist.
	UpdateDelivery(d webhook.Delivery) error
	// PruneDeliveries removes up to limit deliveries that ended before a time, and returns how
	// many.
	PruneDeliveries(before time.Time, limit int) (int, error)
}
