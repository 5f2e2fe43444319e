package webhook

import (
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// State is the state of a delivery.
type State string

// The states. Only queued deliveries are sent.
const (
	Queued    State = "queued"
	Delivered State = "delivered" // the receiver answered with a 2xx
	Failed    State = "failed"    // no attempt is left
	Dropped   State = "dropped"   // its event no longer exists
)

// The limits of a stored delivery.
const (
	MaxLoggedAttempts = 12       // latest entries of its log
	MaxAnswerBytes    = 512      // first bytes of an answer
	MaxErrorBytes     = 512      // first bytes of an error
	Retention         = 30 * day // how long an ended delivery is stored
	day               = 24 * time.Hour
)

// Delivery is an event on its way to a webhook.
type Delivery struct {
	ID       perdure.WebhookDeliveryID `json:"id"` // the same for all attempts; the receiver gets it as webhook-id
	Webhook  perdure.WebhookID         `json:"webhook_id"`
	Type     string                    `json:"type"`
	Event    perdure.EventID           `json:"event_id,omitempty"` // empty: a test
	Session  perdure.SessionID         `json:"session_id,omitempty"`
	Seq      int64                     `json:"seq,omitempty"`
	State    State                     `json:"state"`
	Attempts int                       `json:"attempts"`          // started attempts since it was last queued
	Sending  bool                      `json:"sending,omitempty"` // an attempt is running
	// DueAt is the time of the next attempt while the delivery is queued. During an attempt it is
	// when the next one starts if no outcome of this one is recorded.
	DueAt      time.Time `json:"due_at,omitzero"`
	AttemptLog []Attempt `json:"tries,omitempty"` // the latest ones, oldest first
	CreatedAt  time.Time `json:"created_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
}

// Attempt is one attempt to send a delivery.
type Attempt struct {
	At      time.Time `json:"at"`
	Status  int       `json:"status,omitempty"` // of the answer; 0: there was no answer
	Latency int64     `json:"latency_ms"`
	Answer  string    `json:"answer,omitempty"` // its first bytes, redacted
	Error   string    `json:"error,omitempty"`
}

// NewDelivery returns the delivery of an event to a webhook. Except for now, it is always the same.
func NewDelivery(w perdure.WebhookID, e perdure.Event, now time.Time) Delivery {
	return Delivery{
		ID:      perdure.DeriveID[perdure.WebhookDeliveryID](perdure.Secret{}, e.At, string(w), string(e.ID)),
		Webhook: w, Type: string(e.Type()), Event: e.ID, Session: e.Session, Seq: e.Seq, State: Queued, DueAt: now, CreatedAt: now,
	}
}

// Requeued returns the delivery queued again, with its log.
func (d Delivery) Requeued(now time.Time) Delivery {
	d.State, d.Attempts, d.Sending, d.DueAt, d.EndedAt = Queued, 0, false, now, time.Time{}
	return d
}

// WithAttempt returns the delivery with another attempt in its log.
func (d Delivery) WithAttempt(t Attempt) Delivery {
	t.Answer, t.Error = truncateBytes(t.Answer, MaxAnswerBytes), truncateBytes(t.Error, MaxErrorBytes)
	d.AttemptLog = append(append([]Attempt(nil), d.AttemptLog...), t)
	if over := len(d.AttemptLog) - MaxLoggedAttempts; over > 0 {
		d.AttemptLog = d.AttemptLog[over:]
	}
	return d
}

// truncateBytes returns the beginning of a text, up to a character boundary.
func truncateBytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
