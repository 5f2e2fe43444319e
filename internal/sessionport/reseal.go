package sessionport

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/store"
)

// ResealDirectory seals the keys of providers, the tokens of connections and the secrets of webhooks that are not under the keyring's current key anew,
// and says how many. What somebody else wrote meanwhile is looked at again. It may be stopped and begun again. What does not
// open is left as it is, and the error names it when all else is done; errors.Is tells secret.UnknownKey, secret.Tampered and
// secret.Corrupt. Conflict: others write so often that it could not come to an end.
func ResealDirectory(ctx context.Context, cfg Config) (n int, err error) {
	current, err := cfg.Keys.Current()
	if err != nil {
		return 0, fmt.Errorf("seal anew: %w", err)
	}
	for range sealings {
		var again bool
		var failed []error
		rows, err := cfg.sealedRows(ctx)
		if err != nil {
			return n, fmt.Errorf("seal anew: %w", err)
		}
		left := 0
		for _, row := range rows {
			sealed, err := cfg.sealAnew(row, current)
			if err == nil && sealed != nil {
				err = cfg.Store.InTx(ctx, func(tx store.Tx) error {
					if err := row.put(tx, sealed); err != nil {
						return err
					}
					return resealed(ctx, tx, current, 1)
				})
			}
			switch {
			case errors.Is(err, perdure.Conflict):
				again = true
			case errors.Is(err, secret.UnknownKey) || errors.Is(err, perdure.Invalid):
				if left++; len(failed) < maxFailed {
					failed = append(failed, fmt.Errorf("%s: %w", row.what, err))
				}
			case err != nil:
				return n, fmt.Errorf("seal anew: %s: %w", row.what, err)
			case sealed != nil:
				n++
			}
		}
		if again {
			continue
		}
		if left > 0 {
			return n, fmt.Errorf("seal anew: %d keys and tokens are left as they are: %w", left, errors.Join(failed...))
		}
		return n, nil
	}
	return n, fmt.Errorf("seal anew: %w: the keys and tokens were changed all the time: do it again", perdure.Conflict)
}

// sealedRow is a row of the directory, or a webhook, with something sealed in it.
type sealedRow struct {
	what   string // it is, for people
	at     secret.Place
	sealed []byte
	put    func(store.Tx, []byte) error // writes another in its place. Conflict: the row was changed
}

// sealedRows reads all rows of the directory that have something sealed.
func (c Config) sealedRows(ctx context.Context) (rows []sealedRow, err error) {
	err = c.Store.View(ctx, func(r store.Reader) error {
		rows = nil
		providers, err := r.Providers()
		if err != nil {
			return err
		}
		for _, p := range providers {
			if len(p.Sealed) == 0 {
				continue
			}
			rows = append(rows, sealedRow{"the key of provider " + string(p.ID), placeOf("", "provider", string(p.ID)), p.Sealed, func(tx store.Tx, sealed []byte) error {
				p.Sealed = sealed
				_, err := tx.PutProvider(p)
				return err
			}})
		}
		hooks, err := r.Webhooks()
		if err != nil {
			return err
		}
		for _, w := range hooks {
			rows = append(rows, c.webhookRows(w, r.Now())...)
		}
		connections, err := r.Connections()
		for _, one := range connections {
			rows = append(rows, sealedRow{fmt.Sprintf("the token for %.40q", one.Provider), placeOfToken(one.Key()), one.Sealed, func(tx store.Tx, sealed []byte) error {
				one.Sealed = sealed
				_, err := tx.PutConnection(one)
				return err
			}})
		}
		return err
	})
	return rows, err
}

// sealAnew is what is sealed in a row, under the current key; nil: it is already.
func (c Config) sealAnew(row sealedRow, current string) ([]byte, error) {
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
