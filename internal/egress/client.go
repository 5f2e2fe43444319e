package egress

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/perdure/perdure"
)

// Client returns a client for an SDK, under the same guard on every dial and every redirect. Streams may run
// as long as they like: it has a timeout to the header, but no total one, and no cap on bodies. It keeps no
// cookies. The clients of one purpose share their idle connections.
//
// What its methods return is a *url.Error around a *perdure.EgressError, or around the cause for which the
// request's context ended.
func (g *Guard) Client(purpose string) *http.Client {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.doors[purpose]
	if d == nil {
		d = g.newDoor(purpose, true)
		g.doors[purpose] = d
	}
	return &http.Client{Transport: d, CheckRedirect: g.checkRedirect}
}

// ForURL returns a client for one base URL that an operator typed, that of a model server say. Its host and
// port are thereby listed, and nothing else that is private can be reached with it (EG3, EG5). Give the
// client back with CloseIdleConnections. A model on a machine of one's own may load for minutes before it says
// anything, so the header of an answer has ten minutes here; whoever asks has a watch of their own.
// The error is Invalid, and says what is wrong with the URL.
func ForURL(base string) (*http.Client, error) {
	u, err := perdure.NormalURL(base)
	switch {
	case err != nil:
		return nil, urlError(base, err)
	case strings.ContainsAny(base, "?#"):
		return nil, &perdure.EgressError{Code: perdure.EgressInvalid, Host: u.Hostname(),
			Text: "a base URL has no query and no fragment: it ends with the path"}
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
	for _, earlier := range via { // the header is copied from the first request each time
		if !sameOrigin(earlier.URL, next.URL) {
			dropCredentials(next.Header)
		}
	}
	return nil
}
