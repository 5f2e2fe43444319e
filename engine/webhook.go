package engine

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

// Webhooks makes webhooks and shows them (H13).
type Webhooks interface {
	// CreateWebhook makes a webhook, which gets what happens from now on. The caller fills in URL, Types, Body, Session and Owner,
	// and ID where it mints ids itself: the same id with the same rest is one webhook. The secret is shown here and never
	// again; asked for again before anything became of the webhook, it is another one. Invalid: what is wrong with it, among it
	// a URL that nothing may be sent to. Conflict: the id is another webhook's. Limit: there are too many. NotFound: no such
	// session. Unavailable: there is no keyring, or no way out.
	CreateWebhook(ctx context.Context, w webhook.Webhook) (webhook.Made, error)
	// Webhook returns a webhook. NotFound: there is none.
	Webhook(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error)
	// Webhooks lists webhooks in the order of their making.
	Webhooks(ctx context.Context) ([]webhook.Webhook, error)
	// ChangeWebhook changes a webhook. One that is enabled gets what happens from then on, and what was queued for it before.
	ChangeWebhook(ctx context.Context, id perdure.WebhookID, change webhook.Change) (webhook.Webhook, error)
	// RotateWebhook gives a webhook another secret, which is shown here and never again. The former one signs along for a day.
	// In a context of Rotating the same request again gives the webhook another secret in the place of the one that it gave before, which
	// nobody has seen; it has none where another request has given the webhook a secret meanwhile.
	RotateWebhook(ctx context.Context, id perdure.WebhookID) (webhook.Made, error)
	// DeleteWebhook removes a webhook with its deliveries. NotFound: there is none.
	DeleteWebhook(ctx context.Context, id perdure.WebhookID) error
}

// WebhookDeliveries shows what was sent to webhooks, and sends it again.
type WebhookDeliveries interface {
	// WebhookDeliveries lists deliveries of a webhook, the newest first; limit 0 means all. NotFound: no such webhook.
	WebhookDeliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error)
	// RedeliverWebhook queues a delivery anew, under the same id. NotFound: it is none of the webhook's. Conflict: the webhook is
	// disabled.
	RedeliverWebhook(ctx context.Context, id perdure.WebhookID, delivery perdure.WebhookDeliveryID) (webhook.Delivery, error)
	// TestWebhook queues a ping, which is sent once. NotFound: no such webhook. Conflict: it is disabled.
	TestWebhook(ctx context.Context, id perdure.WebhookID) (webhook.Delivery, error)
}
