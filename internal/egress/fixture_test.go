package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/tool"
)

var (
	_ tool.Egress     = (*egress.Guard)(nil)
	_ egress.Resolver = (*net.Resolver)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a resolver that knows these names only.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	texts, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var addrs []netip.Addr
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

// stage are names that lead to this machine, and the listing of those that a test may reach.
func stage() (names, []egress.Listing) {
	n := names{"a.test": {"127.0.0.1"}, "b.test": {"127.0.0.1"}, "inward.test": {"127.0.0.1"}}
	return n, []egress.Listing{{Host: "a.test"}, {Host: "b.test"}}
}

// newGuard returns a guard that reaches a.test and b.test on this machine, and is closed at the end
// of the test.
func newGuard(t *testing.T, cfg egress.Config) *egress.Guard {
	t.Helper()
	n, listed := stage()
	if cfg.Resolver == nil {
		cfg.Resolver = n
	}
	cfg.Listed = append(listed, cfg.Listed...)
	g, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// serve starts a server on loopback and returns its URL under a name.
func serve(t *testing.T, name string, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return "http://" + name + ":" + portOf(t, server.URL)
}

func portOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// tripwire listens on loopback, on one port of both address families if available, and counts
// connections.
type tripwire struct {
	port string
	hits atomic.Int64
}

func newTripwire(t *testing.T) *tripwire {
	t.Helper()
	four, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &tripwire{port: strconv.Itoa(four.Addr().(*net.TCPAddr).Port)}
	listeners := []net.Listener{four}
	if six, err := net.Listen("tcp6", "[::1]:"+w.port); err == nil {
		listeners = append(listeners, six)
	}
	var running sync.WaitGroup
	for _, l := range listeners {
		running.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				w.hits.Add(1)
				_ = conn.Close()
			}
		})
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		running.Wait()
	})
	return w
}

// errStop is what a gate says that let a test see the address and lets no packet out.
var errStop = errors.New("the test stops here")

// gatePost notes every address that a guard is about to connect to. Loopback may go on, to the
// tripwires.
type gatePost struct {
	mu   sync.Mutex
	seen []netip.AddrPort
}

func (p *gatePost) see(to netip.AddrPort) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, to)
	if to.Addr().IsLoopback() {
		return nil
	}
	return errStop
}

// take returns what was seen, and clears it.
func (p *gatePost) take() []netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = nil
	return seen
}

// egressError returns err as what it should be.
func egressError(t *testing.T, err error) *perdure.EgressError {
	t.Helper()
	var ours *perdure.EgressError
	if !errors.As(err, &ours) {
		t.Fatalf("got %v, want an *EgressError", err)
	}
	return ours
}

// wants checks code and rule of an error.
func wants(t *testing.T, err error, code perdure.EgressCode, rule string) {
	t.Helper()
	if got := egressError(t, err); got.Code != code || got.Rule != rule || got.Text == "" {
		t.Errorf("got %s, rule %q (%s), want %s, rule %q", got.Code, got.Rule, got.Text, code, rule)
	}
}

func get(t *testing.T, g *egress.Guard, rawURL string) (perdure.WebResponse, error) {
	t.Helper()
	return g.Do(t.Context(), perdure.WebRequest{URL: rawURL})
}
