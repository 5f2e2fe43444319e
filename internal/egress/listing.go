package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/urlform"
)

// Listing is a host that an operator typed, and the purpose for which it was typed (EG3). It opens
// that host, exactly as it is written in a URL, for requests of that purpose, and nothing else: a
// listed address does not open names that resolve to it, and localhost does not open 127.0.0.1.
//
// A listed name may resolve to private addresses, but not to link-local or cloud metadata
// addresses: those are open only when the address itself is listed.
type Listing struct {
	Purpose string // of requests and clients; empty: those without a purpose
	Host    string // "127.0.0.1:8080", "localhost:11434", "10.0.0.5", "[fd00::7]:80"; without a port: all ports
}

// listing is a parsed Listing.
type listing struct {
	purpose string
	host    string // normalised, without brackets
	port    string // empty: all
}

func readListing(l Listing) (listing, error) {
	text := l.Host
	if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() {
		text = "[" + text + "]"
	}
	if strings.ContainsAny(text, "/?#") {
		return listing{}, fmt.Errorf("%w: listed host %q: want a host or host:port", perdure.Invalid, l.Host)
	}
	u, err := urlform.Normal("http://" + text)
	if err != nil {
		return listing{}, fmt.Errorf("%w: listed host: %w", perdure.Invalid, err)
	}
	read := listing{purpose: l.Purpose, host: u.Hostname()}
	if typed, err := url.Parse("http://" + text); err == nil && typed.Port() != "" {
		read.port = portOf(u)
	}
	return read, nil
}

// isListed reports whether an operator listed host and port for a purpose, and whether the listing
// names the port.
func (g *Guard) isListed(purpose, host, port string) (listed, named bool) {
	for _, l := range append(slices.Clip(g.typed), g.rules.current().listed...) {
		if l.purpose == purpose && l.host == host && (l.port == "" || l.port == port) {
			listed, named = true, named || l.port != ""
		}
	}
	return listed, named
}

// portOf returns the port of a normalised URL.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
