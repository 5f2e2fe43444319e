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

// NetworkList says where an agent may reach (NL1). A pattern is an exact host, *.host (the host and all
// below it), or an http:// or https:// URL prefix. The zero value allows what the guard permits.
//
// A host stands without a port and means every port of it; a prefix means its own port only, ends on a
// segment of the path, and a slash at its end changes nothing. In Blocked, and only there, * means
// everything: that is how "nothing, for ever" is written (NL2). A pattern that cannot be read closes and
// never opens: in Allowed it matches nothing, in Blocked everything. [NetworkList.Check] finds it in time.
type NetworkList struct {
	Allowed []string `json:"allowed,omitempty"` // empty: all
	Blocked []string `json:"blocked,omitempty"` // looked at first
}

// The rules that decide about a URL, for [EgressError] and [NetworkList.Permits].
const (
	RuleBlocked  = "blocked"  // a pattern of Blocked matches
	RuleAllowed  = "allowed"  // Allowed has patterns, and none matches
	RuleAddress  = "address"  // the address or the port is one that the guard refuses (EG3)
	RuleScheme   = "scheme"   // neither http nor https (EG4)
	RuleRedirect = "redirect" // one redirect too many, or one that gives up TLS or leads nowhere (EG4)
	RuleInvalid  = "invalid"  // the URL is none; only of Permits, since an EgressError has a code for it
)

// everything is the pattern of Blocked that matches all.
const everything = "*"

// Narrow returns the list that holds when child is laid over l (NL2): nothing that either of them refuses
// is permitted. Blocked is the union, l's first. If only one of them has patterns in Allowed, those stand;
// if both have, the child's that lie inside one of l's. If none does, the result blocks * as well, which no
// later layer can take away. Neither list is changed.
func (l NetworkList) Narrow(child NetworkList) NetworkList {
	out := NetworkList{Allowed: slices.Clone(l.Allowed)}
	for _, p := range slices.Concat(l.Blocked, child.Blocked) {
		if !slices.Contains(out.Blocked, p) {
			out.Blocked = append(out.Blocked, p)
		}
	}
	switch {
	case len(child.Allowed) == 0:
		return out
	case len(l.Allowed) == 0:
		out.Allowed = slices.Clone(child.Allowed)
		return out
	}
	var inside []string
	for _, p := range child.Allowed {
		if l.contains(p) && !slices.Contains(inside, p) {
			inside = append(inside, p)
		}
	}
	if inside != nil {
		out.Allowed = inside
	} else if !slices.Contains(out.Blocked, everything) {
		out.Blocked = append(out.Blocked, everything)
	}
	return out
}

// contains reports whether all that a pattern matches is matched by one pattern of l.Allowed.
func (l NetworkList) contains(text string) bool {
	child, err := readPattern(text)
	return err == nil && slices.ContainsFunc(l.Allowed, func(text string) bool {
		parent, err := readPattern(text)
		return err == nil && parent.contains(child)
	})
}

// Permits reports whether a request for a URL may leave. If not, rule is RuleBlocked, RuleAllowed, or
// RuleInvalid for a URL that cannot be read, whatever the list says (NL3).
func (l NetworkList) Permits(rawURL string) (ok bool, rule string) {
	u, err := NormalURL(rawURL)
	if err != nil {
		return false, RuleInvalid
	}
	ok, rule, _ = l.Decide(u)
	return ok, rule
}

// Decide is Permits for a URL that [NormalURL] returned. If the answer is no, it also returns the pattern
// that matched; for RuleAllowed there is none.
func (l NetworkList) Decide(u *url.URL) (ok bool, rule, pattern string) {
	for _, text := range l.Blocked {
		if p, err := readPattern(text); text == everything || err != nil || p.blocks(u) {
			return false, RuleBlocked, text
		}
	}
	if len(l.Allowed) == 0 {
		return true, "", ""
	}
	for _, text := range l.Allowed {
		if p, err := readPattern(text); err == nil && p.allows(u) {
			return true, "", ""
		}
	}
	return false, RuleAllowed, ""
}

// Check returns what is wrong with the patterns of a list: every broken one, in one error. It is Invalid.
func (l NetworkList) Check() error {
	var faults []error
	for _, text := range l.Allowed {
		if _, err := readPattern(text); text == everything {
			faults = append(faults, fmt.Errorf("%w: allowed: * is no pattern: leave the list empty to allow all", Invalid))
		} else if err != nil {
			faults = append(faults, fmt.Errorf("%w: allowed: pattern %q: %w", Invalid, text, err))
		}
	}
	for _, text := range l.Blocked {
		if _, err := readPattern(text); text != everything && err != nil {
			faults = append(faults, fmt.Errorf("%w: blocked: pattern %q: %w", Invalid, text, err))
		}
	}
	return errors.Join(faults...)
}

// pattern is one entry of a list, read.
type pattern struct {
	host   string   // without case; as normalHost writes it
	below  bool     // and every name that ends in it
	prefix *url.URL // nil: the pattern is a host; Path and RawPath without a slash at the end
}

