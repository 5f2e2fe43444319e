package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// Listing is a host that an operator typed, and what it was typed for (EG3). It opens that host, as it stands
// in a URL, for requests of that purpose, and nothing else: an address opens no name that leads to it, and
// localhost does not open 127.0.0.1.
//
// A name that is listed may lead to private addresses, but not to link-local ones nor to where clouds keep
// their metadata: those are open only when typed as addresses.
type Listing struct {
	Purpose string // of requests and clients; empty: those that have none
	Host    string // "127.0.0.1:8080", "localhost:11434", "10.0.0.5", "[fd00::7]:80"; without a port: all of them
}

// listing is a Listing that was read.
type listing struct {
	purpose string
	host    string // normal, without brackets
	port    string // empty: all
}

func readListing(l Listing) (listing, error) {
	text := l.Host
	if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() {
		text = "[" + text + "]"
	}
	if strings.ContainsAny(text, "/?#") {
		return listing{}, fmt.Errorf("%w: listed host %q: write a host, or host:port, and nothing else", perdure.Invalid, l.Host)
	}
	u, err := perdure.NormalURL("http://" + text)
	if err != nil {
		return listing{}, fmt.Errorf("%w: listed host: %w", perdure.Invalid, err)
	}
	read := listing{purpose: l.Purpose, host: u.Hostname()}
	if typed, err := url.Parse("http://" + text); err == nil && typed.Port() != "" {
		read.port = portOf(u)
	}
	return read, nil
}

// isListed reports whether an operator opened host and port for a purpose, and whether the port was named.
func (g *Guard) isListed(purpose, host, port string) (listed, named bool) {
	for _, l := range append(slices.Clip(g.typed), g.rules.now().listed...) {
		if l.purpose == purpose && l.host == host && (l.port == "" || l.port == port) {
			listed, named = true, named || l.port != ""
		}
	}
	return listed, named
}

// portOf returns the port that a normal URL leads to.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
