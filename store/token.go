package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// Limits of the fields of a token.
const (
	MaxTokenTextBytes = 128 // bytes of each field
	MaxTokenScopes    = 16
	hashDigits        = 64
)

// AccessToken grants access. Only the hash of its secret is stored, so reading the store does not
// grant access.
type AccessToken struct {
	ID        perdure.TokenID `json:"id"`
	Hash      string          `json:"hash"` // SHA-256 of the secret, in lower-case hex
	Name      string          `json:"name"`
	Org       string          `json:"org"`
	User      string          `json:"user,omitempty"`
	Agent     bool            `json:"agent,omitempty"` // of a program that a model steers
	Scopes    []string        `json:"scopes"`
	By        string          `json:"by"` // creator
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"` // zero: never
	RevokedAt time.Time       `json:"revoked_at,omitzero"` // zero: not
	RevokedBy string          `json:"revoked_by,omitempty"`
	UsedAt    time.Time       `json:"used_at,omitzero"` // to the minute; zero: never
}

// Check checks a token. Invalid: the error says what is wrong.
func (t AccessToken) Check() error {
	words := append([]string{string(t.ID), t.Name, t.Org, t.By}, t.Scopes...)
	for _, word := range words {
		if word == "" || len(word) > MaxTokenTextBytes {
			return fmt.Errorf("%w token %q: id, name, org, creator and scopes need 1 to %d bytes each",
				perdure.Invalid, t.ID, MaxTokenTextBytes)
		}
	}
	if len(t.User) > MaxTokenTextBytes || len(t.RevokedBy) > MaxTokenTextBytes || len(t.Scopes) > MaxTokenScopes ||
		len(t.Hash) != hashDigits {
		return fmt.Errorf("%w token %q: its hash is not valid, or a field is too long", perdure.Invalid, t.ID)
	}
	return nil
}

// Micro returns the token with its times truncated to microseconds, as stores do.
func (t AccessToken) Micro() AccessToken {
	for _, at := range []*time.Time{&t.CreatedAt, &t.ExpiresAt, &t.RevokedAt, &t.UsedAt} {
		if !at.IsZero() {
			*at = at.UTC().Truncate(time.Microsecond)
		}
	}
	return t
}

// TokenReader reads tokens.
type TokenReader interface {
	// Get returns a token, including revoked and expired ones. NotFound: there is none.
	Get(id perdure.TokenID) (AccessToken, error)
	// ByHash returns the token whose secret has a hash. NotFound: there is none.
	ByHash(hash string) (AccessToken, error)
	// List lists the tokens of an org, or of all for an empty one, by id, which is the
	// order of creation.
	List(org string) ([]AccessToken, error)
}

// TokenWriter writes tokens.
type TokenWriter interface {
	// Put adds a token, or replaces the one with its id. Conflict: another token has its
	// hash, or its hash or org would change. Invalid: as Check says.
	Put(t AccessToken) error
}
