package remote

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// CreateToken makes a token. Where the answer was lost nobody has the secret: then it is Conflict, and the token is to be revoked.
func (e *Engine) CreateToken(ctx context.Context, o engine.TokenOrder) (made engine.IssuedToken, err error) {
	body := struct {
		Name    string    `json:"name"`
		Org     string    `json:"org,omitempty"`
		User    string    `json:"user,omitempty"`
		Scopes  []string  `json:"scopes,omitempty"`
		Agent   bool      `json:"agent,omitempty"`
		Expires time.Time `json:"expires_at,omitzero"`
	}{o.Name, o.Org, o.User, o.Scopes, o.Agent, o.Expires}
	_, err = e.call(ctx, request{what: "create token", path: "/v1/tokens", body: body, actor: o.By}, &made)
	return made, err
}

// Tokens lists tokens, in the order of their making.
func (e *Engine) Tokens(ctx context.Context) ([]engine.Token, error) {
	return list[engine.Token](ctx, e, request{what: "tokens", path: "/v1/tokens"}, 0)
}

// Audit lists entries of the audit log.
func (e *Engine) Audit(ctx context.Context, q engine.AuditQuery) ([]engine.AuditEntry, error) {
	query := url.Values{}
	for name, text := range map[string]string{"action": q.Action, "actor": q.Actor, "subject": q.Subject, "session": string(q.Session)} {
		if text != "" {
			query.Set(name, text)
		}
	}
	if q.After != 0 {
		query.Set("after", strconv.FormatInt(q.After, 10))
	}
	return list[engine.AuditEntry](ctx, e, request{what: "the audit log", path: "/v1/audit", query: query}, q.Limit)
}

// RevokeToken ends a token for good.
func (e *Engine) RevokeToken(ctx context.Context, id perdure.TokenID, by string) (t engine.Token, err error) {
	_, err = e.call(ctx, request{what: "revoke token " + string(id), path: "/v1/tokens/" + segment(id), remove: true, actor: by}, &t)
	return t, err
}
