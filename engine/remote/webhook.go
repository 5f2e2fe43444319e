package remote

import (
	"cmp"
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/webhook"
)

func webhookPath(id perdure.WebhookID) string { return "/v1/webhooks/" + segment(id) }

// Create creates a webhook. The client creates a missing id, so that a retry finds the same
// webhook. The server decides who the owner is.
func (e engineWebhooks) Create(ctx context.Context, w webhook.Webhook) (webhook.Created, error) {
	w.ID = cmp.Or(w.ID, perdure.FormatID[perdure.WebhookID](uuid.Must(uuid.NewV7())))
	body := struct {
		ID      perdure.WebhookID   `json:"id"`
		URL     string              `json:"url"`
		Types   []string            `json:"types,omitempty"`
		Body    webhook.Body        `json:"body,omitempty"`
		Session perdure.SessionID   `json:"session_id,omitempty"`
		Labels  perdure.LabelFilter `json:"labels,omitempty"`
	}{w.ID, w.URL, w.Types, w.Body, w.Session, w.Labels}
	return fetch[webhook.Created](ctx, e.Engine, request{
		what: "create webhook " + string(w.ID), path: "/v1/webhooks", body: body, actor: w.Owner,
	})
}

func (e engineWebhooks) Get(ctx context.Context, id perdure.WebhookID) (webhook.Webhook, error) {
	return fetch[webhook.Webhook](ctx, e.Engine, request{what: "webhook " + string(id), path: webhookPath(id)})
}

func (e engineWebhooks) List(ctx context.Context) ([]webhook.Webhook, error) {
	return list[webhook.Webhook](ctx, e.Engine, request{what: "webhooks", path: "/v1/webhooks"}, 0)
}

func (e engineWebhooks) Change(
	ctx context.Context, id perdure.WebhookID, change webhook.Patch,
) (webhook.Webhook, error) {
	return fetch[webhook.Webhook](ctx, e.Engine, request{
		what: "change webhook " + string(id), path: webhookPath(id), body: change, method: http.MethodPatch,
	})
}

func (e engineWebhooks) Rotate(ctx context.Context, id perdure.WebhookID) (webhook.Created, error) {
	return fetch[webhook.Created](ctx, e.Engine, request{
		what: "rotate the secret of webhook " + string(id), path: webhookPath(id) + "/rotate", body: struct{}{},
	})
}

// Delete removes a webhook and its deliveries. A retry gets the same response.
func (e engineWebhooks) Delete(ctx context.Context, id perdure.WebhookID) error {
	_, err := e.call(ctx, request{what: "delete webhook " + string(id), path: webhookPath(id), remove: true}, nil)
	return err
}

// Deliveries lists deliveries of a webhook, newest first.
func (e engineWebhooks) Deliveries(ctx context.Context, id perdure.WebhookID, limit int) ([]webhook.Delivery, error) {
	return list[webhook.Delivery](ctx, e.Engine, request{
		what: "deliveries of " + string(id), path: webhookPath(id) + "/deliveries",
	}, limit)
}

// Redeliver queues a delivery again.
func (e engineWebhooks) Redeliver(
	ctx context.Context, id perdure.WebhookID, delivery perdure.WebhookDeliveryID,
) (webhook.Delivery, error) {
	path := webhookPath(id) + "/deliveries/" + segment(delivery) + "/redeliver"
	return fetch[webhook.Delivery](ctx, e.Engine, request{what: "redeliver " + string(delivery), path: path, body: struct{}{}})
}

func (e engineWebhooks) Test(ctx context.Context, id perdure.WebhookID) (webhook.Delivery, error) {
	return fetch[webhook.Delivery](ctx, e.Engine, request{
		what: "test webhook " + string(id), path: webhookPath(id) + "/test", body: struct{}{},
	})
}
