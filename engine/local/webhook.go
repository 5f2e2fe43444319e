package local

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	hooks "github.com/perdure/perdure/internal/webhook"
	"github.com/perdure/perdure/webhook"
)

var _ engine.WebhookDeliveries = (*Engine)(nil)

// Webhooks says how an engine sends events to webhooks. The zero value has none.
type Webhooks struct {
	Egress hooks.Egress                      // the way there; nil: no webhook is made, and nothing is sent
	Show   func(perdure.Event) perdure.Event // an event as callers see it; nil: as it is
	Poll   time.Duration                     // how often journals are looked at for them; 0: a second
	Expire time.Duration                     // of a try; 0: 15 s
}

// senderOf makes what keeps webhooks and sends to them.
func (e *Engine) senderOf(cfg Config) *hooks.Sender {
	ports := e.ports(cfg)
	var mask func(string) string
	if cfg.Secrets.Known != nil {
		mask = cfg.Secrets.Known.Mask
	}
	return hooks.New(hooks.Config{
		Store: cfg.Store, Egress: cfg.Webhooks.Egress, Seal: ports.SealWebhook, Open: ports.OpenWebhook, Show: cfg.Webhooks.Show, Mask: mask,
		Shared: cfg.Shared, Poll: cfg.Webhooks.Poll, Timeout: cfg.Webhooks.Expire, Log: cfg.Log,
	})
}

// startWebhooks begins to send, beside the work, until ctx ends.
func (e *Engine) startWebhooks(ctx context.Context) {
	e.group.Go(func() {
		if err := e.hooks.Run(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Log.Error("the store failed", "worker", e.worker.ID, "error", err)
			e.mu.Lock()
			e.fail(err)
			e.mu.Unlock()
		}
	})
}

// CreateWebhook makes a webhook.
func (e *Engine) CreateWebhook(ctx context.Context, w webhook.Webhook) (webhook.Made, error) {
	w.Org = rowOwner(ctx).Org
	return e.hooks.Create(ctx, w)
}

// Webhook returns a webhook.
func (e *Engine) Webhook(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error) {
	return e.hooks.Webhook(ctx, id)
}

// Webhooks lists webhooks in the order of their making.
func (e *Engine) Webhooks(ctx context.Context) ([]webhook.Webhook, error) {
	return e.hooks.Webhooks(ctx)
}

// ChangeWebhook changes a webhook.
func (e *Engine) ChangeWebhook(ctx context.Context, id perdure.WebhookID, change webhook.Change) (webhook.Webhook, error) {
	return e.hooks.Change(ctx, id, change)
}

// RotateWebhook gives a webhook another secret.
func (e *Engine) RotateWebhook(ctx context.Context, id perdure.WebhookID) (webhook.Made, error) {
	return e.hooks.Rotate(ctx, id, engine.RotationOf(ctx))
}

// DeleteWebhook removes a webhook with its deliveries.
func (e *Engine) DeleteWebhook(ctx context.Context, id perdure.WebhookID) error {
	return e.hooks.Delete(ctx, id)
}

// WebhookDeliveries lists deliveries of a webhook, the newest first.
func (e *Engine) WebhookDeliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error) {
	return e.hooks.Deliveries(ctx, id, limit)
}

// RedeliverWebhook queues a delivery anew.
func (e *Engine) RedeliverWebhook(ctx context.Context, id perdure.WebhookID, delivery perdure.WebhookDeliveryID) (webhook.Delivery, error) {
	return e.hooks.Redeliver(ctx, id, delivery)
}

// TestWebhook queues a ping.
func (e *Engine) TestWebhook(ctx context.Context, id perdure.WebhookID) (webhook.Delivery, error) {
	return e.hooks.Test(ctx, id)
}
