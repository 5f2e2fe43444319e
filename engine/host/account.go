package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// userAccounts implements tool.Connections and tool.SecretMasker for the acting user of a request
// outside any session. The tokens that were opened are masked in what the request returns. Safe for
// concurrent use.
type userAccounts struct {
	host   *Host
	of     store.ConnectionKey // without a provider
	opened *redact.Set
}

var (
	_ tool.Connections  = userAccounts{}
	_ tool.SecretMasker = userAccounts{}
)

// accountPorts returns the accounts of the acting user, and a masker of their tokens.
func accountPorts(ctx context.Context, e *Host) (tool.Ports, *secretargs.Masker) {
	u := userAccounts{host: e, of: keyOf(ctx, "", ""), opened: redact.NewSet()}
	return tool.Ports{Connections: u, SecretMasker: u}, secretargs.New(u, nil)
}

// Token opens the token, and refreshes it if it is about to expire.
func (u userAccounts) Token(ctx context.Context, provider string) (string, error) {
	token, err := u.host.connections.OpenToken(ctx, u.key(provider))
	if err == nil {
		u.opened.Add(token)
	}
	return token, err
}

func (u userAccounts) Owner(ctx context.Context, provider string) (string, error) {
	a, err := u.host.connections.Get(ctx, u.key(provider))
	return a.OwnerOf(), err
}

func (u userAccounts) Metadata(ctx context.Context, provider string) (json.RawMessage, error) {
	a, err := u.host.connections.Get(ctx, u.key(provider))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(a.Details)
	if err != nil {
		return nil, fmt.Errorf("connection to %.40q: %w", provider, err)
	}
	return text, nil
}

func (u userAccounts) key(provider string) store.ConnectionKey {
	key := u.of
	key.Provider = provider
	return key
}

// Any reports true: a token can be opened at any time.
func (u userAccounts) Any() bool { return true }

// Complete returns nil: the tokens that were opened are known.
func (u userAccounts) Complete() error { return nil }

// Mask masks the tokens that were opened in a text.
func (u userAccounts) Mask(text string) string { return u.opened.Mask(text) }

// Stream masks the tokens that were opened in a stream.
func (u userAccounts) Stream() tool.StreamMasker { return u.opened.Stream() }

// callerOf names the acting user in a call outside any session.
func callerOf(ctx context.Context, call tool.Call) tool.Call {
	acting, _ := engine.OwnerFromContext(ctx)
	call.Org, call.User = acting.Org, keyOf(ctx, "", "").User
	return call
}
