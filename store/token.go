package store

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
)

// The bounds of a token's words.
const (
	MaxTokenWord   = 128 // bytes of each
	MaxTokenScopes = 16
	hashDigits     = 64
)

// AccessToken is what lets somebody in (H11). Of its secret only the hash is kept: who reads the store gets in nowhere.
type AccessToken struct {
	ID        perdure.TokenID `json:"id"`
	Hash      string          `json:"hash"` // SHA-256 of the secret, in lower-case hex
	Name      string          `json:"name"`
	Org       string          `json:"org"`
	User      string          `json:"user,omitempty"`
	Agent     bool            `json:"agent,omitempty"` // of a program that a model steers
	Scopes    []string        `json:"scopes"`
	By        string          `json:"by"` // who made it
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"` // zero: never
	RevokedAt time.Time       `json:"revoked_at,omitzero"` // zero: not
	RevokedBy string          `json:"revoked_by,omitempty"`
	UsedAt    time.Time       `json:"used_at,omitzero"` // to the minute; zero: never
}

// Check says whether a token may be stored. Invalid: what is wrong with it.
func (t AccessToken) Check() error {
	words := append([]string{string(t.ID), t.Name, t.Org, t.By}, t.Scopes...)
	for _, word := range words {
		if word == "" || len(word) > MaxTokenWord {
			return fmt.Errorf("%w token %q: each of its words has 1 to %d bytes", perdure.Invalid, t.ID, MaxTokenWord)
		}
	}
	if len(t.User) > MaxTokenWord || len(t.RevokedBy) > MaxTokenWord || len(t.Scopes) > MaxTokenScopes || len(t.Hash) != hashDigits {
		return fmt.Errorf("%w token %q: its hash is none, or it says too much", perdure.Invalid, t.ID)
	}
	return nil
}

// Micro returns the token with its moments cut as a store keeps them.
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
	// AccessToken returns a token, revoked and expired ones too. NotFound: there is none.
	AccessToken(id perdure.TokenID) (AccessToken, error)
	// TokenOf returns the token whose secret has a hash. NotFound: there is none.
	TokenOf(hash string) (AccessToken, error)
	// AccessTokens lists the tokens of an org, or of all for an empty one, by id, which is the order of their making.
	AccessTokens(org string) ([]AccessToken, error)
}

// TokenWriter writes tokens.
type TokenWriter interface {
	// PutAccessToken adds a token, or replaces the one of its id. Conflict: another has its hash, or it would change hash or
	// org. Invalid: what Check says.
	PutAccessToken(t AccessToken) error
}
