package urlform

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// Pattern matches URLs in normal form. It is an exact host, *.host (the host and all of its
// subdomains), or a prefix of an http:// or https:// URL. A host has no port and covers all ports.
// A URL prefix covers only its own port. It ends at a path segment; a slash at its end makes no
// difference.
type Pattern struct {
	host   string   // in the form that normalHost returns
	below  bool     // subdomains match, too
	prefix *url.URL // nil: a host pattern; Path and RawPath have no slash at the end
}

// ParsePattern parses a pattern. The error is for people.
func ParsePattern(text string) (Pattern, error) {
	if strings.Contains(text, "://") {
		u, err := Normal(text)
		switch {
		case err != nil:
			return Pattern{}, err
		case strings.ContainsAny(text, "?#"):
			return Pattern{}, errors.New("a URL prefix cannot have a query or a fragment: end it with the path")
		}
		return Pattern{host: u.Hostname(), prefix: u}, nil
	}
	name, below := strings.CutPrefix(text, "*.")
	host, err := normalHost(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if err != nil {
		return Pattern{}, err
	}
	if _, err := netip.ParseAddr(host); err == nil && below {
		return Pattern{}, errors.New("an IP address has no subdomains: write the address without *.")
	}
	return Pattern{host: host, below: below}, nil
}

// matchesHost compares a normal host with the pattern.
func (p Pattern) matchesHost(host string) bool {
	return host == p.host || p.below && strings.HasSuffix(host, "."+p.host)
}

// Allows reports whether a pattern of allowed URLs matches. It compares the path exactly as it will
// be sent: a path that a server might read differently is not allowed.
func (p Pattern) Allows(u *url.URL) bool {
	if p.prefix == nil {
		return p.matchesHost(u.Hostname())
	}
	return sameOrigin(p.prefix, u) && isBelow(p.prefix.EscapedPath(), u.EscapedPath())
}

// Blocks reports whether a pattern of blocked URLs matches. It compares the path in the widest
// reading of any server, so that another spelling of a blocked path is blocked, too.
func (p Pattern) Blocks(u *url.URL) bool {
	if p.prefix == nil {
		return p.matchesHost(u.Hostname())
	}
	return sameOrigin(p.prefix, u) && isBelow(loosePath(p.prefix.Path), loosePath(u.Path))
}

// Contains reports whether p matches everything that child matches.
func (p Pattern) Contains(child Pattern) bool {
	switch {
	case p.prefix != nil:
		return child.prefix != nil && p.Allows(child.prefix)
	case child.below:
		return p.below && p.matchesHost(child.host)
	}
	return p.matchesHost(child.host)
}

// sameOrigin compares scheme, host and port of normal URLs.
func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// isBelow reports whether path is prefix, or continues it with a new segment.
func isBelow(prefix, path string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimRight(prefix, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// loosePath removes what servers interpret differently: a second layer of escapes, backslashes,
// empty segments, and anything after a semicolon in a segment.
func loosePath(path string) string {
	for _, text := range unescaped(path) {
		path = text
	}
	var out strings.Builder
	for segment := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		if name, _, _ := strings.Cut(segment, ";"); name != "" {
			out.WriteString("/" + name)
		}
	}
	return out.String()
}
