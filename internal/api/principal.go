package api

import (
	"context"

	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/internal/access"
)

// principal is the caller, as a client sees it.
type principal struct {
	ID     string   `json:"id" doc:"The id of the token; api for the token of the data directory, operator or user on its socket."`
	Name   string   `json:"name" doc:"The name of the token, for people."`
	Org    string   `json:"org"`
	User   string   `json:"user,omitempty"`
	Agent  bool     `json:"agent,omitempty" doc:"A program controlled by a model: it can neither approve nor resolve."`
	Scopes []string `json:"scopes" doc:"What the caller may do."`
}

func (a *API) registerPrincipal() {
	read(a, operation{id: "get-principal", path: "/v1/principal", policy: reads, summary: "Show the caller: its name, org, user and scopes"},
		func(ctx context.Context, _ *struct{}) (*single[principal], error) {
			p, asks := access.PrincipalFrom(ctx)
			if !asks { // the owner of the socket, who may do everything
				p = access.Principal{ID: requestOf(ctx).actor, Name: "the socket of the data directory", Org: budget.DefaultOrg, Scopes: access.All()}
			}
			shown := principal{ID: p.ID, Name: p.Name, Org: p.Org, User: p.User, Agent: p.Agent, Scopes: []string{}}
			for _, s := range access.All() {
				if p.May(s) {
					shown.Scopes = append(shown.Scopes, string(s))
				}
			}
			return &single[principal]{shown}, nil
		})
}
