package api

import (
	"context"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// newToken is the body of a token's making.
type newToken struct {
	Name    string     `json:"name" doc:"By which people know it."`
	Org     string     `json:"org,omitempty" doc:"Of whom its bearer is; your own when it is not said. Another one only with the token of the data directory."`
	User    string     `json:"user,omitempty" doc:"For whom its bearer acts; nobody in particular when it is not said."`
	Scopes  []string   `json:"scopes,omitempty" enum:"read,write,approve,admin" doc:"What its bearer may; read and write when it is not said. Nobody gives what they do not have."`
	Agent   bool       `json:"agent,omitempty" doc:"For a program that a model steers: it can neither approve nor resolve."`
	Expires *time.Time `json:"expires_at,omitempty" doc:"From then on it lets nobody in; never when it is not said."`
}

// OfToken is the path of a token.
type OfToken struct {
	ID perdure.TokenID `path:"token" example:"token_019aa0000000700080000000000000aa" doc:"The id of the token, not its secret."`
}

type issuedToken struct {
	Location string `header:"Location"`
	Body     engine.IssuedToken
}

type oneToken struct{ Body engine.Token }

func (a *API) tokenOperations() {
	write(a, operation{
		id: "create-token", path: "/v1/tokens", policy: administers, summary: "Make a token; its secret is shown once", status: http.StatusCreated,
	}, body[newToken]{example: newToken{Name: "nightly reports", Scopes: []string{engine.ScopeRead, engine.ScopeWrite}}}, a.createToken)
	read(a, operation{id: "list-tokens", path: "/v1/tokens", policy: administers, summary: "List tokens in the order of their making, without their secrets"}, a.listTokens)
	erase(a, operation{
		id: "revoke-token", path: "/v1/tokens/{token}", policy: administers, summary: "Revoke a token for good; what it has under way ends within a second",
		errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *OfToken) (*oneToken, error) {
		t, err := a.cfg.Engine.RevokeToken(ctx, in.ID, requestOf(ctx).actor)
		return &oneToken{Body: t}, err
	})
}

// createToken makes a token. Its answer is not kept for an idempotency key, since it has the secret: the same key again is a
// conflict, and the token is to be revoked.
func (a *API) createToken(ctx context.Context, _ *struct{}, in newToken) (*issuedToken, error) {
	req := requestOf(ctx)
	req.secret = true
	order := engine.TokenOrder{ID: newID[perdure.TokenID](ctx), Name: in.Name, Org: in.Org, User: in.User, Scopes: in.Scopes, Agent: in.Agent, By: req.actor}
	if in.Expires != nil {
		order.Expires = *in.Expires
	}
	made, err := a.cfg.Engine.CreateToken(ctx, order)
	return &issuedToken{Location: "/v1/tokens/" + string(made.ID), Body: made}, err
}

func (a *API) listTokens(ctx context.Context, in *struct{ Paged }) (*page[engine.Token], error) {
	return walk(a, in.Paged, grown[engine.Token]{
		which: audience(ctx) + " tokens", // the root's has those of all orgs
		all:   func() ([]engine.Token, error) { return a.cfg.Engine.Tokens(ctx) },
		match: func(engine.Token) bool { return true },
		id:    func(t engine.Token) string { return string(t.ID) },
	})
}
