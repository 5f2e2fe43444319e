package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	hook "github.com/perdure/perdure/webhook"
)

// Create makes a webhook that receives the events from now on. The caller fills in URL, Types,
// Body, Session and Owner, and ID if it mints ids itself. The same id with the same fields is the
// same webhook: as long as it was not changed or used since, Create replaces its secret, because a
// caller that repeats the request has not seen the first one. Invalid: Check or the egress guard
// rejects a field. Conflict: the id belongs to a different webhook. Limit: there are too many.
// Unavailable: there is no keyring, or egress is off.
func (s *Sender) Create(ctx context.Context, w hook.Webhook) (hook.Created, error) {
	w.ID = cmp.Or(w.ID, perdure.FormatID[perdure.WebhookID](uuid.Must(uuid.NewV7())))
	w.Body = cmp.Or(w.Body, hook.BodyID)
	row := store.Webhook{Webhook: hook.Webhook{
		ID: w.ID, URL: w.URL, Types: slices.Clone(w.Types), Body: w.Body, Session: w.Session, Labels: slices.Clone(w.Labels), Owner: w.Owner, Org: w.Org, Enabled: true,
	}}
	secret, sealed, err := s.newSecret(w.ID)
	if err == nil {
		err = s.check(ctx, row.Webhook)
	}
	if err != nil {
		return hook.Created{}, fmt.Errorf("create webhook: %w", err)
	}
	var made hook.Created
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		made = hook.Created{}
		put, shown, err := createIn(tx, row, sealed)
		made.Webhook = put.Webhook
		if shown {
			made.Secret = secret
		}
		if err == nil && shown {
			err = audit(ctx, tx, "webhook.created", put)
		}
		return err
	})
	if err != nil {
		return hook.Created{}, fmt.Errorf("create webhook: %w", err)
	}
	signal(s.changed)
	return made, nil
}

func createIn(tx store.Tx, row store.Webhook, sealed []byte) (put store.Webhook, shown bool, err error) {
	if row.Session != "" {
		of, err := tx.Sessions().Get(row.Session)
		if err == nil && of.Org != row.Org {
			err = fmt.Errorf("session %s: %w", row.Session, perdure.NotFound)
		}
		if err != nil {
			return row, false, err
		}
	}
	all, err := tx.Webhooks().List()
	if err != nil {
		return row, false, err
	}
	count := 0
	for _, known := range all {
		if known.Org == row.Org {
			count++
		}
		if known.ID != row.ID {
			continue
		}
		same := known.URL == row.URL && slices.Equal(known.Types, row.Types) && known.Body == row.Body && known.Session == row.Session && slices.Equal(known.Labels, row.Labels) && known.Owner == row.Owner && known.Org == row.Org
		if !same {
			return row, false, fmt.Errorf("%w: id %s belongs to a different webhook", perdure.Conflict, row.ID)
		}
		if known.Version > 1 {
			return known, false, nil
		}
		known.Sealed = sealed
		put, err = tx.Webhooks().Put(known)
		return put, true, err
	}
	if count >= hook.MaxWebhooks {
		return row, false, fmt.Errorf("%w: %d webhooks exist already; delete one first", perdure.Limit, count)
	}
	row.Sealed, row.CreatedAt = sealed, tx.Now()
	if err := startFromNow(tx, &row); err != nil {
		return row, false, err
	}
	put, err = tx.Webhooks().Put(row)
	return put, true, err
}

// audit records in the audit log what was done to a webhook. The URL may hold a secret, so the
// entry leaves it out.
func audit(ctx context.Context, tx store.Tx, action string, w store.Webhook) error {
	return tx.Audit().Add(store.AuditEntry{
		Org: w.Org, Actor: store.ActorOf(ctx), Action: action, Subject: string(w.ID), Session: w.Session,
		Detail: map[string]string{"enabled": strconv.FormatBool(w.Enabled), "types": strings.Join(w.Types, " ")},
	})
}

