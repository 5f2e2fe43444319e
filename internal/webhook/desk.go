package webhook

import (
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

// Create makes a webhook, which gets what happens from now on. The caller fills in URL, Types, Body, Session and Owner, and ID where
// it mints ids itself: the same id with the same rest is one webhook, and has another secret while nothing became of it, since
// whoever asks again has not seen the first. Invalid: what Check says, or the guard, which lets no request out to the URL. Conflict:
// the id is another webhook's. Limit: there are too many. Unavailable: there is no keyring, or no way out.
func (s *Sender) Create(ctx context.Context, w hook.Webhook) (hook.Made, error) {
	if w.ID == "" {
		w.ID = perdure.FormatID[perdure.WebhookID](uuid.Must(uuid.NewV7()))
	}
	if w.Body == "" {
		w.Body = hook.BodyID
	}
	row := store.Webhook{Webhook: hook.Webhook{
		ID: w.ID, URL: w.URL, Types: slices.Clone(w.Types), Body: w.Body, Session: w.Session, Labels: slices.Clone(w.Labels), Owner: w.Owner, Org: w.Org, Enabled: true,
	}}
	secret, sealed, err := s.newSecret(w.ID)
	if err == nil {
		err = s.check(ctx, row.Webhook)
	}
	if err != nil {
		return hook.Made{}, fmt.Errorf("create webhook: %w", err)
	}
	var made hook.Made
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		made = hook.Made{}
		put, shown, err := createIn(tx, row, sealed)
		made.Webhook = put.Webhook
		if shown {
			made.Secret = secret
		}
		if err == nil && shown {
			err = account(ctx, tx, "webhook.created", put)
		}
		return err
	})
	if err != nil {
		return hook.Made{}, fmt.Errorf("create webhook: %w", err)
	}
	ring(s.changed)
	return made, nil
}

func createIn(tx store.Tx, row store.Webhook, sealed []byte) (put store.Webhook, shown bool, err error) {
	if row.Session != "" {
		of, err := tx.Session(row.Session)
		if err == nil && of.Org != row.Org {
			err = fmt.Errorf("session %s: %w", row.Session, perdure.NotFound)
		}
		if err != nil {
			return row, false, err
		}
	}
	all, err := tx.Webhooks()
	if err != nil {
		return row, false, err
	}
	had := 0
	for _, known := range all {
		if known.Org == row.Org {
			had++
		}
		if known.ID != row.ID {
			continue
		}
		same := known.URL == row.URL && slices.Equal(known.Types, row.Types) && known.Body == row.Body && known.Session == row.Session && slices.Equal(known.Labels, row.Labels) && known.Owner == row.Owner && known.Org == row.Org
		if !same {
			return row, false, fmt.Errorf("%w: %s is the id of another webhook", perdure.Conflict, row.ID)
		}
		if known.Version > 1 {
			return known, false, nil
		}
		known.Sealed = sealed
		put, err = tx.PutWebhook(known)
		return put, true, err
	}
	if had >= hook.MaxWebhooks {
		return row, false, fmt.Errorf("%w: there are %d webhooks; delete one first", perdure.Limit, had)
	}
	row.Sealed, row.CreatedAt = sealed, tx.Now()
	if err := begin(tx, &row); err != nil {
		return row, false, err
	}
	put, err = tx.PutWebhook(row)
	return put, true, err
}

// account adds to the audit log what was done to a webhook. Its address may hold a secret, so it is not there.
func account(ctx context.Context, tx store.Tx, action string, w store.Webhook) error {
	return tx.AddAudit(store.AuditEntry{
		Org: w.Org, Actor: store.ActorOf(ctx), Action: action, Subject: string(w.ID), Session: w.Session,
		Detail: map[string]string{"enabled": strconv.FormatBool(w.Enabled), "types": strings.Join(w.Types, " ")},
	})
}

// check asks whether a webhook is one, and whether the guard lets requests out to it (EG5).
func (s *Sender) check(ctx context.Context, w hook.Webhook) error {
	if err := w.Check(); err != nil {
		return err
	}
	if s.cfg.Egress == nil {
		return fmt.Errorf("%w: nothing leaves here, so there are no webhooks", perdure.Unavailable)
	}
	_, err := s.cfg.Egress.Try(ctx, hook.Purpose, w.URL, perdure.NetworkList{})
	refused := (*perdure.EgressError)(nil)
	if errors.As(err, &refused) && refused.Code != perdure.EgressTransport {
		return fmt.Errorf("%w url: %s", perdure.Invalid, refused.Text)
	}
	return ctx.Err() // a name that nobody knows now is looked at again with every try
}

// newSecret makes a secret as Standard Webhooks writes them, and seals it.
func (s *Sender) newSecret(id perdure.WebhookID) (secret string, sealed []byte, err error) {
	var random [32]byte
	rand.Read(random[:]) // never fails
	secret = "whsec_" + base64.StdEncoding.EncodeToString(random[:])
	sealed, err = s.cfg.Seal(id, secret)
	return secret, sealed, err
}

// Webhook returns a webhook. NotFound: there is none.
func (s *Sender) Webhook(ctx context.Context, id perdure.WebhookID) (w hook.Webhook, err error) {
	return w, s.cfg.Store.View(ctx, func(r store.Reader) error {
		row, err := r.Webhook(id)
		w = row.Webhook
		return err
	})
}

// Webhooks lists webhooks in the order of their making.
func (s *Sender) Webhooks(ctx context.Context) (all []hook.Webhook, err error) {
	return all, s.cfg.Store.View(ctx, func(r store.Reader) error {
		rows, err := r.Webhooks()
		all = make([]hook.Webhook, 0, len(rows))
		for _, row := range rows {
			all = append(all, row.Webhook)
		}
		return err
	})
}

