package perdure

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURLBytes bounds a URL as it is written.
const maxURLBytes = 16 << 10

// NormalURL reads the URL of a request to the outside and returns the one form that lists compare and the
// guard sends (NL3): scheme and host in lower case, one dot at the end of the host and the scheme's own port
// taken away, addresses as [netip.Addr] writes them with IPv4 unfolded from ::ffff:, no dot segments, escapes
// only where they are needed, no fragment.
//
// Refused, with a text fit for people that repeats no user or password: what does not parse, more than
// 16 KiB, other schemes than http and https, user and password, names that are not ASCII (write xn--…),
// addresses in other forms than four decimal numbers or IPv6, zones, port 0, backslashes, control
// characters, and dot segments that are escaped or stand beside empty segments.
func NormalURL(raw string) (*url.URL, error) {
	if len(raw) > maxURLBytes {
		return nil, fmt.Errorf("the URL has %d bytes: at most %d are allowed", len(raw), maxURLBytes)
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }); i >= 0 {
		return nil, fmt.Errorf("the URL has a backslash or a control character at byte %d: escape it or leave it out", i)
	}
	u, err := url.Parse(raw)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil { // without the URL, which may hold a password
			err = cause
		}
		return nil, fmt.Errorf("the URL does not parse: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, &schemeError{u.Scheme}
	case u.User != nil:
		return nil, errors.New("the URL has a user or a password in it: leave them out")
	case u.Host == "":
		return nil, fmt.Errorf("the URL names no host: write %s://host/path", u.Scheme)
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

// schemeError is told apart by [IsScheme].
type schemeError struct{ scheme string }

func (e *schemeError) Error() string {
	if e.scheme == "" {
		return "the URL has no scheme: begin it with http:// or https://"
	}
	return fmt.Sprintf("the scheme %q is refused: only http and https leave", e.scheme)
}

// IsScheme reports whether an error of [NormalURL] says that the scheme is another than http and https.
func IsScheme(err error) bool {
	var scheme *schemeError
	return errors.As(err, &scheme) && scheme.scheme != ""
}

// normalAuthority returns host, and port unless it is the scheme's own.
func normalAuthority(u *url.URL) (string, error) {
	if strings.Contains(u.Host, "%") {
		return "", errors.New("the host has an escape or a zone in it: write the name or the address plainly")
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
		return "", fmt.Errorf("the port %q is none: ports go from 1 to 65535", u.Port())
	case u.Scheme == "http" && port == 80, u.Scheme == "https" && port == 443:
		return host, nil
	}
	return host + ":" + strconv.FormatUint(port, 10), nil
}

// normalHost returns a name in lower case, or an address in its shortest form and without brackets.
func normalHost(host string) (string, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", errors.New("the address has a zone: leave it out")
		}
		return addr.Unmap().String(), nil
	}
	labels := strings.Split(host, ".")
	if len(host) > 253 || slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > 63 }) {
		return "", fmt.Errorf("the host %q is no name: it is empty, too long, or has an empty or too long part", host)
	}
	strange := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}
	if strings.ContainsFunc(host, strange) {
		return "", fmt.Errorf("the host %q has signs other than a-z, 0-9, - and _: write a name of another script as xn--…, and no port or path here", host)
	}
	if isNumber(labels[len(labels)-1]) {
		return "", fmt.Errorf("the host %q is an address in an odd form: write four decimal numbers, like 192.0.2.7", host)
	}
	return host, nil
}

// isNumber reports whether some resolvers read a last label as a part of an IPv4 address: 1, 017, 0x7f, 0x.
func isNumber(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	return strings.Trim(digits, "0123456789") == "" || hex && strings.Trim(digits, "0123456789abcdef") == ""
}

// normalPath resolves plain dot segments and writes escapes in one way.
func normalPath(u *url.URL) error {
	path := u.EscapedPath()
	if hasDots(path) && strings.Contains(path, "//") {
		return errors.New("the path has dot segments beside empty ones, which servers read in different ways: write the path that is meant")
	}
	path = escapePath((&url.URL{}).ResolveReference(&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).EscapedPath())
	layers := unescaped(path)
	if len(layers) == maxLayers {
		return fmt.Errorf("the path is escaped %d times: write it plainly", maxLayers)
	}
	for _, text := range append(layers, path) {
		if hasDots(strings.ReplaceAll(text, `\`, "/")) {
			return errors.New("the path has a dot segment that servers read in different ways: write the path that is meant")
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

// hasDots reports whether a segment is . or .. to some server, be it with something behind a semicolon.
func hasDots(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}

// escapePath takes away escapes of letters, digits, -, _, ~ and dots, and writes the others in capitals.
func escapePath(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			out.WriteByte(path[i])
			continue
		}
		b, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
		if c := byte(b); err == nil && isUnreserved(c) {
			out.WriteByte(c)
		} else {
			out.WriteString(strings.ToUpper(path[i : i+3]))
		}
		i += 2
	}
	return out.String()
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// escapeQuery escapes what may not stand in a line of a request. The rest of a query is the server's own.
func escapeQuery(query string) string {
	var out strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}
