package api

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/access"
)

// OfConnection is the path of a connection.
type OfConnection struct {
	Name string `path:"connection" example:"tickets" doc:"The provider of an account, or the name of a server."`
}

// OfAccount is the path of the account of a user.
type OfAccount struct {
	OfConnection
	User string `query:"user" doc:"The user whose account it is; default the caller. Another user needs the scope admin."`
}

// connectionAct is the body of a connection test.
type connectionAct struct{}

// newConnection is the body of a request that stores a token.
type newConnection struct {
	Token   string     `json:"token" doc:"The token of the account. It is stored encrypted and never returned."`
	User    string     `json:"user,omitempty" doc:"The user whose account it is; default the caller. Another user needs the scope admin."`
	Owner   string     `json:"owner,omitempty" doc:"The user whose resources are cleaned up with the account; default its user. Another one needs the scope admin."`
	Hosts   []string   `json:"hosts,omitempty" doc:"The hosts to which requests of tools may carry the token; default none."`
	Expires *time.Time `json:"expires_at,omitempty" doc:"When the token expires; default never."`
}

// connectionStart is the body of a request that begins an authorization.
type connectionStart struct {
	User     string `json:"user,omitempty" doc:"The user who connects; default the caller. Another user needs the scope admin."`
	Redirect string `json:"redirect_url,omitempty" doc:"Where the provider sends the browser: an address of this machine such as http://127.0.0.1:PORT/callback; default the configured one."`
}

// callbackPath is where a provider sends the browser of a user.
const callbackPath = "/v1/connections/callback"

// register registers the operations on connections.
func (a connectionHandlers) register() {
	missing := []int{http.StatusNotFound}
	read(a.API, operation{id: "list-connections", path: "/v1/connections", policy: reads, summary: "List the accounts of a user at other services, then the servers whose tools agents may use"}, a.listConnections)
	write(a.API, operation{
		id: "test-connection", path: "/v1/connections/{connection}/test", policy: writes, class: takesTime, summary: "Test a connection: refresh the token of an account if necessary, or list a server's tools again, starting the server if necessary", errors: missing,
	}, body[connectionAct]{optional: true}, func(ctx context.Context, in *OfConnection, _ connectionAct) (*single[engine.Connection], error) {
		return singleOf(a.cfg.Engine.Connections().Test(ctx, in.Name))
	})
	replace(a.API, operation{
		id: "put-connection", path: "/v1/connections/{connection}", policy: writes, secret: true, summary: "Connect an account with a token; calls that wait for it continue",
		errors: missing,
	}, body[newConnection]{example: newConnection{Token: "ghp_example", Hosts: []string{"api.github.com"}}}, a.putConnection)
	erase(a.API, operation{
		id: "delete-connection", path: "/v1/connections/{connection}", policy: writes, summary: "Disconnect an account; its token is not revoked at the provider", errors: missing,
	}, func(ctx context.Context, in *OfAccount) (*nothing, error) {
		return goneIfRepeated(ctx, a.cfg.Engine.Connections().Remove(ctx, in.Name, in.User))
	})
	write(a.API, operation{
		id: "authorize-connection", path: "/v1/connections/{connection}/authorize", policy: writes, summary: "Begin an OAuth 2.0 authorization; the user opens the returned URL within ten minutes",
		errors: append(missing, http.StatusTooManyRequests),
	}, body[connectionStart]{optional: true}, a.authorizeConnection)
	write(a.API, operation{
		id: "finish-connection", path: "/v1/connections:finish", policy: writes, secret: true, class: takesTime, summary: "End an authorization with the provider's answer; for clients that receive it themselves",
		errors: missing,
	}, body[engine.ConnectionAnswer]{example: engine.ConnectionAnswer{State: "the state", Code: "the code"}},
		func(ctx context.Context, _ *struct{}, b engine.ConnectionAnswer) (*single[engine.Connection], error) {
			b.Repeated = requestOf(ctx).repeated
			return singleOf(a.cfg.Engine.Connections().Finish(ctx, b))
		})
	page := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	read(a.API, operation{
		id: "connection-callback", path: callbackPath, open: true, anyQuery: true, class: takesTime, summary: "End an authorization in the browser that the provider sends here; the state in the query decides whose it is",
		errors: missing, forms: map[string]*huma.MediaType{"text/html": page},
	}, a.finishInBrowser)
}

