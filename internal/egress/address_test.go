package egress_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

// forbidden4 are addresses at both ends of each refused range, and those of clouds' metadata.
const forbidden4 = `0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.0 10.0.0.1 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255
	127.0.0.0 127.0.0.1 127.0.0.53 127.1.2.3 127.255.255.255 168.63.129.16 169.254.0.0 169.254.169.254 169.254.170.2 169.254.255.255
	172.16.0.0 172.17.0.1 172.31.255.255 192.0.0.0 192.0.0.192 192.0.0.255 192.0.2.1 192.168.0.0 192.168.1.1 192.168.255.255
	198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.0 224.0.0.1 239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255`

// forbidden6 are those of IPv6 that carry no IPv4 address.
const forbidden6 = `:: ::1 ::2 64:ff9b:1::1 100::1 2001::1 2001:1::1 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 3fff::1 5f00::1
	fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254 fdff:ffff::1 fe80::1 febf::1 fec0::1 ff02::1 ff0e::1 4000::1 e000::1`

// public are addresses next to refused ranges, and well-known ones.
const public = `1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 168.63.129.15
	168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255
	198.20.0.0 223.255.255.255 2606:4700:4700::1111 2001:4860:4860::8888 2a00::1 64:ff9b::808:808 2600::5efe:808:808`

// forms4 returns the ways in which an attacker may write or wrap an IPv4 address as the host of a
// URL.
func forms4(addr netip.Addr) []string {
	b := addr.As4()
	n := binary.BigEndian.Uint32(b[:])
	hi, lo := n>>16, n&0xffff
	return []string{
		addr.String(), addr.String() + ".", fmt.Sprintf("[::ffff:%s]", addr), fmt.Sprintf("[::ffff:%x:%x]", hi, lo),
		fmt.Sprintf("[0:0:0:0:0:FFFF:%s]", addr), fmt.Sprintf("[::%x:%x]", hi, lo), fmt.Sprintf("[::ffff:0:%x:%x]", hi, lo),
		fmt.Sprintf("[64:ff9b::%x:%x]", hi, lo), fmt.Sprintf("[64:ff9b::%s]", addr), fmt.Sprintf("[64:ff9b:1::%x:%x]", hi, lo),
		fmt.Sprintf("[2002:%x:%x::1]", hi, lo), fmt.Sprintf("[2001:0:1:2:3:4:%x:%x]", ^hi&0xffff, ^lo&0xffff),
		fmt.Sprintf("[2600:1:2:3:0:5efe:%x:%x]", hi, lo), fmt.Sprintf("[2600:1:2:3:200:5efe:%x:%x]", hi, lo),
		fmt.Sprintf("[fe80::%x:%x%%25eth0]", hi, lo),
		fmt.Sprintf("%d", n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0X%X", n), fmt.Sprintf("0%o", n), fmt.Sprintf("%d.", n),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]), fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], lo), fmt.Sprintf("%d.%d.%d.0x%x", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%03d.%03d.%03d.%03d", b[0], b[1], b[2], b[3]), strings.ReplaceAll(addr.String(), ".", "%2e"),
		strings.ReplaceAll(addr.String(), ".", "。"), "%31" + addr.String()[1:], strings.NewReplacer("1", "１", "2", "②").Replace(addr.String()) + "\u200b",
		"user@" + addr.String(), "example.com@" + addr.String(), "example.com:80@" + addr.String(), addr.String() + "%00.example.com",
		addr.String() + "\\@example.com", addr.String() + "#@example.com", fmt.Sprintf("%s%%2f.example.com", addr),
	}
}

