package api

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/webhook"
)

// OfWebhook is the path of a webhook.
type OfWebhook struct {
	ID perdure.WebhookID `path:"id" example:"webhook_019aa0000000700080000000000000ab" doc:"The webhook."`
}

// OfWebhookDelivery is the path of a delivery.
type OfWebhookDelivery struct {
	OfWebhook
	Delivery perdure.WebhookDeliveryID `path:"delivery" example:"whd_019aa0000000700080000000000000ac" doc:"The delivery."`
}

// newWebhook is the body of a request that creates a webhook.
type newWebhook struct {
	ID      perdure.WebhookID   `json:"id,omitempty" doc:"The id of the webhook, for callers that generate ids. The same request with the same id is one webhook."`
	URL     string              `json:"url" doc:"The URL to which events are sent, with POST. Redirects are not followed."`
	Types   []string            `json:"types,omitempty" doc:"The types of events; task.* matches all types that start with task. Default all types that can be sent."`
	Body    webhook.Body        `json:"body,omitempty" enum:"id,snapshot" doc:"What is sent: only ids, or a snapshot of the event as shown by the API; default id."`
	Session perdure.SessionID   `json:"session_id,omitempty" doc:"Only events of this session."`
	Labels  perdure.LabelFilter `json:"labels,omitempty" doc:"Only events of sessions that have all of these labels when the event is queued: key, or key=value; at most 16."`
}

// webhookChange is the body of a webhook update. Absent fields stay as they are.
type webhookChange struct {
	URL     *string              `json:"url,omitempty"`
	Types   *[]string            `json:"types,omitempty"`
	Body    *webhook.Body        `json:"body,omitempty" enum:"id,snapshot"`
	Labels  *perdure.LabelFilter `json:"labels,omitempty" doc:"[]: events of all sessions."`
	Enabled *bool                `json:"enabled,omitempty" doc:"true enables the webhook; deliveries that are already queued are sent, too."`
}

// shownWebhook is a webhook as shown in responses.
type shownWebhook struct {
	ID           perdure.WebhookID   `json:"id"`
	URL          string              `json:"url"`
	Types        []string            `json:"types,omitempty" doc:"Empty: all types that can be sent."`
	Body         webhook.Body        `json:"body" enum:"id,snapshot"`
	Session      perdure.SessionID   `json:"session_id,omitempty"`
	Labels       perdure.LabelFilter `json:"labels,omitempty" doc:"Empty: events of all sessions."`
	Owner        string              `json:"owner,omitempty" doc:"The actor who created it."`
	Enabled      bool                `json:"enabled"`
	Disabled     string              `json:"disabled_reason,omitempty" doc:"Why it was disabled."`
	Failures     int                 `json:"failures" doc:"The number of consecutive failed attempts."`
	FailingSince time.Time           `json:"failing_since,omitzero" doc:"The time of the first of them."`
	CreatedAt    time.Time           `json:"created_at"`
	UpdatedAt    time.Time           `json:"updated_at"`
	Version      int64               `json:"version" doc:"The number of writes, from 1."`
	Secret       string              `json:"secret,omitempty" doc:"Signs deliveries. It is shown once, when it is created."`
}

// webhookAct is the empty body of an action on a webhook.
type webhookAct struct{}

type madeWebhook struct {
	Location string `header:"Location"`
	Body     shownWebhook
}

func (a webhookHandlers) register() {
	missing := []int{http.StatusNotFound}
	write(a.API, operation{
		id: "create-webhook", path: "/v1/webhooks", policy: administers, summary: "Create a webhook; its secret is shown only in this response", status: http.StatusCreated,
		errors: append(missing, http.StatusTooManyRequests),
	}, body[newWebhook]{example: newWebhook{URL: "https://example.com/perdure", Types: []string{"task.*", "approval.requested"}, Body: webhook.BodyID}}, a.createWebhook)
	read(a.API, operation{id: "list-webhooks", path: "/v1/webhooks", policy: administers, summary: "List webhooks, in the order in which they were created"}, a.listWebhooks)
	read(a.API, operation{id: "get-webhook", path: "/v1/webhooks/{id}", policy: administers, summary: "Show a webhook", errors: missing},
		func(ctx context.Context, in *OfWebhook) (*single[shownWebhook], error) {
			w, err := a.cfg.Engine.Webhooks().Get(ctx, in.ID)
			return &single[shownWebhook]{webhookOf(webhook.Created{Webhook: w})}, err
		})
	enabled := true
	replace(a.API, operation{id: "update-webhook", method: http.MethodPatch, path: "/v1/webhooks/{id}", policy: administers, summary: "Change, enable or disable a webhook", errors: missing},
		body[webhookChange]{example: webhookChange{Enabled: &enabled}}, func(ctx context.Context, in *OfWebhook, c webhookChange) (*single[shownWebhook], error) {
			w, err := a.cfg.Engine.Webhooks().Change(ctx, in.ID, webhook.Patch(c))
			return &single[shownWebhook]{webhookOf(webhook.Created{Webhook: w})}, unprocessable(ctx, err)
		})
	erase(a.API, operation{id: "delete-webhook", path: "/v1/webhooks/{id}", policy: administers, summary: "Delete a webhook and its deliveries", errors: missing}, a.deleteWebhook)
	write(a.API, operation{
		id: "rotate-webhook", path: "/v1/webhooks/{id}/rotate", policy: administers, summary: "Replace the secret of a webhook; the previous one remains valid for signing for a day", errors: missing,
	}, body[webhookAct]{optional: true}, a.rotateWebhook)
	write(a.API, operation{id: "test-webhook", path: "/v1/webhooks/{id}/test", policy: administers, class: takesTime, summary: "Send one ping to a webhook", status: http.StatusAccepted, errors: missing},
		body[webhookAct]{optional: true}, func(ctx context.Context, in *OfWebhook, _ webhookAct) (*single[webhook.Delivery], error) {
			return singleOf(a.cfg.Engine.Webhooks().Test(ctx, in.ID))
		})
	read(a.API, operation{id: "list-webhook-deliveries", path: "/v1/webhooks/{id}/deliveries", policy: administers, summary: "List the deliveries of a webhook, newest first", errors: missing},
		a.listWebhookDeliveries)
	write(a.API, operation{
		id: "redeliver-webhook", path: "/v1/webhooks/{id}/deliveries/{delivery}/redeliver", policy: administers, summary: "Send a delivery again, under the same id",
		status: http.StatusAccepted, errors: missing,
	}, body[webhookAct]{optional: true}, func(ctx context.Context, in *OfWebhookDelivery, _ webhookAct) (*single[webhook.Delivery], error) {
		return singleOf(a.cfg.Engine.Webhooks().Redeliver(ctx, in.ID, in.Delivery))
	})
}

