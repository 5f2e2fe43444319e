package api

import (
	"context"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// newToken is the body of a request that creates a token.
type newToken struct {
	Name    string     `json:"name" doc:"A name for people."`
	Org     string     `json:"org,omitempty" doc:"The org of the bearer; default that of the caller. Only the token of the data directory can set another one."`
	User    string     `json:"user,omitempty" doc:"The user for whom the bearer acts; default none."`
	Scopes  []string   `json:"scopes,omitempty" enum:"read,write,approve,admin" doc:"The scopes of the bearer; default read and write. A caller can grant only scopes that it has."`
	Agent   bool       `json:"agent,omitempty" doc:"For a program controlled by a model: the bearer can neither approve nor resolve."`
	Expires *time.Time `json:"expires_at,omitempty" doc:"When the token expires; default never."`
}

// OfToken is the path of a token.
type OfToken struct {
	ID perdure.TokenID `path:"token" example:"token_019aa0000000700080000000000000aa" doc:"The id of the token, not its secret."`
}

type issuedToken struct {
	Location string `header:"Location"`
	Body     engine.IssuedToken
}

func (a tokenHandlers) register() {
	write(a.API, operation{
		id: "create-token", path: "/v1/tokens", policy: administers, summary: "Create a token; its secret is shown only once", status: http.StatusCreated,
	}, body[newToken]{example: newToken{Name: "nightly reports", Scopes: []string{engine.ScopeRead, engine.ScopeWrite}}}, a.createToken)
	read(a.API, operation{id: "list-tokens", path: "/v1/tokens", policy: administers, summary: "List tokens without their secrets, in the order in which they were created"}, a.listTokens)
	erase(a.API, operation{
		id: "revoke-token", path: "/v1/tokens/{token}", policy: administers, class: stopsWork, summary: "Revoke a token permanently; its running requests end within a second",
		errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, in *OfToken) (*single[engine.Token], error) {
		return singleOf(a.cfg.Engine.Tokens().Revoke(ctx, in.ID, requestOf(ctx).actor))
	})
}

// createToken creates a token. The response contains the secret, so it is not stored for the
// idempotency key. A repeated request is a conflict; the caller must revoke the token and create
// another one.
func (a tokenHandlers) createToken(ctx context.Context, _ *struct{}, in newToken) (*issuedToken, error) {
	req := requestOf(ctx)
	req.secret = true
	order := engine.TokenRequest{ID: newID[perdure.TokenID](ctx), Name: in.Name, Org: in.Org, User: in.User, Scopes: in.Scopes, Agent: in.Agent, By: req.actor}
	if in.Expires != nil {
		order.Expires = *in.Expires
	}
	made, err := a.cfg.Engine.Tokens().Create(ctx, order)
	return &issuedToken{Location: "/v1/tokens/" + string(made.ID), Body: made}, err
}

func (a tokenHandlers) listTokens(ctx context.Context, in *struct{ Paged }) (*page[engine.Token], error) {
	return pageOfAppended(a.API, in.Paged, appendedList[engine.Token]{
		name:  audience(ctx) + " tokens", // the root principal sees the tokens of all orgs
		all:   func() ([]engine.Token, error) { return a.cfg.Engine.Tokens().List(ctx) },
		match: func(engine.Token) bool { return true },
		id:    func(t engine.Token) string { return string(t.ID) },
	})
}
