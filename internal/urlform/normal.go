// Package urlform gives the URL of an outgoing request one form, and matches URLs in that form with
// patterns.
//
// Servers, proxies and libraries read unusual URLs differently. A check that reads a URL in one way
// does not protect from a server that reads it in another. [Normal] therefore refuses what has more
// than one reading, and gives all other URLs of one target the same text: the text that is checked
// is the text that is sent.
//
// The package imports only the standard library. It knows no lists and no rules; the root has them.
package urlform

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURLBytes bounds the length of a URL.
const maxURLBytes = 16 << 10

// Normal parses the URL of an outgoing request and returns its normal form, which network lists
// compare and the egress guard sends. Scheme and host are in lower case, without a dot at the end
// of the host and without the scheme's default port. Addresses have the form of [netip.Addr], with
// IPv4 unmapped from ::ffff:. There are no dot segments, no unneeded escapes and no fragment.
//
// These are refused, with a message for people that repeats no user or password: URLs that do not
// parse or exceed 16 KiB, schemes other than http and https, user and password, host names that are
// not ASCII (write xn--…), addresses in other forms than four decimal numbers or IPv6, zones, port
// 0, backslashes, control characters, and dot segments that are escaped or combined with empty
// segments.
func Normal(raw string) (*url.URL, error) {
	if len(raw) > maxURLBytes {
		return nil, fmt.Errorf("the URL has %d bytes: at most %d are allowed", len(raw), maxURLBytes)
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }); i >= 0 {
		return nil, fmt.Errorf("the URL has a backslash or a control character at byte %d: escape or remove it", i)
	}
	u, err := url.Parse(raw)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil { // err contains the URL, which may have a password
			err = cause
		}
		return nil, fmt.Errorf("the URL does not parse: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, &schemeError{u.Scheme}
	case u.User != nil:
		return nil, errors.New("the URL contains a user or a password: remove them")
	case u.Host == "":
		return nil, fmt.Errorf("the URL has no host: write %s://host/path", u.Scheme)
	}
	if u.Host, err = normalAuthority(u); err != nil {
		return nil, err
	}
	if err := normalPath(u); err != nil {
		return nil, err
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	u.Fragment, u.RawFragment, u.ForceQuery = "", "", false
	return u, nil
}

// schemeError is the error that [IsScheme] recognises.
type schemeError struct{ scheme string }

func (e *schemeError) Error() string {
	if e.scheme == "" {
		return "the URL has no scheme: start it with http:// or https://"
	}
	return fmt.Sprintf("the scheme %q is refused: use http or https", e.scheme)
}

// IsScheme reports whether an error of [Normal] is about a scheme other than http and https.
func IsScheme(err error) bool {
	var scheme *schemeError
	return errors.As(err, &scheme) && scheme.scheme != ""
}

// normalAuthority returns the host, with the port unless it is the scheme's default.
func normalAuthority(u *url.URL) (string, error) {
	if strings.Contains(u.Host, "%") {
		return "", errors.New("the host contains an escape or a zone: write the plain name or address")
	}
	host, err := normalHost(u.Hostname())
	if err != nil {
		return "", err
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port() == "" {
		return host, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case err != nil || port == 0:
		return "", fmt.Errorf("the port %q is invalid: use 1 to 65535", u.Port())
	case u.Scheme == "http" && port == 80, u.Scheme == "https" && port == 443:
		return host, nil
	}
	return host + ":" + strconv.FormatUint(port, 10), nil
}

// normalHost returns a name in lower case, or an address in its shortest form without brackets.
func normalHost(host string) (string, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", errors.New("the address has a zone: remove it")
		}
		return addr.Unmap().String(), nil
	}
	labels := strings.Split(host, ".")
	if len(host) > 253 || slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > 63 }) {
		return "", fmt.Errorf("the host %q is invalid: it is empty or too long, or has an empty or too long label",
			host)
	}
	strange := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}
	if strings.ContainsFunc(host, strange) {
		return "", fmt.Errorf("the host %q has characters other than a-z, 0-9, - and _: "+
			"write a non-ASCII name as xn--…, without a port or a path", host)
	}
	if isNumber(labels[len(labels)-1]) {
		return "", fmt.Errorf("the host %q is an address in an odd form: write four decimal numbers, like 192.0.2.7", host)
	}
	return host, nil
}

// isNumber reports whether some resolvers read the last label as part of an IPv4 address: 1, 017,
// 0x7f or 0x.
func isNumber(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	return strings.Trim(digits, "0123456789") == "" || hex && strings.Trim(digits, "0123456789abcdef") == ""
}

// normalPath resolves unescaped dot segments and unifies escapes.
func normalPath(u *url.URL) error {
	path := u.EscapedPath()
	if hasDots(path) && strings.Contains(path, "//") {
		return errors.New("the path combines dot segments with empty segments, " +
			"which servers interpret differently: write the resolved path")
	}
	path = escapePath((&url.URL{}).ResolveReference(&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).EscapedPath())
	layers := unescaped(path)
	if len(layers) == maxLayers {
		return fmt.Errorf("the path is escaped %d times: escape it once", maxLayers)
	}
	for _, text := range append(layers, path) {
		if hasDots(strings.ReplaceAll(text, `\`, "/")) {
			return errors.New("the path has a dot segment that servers interpret differently: write the resolved path")
		}
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return fmt.Errorf("the path does not parse: %w", err)
	}
	u.Path, u.RawPath = plain, path
	if path == "" {
		u.Path, u.RawPath = "/", "/"
	}
	return nil
}

// hasDots reports whether some server reads a segment as . or .., which includes ..;x.
func hasDots(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}
