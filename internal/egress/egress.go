// Package egress is the only dialer: every connection that Perdure opens to the network is opened
// here (EG1).
//
// A URL is normalised, checked against the network lists, and its name is resolved once. Every
// address of the result is checked; if one is refused, all are. The connection goes to a checked
// address, and [net.Dialer.ControlContext] checks the address again on the socket itself, so that a
// name that resolves differently between check and dial has no effect. Each redirect is a new
// request under the same rules.
//
//	URL ── normal form ── lists ── port ── resolve ── every address ── dial ── socket ── header ── body
//	        NL3            NL1      EG3     once       EG2, EG3         pinned  again     30 s      cut at 10 MiB
//
// It may import the root, and code.dny.dev/ssrf, which gives a second opinion on every address.
//
// The one thing to know: no private address is open by default. A host that an operator typed, in a
// flag or a file, is open for the purpose for which it was typed ([Listing], [ForURL]), and for no
// other (EG3, EG5).
package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// The defaults of [Config].
const (
	DefaultMaxBytes      = 10 << 20 // of a body, in either direction
	DefaultHeaderTimeout = 30 * time.Second
	DefaultTimeout       = 60 * time.Second
)

// maxHeaderBytes bounds the header of a request and of a response.
const maxHeaderBytes = 256 << 10

// typedHeaderTimeout is the time to the response header of a server whose URL an operator typed;
// see [ForURL].
const typedHeaderTimeout = 10 * time.Minute

// idleTimeout is how long an idle connection of [Guardrail.Client] is kept.
const idleTimeout = 90 * time.Second

// Config says what a [Guardrail] allows. The zero value is the strict guard: no private address, no
// list.
type Config struct {
	List   perdure.NetworkList // the operator's own outer layer; a request's list can only narrow it
	Listed []Listing           // hosts that an operator typed, each for one purpose only (EG3)
	// A file of Rules that apply on top of both; it is read again when it has changed; empty: none.
	File             string
	MaxRequestBytes  int64         // bytes of a request's body; 0: 10 MiB. Not for Client
	MaxResponseBytes int64         // bytes of a response's body, decompressed; 0: 10 MiB. Not for Client
	Timeout          time.Duration // of a whole request with its redirects and body; 0: 60 s. Not for Client

	HeaderTimeout time.Duration // from the start of each hop to its response header; 0: 30 s
	Resolver      Resolver      // nil: the system's resolver
	// Sign signs a hop that asks for it and is allowed, by setting header fields; other changes are
	// ignored. body is the body of the hop. nil: requests cannot be signed. It must be safe for
	// concurrent use.
	Sign func(ctx context.Context, hop *http.Request, body []byte) error
	// Receives every denial, for the audit log; must be safe for concurrent use; nil: denials are
	// not reported.
	OnDenied func(perdure.EgressError)
}

// Resolver finds the addresses of a name. [net.Resolver] is one. It must be safe for concurrent
// use.
type Resolver interface {
	// LookupNetIP returns the addresses of host; network is "ip". It is called once per connection.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Guard sends requests out under one configuration. It is safe for concurrent use.
type Guard struct {
	config    Config
	addresses *addressPolicy
	typed     []listing // from Config
	rules     rulesFile

	// Only tests set these, before the first request.
	testDialCheck func(netip.AddrPort) error // runs after all checks of a socket
	testTrust     func(*http.Transport)      // accepts the certificate of a test's server

	mu         sync.Mutex
	transports map[string]*purposeTransport // for Client, by purpose; guarded by mu
}

// New returns a guard. The error is Invalid: a list or a listing that cannot be parsed.
func New(cfg Config) (*Guard, error) {
	if err := cfg.List.Check(); err != nil {
		return nil, err
	}
	g := &Guard{config: cfg, addresses: newAddressPolicy(), transports: make(map[string]*purposeTransport)}
	g.rules.path = cfg.File
	for _, l := range cfg.Listed {
		read, err := readListing(l)
		if err != nil {
			return nil, err
		}
		g.typed = append(g.typed, read)
	}
	if g.config.MaxRequestBytes <= 0 {
		g.config.MaxRequestBytes = DefaultMaxBytes
	}
	if g.config.MaxResponseBytes <= 0 {
		g.config.MaxResponseBytes = DefaultMaxBytes
	}
	if g.config.HeaderTimeout <= 0 {
		g.config.HeaderTimeout = DefaultHeaderTimeout
	}
	if g.config.Timeout <= 0 {
		g.config.Timeout = DefaultTimeout
	}
	if g.config.Resolver == nil {
		g.config.Resolver = net.DefaultResolver
	}
	return g, nil
}

// Close closes the idle connections of all clients. The guard can still be used.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.transports {
		d.CloseIdleConnections()
	}
}

// deny reports a denial to Config.Denied and returns it.
func (g *Guard) deny(err *perdure.EgressError) *perdure.EgressError {
	if err.Code == perdure.EgressDenied && g.config.OnDenied != nil {
		g.config.OnDenied(*err)
	}
	return err
}
