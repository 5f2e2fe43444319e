package access

import (
	"cmp"
	"context"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/webhook"
)

// webhook checks a scope, and that a webhook belongs to the principal's org.
func (g *Guard) webhook(ctx context.Context, s Scope, id perdure.WebhookID) (context.Context, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, s)
	if err != nil || !asks {
		return ctx, err
	}
	w, err := g.inner.Webhooks().Get(ctx, id)
	if err == nil && !ownHook(p, w) {
		g.log.Warn("request for an object of another org", "principal", p.ID, "org", p.Org, "webhook", id)
		err = missing("webhook", string(id))
	}
	return ctx, err
}

// ownHook reports whether a webhook belongs to the principal's org.
func ownHook(p Principal, w webhook.Webhook) bool { return cmp.Or(w.Org, budget.DefaultOrg) == p.Org }

// Create creates a webhook of the principal's org. Conflict: another org has the id.
func (g guardedWebhooks) Create(ctx context.Context, w webhook.Webhook) (webhook.Created, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Admin)
	if err == nil && asks && w.Session != "" {
		ctx, err = g.session(ctx, Admin, w.Session)
	}
	if err == nil && asks && w.ID != "" {
		if known, failed := g.inner.Webhooks().Get(ctx, w.ID); failed == nil && !ownHook(p, known) {
			err = idTaken("webhook", string(w.ID))
		}
	}
	if err != nil {
		return webhook.Created{}, err
	}
	return g.inner.Webhooks().Create(ctx, w)
}

func (g guardedWebhooks) List(ctx context.Context) ([]webhook.Webhook, error) {
	ctx, p, asks, err := g.authorizeScope(ctx, Admin)
	if err != nil {
		return nil, err
	}
	all, err := g.inner.Webhooks().List(ctx)
	if asks {
		all = slices.DeleteFunc(all, func(w webhook.Webhook) bool { return !ownHook(p, w) })
	}
	return all, err
}
