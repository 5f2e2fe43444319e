package perdure

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/perdure/perdure/internal/urlform"
)

// NetworkList says which URLs an agent may reach. A pattern is an exact host, *.host (the host and
// all of its subdomains), or a prefix of an http:// or https:// URL. The zero value allows whatever
// the egress guard permits.
//
// A host pattern has no port and covers all ports. A URL prefix covers only its own port. It ends
// at a path segment; a slash at its end makes no difference. Only in Blocked, the pattern * matches
// everything, which is how to allow nothing. A pattern that cannot be parsed fails closed: in
// Allowed it matches nothing, in Blocked everything. [NetworkList.Check] reports such patterns
// beforehand.
type NetworkList struct {
	Allowed []string `json:"allowed,omitempty"` // empty: everything
	Blocked []string `json:"blocked,omitempty"` // wins over Allowed
}

// The rules that decide about a URL, for [EgressError] and [NetworkList.Permits].
const (
	RuleBlocked  = "blocked"  // a pattern of Blocked matches
	RuleAllowed  = "allowed"  // Allowed is not empty, and no pattern in it matches
	RuleAddress  = "address"  // the egress guard refuses the address or the port
	RuleScheme   = "scheme"   // neither http nor https
	RuleRedirect = "redirect" // too many redirects, or one that drops TLS or has no valid target
	RuleInvalid  = "invalid"  // the URL is invalid; only from Permits, because EgressError has a code for it
)

// everything is the pattern that matches all URLs; only valid in Blocked.
const everything = "*"

// Narrow returns the list that applies when child is laid over l: nothing that either list refuses
// is permitted. Blocked is the union, with l's patterns first. If only one list has patterns in
// Allowed, those apply. If both have, the child's patterns apply that lie inside a pattern of l. If
// no pattern is left that way, the result also blocks *, because an empty Allowed would permit
// everything. Neither list is changed.
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

// contains reports whether one pattern of l.Allowed matches everything that text matches.
func (l NetworkList) contains(text string) bool {
	child, err := urlform.ParsePattern(text)
	return err == nil && slices.ContainsFunc(l.Allowed, func(text string) bool {
		parent, err := urlform.ParsePattern(text)
		return err == nil && parent.Contains(child)
	})
}

// Permits reports whether a request for a URL may leave. If not, rule is RuleBlocked or
// RuleAllowed, or RuleInvalid for a URL that cannot be parsed.
func (l NetworkList) Permits(rawURL string) (ok bool, rule string) {
	u, err := urlform.Normal(rawURL)
	if err != nil {
		return false, RuleInvalid
	}
	ok, rule, _ = l.Decide(u)
	return ok, rule
}

// Decide is Permits for a URL in normal form (internal/urlform). If the answer is no, it also
// returns the pattern that matched; there is none for RuleAllowed.
func (l NetworkList) Decide(u *url.URL) (ok bool, rule, pattern string) {
	for _, text := range l.Blocked {
		if p, err := urlform.ParsePattern(text); text == everything || err != nil || p.Blocks(u) {
			return false, RuleBlocked, text
		}
	}
	if len(l.Allowed) == 0 {
		return true, "", ""
	}
	for _, text := range l.Allowed {
		if p, err := urlform.ParsePattern(text); err == nil && p.Allows(u) {
			return true, "", ""
		}
	}
	return false, RuleAllowed, ""
}

// Check returns one Invalid error that names every invalid pattern, or nil.
func (l NetworkList) Check() error {
	var faults []error
	for _, text := range l.Allowed {
		if _, err := urlform.ParsePattern(text); text == everything {
			faults = append(faults,
				fmt.Errorf("%w: allowed: * is not a pattern: leave the list empty to allow everything", Invalid))
		} else if err != nil {
			faults = append(faults, fmt.Errorf("%w: allowed: pattern %q: %w", Invalid, text, err))
		}
	}
	for _, text := range l.Blocked {
		if _, err := urlform.ParsePattern(text); text != everything && err != nil {
			faults = append(faults, fmt.Errorf("%w: blocked: pattern %q: %w", Invalid, text, err))
		}
	}
	return errors.Join(faults...)
}

// WebRequest is an outgoing request. The egress guard carries it out.
type WebRequest struct {
	Method string // empty: GET
	URL    string // http or https
	// Header has canonical names. The guard sets Host, Connection and the headers that frame a
	// message.
	Header map[string][]string
	Body   []byte     // at most 10 MiB
	Kind   EgressKind // who sends it; empty: other
	// Purpose opens the addresses that the operator listed for this purpose. Empty: none.
	Purpose  string
	List     NetworkList   // of the session, merged
	Signing  EgressSigning // whether the egress host signs the request; empty: no
	MaxBytes int64         // of the response body; 0, or more than the guard's limit: that limit
	// Secrets are inserted for their references in URL and Header. The guard sends each one
	// to its hosts only, and refuses a request that would send it elsewhere.
	Secrets []WebSecret

	NoRedirects bool // a redirect is returned as the response
}

// WebResponse is the response to a [WebRequest], with any status.
type WebResponse struct {
	URL       string // the final URL after redirects
	Status    int
	Header    map[string][]string // canonical names
	Body      []byte
	Truncated bool // the body exceeded the limit, and Body is its beginning
}

// EgressKind says who sends a request.
type EgressKind string

// The kinds of requests.
const (
	EgressCapability  EgressKind = "capability"
	EgressIntegration EgressKind = "integration"
	EgressMCP         EgressKind = "mcp"
	EgressModel       EgressKind = "model"
	EgressOther       EgressKind = "other"
)

// EgressSigning says whether the egress host signs a request.
type EgressSigning string

// The ways of signing.
const (
	SigningDisabled EgressSigning = "disabled"
	SigningDefault  EgressSigning = "platform_default" // signed if a signer is configured
	SigningRequired EgressSigning = "required"         // refused if no signer is configured
)

// EgressCode says in which way a request failed.
type EgressCode string

// The codes of an [EgressError].
const (
	EgressInvalid   EgressCode = "invalid_request"
	EgressDenied    EgressCode = "denied"
	EgressUnsigned  EgressCode = "signing_unavailable"
	EgressTransport EgressCode = "transport"
)

// The layers that can deny a request, for EgressError.
const (
	LayerGuard    = "guard"    // refused for everybody: addresses, ports, schemes, redirects
	LayerOperator = "operator" // the operator's network list
	LayerSession  = "session"  // the merged network list of harness, agent and session
)

// EgressError says why a request got no response. errors.Is matches Invalid for the codes
// invalid_request and denied, and Unavailable for transport and signing_unavailable.
type EgressError struct {
	Code  EgressCode
	Host  string // as requested
	Rule  string // the Rule… constant that decided a denial
	Layer string // the Layer… constant of that rule; empty if nothing was denied
	Text  string // for people
	Err   error  // may be nil
}

// RequestDenied says that egress denied a request of a call. The content of the request is stored
// nowhere.
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
