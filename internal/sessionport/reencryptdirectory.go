package sessionport

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/store"
)

// ReencryptDirectory seals the keys of providers, the tokens of connections and the secrets of
// webhooks again under the keyring's current key, where they are sealed under another one, and
// returns how many it sealed. It may be interrupted and run again. A row that another writer
// changed meanwhile is tried again. A value that cannot be opened is skipped and named in the
// error, which is returned after all others are done. Test it with errors.Is for secret.UnknownKey,
// secret.Tampered and secret.Corrupt. Conflict: other writers changed rows in every one of its
// passes.
func ReencryptDirectory(ctx context.Context, cfg Config) (n int, err error) {
	current, err := cfg.Keys.Current()
	if err != nil {
		return 0, fmt.Errorf("re-encrypt directory: %w", err)
	}
	for range maxSealAttempts {
		var again bool
		var failed []error
		rows, err := cfg.sealedRows(ctx)
		if err != nil {
			return n, fmt.Errorf("re-encrypt directory: %w", err)
		}
		left := 0
		for _, row := range rows {
			sealed, err := cfg.reencrypted(row, current)
			if err == nil && sealed != nil {
				err = cfg.Store.InTx(ctx, func(tx store.Tx) error {
					if err := row.put(tx, sealed); err != nil {
						return err
					}
					return auditReencryption(ctx, tx, current, 1)
				})
			}
			switch {
			case errors.Is(err, perdure.Conflict):
				again = true
			case errors.Is(err, secret.UnknownKey) || errors.Is(err, perdure.Invalid):
				if left++; len(failed) < maxReportedErrors {
					failed = append(failed, fmt.Errorf("%s: %w", row.what, err))
				}
			case err != nil:
				return n, fmt.Errorf("re-encrypt directory: %s: %w", row.what, err)
			case sealed != nil:
				n++
			}
		}
		if again {
			continue
		}
		if left > 0 {
			return n, fmt.Errorf("re-encrypt directory: %d keys and tokens could not be re-encrypted: %w",
				left, errors.Join(failed...))
		}
		return n, nil
	}
	return n, fmt.Errorf("re-encrypt directory: %w: other writers kept changing keys and tokens; run it again",
		perdure.Conflict)
}

// sealedRow is a row of the directory, or a webhook, that has a sealed value.
type sealedRow struct {
	what   string // describes the value, for people
	at     secret.Place
	sealed []byte
	put    func(store.Tx, []byte) error // replaces the sealed value. Conflict: the row was changed meanwhile
}

// sealedRows reads all rows of the directory that have a sealed value.
func (c Config) sealedRows(ctx context.Context) (rows []sealedRow, err error) {
	err = c.Store.View(ctx, func(r store.Reader) error {
		rows = nil
		providers, err := r.Directory().Providers().List()
		if err != nil {
			return err
		}
		for _, p := range providers {
			if len(p.Sealed) == 0 {
				continue
			}
			rows = append(rows, sealedRow{"the key of provider " + string(p.ID),
				sealContext("", "provider", string(p.ID)), p.Sealed, func(tx store.Tx, sealed []byte) error {
					p.Sealed = sealed
					_, err := tx.Directory().Providers().Put(p)
					return err
				}})
		}
		hooks, err := r.Webhooks().List()
		if err != nil {
			return err
		}
		for _, w := range hooks {
			rows = append(rows, c.webhookRows(w, r.Now())...)
		}
		connections, err := r.Directory().Connections().List()
		for _, one := range connections {
			rows = append(rows, sealedRow{fmt.Sprintf("the token for %.40q", one.Provider), tokenContext(one.Key()),
				one.Sealed, func(tx store.Tx, sealed []byte) error {
					one.Sealed = sealed
					_, err := tx.Directory().Connections().Put(one)
					return err
				}})
		}
		return err
	})
	return rows, err
}

// reencrypted returns the value of a row sealed under the current key; nil: it already is.
func (c Config) reencrypted(row sealedRow, current string) ([]byte, error) {
	id, err := secret.KeyID(row.sealed)
	if err != nil || id == current {
		return nil, err
	}
	plain, err := c.Keys.Open(row.at, row.sealed)
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	return c.Keys.Seal(row.at, plain)
}