// Change changes a webhook. One that is enabled gets what happens from then on; what was queued for it goes out, too. The
// errors are those of Create, and NotFound.
func (s *Sender) Change(ctx context.Context, id perdure.WebhookID, c hook.Change) (w hook.Webhook, err error) {
	known, err := s.Webhook(ctx, id)
	if err == nil {
		known = c.On(known)
		if c.URL != nil {
			err = s.check(ctx, known)
		} else {
			err = known.Check()
		}
	}
	if err == nil {
		w, err = s.change(ctx, id, func(tx store.Tx, row *store.Webhook) error {
			was := row.Enabled
			row.Webhook = c.On(row.Webhook)
			if row.Enabled && !was {
				if err := begin(tx, row); err != nil {
					return err
				}
			}
			return account(ctx, tx, "webhook.changed", *row)
		})
	}
	if err != nil {
		return hook.Webhook{}, fmt.Errorf("change webhook: %w", err)
	}
	return w, nil
}

// change changes a row.
func (s *Sender) change(ctx context.Context, id perdure.WebhookID, how func(store.Tx, *store.Webhook) error) (w hook.Webhook, err error) {
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		row, err := tx.Webhook(id)
		if err == nil {
			err = how(tx, &row)
		}
		if err == nil {
			row, err = tx.PutWebhook(row)
		}
		w = row.Webhook
		return err
	})
	if err == nil {
		ring(s.changed)
	}
	return w, err
}

// Rotate gives a webhook another secret. The former one signs along for RotationTime, so that a receiver may change over when it
// likes; one before that is not good any more. The same request again has another secret in the place of the one that it made before,
// which nobody has seen, and none where another one has rotated meanwhile. NotFound: there is none. Unavailable: there is no keyring.
func (s *Sender) Rotate(ctx context.Context, id perdure.WebhookID, r hook.Rotation) (hook.Made, error) {
	secret, sealed, err := s.newSecret(id)
	var made hook.Made
	if err == nil {
		err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			row, err := tx.Webhook(id)
			made = hook.Made{Webhook: row.Webhook}
			known := r.Request != "" && row.Rotation == r.Request
			if err != nil || !known && r.Again && row.RotatedAt.After(r.At) {
				return err
			}
			if !known {
				row.Former, row.FormerUntil, row.Rotation, row.RotatedAt = row.Sealed, tx.Now().Add(RotationTime), r.Request, tx.Now()
			}
			row.Sealed = sealed
			if err = account(ctx, tx, "webhook.rotated", row); err == nil {
				row, err = tx.PutWebhook(row)
			}
			made = hook.Made{Webhook: row.Webhook, Secret: secret}
			return err
		})
	}
	if err != nil {
		return hook.Made{}, fmt.Errorf("rotate the secret of a webhook: %w", err)
	}
	ring(s.changed)
	return made, nil
}

// Delete removes a webhook with its deliveries. NotFound: there is none.
func (s *Sender) Delete(ctx context.Context, id perdure.WebhookID) error {
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		row, err := tx.Webhook(id)
		if err != nil {
			return err
		}
		there, err := tx.RemoveWebhook(id)
		if err == nil && !there {
			err = fmt.Errorf("webhook %s: %w", id, perdure.NotFound)
		}
		if err == nil {
			err = account(ctx, tx, "webhook.removed", row)
		}
		return err
	})
}

// Deliveries lists up to limit deliveries of a webhook, the newest first; 0 means all. NotFound: there is no such webhook.
func (s *Sender) Deliveries(ctx context.Context, id perdure.WebhookID, limit int) (all []hook.Delivery, err error) {
	return all, s.cfg.Store.View(ctx, func(r store.Reader) error {
		_, err := r.Webhook(id)
		if err == nil {
			all, err = r.HookDeliveries(store.HookDeliveryFilter{Webhook: id, Limit: limit})
		}
		return err
	})
}

// Redeliver queues a delivery anew, under the same id, with all of its tries. NotFound: it is none of the webhook's. Conflict:
// the webhook is disabled.
func (s *Sender) Redeliver(ctx context.Context, id perdure.WebhookID, of perdure.WebhookDeliveryID) (d hook.Delivery, err error) {
	err = s.enabled(ctx, id, func(tx store.Tx) error {
		d, err = tx.HookDelivery(of)
		if err == nil && d.Webhook != id {
			err = fmt.Errorf("delivery %s: %w", of, perdure.NotFound)
		}
		if err != nil {
			return err
		}
		d = d.Again(tx.Now())
		return tx.ChangeHookDelivery(d)
	})
	return d, err
}

// Test queues a ping, which is sent once. NotFound: there is no such webhook. Conflict: it is disabled.
func (s *Sender) Test(ctx context.Context, id perdure.WebhookID) (d hook.Delivery, err error) {
	err = s.enabled(ctx, id, func(tx store.Tx) error {
		d = hook.Delivery{
			ID: perdure.FormatID[perdure.WebhookDeliveryID](uuid.Must(uuid.NewV7())), Webhook: id, Type: hook.Ping,
			State: hook.Queued, DueAt: tx.Now(), CreatedAt: tx.Now(),
		}
		_, err := tx.AddHookDelivery(d)
		return err
	})
	return d, err
}

// enabled does something for a webhook that is enabled, and has it looked at.
func (s *Sender) enabled(ctx context.Context, id perdure.WebhookID, do func(store.Tx) error) error {
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		w, err := tx.Webhook(id)
		if err == nil && !w.Enabled {
			err = fmt.Errorf("%w: webhook %s is disabled; enable it first", perdure.Conflict, id)
		}
		if err == nil {
			err = do(tx)
		}
		return err
	})
	if err == nil {
		ring(s.changed)
	}
	return err
}
