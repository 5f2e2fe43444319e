package egress

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/urlform"
)

// Client returns an HTTP client, for example for an SDK, under the same guard on every dial and
// every redirect. It has a timeout up to the response header, but no total timeout and no limit on
// bodies, so that streams can run for any time. It keeps no cookies. Clients of the same purpose
// share their idle connections.
//
// The methods of the client return a *url.Error that wraps a *perdure.EgressError, or the cause for
// which the request's context ended.
func (g *Guard) Client(purpose string) *http.Client {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.transports[purpose]
	if d == nil {
		d = g.newTransport(purpose, true)
		g.transports[purpose] = d
	}
	return &http.Client{Transport: d, CheckRedirect: g.checkRedirect}
}

// ForURL returns a client for one base URL that an operator typed, for example that of a model
// server. The URL's host and port are thereby listed; nothing else that is private can be reached
// with the client (EG3, EG5). Release it with CloseIdleConnections. A local model may load for
// minutes before it answers, so the timeout to the response header is ten minutes here; callers set
// their own deadlines. The error is Invalid and says what is wrong with the URL.
func ForURL(base string) (*http.Client, error) {
	u, err := urlform.Normal(base)
	switch {
	case err != nil:
		return nil, urlError(base, err)
	case strings.ContainsAny(base, "?#"):
		return nil, &perdure.EgressError{Code: perdure.EgressInvalid, Host: u.Hostname(),
			Text: "a base URL must not have a query or a fragment"}
	}
	g, err := New(Config{HeaderTimeout: typedHeaderTimeout, Listed: []Listing{{Purpose: base, Host: net.JoinHostPort(u.Hostname(), portOf(u))}}})
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	return g.Client(base), nil
}

// checkRedirect is called by a client before each hop after the first.
func (g *Guard) checkRedirect(next *http.Request, via []*http.Request) error {
	last := via[len(via)-1]
	if err := redirectError(last.URL, next.URL, len(via)); err != nil {
		return g.deny(err)
	}
	for _, earlier := range via { // net/http copies the header from the first request for each hop
		if !sameOrigin(earlier.URL, next.URL) {
			dropCredentials(next.Header)
		}
	}
	return nil
}
