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
	// Webhook returns a webhook. NotFound: there is none.
	Webhook(id perdure.WebhookID) (Webhook, error)
	// Webhooks lists webhooks by id, which is the order of creation.
	Webhooks() ([]Webhook, error)
	// HookSpans lists up to limit sessions whose journals have events not yet processed for
	// webhooks; 0 means all. A restored session starts after the events that it was restored with.
	HookSpans(limit int) ([]HookSpan, error)
	// HookDelivery returns a delivery. NotFound: there is none.
	HookDelivery(id perdure.WebhookDeliveryID) (webhook.Delivery, error)
	// HookDeliveries lists deliveries of a webhook.
	HookDeliveries(filter HookDeliveryFilter) ([]webhook.Delivery, error)
}

// WebhookWriter writes webhooks and their queue. The deliveries of a session are removed with it.
type WebhookWriter interface {
	// PutWebhook adds or replaces a webhook. It names the version that was read, 0 for a new one,
	// and returns the row as stored: its version is one higher, and the store sets UpdatedAt.
	// Conflict: the row has another version, or exists already. Invalid: as Check says.
	PutWebhook(w Webhook) (Webhook, error)
	// RemoveWebhook removes a webhook with its deliveries, and reports whether it existed.
	RemoveWebhook(id perdure.WebhookID) (bool, error)
	// MoveHooks records that a span was processed; with an empty session: everything of all
	// sessions. The deliveries of the span are written in the same transaction. Conflict: another
	// caller recorded it, or the session was removed.
	MoveHooks(span HookSpan) error
	// AddHookDelivery queues a delivery, and reports whether it did: an existing id is not queued
	// again.
	AddHookDelivery(d webhook.Delivery) (bool, error)
	// ChangeHookDelivery replaces a delivery. NotFound: it does not exist.
	ChangeHookDelivery(d webhook.Delivery) error
	// PruneHookDeliveries removes up to limit deliveries that ended before a time, and returns how
	// many.
	PruneHookDeliveries(before time.Time, limit int) (int, error)
}
