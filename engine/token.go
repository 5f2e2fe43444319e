package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure"
)

// Tokens lets others in, and out again (H11).
type Tokens interface {
	// CreateToken makes a token and returns its secret, which nobody can ask for again. Invalid: what is wrong with the order.
	// Conflict: its id is taken.
	CreateToken(ctx context.Context, order TokenOrder) (IssuedToken, error)
	// Tokens lists tokens, revoked and expired ones too, in the order of their making.
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken ends a token for good; what it has under way over a network ends within a second. One that was revoked stays
	// as it is. NotFound: there is none.
	RevokeToken(ctx context.Context, id perdure.TokenID, by string) (Token, error)
}

// TokenOrder asks for a token.
type TokenOrder struct {
	ID      perdure.TokenID // empty: one is made
	Name    string          // for people: 1 to 128 bytes
	Org     string          // empty: of whoever asks
	User    string          // empty: nobody in particular
	Scopes  []string        // read, write, approve, admin; empty: read and write
	Agent   bool            // for a program that a model steers: it can neither approve nor resolve
	Expires time.Time       // zero: never
	By      string          // who asks
}

// The scopes of a token. None contains another.
const (
	ScopeRead    = "read"    // show what is there
	ScopeWrite   = "write"   // start work, speak, stop and take away
	ScopeApprove = "approve" // a person's word: on a call that asks, on an outcome that nobody knows, on a soft limit
	ScopeAdmin   = "admin"   // tokens, budgets, whole sessions out and in
)

// Token is a token as callers see it: not its secret.
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
	Secret string `json:"token" doc:"What its bearer sends. It is shown once."`
}
