package egress

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
)

// LastGate lets f see every socket after all checks. What it refuses sends no packet.
func (g *Guard) LastGate(f func(netip.AddrPort) error) { g.testDialCheck = f }

// Trust lets g believe a test's server.
func (g *Guard) Trust(pool *x509.CertPool) {
	g.testTrust = func(t *http.Transport) { t.TLSClientConfig.RootCAs = pool }
}

// Dial is what the transports dial with.
func (g *Guard) Dial(ctx context.Context, purpose, network, hostPort string) (net.Conn, error) {
	return g.dial(ctx, purpose, network, hostPort)
}
