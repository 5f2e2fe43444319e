package host

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	hooks "github.com/perdure/perdure/internal/webhook"
	"github.com/perdure/perdure/webhook"
)

// Webhooks configures the delivery of events to webhooks. The zero value allows none.
type Webhooks struct {
	Egress  hooks.Egress                      // nil: no webhook can be created, and nothing is sent
	Show    func(perdure.Event) perdure.Event // converts an event for callers; nil: unchanged
	Poll    time.Duration                     // how often journals are read for new events; 0: 1 s
	Timeout time.Duration                     // the timeout of one attempt; 0: 15 s
}

// newSender creates the sender of webhooks.
func (e *Host) newSender(cfg Config) *hooks.Sender {
	ports := e.ports(cfg)
	var mask func(string) string
	if cfg.Storage.Secrets.Known != nil {
		mask = cfg.Storage.Secrets.Known.Mask
	}
	return hooks.New(hooks.Config{
		Store: cfg.Store, Egress: cfg.Webhooks.Egress, Seal: ports.SealWebhook, Open: ports.OpenWebhook,
		Show: cfg.Webhooks.Show, Mask: mask,
		Shared: cfg.Workers.Shared, Poll: cfg.Webhooks.Poll, Timeout: cfg.Webhooks.Timeout, Log: cfg.Log,
	})
}

// SendWebhooks sends events to webhooks until ctx ends. Storage: the store can no longer guarantee
// durability.
func (e *Host) SendWebhooks(ctx context.Context) error { return e.webhooks.Run(ctx) }

func (e hostWebhooks) Create(ctx context.Context, w webhook.Webhook) (webhook.Created, error) {
	w.Org = rowOwner(ctx).Org
	return e.webhooks.Create(ctx, w)
}

func (e hostWebhooks) Get(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error) {
	return e.webhooks.Webhook(ctx, id)
}

func (e hostWebhooks) List(ctx context.Context) ([]webhook.Webhook, error) {
	return e.webhooks.Webhooks(ctx)
}

func (e hostWebhooks) Change(
	ctx context.Context, id perdure.WebhookID, change webhook.Patch,
) (webhook.Webhook, error) {
	return e.webhooks.Change(ctx, id, change)
}

func (e hostWebhooks) Rotate(ctx context.Context, id perdure.WebhookID) (webhook.Created, error) {
	return e.webhooks.Rotate(ctx, id, engine.RotationFromContext(ctx))
}

func (e hostWebhooks) Delete(ctx context.Context, id perdure.WebhookID) error {
	return e.webhooks.Delete(ctx, id)
}

// Deliveries lists deliveries of a webhook, newest first.
func (e hostWebhooks) Deliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error) {
	if err := engine.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("deliveries of %s: %w", id, err)
	}
	return e.webhooks.Deliveries(ctx, id, limit)
}

// Redeliver queues a delivery again.
func (e hostWebhooks) Redeliver(
	ctx context.Context, id perdure.WebhookID, delivery perdure.WebhookDeliveryID,
) (webhook.Delivery, error) {
	return e.webhooks.Redeliver(ctx, id, delivery)
}

func (e hostWebhooks) Test(ctx context.Context, id perdure.WebhookID) (webhook.Delivery, error) {
	return e.webhooks.Test(ctx, id)
}
