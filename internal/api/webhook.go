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

// newWebhook is the body of a webhook's creation.
type newWebhook struct {
	ID      perdure.WebhookID   `json:"id,omitempty" doc:"The webhook's own id, for callers that mint them. The same id with the same rest is one webhook."`
	URL     string              `json:"url" doc:"Where events are sent, with POST. Redirects are not followed."`
	Types   []string            `json:"types,omitempty" doc:"Which events; task.* is all that begin with task. All that can be sent when it is not said."`
	Body    webhook.Body        `json:"body,omitempty" enum:"id,snapshot" doc:"Whether the ids are sent, or the event as the API shows it; id when it is not said."`
	Session perdure.SessionID   `json:"session_id,omitempty" doc:"Only events of this session."`
	Labels  perdure.LabelFilter `json:"labels,omitempty" doc:"Only events of sessions that have all of these labels when the event is queued: key, or key=value; at most 16."`
}

// webhookChange is what is to become of a webhook.
type webhookChange struct {
	URL     *string              `json:"url,omitempty"`
	Types   *[]string            `json:"types,omitempty"`
	Body    *webhook.Body        `json:"body,omitempty" enum:"id,snapshot"`
	Labels  *perdure.LabelFilter `json:"labels,omitempty" doc:"[]: of all sessions."`
	Enabled *bool                `json:"enabled,omitempty" doc:"true: from now on. What was queued before goes out, too."`
}

// shownWebhook is a webhook as it is answered.
type shownWebhook struct {
	ID           perdure.WebhookID   `json:"id"`
	URL          string              `json:"url"`
	Types        []string            `json:"types,omitempty" doc:"Empty: all that can be sent."`
	Body         webhook.Body        `json:"body" enum:"id,snapshot"`
	Session      perdure.SessionID   `json:"session_id,omitempty"`
	Labels       perdure.LabelFilter `json:"labels,omitempty" doc:"Empty: of all sessions."`
	Owner        string              `json:"owner,omitempty" doc:"Who made it."`
	Enabled      bool                `json:"enabled"`
	Disabled     string              `json:"disabled_reason,omitempty" doc:"Why it was switched off."`
	Failures     int                 `json:"failures" doc:"Tries in a row that failed."`
	FailingSince time.Time           `json:"failing_since,omitzero" doc:"The first of them."`
	CreatedAt    time.Time           `json:"created_at"`
	UpdatedAt    time.Time           `json:"updated_at"`
	Version      int64               `json:"version" doc:"Counts the writes, from 1."`
	Secret       string              `json:"secret,omitempty" doc:"Signs what is sent. It is shown when it is made, and never again."`
}

// webhookAct is the body of what needs no word.
type webhookAct struct{}

type oneWebhook struct{ Body shownWebhook }

type madeWebhook struct {
	Location string `header:"Location"`
	Body     shownWebhook
}

type oneHookDelivery struct{ Body webhook.Delivery }

func (a *API) webhookOperations() {
	missing := []int{http.StatusNotFound}
	write(a, operation{
		id: "create-webhook", path: "/v1/webhooks", policy: administers, summary: "Make a webhook; its secret is shown in this answer, and in no other", status: http.StatusCreated,
		errors: append(missing, http.StatusTooManyRequests),
	}, body[newWebhook]{example: newWebhook{URL: "https://example.com/perdure", Types: []string{"task.*", "approval.requested"}, Body: webhook.BodyID}}, a.createWebhook)
	read(a, operation{id: "list-webhooks", path: "/v1/webhooks", policy: administers, summary: "List webhooks in the order of their making"}, a.listWebhooks)
	read(a, operation{id: "get-webhook", path: "/v1/webhooks/{id}", policy: administers, summary: "Show a webhook", errors: missing},
		func(ctx context.Context, in *OfWebhook) (*oneWebhook, error) {
			w, err := a.cfg.Engine.Webhook(ctx, in.ID)
			return &oneWebhook{Body: webhookOf(webhook.Made{Webhook: w})}, err
		})
	enabled := true
	replace(a, operation{id: "update-webhook", method: http.MethodPatch, path: "/v1/webhooks/{id}", policy: administers, summary: "Change a webhook, or switch it on or off", errors: missing},
		body[webhookChange]{example: webhookChange{Enabled: &enabled}}, func(ctx context.Context, in *OfWebhook, c webhookChange) (*oneWebhook, error) {
			w, err := a.cfg.Engine.ChangeWebhook(ctx, in.ID, webhook.Change(c))
			return &oneWebhook{Body: webhookOf(webhook.Made{Webhook: w})}, unprocessable(ctx, err)
		})
	erase(a, operation{id: "delete-webhook", path: "/v1/webhooks/{id}", policy: administers, summary: "Delete a webhook, with its deliveries", errors: missing}, a.deleteWebhook)
	write(a, operation{
		id: "rotate-webhook", path: "/v1/webhooks/{id}/rotate", policy: administers, summary: "Give a webhook another secret; the former one signs along for a day", errors: missing,
	}, body[webhookAct]{optional: true}, a.rotateWebhook)
	write(a, operation{id: "test-webhook", path: "/v1/webhooks/{id}/test", policy: administers, summary: "Send a webhook a ping, once", status: http.StatusAccepted, errors: missing},
		body[webhookAct]{optional: true}, func(ctx context.Context, in *OfWebhook, _ webhookAct) (*oneHookDelivery, error) {
			d, err := a.cfg.Engine.TestWebhook(ctx, in.ID)
			return &oneHookDelivery{Body: d}, err
		})
	read(a, operation{id: "list-webhook-deliveries", path: "/v1/webhooks/{id}/deliveries", policy: administers, summary: "List what was sent to a webhook, or is to be, the newest first", errors: missing},
		a.listWebhookDeliveries)
	write(a, operation{
		id: "redeliver-webhook", path: "/v1/webhooks/{id}/deliveries/{delivery}/redeliver", policy: administers, summary: "Send a delivery again, under the same id",
		status: http.StatusAccepted, errors: missing,
	}, body[webhookAct]{optional: true}, func(ctx context.Context, in *OfWebhookDelivery, _ webhookAct) (*oneHookDelivery, error) {
		d, err := a.cfg.Engine.RedeliverWebhook(ctx, in.ID, in.Delivery)
		return &oneHookDelivery{Body: d}, err
	})
}

