// Package egress is the one dialer: every connection that Perdure opens to the network is opened here (EG1).
//
// A URL is brought into its normal form, held against the network lists, and its name is resolved once. Every
// address of the answer is checked; if one is refused, all are. The connection goes to a checked address, and
// [net.Dialer.ControlContext] checks that again on the socket itself, so that a name which changes its mind
// between check and dial changes nothing. Each redirect is a new request under the same rules.
//
//	URL ── normal form ── lists ── port ── resolve ── every address ── dial ── socket ── header ── body
//	        NL3            NL1      EG3     once       EG2, EG3         pinned  again     30 s      cut at 10 MiB
//
// It may import the root, and code.dny.dev/ssrf, which has a second opinion about every address.
//
// The one thing to know: nothing private is open. What an operator typed, in a flag or a file, is open for the
// purpose it was typed for ([Listing], [ForURL]) and stays shut for every other (EG3, EG5).
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

// What holds where [Config] says nothing. The first three are EG6's.
const (
	DefaultMaxBytes      = 10 << 20 // of a body, in either direction
	DefaultHeaderTimeout = 30 * time.Second
	DefaultTimeout       = 60 * time.Second
)

// maxHeaderBytes bounds the header of a request and of an answer.
const maxHeaderBytes = 256 << 10

// typedHeaderTimeout is the time to the header of an answer from a server that an operator typed; see [ForURL].
const typedHeaderTimeout = 10 * time.Minute

// idleTimeout is how long a connection of [Guard.Client] waits for its next request.
const idleTimeout = 90 * time.Second

// Config says what a [Guard] lets out. The zero value is the strict guard: no private address, no list.
type Config struct {
	List    perdure.NetworkList // the operator's own outer layer; the list of a request can only narrow it
	Listed  []Listing           // addresses that an operator typed, each for one purpose only (EG3)
	File    string              // holds Rules that come on top of both, and is read again when it has changed; empty: none
	MaxOut  int64               // bytes of a request's body; 0: 10 MiB. Not for Client
	MaxIn   int64               // bytes of an answer's body, decompressed; 0: 10 MiB. Not for Client
	Timeout time.Duration       // of a whole request with its redirects and body; 0: 60 s. Not for Client

	HeaderTimeout time.Duration // from the start of each hop to the header of its answer; 0: 30 s
	Resolver      Resolver      // nil: the system's
	// Sign puts a name to a hop that asks for it and that may leave, by fields of its header: only those count (EG1). body is
	// what is sent. nil: nobody signs. May be called by several goroutines at once.
	Sign   func(ctx context.Context, hop *http.Request, body []byte) error
	Denied func(perdure.EgressError) // hears of every denial, for the audit; may be called by several goroutines at once; nil: nobody listens
}

// Resolver finds the addresses of a name. [net.Resolver] is one. Safe for concurrent use.
type Resolver interface {
	// LookupNetIP returns the addresses of host; network is "ip". It is asked once for each connection.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Guard is the way out, under one configuration. Safe for concurrent use.
type Guard struct {
	config Config
	gate   *gate
	typed  []listing // of Config
	rules  standing

	// Only tests set these, before the first request.
	lastGate func(netip.AddrPort) error // after all checks of a socket
	trust    func(*http.Transport)      // the certificates of a test's server

	mu    sync.Mutex
	doors map[string]*door // of Client, by purpose; guarded by mu
}

// New returns a guard. The error is Invalid: a list or a listing that cannot be read.
func New(cfg Config) (*Guard, error) {
	if err := cfg.List.Check(); err != nil {
		return nil, err
	}
	g := &Guard{config: cfg, gate: newGate(), doors: make(map[string]*door)}
	g.rules.path = cfg.File
	for _, l := range cfg.Listed {
		read, err := readListing(l)
		if err != nil {
			return nil, err
		}
		g.typed = append(g.typed, read)
	}
	if g.config.MaxOut <= 0 {
		g.config.MaxOut = DefaultMaxBytes
	}
	if g.config.MaxIn <= 0 {
		g.config.MaxIn = DefaultMaxBytes
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

// Close drops the idle connections of all clients. The guard can still be used.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.doors {
		d.CloseIdleConnections()
	}
}

// deny tells the audit of a denial and returns it.
func (g *Guard) deny(err *perdure.EgressError) *perdure.EgressError {
	if err.Code == perdure.EgressDenied && g.config.Denied != nil {
		g.config.Denied(*err)
	}
	return err
}