// check validates a webhook and asks the guard whether requests may go to its URL.
func (s *Sender) check(ctx context.Context, w hook.Webhook) error {
	if err := w.Check(); err != nil {
		return err
	}
	if s.cfg.Egress == nil {
		return fmt.Errorf("%w: outbound requests are off, so webhooks cannot be created", perdure.Unavailable)
	}
	_, err := s.cfg.Egress.Resolve(ctx, hook.Purpose, w.URL, perdure.NetworkList{})
	refused := (*perdure.EgressError)(nil)
	if errors.As(err, &refused) && refused.Code != perdure.EgressTransport {
		return fmt.Errorf("%w url: %s", perdure.Invalid, refused.Text)
	}
	return ctx.Err() // a name that does not resolve now is resolved again with every try
}

// newSecret makes a secret in the format of Standard Webhooks and seals it.
func (s *Sender) newSecret(id perdure.WebhookID) (secret string, sealed []byte, err error) {
	var random [32]byte
	rand.Read(random[:]) // never fails
	secret = "whsec_" + base64.StdEncoding.EncodeToString(random[:])
	sealed, err = s.cfg.Seal(id, secret)
	return secret, sealed, err
}

// Webhook returns a webhook. NotFound: there is none.
func (s *Sender) Webhook(ctx context.Context, id perdure.WebhookID) (w hook.Webhook, err error) {
	err = s.cfg.Store.View(ctx, func(r store.Reader) error {
		row, err := r.Webhooks().Get(id)
		w = row.Webhook
		return err
	})
	return w, err
}

// Webhooks lists webhooks in the order in which they were created.
func (s *Sender) Webhooks(ctx context.Context) (all []hook.Webhook, err error) {
	err = s.cfg.Store.View(ctx, func(r store.Reader) error {
		rows, err := r.Webhooks().List()
		all = make([]hook.Webhook, 0, len(rows))
		for _, row := range rows {
			all = append(all, row.Webhook)
		}
		return err
	})
	return all, err
}

// Change changes a webhook. A webhook that is enabled here receives the events from then on;
// deliveries that were queued before are sent, too. The errors are those of Create, and NotFound.
func (s *Sender) Change(ctx context.Context, id perdure.WebhookID, c hook.Patch) (w hook.Webhook, err error) {
	known, err := s.Webhook(ctx, id)
	if err == nil {
		known = c.Apply(known)
		if c.URL != nil {
			err = s.check(ctx, known)
		} else {
			err = known.Check()
		}
	}
	if err == nil {
		w, err = s.change(ctx, id, func(tx store.Tx, row *store.Webhook) error {
			was := row.Enabled
			row.Webhook = c.Apply(row.Webhook)
			if row.Enabled && !was {
				if err := startFromNow(tx, row); err != nil {
					return err
				}
			}
			return audit(ctx, tx, "webhook.changed", *row)
		})
	}
	if err != nil {
		return hook.Webhook{}, fmt.Errorf("change webhook: %w", err)
	}
	return w, nil
}

// change applies a function to a row and stores the result.
func (s *Sender) change(ctx context.Context, id perdure.WebhookID, edit func(store.Tx, *store.Webhook) error) (w hook.Webhook, err error) {
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		row, err := tx.Webhooks().Get(id)
		if err == nil {
			err = edit(tx, &row)
		}
		if err == nil {
			row, err = tx.Webhooks().Put(row)
		}
		w = row.Webhook
		return err
	})
	if err == nil {
		signal(s.changed)
	}
	return w, err
}

