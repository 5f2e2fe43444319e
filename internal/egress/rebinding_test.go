package egress_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
)

// flip is a resolver that changes its mind with every lookup.
type flip struct {
	lookups atomic.Int64
	answers [][]netip.Addr
}

func (f *flip) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return f.answers[int(f.lookups.Add(1)-1)%len(f.answers)], nil
}

// TestS2Rebinding: 10,000 requests to a name whose addresses change with every lookup reach no
// forbidden address, and cause one lookup each.
func TestS2Rebinding(t *testing.T) {
	t.Parallel()
	public, private := netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("127.0.0.1")
	resolver := &flip{answers: [][]netip.Addr{
		{public}, {private}, {public, private}, {private, public}, {public, netip.MustParseAddr("::ffff:127.0.0.1")}, {netip.MustParseAddr("::1")}, {public},
	}}
	a := newAttack(t, resolver)
	reached := 0
	for range 10_000 {
		_, err := get(t, a.Guard, "http://flip.test:"+a.wire.port+"/")
		egressError(t, err)
		for _, to := range a.post.take() {
			if reached++; to.Addr() != public {
				t.Fatalf("a socket to %v", to)
			}
		}
	}
	if reached < 1000 || a.wire.hits.Load() != 0 || resolver.lookups.Load() != 10_000 {
		t.Errorf("%d sockets to the public address, %d hits, %d lookups: want some, 0, 10000", reached, a.wire.hits.Load(), resolver.lookups.Load())
	}
	t.Logf("security: %d flips of a name: %d connections to the public address, %d to a forbidden one", resolver.lookups.Load(), reached, a.wire.hits.Load())
}

// TestS2RebindingDNS does it with a real DNS server, real packets and the resolver of the standard
// library.
func TestS2RebindingDNS(t *testing.T) {
	t.Parallel()
	dns := newDNS(t, "8.8.8.8", "127.0.0.1")
	a := newAttack(t, dns.resolver())
	public, denied := 0, 0
	for range 1000 {
		_, err := get(t, a.Guard, "http://flip.test:"+a.wire.port+"/")
		if egressError(t, err).Code == perdure.EgressDenied {
			denied++
		}
		for _, to := range a.post.take() {
			if public++; to.Addr().String() != "8.8.8.8" {
				t.Fatalf("a socket to %v", to)
			}
		}
	}
	if public != 500 || denied != 500 || a.wire.hits.Load() != 0 || dns.asked.Load() != 1000 {
		t.Errorf("%d sockets, %d denials, %d hits, %d questions: want 500, 500, 0, 1000", public, denied, a.wire.hits.Load(), dns.asked.Load())
	}
	t.Logf("security: %d flips of a DNS server: %d connections to the public address, %d to a forbidden one", dns.asked.Load(), public, a.wire.hits.Load())
}

// dns is a DNS server on loopback that gives out IPv4 addresses in turn, each for no time at all
// (TTL 0).
type dns struct {
	conn    net.PacketConn
	answers []string
	asked   atomic.Int64 // for IPv4 addresses
}

func newDNS(t *testing.T, answers ...string) *dns {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dns{conn: conn, answers: answers}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(d.answer(buffer[:n]), from)
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return d
}

func (d *dns) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp4", d.conn.LocalAddr().String())
	}}
}

// answer answers the one question of a message (RFC 1035, 4.1): for A with the next address, else
// with none.
func (d *dns) answer(query []byte) []byte {
	const header, typeA = 12, 1
	end := header + slices.Index(query[header:], 0) + 1 // of the name
	kind := binary.BigEndian.Uint16(query[end:])
	out := slices.Concat(query[:2], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[header:end+4])
	if kind == typeA {
		addr := netip.MustParseAddr(d.answers[int(d.asked.Add(1)-1)%len(d.answers)]).As4()
		out[7] = 1
		out = append(out, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, addr[:]...)
	}
	return out
}
