package remote

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// Create creates a token. If the response with the secret is lost, a retry returns Conflict,
// and the token must be revoked.
func (e engineTokens) Create(ctx context.Context, o engine.TokenRequest) (engine.IssuedToken, error) {
	body := struct {
		Name    string    `json:"name"`
		Org     string    `json:"org,omitempty"`
		User    string    `json:"user,omitempty"`
		Scopes  []string  `json:"scopes,omitempty"`
		Agent   bool      `json:"agent,omitempty"`
		Expires time.Time `json:"expires_at,omitzero"`
	}{o.Name, o.Org, o.User, o.Scopes, o.Agent, o.Expires}
	return fetch[engine.IssuedToken](ctx, e.Engine, request{what: "create token", path: "/v1/tokens", body: body, actor: o.By})
}

func (e engineTokens) List(ctx context.Context) ([]engine.Token, error) {
	return list[engine.Token](ctx, e.Engine, request{what: "tokens", path: "/v1/tokens"}, 0)
}

func (e engineAudit) List(ctx context.Context, q engine.AuditQuery) ([]engine.AuditEntry, error) {
	query := url.Values{}
	filter := map[string]string{
		"action": q.Action, "actor": q.Actor, "subject": q.Subject, "session": string(q.Session),
	}
	for name, text := range filter {
		if text != "" {
			query.Set(name, text)
		}
	}
	if q.After != 0 {
		query.Set("after", strconv.FormatInt(q.After, 10))
	}
	if q.Before != 0 {
		query.Set("before", strconv.FormatInt(q.Before, 10))
	}
	if q.Newest {
		query.Set("order", "newest")
	}
	return list[engine.AuditEntry](ctx, e.Engine, request{what: "the audit log", path: "/v1/audit", query: query}, q.Limit)
}

func (e engineTokens) Revoke(ctx context.Context, id perdure.TokenID, by string) (engine.Token, error) {
	return fetch[engine.Token](ctx, e.Engine, request{
		what: "revoke token " + string(id), path: "/v1/tokens/" + segment(id), remove: true, actor: by,
	})
}
