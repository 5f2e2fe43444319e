package app

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
	readerNoun[engine.Webhooks]
}

func (r *reader) Webhooks() engine.Webhooks {
	return readerWebhooks{r.remoteEngine.Webhooks(), nounOf(r, engine.Engine.Webhooks)}
}

func (r readerWebhooks) Get(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error) {
	return ask1(ctx, r.readerNoun, engine.Webhooks.Get, id)
}

func (r readerWebhooks) List(ctx context.Context) ([]webhook.Webhook, error) {
	return ask0(ctx, r.readerNoun, engine.Webhooks.List)
}

func (r readerWebhooks) Deliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error) {
	return ask2(ctx, r.readerNoun, engine.Webhooks.Deliveries, id, limit)
}
