package access

import (
	"cmp"
	"context"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/webhook"
)

// hook checks the scope admin, and that a webhook belongs to the principal's org.
func (g *Guard) hook(ctx context.Context, id perdure.WebhookID) (context.Context, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Admin)
	if err != nil || !asks {
		return ctx, err
	}
	w, err := g.inner.Webhook(ctx, id)
	if err == nil && !ownHook(p, w) {
		g.log.Warn("request for an object of another org", "principal", p.ID, "org", p.Org, "webhook", id)
		err = missing("webhook", string(id))
	}
	return ctx, err
}

// ownHook reports whether a webhook belongs to the principal's org.
func ownHook(p Principal, w webhook.Webhook) bool { return cmp.Or(w.Org, budget.DefaultOrg) == p.Org }

// CreateWebhook creates a webhook of the principal's org. Conflict: another org has the id.
func (g *Guard) CreateWebhook(ctx context.Context, w webhook.Webhook) (webhook.Created, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Admin)
	if err == nil && asks && w.Session != "" {
		ctx, err = g.session(ctx, Admin, w.Session)
	}
	if err == nil && asks && w.ID != "" {
		if known, failed := g.inner.Webhook(ctx, w.ID); failed == nil && !ownHook(p, known) {
			err = idTaken("webhook", string(w.ID))
		}
	}
	if err != nil {
		return webhook.Created{}, err
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
	ctx, p, asks, err := g.authorizeScope(ctx, Admin)
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
func (g *Guard) ChangeWebhook(
	ctx context.Context, id perdure.WebhookID, change webhook.Patch,
) (webhook.Webhook, error) {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return webhook.Webhook{}, err
	}
	return g.inner.ChangeWebhook(ctx, id, change)
}

// RotateWebhook creates a new secret for a webhook.
func (g *Guard) RotateWebhook(ctx context.Context, id perdure.WebhookID) (webhook.Created, error) {
	ctx, err := g.hook(ctx, id)
	if err != nil {
		return webhook.Created{}, err
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

// RedeliverWebhook queues a delivery again.
func (g *Guard) RedeliverWebhook(
	ctx context.Context, id perdure.WebhookID, delivery perdure.WebhookDeliveryID,
) (webhook.Delivery, error) {
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
