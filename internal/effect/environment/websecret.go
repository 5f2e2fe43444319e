package environment

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// withSecrets adds the values of the references in a request. They are opened only if the host of
// the URL may have them; the guard checks each host again, also after redirects.
func (w journaledEgress) withSecrets(ctx context.Context, req perdure.WebRequest) (perdure.WebRequest, error) {
	refs := req.SecretRefs()
	if len(refs) == 0 {
		return req, nil
	}
	host := ""
	if u, err := url.Parse(req.URL); err == nil {
		host = strings.ToLower(u.Hostname())
	}
	given := slices.Clone(req.Secrets)
	for _, ref := range refs {
		if slices.ContainsFunc(given, func(s perdure.WebSecret) bool { return s.Ref == ref }) {
			continue // the tool has it from elsewhere
		}
		s, err := w.ports.OpenSecret(ctx, ref, host)
		if err != nil {
			return req, err
		}
		given = append(given, s)
	}
	req.Secrets = given
	return req, nil
}