// Rotate gives a webhook a new secret. The former secret signs along for RotationTime, so that the
// receiver can switch over in that time; an even older one is no longer valid. The same request
// again replaces the secret that it made before, which the caller has not seen; it returns no
// secret if another request has rotated meanwhile. NotFound: there is none. Unavailable: there is
// no keyring.
func (s *Sender) Rotate(ctx context.Context, id perdure.WebhookID, r hook.Rotation) (hook.Created, error) {
	secret, sealed, err := s.newSecret(id)
	var made hook.Created
	if err == nil {
		err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			row, err := tx.Webhooks().Get(id)
			made = hook.Created{Webhook: row.Webhook}
			known := r.Request != "" && row.Rotation == r.Request
			if err != nil || !known && r.Repeated && row.RotatedAt.After(r.At) {
				return err
			}
			if !known {
				row.Former, row.FormerUntil, row.Rotation, row.RotatedAt = row.Sealed, tx.Now().Add(RotationTime), r.Request, tx.Now()
			}
			row.Sealed = sealed
			if err = audit(ctx, tx, "webhook.rotated", row); err == nil {
				row, err = tx.Webhooks().Put(row)
			}
			made = hook.Created{Webhook: row.Webhook, Secret: secret}
			return err
		})
	}
	if err != nil {
		return hook.Created{}, fmt.Errorf("rotate webhook secret: %w", err)
	}
	signal(s.changed)
	return made, nil
}

// Delete removes a webhook with its deliveries. NotFound: there is none.
func (s *Sender) Delete(ctx context.Context, id perdure.WebhookID) error {
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		row, err := tx.Webhooks().Get(id)
		if err != nil {
			return err
		}
		existed, err := tx.Webhooks().Remove(id)
		if err == nil && !existed {
			err = fmt.Errorf("webhook %s: %w", id, perdure.NotFound)
		}
		if err == nil {
			err = audit(ctx, tx, "webhook.removed", row)
		}
		return err
	})
}

// Deliveries lists up to limit deliveries of a webhook, newest first; limit 0 means all. NotFound:
// there is no such webhook.
func (s *Sender) Deliveries(ctx context.Context, id perdure.WebhookID, limit int) (all []hook.Delivery, err error) {
	err = s.cfg.Store.View(ctx, func(r store.Reader) error {
		_, err := r.Webhooks().Get(id)
		if err == nil {
			all, err = r.Webhooks().Deliveries(store.HookDeliveryFilter{Webhook: id, Limit: limit})
		}
		return err
	})
	return all, err
}

// Redeliver queues a delivery again, under the same id and with the full number of tries. NotFound:
// the webhook has no such delivery. Conflict: the webhook is disabled.
func (s *Sender) Redeliver(ctx context.Context, id perdure.WebhookID, of perdure.WebhookDeliveryID) (d hook.Delivery, err error) {
	err = s.enabled(ctx, id, func(tx store.Tx) error {
		d, err = tx.Webhooks().Delivery(of)
		if err == nil && d.Webhook != id {
			err = fmt.Errorf("delivery %s: %w", of, perdure.NotFound)
		}
		if err != nil {
			return err
		}
		d = d.Requeued(tx.Now())
		return tx.Webhooks().UpdateDelivery(d)
	})
	return d, err
}

// Test queues a ping, which is sent once. NotFound: there is no such webhook. Conflict: it is
// disabled.
func (s *Sender) Test(ctx context.Context, id perdure.WebhookID) (d hook.Delivery, err error) {
	err = s.enabled(ctx, id, func(tx store.Tx) error {
		d = hook.Delivery{
			ID: perdure.FormatID[perdure.WebhookDeliveryID](uuid.Must(uuid.NewV7())), Webhook: id, Type: hook.Ping,
			State: hook.Queued, DueAt: tx.Now(), CreatedAt: tx.Now(),
		}
		_, err := tx.Webhooks().AddDelivery(d)
		return err
	})
	return d, err
}

// enabled runs do in a transaction if the webhook is enabled, and wakes Run.
func (s *Sender) enabled(ctx context.Context, id perdure.WebhookID, do func(store.Tx) error) error {
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		w, err := tx.Webhooks().Get(id)
		if err == nil && !w.Enabled {
			err = fmt.Errorf("%w: webhook %s is disabled; enable it first", perdure.Conflict, id)
		}
		if err == nil {
			err = do(tx)
		}
		return err
	})
	if err == nil {
		signal(s.changed)
	}
	return err
}
