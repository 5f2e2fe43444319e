package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

// maxSealedBytes bounds a sealed secret of a webhook.
const maxSealedBytes = 4 << 10

// Webhook is the row of a webhook. Its secrets stand here sealed only.
type Webhook struct {
	webhook.Webhook
	Sealed      []byte    `json:"sealed"`                // the secret that signs
	Former      []byte    `json:"former,omitempty"`      // the one before it, which signs too until FormerUntil; empty: none
	FormerUntil time.Time `json:"former_until,omitzero"` //
	Rotation    string    `json:"rotation,omitempty"`    // the request that rotated it last, by which it is known again; empty: none, or one that comes once
	RotatedAt   time.Time `json:"rotated_at,omitzero"`   // zero: it never was
	// From says of which sessions it gets only what comes after a seq: those that had events which nobody had looked at when it
	// was enabled. A session that is not in it, it gets from its cursor on.
	From map[perdure.SessionID]int64 `json:"from,omitempty"`
}

// Check returns what is wrong with a row. It is Invalid.
func (w Webhook) Check() error {
	if err := w.Webhook.Check(); err != nil {
		return err
	}
	if len(w.Sealed) > maxSealedBytes || len(w.Former) > maxSealedBytes {
		return fmt.Errorf("%w webhook %s: its secret is too long", perdure.Invalid, w.ID)
	}
	return nil
}

// HookSpan is what of a journal was not looked at for webhooks: the events after From, up to To.
type HookSpan struct {
	Session  perdure.SessionID
	From, To int64
}

// HookDeliveryFilter narrows a list of deliveries.
type HookDeliveryFilter struct {
	Webhook perdure.WebhookID
	// DueBy: only what is queued and due by then, the longest due first. Zero: all, the newest first.
	DueBy  time.Time
	Before perdure.WebhookDeliveryID // without DueBy: only older ones; empty: from the newest on
	Limit  int                       // 0: no limit
}

// WebhookReader reads webhooks, and the queue of what they are sent. In a transaction nobody else writes a webhook, or moves on
// over a journal for them, between the first question for a webhook and its end.
type WebhookReader interface {
	// Webhook returns a webhook. NotFound: there is none.
	Webhook(id perdure.WebhookID) (Webhook, error)
	// Webhooks lists webhooks in the order of their ids, which is that of their making.
	Webhooks() ([]Webhook, error)
	// HookSpans lists up to limit sessions whose journals have events that were not looked at for webhooks; 0 means all. A
	// session that was restored begins after what it was restored with.
	HookSpans(limit int) ([]HookSpan, error)
	// HookDelivery returns a delivery. NotFound: there is none.
	HookDelivery(id perdure.WebhookDeliveryID) (webhook.Delivery, error)
	// HookDeliveries lists deliveries of a webhook.
	HookDeliveries(filter HookDeliveryFilter) ([]webhook.Delivery, error)
}

// WebhookWriter writes webhooks and their queue. The queued and the ended deliveries of a session go with it.
type WebhookWriter interface {
	// PutWebhook adds or replaces a webhook. It names the version that was read, 0 for one that is new, and the answer is the
	// row as it is stored: its version is one more, and UpdatedAt is the store's. Conflict: the row has another version, or is there
	// already. Invalid: what Check says.
	PutWebhook(w Webhook) (Webhook, error)
	// RemoveWebhook removes a webhook with its deliveries, and says whether it was there.
	RemoveWebhook(id perdure.WebhookID) (bool, error)
	// MoveHooks notes that a span was looked at; of an empty session: all that there is of all sessions. What it is for is
	// written in the same transaction. Conflict: somebody else did, or the session is gone.
	MoveHooks(span HookSpan) error
	// AddHookDelivery queues a delivery, and says whether it did: of an id there is one.
	AddHookDelivery(d webhook.Delivery) (bool, error)
	// ChangeHookDelivery replaces a delivery. NotFound: it is not there.
	ChangeHookDelivery(d webhook.Delivery) error
	// PruneHookDeliveries removes up to limit deliveries that ended before a moment, and says how many.
	PruneHookDeliveries(before time.Time, limit int) (int, error)
}
