package access

import (
	"cmp"
	"context"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/webhook"
)

// hook checks that a principal may reach a webhook: it is for administrators, and of their org.
func (g *Guard) hook(ctx context.Context, id perdure.WebhookID) (context.Context, error) {
	ctx, p, asks, err := g.enter(ctx, Admin)
	if err != nil || !asks {
		return ctx, err
	}
	w, err := g.inner.Webhook(ctx, id)
	if err == nil && !ownHook(p, w) {
		g.log.Warn("a token asked for what is another org's", "principal", p.ID, "org", p.Org, "webhook", id)
		err = missing("webhook", string(id))
	}
	return ctx, err
}

// ownHook reports whether a webhook is the principal's org's.
func ownHook(p Principal, w webhook.Webhook) bool { return cmp.Or(w.Org, budget.DefaultOrg) == p.Org }

// CreateWebhook makes a webhook of the principal's org. An id that another org has is taken.
func (g *Guard) CreateWebhook(ctx context.Context, w webhook.Webhook) (webhook.Made, error) {
	ctx, p, asks, err := g.enter(ctx, Admin)
	if err == nil && asks && w.Session != "" {
		ctx, err = g.session(ctx, Admin, w.Session)
	}
	if err == nil && asks && w.ID != "" {
		if known, failed := g.inner.Webhook(ctx, w.ID); failed == nil && !ownHook(p, known) {
			err = taken("webhook", string(w.ID))
		}
	}
	if err != nil {
		return webhook.Made{}, err
	}
	return g.inner.CreateWebhook(ctx, w)
}

// Webhook returns a webhook.
func (g *Guard) Webhook(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error) {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return webhook.Webhook{}, err
	}
	return g.inner.Webhook(ctx, id)
}

// Webhooks lists the webhooks of the principal's org.
func (g *Guard) Webhooks(ctx context.Context) ([]webhook.Webhook, error) {
	ctx, p, asks, err := g.enter(ctx, Admin)
	if err != nil {
		return nil, err
	}
	all, err := g.inner.Webhooks(ctx)
	if asks {
		all = slices.DeleteFunc(all, func(w webhook.Webhook) bool { return !ownHook(p, w) })
	}
	return all, err
}

// ChangeWebhook changes a webhook.
func (g *Guard) ChangeWebhook(ctx context.Context, id perdure.WebhookID, change webhook.Change) (webhook.Webhook, error) {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return webhook.Webhook{}, err
	}
	return g.inner.ChangeWebhook(ctx, id, change)
}

// RotateWebhook gives a webhook another secret.
func (g *Guard) RotateWebhook(ctx context.Context, id perdure.WebhookID) (webhook.Made, error) {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return webhook.Made{}, err
	}
	return g.inner.RotateWebhook(ctx, id)
}

// DeleteWebhook removes a webhook.
func (g *Guard) DeleteWebhook(ctx context.Context, id perdure.WebhookID) error {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return err
	}
	return g.inner.DeleteWebhook(ctx, id)
}

// WebhookDeliveries lists deliveries.
func (g *Guard) WebhookDeliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error) {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return nil, err
	}
	return g.inner.WebhookDeliveries(ctx, id, limit)
}

// RedeliverWebhook queues a delivery anew.
func (g *Guard) RedeliverWebhook(ctx context.Context, id perdure.WebhookID, delivery perdure.WebhookDeliveryID) (webhook.Delivery, error) {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return webhook.Delivery{}, err
	}
	return g.inner.RedeliverWebhook(ctx, id, delivery)
}

// TestWebhook queues a ping.
func (g *Guard) TestWebhook(ctx context.Context, id perdure.WebhookID) (webhook.Delivery, error) {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return webhook.Delivery{}, err
	}
	return g.inner.TestWebhook(ctx, id)
}
