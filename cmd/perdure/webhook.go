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

// readerWebhooks implements engine.Webhooks for reader.
type readerWebhooks struct {
	engine.Webhooks
	*reader
}

// Webhooks implements engine.Engine.
func (r *reader) Webhooks() engine.Webhooks { return readerWebhooks{r.remoteEngine.Webhooks(), r} }

// Get implements engine.Webhooks.
func (r readerWebhooks) Get(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) (webhook.Webhook,
		error) {
		return eng.Webhooks().Get(ctx, id)
	})
}

// List implements engine.Webhooks.
func (r readerWebhooks) List(ctx context.Context) ([]webhook.Webhook, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]webhook.Webhook,
		error) {
		return eng.Webhooks().List(ctx)
	})
}

// Deliveries implements engine.Webhooks.Deliveries.
func (r readerWebhooks) Deliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error) {
	return ask(ctx, r.reader, func(ctx context.Context, eng engine.Engine) ([]webhook.Delivery, error) {
		return eng.Webhooks().Deliveries(ctx, id, limit)
	})
}
