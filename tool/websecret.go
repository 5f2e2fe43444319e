package tool

import (
	"context"
	"errors"
	"strings"

	"github.com/perdure/perdure"
)

// OpenSecret opens what a reference in a request names, if a host may have it: a secret of the
// session, or the token of its user's connection. The host is in the normal form of a URL. The
// error is a [NotConnected] if the user has no connection, a *perdure.EgressError with
// perdure.RuleSecret if the secret does not exist or the host may not have it, or that of the port.
// The caller must not show or store the value, and inserts it only into a request to that host.
func (p Ports) OpenSecret(ctx context.Context, ref perdure.SecretRef, host string) (perdure.WebSecret, error) {
	s := perdure.WebSecret{Ref: ref}
	refuse := func(why string) error {
		return &perdure.EgressError{Code: perdure.EgressDenied, Host: host, Rule: perdure.RuleSecret, Layer: perdure.LayerSession,
			Text: s.String() + " " + why}
	}
	hosts, reveal, err := p.find(ctx, ref)
	var missing *NotConnected
	switch {
	case errors.As(err, &missing):
		return s, err
	case errors.Is(err, perdure.NotFound):
		return s, refuse("does not exist in this session")
	case err != nil:
		return s, err
	case p.SecretMasker == nil: // an answer could show it
		return s, refuse("is not available: this session stores no secrets")
	}
	if s.Hosts = hosts; !s.Permits(host) {
		return s, refuse("may be sent " + places(hosts) + ", not to " + host)
	}
	s.Value, err = reveal()
	return s, err
}

// find returns the hosts of a reference, and how its value is opened.
func (p Ports) find(ctx context.Context, ref perdure.SecretRef) (hosts []string, reveal func() (string, error), err error) {
	if name := ref.Secret(); name != "" {
		if p.Secrets == nil {
			return nil, nil, perdure.NotFound
		}
		stat, err := p.Secrets.Secret(ctx, name)
		return stat.Hosts, func() (string, error) { return p.Secrets.Reveal(ctx, name) }, err
	}
	provider := ref.Provider()
	if p.Connections == nil {
		return nil, nil, perdure.NotFound
	}
	connected := func(err error) error {
		if errors.Is(err, perdure.NotFound) {
			return &NotConnected{Provider: provider}
		}
		return err
	}
	metadata, err := p.Connections.Metadata(ctx, provider)
	if err != nil {
		return nil, nil, connected(err)
	}
	var has struct {
		Hosts []string `json:"hosts"`
	}
	if perdure.DecodeKnownJSON(metadata, &has) != nil {
		has.Hosts = nil
	}
	return has.Hosts, func() (string, error) {
		token, err := p.Connections.Token(ctx, provider)
		return token, connected(err)
	}, nil
}

// places says where a secret may be sent.
func places(hosts []string) string {
	if len(hosts) == 0 {
		return "nowhere, because it was stored without a host"
	}
	return "to " + strings.Join(hosts, ", ") + " only"
}