// webhookOf is a webhook as it is answered.
func webhookOf(m webhook.Made) shownWebhook {
	w := m.Webhook
	return shownWebhook{
		ID: w.ID, URL: w.URL, Types: w.Types, Body: w.Body, Session: w.Session, Labels: w.Labels, Owner: w.Owner, Enabled: w.Enabled, Disabled: w.Disabled,
		Failures: w.Failures, FailingSince: w.FailingSince, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt, Version: w.Version, Secret: m.Secret,
	}
}

// unprocessable makes a 422 of what can be read and can never be.
func unprocessable(ctx context.Context, err error) error {
	if !errors.Is(err, perdure.Invalid) {
		return err
	}
	p := problemOf(ctx, err)
	p.Status = http.StatusUnprocessableEntity
	return p
}

// createWebhook makes a webhook. Its answer is not kept, whatever the idempotency key: the secret in it would stand there in
// plain text. Carried out again, the request finds its webhook by the id that it makes.
func (a *API) createWebhook(ctx context.Context, _ *struct{}, in newWebhook) (*madeWebhook, error) {
	if in.ID == "" {
		in.ID = newID[perdure.WebhookID](ctx)
	}
	requestOf(ctx).secret = true
	made, err := a.cfg.Engine.CreateWebhook(ctx, webhook.Webhook{
		ID: in.ID, URL: in.URL, Types: in.Types, Body: in.Body, Session: in.Session, Labels: in.Labels, Owner: requestOf(ctx).actor,
	})
	return &madeWebhook{Location: "/v1/webhooks/" + string(made.ID), Body: webhookOf(made)}, unprocessable(ctx, err)
}

// rotateWebhook rotates a secret. Its answer is not kept either; the engine is told which request it is, so that one which comes again
// leaves the secret that receivers have.
func (a *API) rotateWebhook(ctx context.Context, in *OfWebhook, _ webhookAct) (*oneWebhook, error) {
	req := requestOf(ctx)
	req.secret = true
	if req.named {
		ctx = engine.Rotating(ctx, webhook.Rotation{Request: hex.EncodeToString(req.seed[:]), At: req.at, Again: req.again})
	}
	made, err := a.cfg.Engine.RotateWebhook(ctx, in.ID)
	return &oneWebhook{Body: webhookOf(made)}, err
}

func (a *API) listWebhooks(ctx context.Context, in *Paged) (*page[shownWebhook], error) {
	return walk(a, *in, grown[shownWebhook]{
		which: whose(ctx) + "webhooks",
		all: func() ([]shownWebhook, error) {
			all, err := a.cfg.Engine.Webhooks(ctx)
			told := make([]shownWebhook, 0, len(all))
			for _, w := range all {
				told = append(told, webhookOf(webhook.Made{Webhook: w}))
			}
			return told, err
		},
		match: func(shownWebhook) bool { return true },
		id:    func(w shownWebhook) string { return string(w.ID) },
	})
}

// deleteWebhook takes a webhook that is not there for one that it deleted before, when that was begun under the same key.
func (a *API) deleteWebhook(ctx context.Context, in *OfWebhook) (*nothing, error) {
	err := a.cfg.Engine.DeleteWebhook(ctx, in.ID)
	if errors.Is(err, perdure.NotFound) && requestOf(ctx).again {
		err = nil
	}
	return &nothing{}, err
}

// listWebhookDeliveries walks the deliveries, the newest first. New ones come before the first, so that the place is an id.
func (a *API) listWebhookDeliveries(ctx context.Context, in *struct {
	OfWebhook
	Paged
}) (*page[webhook.Delivery], error) {
	which := whose(ctx) + "deliveries " + string(in.ID)
	place, err := a.cursors.read(which, in.Cursor, 1)
	if err != nil {
		return nil, err
	}
	limit, most := in.limit(), in.limit()+1
	if place != nil {
		most = 0
	}
	all, err := a.cfg.Engine.WebhookDeliveries(ctx, in.ID, most)
	if err != nil {
		return nil, err
	}
	for place != nil && len(all) > 0 && string(all[0].ID) >= place[0] {
		all = all[1:]
	}
	return pageOf(all, limit, func(d webhook.Delivery) string { return a.cursors.write(which, string(d.ID)) }), nil
}
