package sessionport

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// SealWebhook seals the secret of a webhook for its row. Unavailable: there is no keyring.
func (c Config) SealWebhook(id perdure.WebhookID, text string) ([]byte, error) {
	return c.seal(placeOf("", "webhook", string(id)), text)
}

// OpenWebhook opens the secret of a webhook. Unavailable: there is no keyring, or not the right one.
func (c Config) OpenWebhook(id perdure.WebhookID, sealed []byte) (string, error) {
	text, err := c.open(placeOf("", "webhook", string(id)), sealed)
	if err != nil {
		return "", fmt.Errorf("secret of %s: %w", id, err)
	}
	return text, nil
}

// webhookRows are the secrets of a webhook. A former one that does not sign any more at a moment is none.
func (c Config) webhookRows(w store.Webhook, now time.Time) []sealedRow {
	at := placeOf("", "webhook", string(w.ID))
	rows := []sealedRow{{"the secret of " + string(w.ID), at, w.Sealed, func(tx store.Tx, sealed []byte) error {
		return resealWebhook(tx, w, func(row *store.Webhook) { row.Sealed = sealed })
	}}}
	if len(w.Former) > 0 && now.Before(w.FormerUntil) {
		rows = append(rows, sealedRow{"the former secret of " + string(w.ID), at, w.Former, func(tx store.Tx, sealed []byte) error {
			return resealWebhook(tx, w, func(row *store.Webhook) { row.Former = sealed })
		}})
	}
	return rows
}

// resealWebhook changes a secret of a row. Other things may have changed meanwhile, its secrets may not: Conflict.
func resealWebhook(tx store.Tx, was store.Webhook, change func(*store.Webhook)) error {
	row, err := tx.Webhook(was.ID)
	if err != nil {
		return err
	}
	if !row.FormerUntil.Equal(was.FormerUntil) {
		return fmt.Errorf("%w: its secret was rotated", perdure.Conflict)
	}
	change(&row)
	_, err = tx.PutWebhook(row)
	return err
}