// forbiddenHosts returns every vector of S1 as the host of a URL. Names lead to the addresses they
// hold.
func forbiddenHosts() (hosts []string, known names) {
	known = make(names)
	for i, text := range strings.Fields(forbidden4) {
		addr := netip.MustParseAddr(text)
		hosts = append(hosts, forms4(addr)...)
		name := fmt.Sprintf("four%d.test", i)
		known[name] = []string{text}
		known["mapped-"+name] = []string{"::ffff:" + text}
		known["mixed-"+name] = []string{"8.8.8.8", text, "2606:4700:4700::1111"}
		hosts = append(hosts, name, strings.ToUpper(name), name+".", "mapped-"+name, "mixed-"+name)
	}
	for i, text := range strings.Fields(forbidden6) {
		name := fmt.Sprintf("six%d.test", i)
		known[name] = []string{text}
		known["mixed-"+name] = []string{"8.8.8.8", text}
		hosts = append(hosts, "["+text+"]", "["+strings.ToUpper(text)+"]", "["+text+"%25lo]", name, "mixed-"+name)
	}
	return hosts, known
}

// attack is a strict guard with all that would see an escape.
type attack struct {
	*egress.Guard
	post *gatePost
	wire *tripwire
}

func newAttack(t *testing.T, resolver egress.Resolver) attack {
	t.Helper()
	g, err := egress.New(egress.Config{Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	a := attack{g, new(gatePost), newTripwire(t)}
	g.LastGate(a.post.see)
	return a
}

// try expects each URL to be refused, without a socket at the gate or a connection to the tripwire.
func (a attack) try(t *testing.T, urls []string) {
	t.Helper()
	for _, u := range urls {
		_, err := get(t, a.Guard, u)
		if got := egressError(t, err); got.Code != perdure.EgressDenied && got.Code != perdure.EgressInvalid {
			t.Errorf("%s: got %s (%s), want a refusal", u, got.Code, got.Text)
		}
		if seen := a.post.take(); len(seen) > 0 {
			t.Errorf("%s: reached the socket to %v", u, seen)
		}
	}
	if n := a.wire.hits.Load(); n != 0 {
		t.Errorf("%d connections to forbidden addresses", n)
	}
}

// TestS1Vectors: no form of a forbidden address gets a packet.
func TestS1Vectors(t *testing.T) {
	t.Parallel()
	hosts, known := forbiddenHosts()
	a := newAttack(t, known)
	var urls []string
	for _, host := range hosts {
		urls = append(urls, "http://"+host+":"+a.wire.port+"/", "https://"+host+"/")
	}
	if len(urls) < 400 {
		t.Fatalf("%d vectors, want 400 at least", len(urls))
	}

	a.try(t, urls)

	t.Logf("security: %d vectors of forbidden addresses: %d connections to one", len(urls), a.wire.hits.Load())
}

// TestS1Generated: 5,000 random addresses of the refused ranges, in random forms.
func TestS1Generated(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	known := make(names)
	a := newAttack(t, known)
	ranges := strings.Fields(`0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 192.0.0.0/24
		198.18.0.0/15 224.0.0.0/4 240.0.0.0/4 fc00::/7 fe80::/10 ff00::/8`)
	var urls []string
	for i := range 5000 {
		addr := within(dice, netip.MustParsePrefix(ranges[dice.IntN(len(ranges))]))
		host := "[" + addr.String() + "]"
		if addr.Is4() {
			forms := forms4(addr)
			host = forms[dice.IntN(len(forms))]
		}
		if dice.IntN(3) == 0 {
			host = fmt.Sprintf("n%d.test", i)
			known[host] = []string{addr.String()}
		}
		urls = append(urls, "http://"+host+":"+a.wire.port+"/")
	}

	a.try(t, urls)

	t.Logf("security: %d generated vectors: %d connections to a forbidden address", len(urls), a.wire.hits.Load())
}

// within returns a random address of a range.
func within(dice *rand.Rand, prefix netip.Prefix) netip.Addr {
	b := prefix.Addr().AsSlice()
	for i := prefix.Bits(); i < len(b)*8; i++ {
		b[i/8] |= byte(dice.IntN(2)) << (7 - i%8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// TestS1TripwiresWork shows that the tripwire and the gate of the other tests would see an escape.
func TestS1TripwiresWork(t *testing.T) {
	t.Parallel()
	wire, post := newTripwire(t), new(gatePost)
	g := newGuard(t, egress.Config{Listed: []egress.Listing{{Host: "127.0.0.1"}}})
	g.LastGate(post.see)

	_, err := get(t, g, "http://127.0.0.1:"+wire.port+"/")

	wants(t, err, perdure.EgressTransport, "")
	if wire.hits.Load() != 1 || len(post.take()) != 1 {
		t.Error("want one connection at the tripwire and one socket at the gate")
	}
}

// TestS1PublicPasses: an address next to a refused range is allowed, and the connection goes to
// exactly that address.
func TestS1PublicPasses(t *testing.T) {
	t.Parallel()
	known := make(names)
	a := newAttack(t, known)
	for i, text := range strings.Fields(public) {
		addr := netip.MustParseAddr(text)
		literal, name := text, fmt.Sprintf("p%d.test", i)
		if addr.Is6() {
			literal = "[" + text + "]"
		}
		known[name] = []string{text}
		for _, host := range []string{literal, name} {
			_, err := get(t, a.Guard, "http://"+host+"/")
			wants(t, err, perdure.EgressTransport, "")
			if seen := a.post.take(); len(seen) != 1 || seen[0] != netip.AddrPortFrom(addr, 80) {
				t.Errorf("%s: got sockets to %v, want one to it", host, seen)
			}
		}
	}
}

// TestS1DeniesTellWhatToDo: a denial has the host, the rule, and a text that a person can act on.
func TestS1DeniesTellWhatToDo(t *testing.T) {
	t.Parallel()
	var heard []perdure.EgressError
	g := newGuard(t, egress.Config{OnDenied: func(e perdure.EgressError) { heard = append(heard, e) }})
	cases := []struct{ url, host, text string }{
		{"http://10.1.2.3/", "10.1.2.3", "10.1.2.3 is a private address, and is refused. If this is intended, an operator can list 10.1.2.3:80 for this purpose"},
		{"https://inward.test/", "inward.test", "inward.test resolves to 127.0.0.1, a loopback address, and is refused. If this is intended, an operator can list inward.test:443 for this purpose"},
		{"http://[64:ff9b::a00:1]/", "64:ff9b::a00:1", "64:ff9b::a00:1 is the NAT64 form of 10.0.0.1, a private address, and is refused."},
		{"http://168.63.129.16/", "168.63.129.16", "168.63.129.16 is a cloud's metadata address, and is refused."},
		{"http://8.8.8.8:25/", "8.8.8.8", "port 25 belongs to a protocol other than HTTP, and is refused."},
	}
	for _, c := range cases {
		_, err := get(t, g, c.url)
		wants(t, err, perdure.EgressDenied, perdure.RuleAddress)
		if got := egressError(t, err); got.Host != c.host || !strings.HasPrefix(got.Text, c.text) {
			t.Errorf("%s: got host %q, text %q", c.url, got.Host, got.Text)
		}
	}
	if len(heard) != len(cases) {
		t.Errorf("the audit heard %d denials, want %d", len(heard), len(cases))
	}
}

// TestS1Ports: a port of another protocol is refused unless a listing names it.
func TestS1Ports(t *testing.T) {
	t.Parallel()
	g, err := egress.New(egress.Config{Listed: []egress.Listing{{Host: "8.8.8.8"}, {Host: "9.9.9.9:6379"}}})
	if err != nil {
		t.Fatal(err)
	}
	post := new(gatePost)
	g.LastGate(post.see)
	cases := map[string]perdure.EgressCode{
		"http://8.8.8.8:22/": perdure.EgressDenied, "http://8.8.8.8:6379/": perdure.EgressDenied, "http://9.9.9.9:6379/": perdure.EgressTransport,
		"http://8.8.8.8:8080/": perdure.EgressTransport, "http://8.8.8.8:0/": perdure.EgressInvalid, "http://8.8.8.8:65536/": perdure.EgressInvalid,
		"https://8.8.8.8:80/": perdure.EgressTransport, "http://8.8.8.8:00025/": perdure.EgressDenied, "http://8.8.8.8:-1/": perdure.EgressInvalid,
	}
	for u, want := range cases {
		_, err := get(t, g, u)
		if got := egressError(t, err); got.Code != want {
			t.Errorf("%s: got %s (%s), want %s", u, got.Code, got.Text, want)
		}
	}
}
