package webhook

import (
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// State is how a delivery stands.
type State string

// The states. Only what is queued is sent.
const (
	Queued    State = "queued"
	Delivered State = "delivered" // the receiver answered with a 2xx
	Failed    State = "failed"    // no try is left
	Dropped   State = "dropped"   // what it was to tell is gone
)

// The bounds of what is kept of a delivery.
const (
	MaxTries       = 12       // in its log, the last ones
	MaxAnswerBytes = 512      // of an answer, the first ones
	MaxErrorBytes  = 512      // of what went wrong
	Keep           = 30 * day // how long an ended delivery is kept
	day            = 24 * time.Hour
)

// Delivery is an event on its way to a webhook.
type Delivery struct {
	ID        perdure.WebhookDeliveryID `json:"id"` // of all its tries, and what the receiver knows it by (webhook-id)
	Webhook   perdure.WebhookID         `json:"webhook_id"`
	Type      string                    `json:"type"`
	Event     perdure.EventID           `json:"event_id,omitempty"` // empty: a test
	Session   perdure.SessionID         `json:"session_id,omitempty"`
	Seq       int64                     `json:"seq,omitempty"`
	State     State                     `json:"state"`
	Attempts  int                       `json:"attempts"`          // tries that began, since it was queued or queued again
	Sending   bool                      `json:"sending,omitempty"` // a try is under way
	DueAt     time.Time                 `json:"due_at,omitzero"`   // of the next try, while it is queued; while one is under way, of the next if that is not heard of
	Tries     []Try                     `json:"tries,omitempty"`   // the last ones, the oldest first
	CreatedAt time.Time                 `json:"created_at"`
	EndedAt   time.Time                 `json:"ended_at,omitzero"`
}

// Try is one time that a delivery was sent.
type Try struct {
	At      time.Time `json:"at"`
	Status  int       `json:"status,omitempty"` // of the answer; 0: there was none
	Latency int64     `json:"latency_ms"`
	Answer  string    `json:"answer,omitempty"` // its first bytes, without what is secret
	Error   string    `json:"error,omitempty"`
}

// NewDelivery is the delivery of an event to a webhook. It is the same whenever it is made, but for now.
func NewDelivery(w perdure.WebhookID, e perdure.Event, now time.Time) Delivery {
	return Delivery{
		ID:      perdure.DeriveID[perdure.WebhookDeliveryID](perdure.Secret{}, e.At, string(w), string(e.ID)),
		Webhook: w, Type: string(e.Type()), Event: e.ID, Session: e.Session, Seq: e.Seq, State: Queued, DueAt: now, CreatedAt: now,
	}
}

// Again is a delivery that is queued anew. Its log stays.
func (d Delivery) Again(now time.Time) Delivery {
	d.State, d.Attempts, d.Sending, d.DueAt, d.EndedAt = Queued, 0, false, now, time.Time{}
	return d
}

// With is a delivery with one try more in its log.
func (d Delivery) With(t Try) Delivery {
	t.Answer, t.Error = cut(t.Answer, MaxAnswerBytes), cut(t.Error, MaxErrorBytes)
	d.Tries = append(append([]Try(nil), d.Tries...), t)
	if over := len(d.Tries) - MaxTries; over > 0 {
		d.Tries = d.Tries[over:]
	}
	return d
}

// cut is the beginning of a text, whole characters of it.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
