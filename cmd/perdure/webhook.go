package main

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/webhook"
)

// shown returns an event as webhooks receive it, with the same disclosure as the API.
func shown(disclosure string) func(perdure.Event) perdure.Event {
	return func(e perdure.Event) perdure.Event { return api.Disclose(e, api.Disclosure(disclosure)) }
}

// Webhook implements engine.Webhooks.
func (r *reader) Webhook(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) (webhook.Webhook,
		error) {
		return eng.Webhook(ctx, id)
	})
}

// Webhooks implements engine.Webhooks.
func (r *reader) Webhooks(ctx context.Context) ([]webhook.Webhook, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]webhook.Webhook,
		error) {
		return eng.Webhooks(ctx)
	})
}

// WebhookDeliveries implements engine.WebhookDeliveries.
func (r *reader) WebhookDeliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error) {
	return ask(ctx, r, func(ctx context.Context, eng engine.Engine) ([]webhook.Delivery, error) {
		return eng.WebhookDeliveries(ctx, id, limit)
	})
}
