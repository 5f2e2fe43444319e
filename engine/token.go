package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Tokens manages access tokens (H11).
type Tokens interface {
	// Create creates a token and returns its secret, which cannot be read again. Invalid: the
	// order is not valid; the error says why. Conflict: its id exists already.
	Create(ctx context.Context, order TokenRequest) (IssuedToken, error)
	// List lists tokens by creation time, including revoked and expired ones.
	List(ctx context.Context) ([]Token, error)
	// Revoke revokes a token permanently. Its open requests over the network end within a
	// second. A revoked token does not change. NotFound: no such token.
	Revoke(ctx context.Context, id perdure.TokenID, by string) (Token, error)
}

// TokenRequest describes a token to create.
type TokenRequest struct {
	ID      perdure.TokenID // empty: a new id
	Name    string          // for people: 1 to 128 bytes
	Org     string          // empty: the org of the caller
	User    string          // empty: no particular user
	Scopes  []string        // read, write, approve, admin; empty: read and write
	Agent   bool            // for a program controlled by a model: it can neither approve nor resolve
	Expires time.Time       // zero: never
	By      string          // the caller
}

// The scopes of a token. No scope includes another.
const (
	ScopeRead    = "read"    // read everything
	ScopeWrite   = "write"   // start work, send messages, cancel and delete
	ScopeApprove = "approve" // decisions of a person: approve calls, resolve unknown outcomes, pass soft limits
	ScopeAdmin   = "admin"   // tokens, budgets, export and import of sessions
)

// Token is a token as callers see it, without its secret.
type Token struct {
	ID        perdure.TokenID `json:"id"`
	Name      string          `json:"name"`
	Org       string          `json:"org"`
	User      string          `json:"user,omitempty"`
	Agent     bool            `json:"agent,omitempty"`
	Scopes    []string        `json:"scopes"`
	State     string          `json:"state" enum:"live,expired,revoked"`
	By        string          `json:"created_by"`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
	RevokedAt time.Time       `json:"revoked_at,omitzero"`
	RevokedBy string          `json:"revoked_by,omitempty"`
	UsedAt    time.Time       `json:"last_used_at,omitzero"` // to the minute
}

// The states of a token.
const (
	TokenLive    = "live"
	TokenExpired = "expired"
	TokenRevoked = "revoked"
)

// IssuedToken is a new token with its secret, which is shown once.
type IssuedToken struct {
	Token
	Secret string `json:"token" doc:"The bearer token. It is shown once."`
}
