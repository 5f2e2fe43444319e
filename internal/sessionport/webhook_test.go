package sessionport_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/webhook"
)

// TestWebhookSecrets: the secrets of a webhook are sealed in a context of their own, are
// re-encrypted with the others, and no key that they need is pruned; a former secret that no longer
// signs needs none.
func TestWebhookSecrets(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		const id, other = perdure.WebhookID("webhook_00000000000070008000000000000001"), perdure.WebhookID("webhook_00000000000070008000000000000002")
		keys := keyring(w.T)
		cfg := sessionport.Config{Store: w.Store, Keys: keys}
		seal := func(text string) []byte {
			sealed, err := cfg.SealWebhook(id, text)
			if err != nil || bytes.Contains(sealed, []byte(text)) {
				w.Fatalf("sealed %q, %v", sealed, err)
			}
			return sealed
		}
		row := store.Webhook{
			Webhook: webhook.Webhook{ID: id, URL: "https://example.com", Body: webhook.BodyID},
			Sealed:  seal("whsec_now"), Former: seal("whsec_before"), FormerUntil: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC),
		}
		put := func() {
			err := w.InTx(w.Context(), func(tx store.Tx) (err error) {
				row, err = tx.Webhooks().Put(row)
				return err
			})
			if err != nil {
				w.Fatal(err)
			}
		}
		put()
		if _, err := cfg.OpenWebhook(other, row.Sealed); !errors.Is(err, secret.Tampered) {
			w.Errorf("it opens in another seal context: %v", err)
		}
		next, err := keys.Rotate()
		if err != nil {
			w.Fatal(err)
		}

		for _, want := range []int{2, 0} {
			if n, err := sessionport.ReencryptDirectory(w.Context(), cfg); n != want || err != nil {
				w.Errorf("re-encrypted: got %d, %v, want %d", n, err, want)
			}
		}

		if used, err := sessionport.KeysInUse(w.Context(), cfg); err != nil || !slices.Equal(used, []string{next}) {
			w.Errorf("in use are %v, %v, want %s", used, err, next)
		}
		err = w.View(w.Context(), func(r store.Reader) (err error) {
			row, err = r.Webhooks().Get(id)
			return err
		})
		now, opened := cfg.OpenWebhook(id, row.Sealed)
		before, former := cfg.OpenWebhook(id, row.Former)
		if now != "whsec_now" || before != "whsec_before" || err != nil || opened != nil || former != nil {
			w.Errorf("got %q, %q, %v, %v, %v", now, before, err, opened, former)
		}
		row.FormerUntil = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		put()
		if _, err = keys.Rotate(); err != nil {
			w.Fatal(err)
		}
		if n, err := sessionport.ReencryptDirectory(w.Context(), cfg); n != 1 || err != nil {
			w.Errorf("with a former one that signs no more: %d, %v, want 1", n, err)
		}
	})
}
