package memory

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v tokenStore) Get(id perdure.TokenID) (store.AccessToken, error) {
	t, ok := v.tokens.get(string(id))
	if !ok {
		return store.AccessToken{}, fmt.Errorf("token %s: %w", id, perdure.NotFound)
	}
	return stored(t)
}

// ByHash returns the token whose secret has a hash.
func (v tokenStore) ByHash(hash string) (store.AccessToken, error) {
	id, ok := v.tokenHashes.get(hash)
	if !ok {
		return store.AccessToken{}, fmt.Errorf("token of a hash: %w", perdure.NotFound)
	}
	return v.Tokens().Get(id)
}

func (v tokenStore) List(org string) (found []store.AccessToken, err error) {
	for _, t := range v.tokens.from("") {
		if org != "" && org != t.Org {
			continue
		}
		copied, err := stored(t)
		if err != nil {
			return nil, err
		}
		found = append(found, copied)
	}
	return found, nil
}

// Put adds a token, or replaces the one with its id.
func (t tokenStore) Put(token store.AccessToken) error {
	if err := token.Check(); err != nil {
		return err
	}
	known, there := t.tokens.get(string(token.ID))
	holder, taken := t.tokenHashes.get(token.Hash)
	if there && (known.Hash != token.Hash || known.Org != token.Org) || taken && holder != token.ID {
		return fmt.Errorf("put token %s: %w: another token has its secret", token.ID, perdure.Conflict)
	}
	kept, err := stored(token.Micro())
	if err != nil {
		return fmt.Errorf("put token %s: %w", token.ID, err)
	}
	t.tokens = t.tokens.put(string(token.ID), kept)
	t.tokenHashes = t.tokenHashes.put(token.Hash, token.ID)
	return nil
}
