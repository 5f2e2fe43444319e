package sqlstore

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements of tokens. What is searched for is a column; the rest is the record.
const (
	selectToken  = `SELECT record FROM access_token WHERE id = $1`
	tokenOfHash  = `SELECT record FROM access_token WHERE hash = $1`
	listTokens   = `SELECT record FROM access_token ORDER BY id`
	listOwnToken = `SELECT record FROM access_token WHERE org = $1 ORDER BY id`
	insertToken  = `INSERT INTO access_token (id, hash, org, record) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
	updateToken  = `UPDATE access_token SET record = $4 WHERE id = $1 AND hash = $2 AND org = $3`
)

// Get returns a token, with its row locked: a transaction that reads a token is about to
// change it.
func (tx tokenStore) Get(id perdure.TokenID) (store.AccessToken, error) {
	t, err := one(tx.Tx, scanRecord[store.AccessToken], tx.locked(selectToken), id)
	return wrapped(t, err, "token %s", id)
}

// ByHash returns the token whose secret has a hash.
func (tx tokenStore) ByHash(hash string) (store.AccessToken, error) {
	t, err := oneOrNone(tx.Tx, scanRecord[store.AccessToken], tokenOfHash, hash)
	return wrapped(t, err, "token of a hash")
}

func (tx tokenStore) List(org string) ([]store.AccessToken, error) {
	query, args := listTokens, []any(nil)
	if org != "" {
		query, args = listOwnToken, []any{org}
	}
	found, err := list(tx.Tx, scanRecord[store.AccessToken], query, args...)
	return wrapped(found, err, "list tokens")
}

// Put adds a token, or replaces the one with its id.
func (tx tokenStore) Put(t store.AccessToken) error {
	err := t.Check()
	var record []byte
	if err == nil {
		record, err = encode(t.Micro())
	}
	var n int64
	if err == nil {
		n, err = tx.exec(updateToken, t.ID, t.Hash, t.Org, record)
	}
	if err == nil && n == 0 {
		n, err = tx.exec(insertToken, t.ID, t.Hash, t.Org, record)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: another token has its secret", perdure.Conflict)
		}
	}
	return wrap(err, "put token %s", t.ID)
}
