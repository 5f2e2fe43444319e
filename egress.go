package perdure

// WebRequest is one request to the outside, carried out by the one guarded way out (EG1).
type WebRequest struct {
	Method   string              // empty: GET
	URL      string              // http or https
	Header   map[string][]string // canonical names; Host, Connection and what frames a message are the guard's
	Body     []byte              // at most 10 MiB (EG6)
	Kind     EgressKind          // on whose behalf; empty: other
	Purpose  string              // opens the addresses that the operator listed for it, and no others (EG3); empty: none
	List     NetworkList         // of the session, merged
	MaxBytes int64               // of the answer's body; 0, or more than the guard's own limit: that limit
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

// EgressCode names what went wrong with a request (EG1).
type EgressCode string

// The codes of an [EgressError].
const (
	EgressInvalid   EgressCode = "invalid_request"
	EgressDenied    EgressCode = "denied"
	EgressTransport EgressCode = "transport"
)

// EgressError says why a request has no answer. errors.Is tells Invalid for invalid_request and denied, and
// Unavailable for transport.
type EgressError struct {
	Code EgressCode
	Host string // as it was asked for
	Rule string // what decided a denial: "blocked", "allowed", "address", "scheme", "redirect"
	Text string // fit for people
	Err  error  // the cause, if there is one
}

// Error returns the text with its code.
func (e *EgressError) Error() string { return string(e.Code) + ": " + e.Text }

// Unwrap returns the cause.
func (e *EgressError) Unwrap() error { return e.Err }

// Is reports whether target is the error's kind.
func (e *EgressError) Is(target error) bool {
	if e.Code == EgressTransport {
		return target == Unavailable
	}
	return target == Invalid
}