// webhookOf converts a webhook for a response.
func webhookOf(m webhook.Created) shownWebhook {
	w := m.Webhook
	return shownWebhook{
		ID: w.ID, URL: w.URL, Types: w.Types, Body: w.Body, Session: w.Session, Labels: w.Labels, Owner: w.Owner, Enabled: w.Enabled, Disabled: w.Disabled,
		Failures: w.Failures, FailingSince: w.FailingSince, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt, Version: w.Version, Secret: m.Secret,
	}
}

// unprocessable turns Invalid into 422: the request is well-formed, but cannot be carried out.
func unprocessable(ctx context.Context, err error) error {
	if !errors.Is(err, perdure.Invalid) {
		return err
	}
	p := problemOf(ctx, err)
	p.Status = http.StatusUnprocessableEntity
	return p
}

// createWebhook creates a webhook. Its response is not stored for an idempotency key, because it
// would contain the secret in plain text. A repeated request finds the webhook by its derived id.
func (a webhookHandlers) createWebhook(ctx context.Context, _ *struct{}, in newWebhook) (*madeWebhook, error) {
	if in.ID == "" {
		in.ID = newID[perdure.WebhookID](ctx)
	}
	requestOf(ctx).secret = true
	made, err := a.cfg.Engine.Webhooks().Create(ctx, webhook.Webhook{
		ID: in.ID, URL: in.URL, Types: in.Types, Body: in.Body, Session: in.Session, Labels: in.Labels, Owner: requestOf(ctx).actor,
	})
	return &madeWebhook{Location: "/v1/webhooks/" + string(made.ID), Body: webhookOf(made)}, unprocessable(ctx, err)
}

// rotateWebhook replaces the secret. Its response is not stored either. The engine receives the id
// of the request: a repeated request replaces the secret of its first attempt, and keeps the secret
// that receivers already have.
func (a webhookHandlers) rotateWebhook(ctx context.Context, in *OfWebhook, _ webhookAct) (*single[shownWebhook], error) {
	req := requestOf(ctx)
	req.secret = true
	if req.hasKey {
		ctx = engine.WithRotation(ctx, webhook.Rotation{Request: hex.EncodeToString(req.seed[:]), At: req.at, Repeated: req.repeated})
	}
	made, err := a.cfg.Engine.Webhooks().Rotate(ctx, in.ID)
	return &single[shownWebhook]{webhookOf(made)}, err
}

func (a webhookHandlers) listWebhooks(ctx context.Context, in *Paged) (*page[shownWebhook], error) {
	return pageOfAppended(a.API, *in, appendedList[shownWebhook]{
		name: orgPrefix(ctx) + "webhooks",
		all: func() ([]shownWebhook, error) {
			all, err := a.cfg.Engine.Webhooks().List(ctx)
			shown := make([]shownWebhook, 0, len(all))
			for _, w := range all {
				shown = append(shown, webhookOf(webhook.Created{Webhook: w}))
			}
			return shown, err
		},
		match: func(shownWebhook) bool { return true },
		id:    func(w shownWebhook) string { return string(w.ID) },
	})
}

// deleteWebhook deletes a webhook. If an earlier attempt under the same key was started and the
// webhook no longer exists, that counts as success.
func (a webhookHandlers) deleteWebhook(ctx context.Context, in *OfWebhook) (*nothing, error) {
	err := a.cfg.Engine.Webhooks().Delete(ctx, in.ID)
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).repeated {
		err = nil
	}
	return &nothing{}, err
}

// listWebhookDeliveries lists deliveries, newest first. New ones are added at the front, so the
// position in the list is an id.
func (a webhookHandlers) listWebhookDeliveries(ctx context.Context, in *struct {
	OfWebhook
	Paged
}) (*page[webhook.Delivery], error) {
	which := orgPrefix(ctx) + "deliveries " + string(in.ID)
	place, err := a.cursors.read(which, in.Cursor, 1)
	if err != nil {
		return nil, err
	}
	limit, most := in.limit(), in.limit()+1
	if place != nil {
		most = 0
	}
	all, err := a.cfg.Engine.Webhooks().Deliveries(ctx, in.ID, most)
	if err != nil {
		return nil, err
	}
	for place != nil && len(all) > 0 && string(all[0].ID) >= place[0] {
		all = all[1:]
	}
	return pageOf(all, limit, func(d webhook.Delivery) string { return a.cursors.write(which, string(d.ID)) }), nil
}
