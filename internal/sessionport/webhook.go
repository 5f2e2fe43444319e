package sessionport

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// SealWebhook seals the secret of a webhook for its row. Unavailable: there is no keyring.
func (c Config) SealWebhook(id perdure.WebhookID, text string) ([]byte, error) {
	return c.seal(sealContext("", "webhook", string(id)), text)
}

// OpenWebhook opens the secret of a webhook. Unavailable: there is no keyring, or not the right
// one.
func (c Config) OpenWebhook(id perdure.WebhookID, sealed []byte) (string, error) {
	text, err := c.open(sealContext("", "webhook", string(id)), sealed)
	if err != nil {
		return "", fmt.Errorf("secret of %s: %w", id, err)
	}
	return text, nil
}

// webhookRows returns the sealed secrets of a webhook. The former secret is left out once it no
// longer signs.
func (c Config) webhookRows(w store.Webhook, now time.Time) []sealedRow {
	at := sealContext("", "webhook", string(w.ID))
	rows := []sealedRow{{"the secret of " + string(w.ID), at, w.Sealed, func(tx store.Tx, sealed []byte) error {
		return updateWebhookSecret(tx, w, func(row *store.Webhook) { row.Sealed = sealed })
	}}}
	if len(w.Former) > 0 && now.Before(w.FormerUntil) {
		rows = append(rows,
			sealedRow{"the former secret of " + string(w.ID), at, w.Former, func(tx store.Tx, sealed []byte) error {
				return updateWebhookSecret(tx, w, func(row *store.Webhook) { row.Former = sealed })
			}})
	}
	return rows
}

// updateWebhookSecret changes a sealed secret in the webhook's row as it is now: its other fields
// may have changed meanwhile. Conflict: the secret was rotated meanwhile.
func updateWebhookSecret(tx store.Tx, was store.Webhook, change func(*store.Webhook)) error {
	row, err := tx.Webhooks().Get(was.ID)
	if err != nil {
		return err
	}
	if !row.FormerUntil.Equal(was.FormerUntil) {
		return fmt.Errorf("%w: its secret was rotated", perdure.Conflict)
	}
	change(&row)
	_, err = tx.Webhooks().Put(row)
	return err
}