func readPattern(text string) (pattern, error) {
	if strings.Contains(text, "://") {
		u, err := NormalURL(text)
		switch {
		case err != nil:
			return pattern{}, err
		case strings.ContainsAny(text, "?#"):
			return pattern{}, errors.New("a prefix has no query and no fragment: it ends with the path")
		}
		return pattern{host: u.Hostname(), prefix: u}, nil
	}
	name, below := strings.CutPrefix(text, "*.")
	host, err := normalHost(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if err != nil {
		return pattern{}, err
	}
	if _, err := netip.ParseAddr(host); err == nil && below {
		return pattern{}, errors.New("nothing is below an address: write the address alone")
	}
	return pattern{host: host, below: below}, nil
}

// matchesHost compares hosts. u is normal.
func (p pattern) matchesHost(host string) bool {
	return host == p.host || p.below && strings.HasSuffix(host, "."+p.host)
}

// allows compares the path as it will be sent, so that nothing is let in that a server might read otherwise.
func (p pattern) allows(u *url.URL) bool {
	if p.prefix == nil {
		return p.matchesHost(u.Hostname())
	}
	return sameOrigin(p.prefix, u) && isBelow(p.prefix.EscapedPath(), u.EscapedPath())
}

// blocks compares the path as widely as some server might read it, so that nothing slips through.
func (p pattern) blocks(u *url.URL) bool {
	if p.prefix == nil {
		return p.matchesHost(u.Hostname())
	}
	return sameOrigin(p.prefix, u) && isBelow(widePath(p.prefix.Path), widePath(u.Path))
}

func (p pattern) contains(child pattern) bool {
	switch {
	case p.prefix != nil:
		return child.prefix != nil && p.allows(child.prefix)
	case child.below:
		return p.below && p.matchesHost(child.host)
	}
	return p.matchesHost(child.host)
}

// sameOrigin compares scheme, host and port of normal URLs.
func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// isBelow reports whether path is prefix, or goes on after it with a new segment.
func isBelow(prefix, path string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimRight(prefix, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// widePath takes away what servers disagree about: a second layer of escapes, backslashes, empty segments,
// and what stands behind a semicolon in a segment.
func widePath(path string) string {
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

// maxLayers bounds how often the escapes of a path are themselves escaped.
const maxLayers = 8

// unescaped returns what a path says when escapes are taken away once, twice and so on. What is no escape
// stays, so that one of these does not hide the others.
func unescaped(path string) []string {
	var layers []string
	for range maxLayers {
		next := unescape(path)
		if next == path {
			break
		}
		layers, path = append(layers, next), next
	}
	return layers
}

func unescape(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			if b, err := strconv.ParseUint(path[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(b))
				i += 2
				continue
			}
		}
		out.WriteByte(path[i])
	}
	return out.String()
}

// WebRequest is one request to the outside, carried out by the one guarded way out (EG1).
type WebRequest struct {
	Method   string              // empty: GET
	URL      string              // http or https
	Header   map[string][]string // canonical names; Host, Connection and what frames a message are the guard's
	Body     []byte              // at most 10 MiB (EG6)
	Kind     EgressKind          // on whose behalf; empty: other
	Purpose  string              // opens the addresses that the operator listed for it, and no others (EG3); empty: none
	List     NetworkList         // of the session, merged
	Signing  EgressSigning       // whether the host of the guard puts its name to it; empty: not
	MaxBytes int64               // of the answer's body; 0, or more than the guard's own limit: that limit

	NoRedirects bool // an answer that sends elsewhere is the answer
}

// WebResponse is the answer to a [WebRequest], whatever its status.
type WebResponse struct {
	URL       string // where it came from, after redirects
	Status    int
	Header    map[string][]string // canonical names
	Body      []byte
	Truncated bool // the body was longer than the limit; Body is its beginning
}

// EgressKind says on whose behalf a request leaves (EG1).
type EgressKind string

// The kinds of requests.
const (
	EgressCapability  EgressKind = "capability"
	EgressIntegration EgressKind = "integration"
	EgressMCP         EgressKind = "mcp"
	EgressModel       EgressKind = "model"
	EgressOther       EgressKind = "other"
)

// EgressSigning says whether a request is signed by what the guard was given for that (EG1).
type EgressSigning string

// The ways of signing.
const (
	SigningDisabled EgressSigning = "disabled"
	SigningDefault  EgressSigning = "platform_default" // signed where there is something that signs
	SigningRequired EgressSigning = "required"         // signed, or not sent
)

// EgressCode names what went wrong with a request (EG1).
type EgressCode string

// The codes of an [EgressError].
const (
	EgressInvalid   EgressCode = "invalid_request"
	EgressDenied    EgressCode = "denied"
	EgressUnsigned  EgressCode = "signing_unavailable"
	EgressTransport EgressCode = "transport"
)

// Whose word decided a denial, for EgressError.
const (
	LayerGuard    = "guard"    // what is refused to everybody: addresses, ports, schemes, redirects
	LayerOperator = "operator" // the list of whoever runs the server
	LayerSession  = "session"  // what harness, agent and session come to together (NL2)
)

// EgressError says why a request has no answer. errors.Is tells Invalid for invalid_request and denied, and
// Unavailable for transport and signing_unavailable.
type EgressError struct {
	Code  EgressCode
	Host  string // as it was asked for
	Rule  string // what decided a denial: "blocked", "allowed", "address", "scheme", "redirect"
	Layer string // whose rule that was; empty where nothing was denied
	Text  string // fit for people
	Err   error  // the cause, if there is one
}

// RequestDenied says that a request of a call was not let out (EG6). What it wanted to send stands nowhere.
type RequestDenied struct {
	Host  string `json:"host"`
	Layer string `json:"layer"`
	Rule  string `json:"rule"`
	Why   string `json:"why,omitempty"`
}

// Error returns the text with its code.
func (e *EgressError) Error() string { return string(e.Code) + ": " + e.Text }

// Unwrap returns the cause.
func (e *EgressError) Unwrap() error { return e.Err }

// Is reports whether target is the error's kind.
func (e *EgressError) Is(target error) bool {
	if e.Code == EgressTransport || e.Code == EgressUnsigned {
		return target == Unavailable
	}
	return target == Invalid
}