func (a connectionHandlers) listConnections(ctx context.Context, in *struct {
	User string `query:"user" doc:"The user whose accounts are listed; default the caller. Another user, or * for all users of the org, needs the scope admin."`
	Paged
}) (*page[engine.Connection], error) {
	all, err := a.cfg.Engine.Connections().List(ctx, in.User)
	if err != nil {
		return nil, err
	}
	principal, _ := access.PrincipalFrom(ctx)
	return pageOfSorted(a.API, in.Paged, sortedList[engine.Connection]{name: orgPrefix(ctx) + "connections " + principal.User + " " + in.User,
		all: all, key: connectionOrder})
}

// connectionOrder is the order of a list of connections: accounts by provider and user, then
// servers.
func connectionOrder(c engine.Connection) string {
	if c.Kind == engine.ConnectionAccount {
		return "a\x00" + c.Name + "\x00" + c.User
	}
	return "s\x00" + c.Name
}

// putConnection stores a token that a user gives.
func (a connectionHandlers) putConnection(ctx context.Context, in *OfConnection, b newConnection) (*single[engine.Connection], error) {
	w := engine.ConnectionWrite{Provider: in.Name, User: b.User, Token: b.Token, Owner: b.Owner, Hosts: b.Hosts}
	if b.Expires != nil {
		w.ExpiresAt = *b.Expires
	}
	return singleOf(a.cfg.Engine.Connections().Put(ctx, w))
}

// authorizeConnection begins an authorization. The response contains the state, so it is not stored
// for the idempotency key: a repeated request begins another authorization.
func (a connectionHandlers) authorizeConnection(ctx context.Context, in *OfConnection, b connectionStart) (*single[engine.ConnectionFlow], error) {
	requestOf(ctx).secret = true
	return singleOf(a.cfg.Engine.Connections().Begin(ctx, engine.ConnectionRequest{Provider: in.Name, User: b.User, RedirectURL: b.Redirect}))
}

// htmlPage is a page for people.
type htmlPage struct {
	Status  int
	Type    string `header:"Content-Type"`
	Policy  string `header:"Content-Security-Policy"`
	Refer   string `header:"Referrer-Policy"`
	Storage string `header:"Cache-Control"`
	Body    []byte
}

// finishInBrowser ends an authorization. The browser has no token: the state, which only the user
// who began has received, decides whose authorization it is.
func (a connectionHandlers) finishInBrowser(ctx context.Context, in *struct {
	State string `query:"state" doc:"The state of the authorization."`
	Code  string `query:"code" doc:"The provider's code."`
	Error string `query:"error" doc:"The provider's error, instead of a code."`
}) (*htmlPage, error) {
	status, title, text := http.StatusOK, "", ""
	made, err := a.cfg.Engine.Connections().Finish(ctx, engine.ConnectionAnswer{State: in.State, Code: in.Code, Error: in.Error})
	switch {
	case err == nil:
		title, text = made.Name+" is connected", "You can close this page. Work that waited for the connection continues."
	case errors.Is(err, perdure.NotFound):
		status, title, text = http.StatusNotFound, "Not connected", "This address is unknown, was used before, or has expired. Begin again."
	case errors.Is(err, perdure.Denied):
		status, title, text = http.StatusForbidden, "Not connected", "The authorization was refused. Begin again if that was not intended."
	default:
		p := problemOf(ctx, err)
		a.logCause(ctx, p)
		status, title, text = http.StatusServiceUnavailable, "Not connected", "The provider gave no usable answer. Begin again."
	}
	page := fmt.Sprintf("<!doctype html><html lang=en><meta charset=utf-8><title>%[1]s</title><h1>%[1]s</h1><p>%[2]s</p></html>\n",
		html.EscapeString(title), html.EscapeString(text))
	return &htmlPage{Status: status, Type: "text/html; charset=utf-8", Policy: "default-src 'none'", Refer: "no-referrer",
		Storage: "no-store", Body: []byte(page)}, nil
}
