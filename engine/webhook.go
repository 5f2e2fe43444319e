package engine

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

// Webhooks manages webhooks (H13).
type Webhooks interface {
	WebhookDeliveries

	// Create creates a webhook, which receives events from now on. The caller sets URL,
	// Types, Body, Session and Owner, and optionally ID: the same id with the same values is one
	// webhook.
	//
	// Only Webhooks.Create returns the secret. A repeated request for a webhook that has not been
	// used yet returns a new secret.
	//
	// Invalid: the webhook is not valid, for example because its URL is not allowed. Conflict: the
	// id belongs to another webhook. Limit: there are too many webhooks. NotFound: no such session.
	// Unavailable: no keyring is configured, or outgoing traffic is disabled.
	Create(ctx context.Context, w webhook.Webhook) (webhook.Created, error)
	// Get returns a webhook. NotFound: no such webhook.
	Get(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error)
	// List lists webhooks by creation time.
	List(ctx context.Context) ([]webhook.Webhook, error)
	// Change changes a webhook. A webhook that is enabled again receives what happens from
	// then on, and what was already queued for it.
	Change(ctx context.Context, id perdure.WebhookID, change webhook.Patch) (webhook.Webhook, error)
	// Rotate creates a new secret for a webhook and returns it; no other method does.
	// Deliveries are also signed with the previous secret for one day.
	//
	// In a context of Rotating, a repeated request replaces the secret that it created before,
	// because the caller may not have received that one. It returns no secret if another request
	// has rotated the secret in the meantime.
	Rotate(ctx context.Context, id perdure.WebhookID) (webhook.Created, error)
	// Delete removes a webhook and its deliveries. NotFound: no such webhook.
	Delete(ctx context.Context, id perdure.WebhookID) error
}

// WebhookDeliveries lists and repeats the deliveries of webhooks.
type WebhookDeliveries interface {
	// Deliveries lists deliveries of a webhook, newest first; limit 0 means all. NotFound:
	// no such webhook.
	Deliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error)
	// Redeliver queues a delivery again, under the same id. NotFound: the webhook has no
	// such delivery. Conflict: the webhook is disabled.
	Redeliver(
		ctx context.Context, id perdure.WebhookID, delivery perdure.WebhookDeliveryID,
	) (webhook.Delivery, error)
	// Test queues a ping, which is sent once. NotFound: no such webhook. Conflict: the
	// webhook is disabled.
	Test(ctx context.Context, id perdure.WebhookID) (webhook.Delivery, error)
}
