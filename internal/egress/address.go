package egress

import (
	"fmt"
	"net/netip"
	"strings"

	"code.dny.dev/ssrf"
)

// addressGroup is a group of addresses that is refused.
type addressGroup struct {
	name     string // for messages, with its article
	prefixes string // separated by spaces
	typed    bool   // opened only by the address itself as the operator typed it, not by a listed name
}

// refusedGroups returns the refused ranges (EG3) and the metadata addresses of clouds. The first
// match names the address in a message, so the most specific ones come first.
func refusedGroups() []addressGroup {
	return []addressGroup{
		// AWS, and most others
		{"a cloud's metadata address", "169.254.169.254/32 169.254.170.2/32 fd00:ec2::254/128", true},
		{"a cloud's metadata address", "fd20:ce::254/128 168.63.129.16/32", true}, // GCP, Azure
		// Alibaba, Oracle
		{"a cloud's metadata address", "100.100.100.200/32 192.0.0.192/32", true},
		{"a link-local address", "169.254.0.0/16 fe80::/10", true},
		{"a broadcast address", "255.255.255.255/32", true},
		{"a multicast address", "224.0.0.0/4 ff00::/8", true},
		{"an unspecified address, which leads to this machine", "0.0.0.0/8 ::/128", false},
		{"a loopback address", "127.0.0.0/8 ::1/128", false},
		{"a private address", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10", false},
		{"an address inside a carrier's network", "100.64.0.0/10", false},
		{"a documentation address", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20", false},
		{"a reserved address", "192.0.0.0/24 198.18.0.0/15 240.0.0.0/4", false},
	}
}

// addressRange is one range of a block.
type addressRange struct {
	prefix netip.Prefix
	name   string
	typed  bool
}

// addressPolicy decides which addresses are refused. It is immutable.
type addressPolicy struct {
	ranges        []addressRange
	secondOpinion *ssrf.Guardian // a second opinion: the IANA registries; of IPv6 it allows global unicast only
}

func newAddressPolicy() *addressPolicy {
	g := &addressPolicy{secondOpinion: ssrf.New(ssrf.WithAnyPort())}
	for _, b := range refusedGroups() {
		for prefix := range strings.FieldsSeq(b.prefixes) {
			g.ranges = append(g.ranges, addressRange{netip.MustParsePrefix(prefix), b.name, b.typed})
		}
	}
	return g
}

// refusalReason returns what kind of refused address addr is; empty: it may be dialed. typed
// reports whether only listing the address itself would open it.
func (g *addressPolicy) refusalReason(addr netip.Addr) (what string, typed bool) {
	if addr.Zone() != "" {
		return "an address with a zone", true
	}
	addr = addr.Unmap()
	if inner, form := embeddedIPv4(addr); form != "" {
		if what, typed = g.refusalReason(inner); what != "" {
			return fmt.Sprintf("the %s form of %s, %s", form, inner, what), typed
		}
		if form == nat64 {
			return "", false
		}
	}
	for _, b := range g.ranges {
		if b.prefix.Contains(addr) {
			return b.name, b.typed
		}
	}
	if g.secondOpinion.SafeAddr(addr) != nil {
		return "an address outside the public internet", false
	}
	return "", false
}

// nat64 is the only form that may carry a public IPv4 address: hosts in networks without IPv4 reach
// IPv4 servers that way.
const nat64 = "NAT64"

// embeddedIPv4 returns the IPv4 address embedded in an IPv6 address, and the name of the form;
// empty: there is none.
func embeddedIPv4(addr netip.Addr) (inner netip.Addr, form string) {
	if !addr.Is6() {
		return netip.Addr{}, ""
	}
	b := addr.As16()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	within := func(prefix string) bool { return netip.MustParsePrefix(prefix).Contains(addr) }
	switch {
	case within("64:ff9b::/96"):
		return at(12), nat64
	case within("64:ff9b:1::/48"): // for local use, so the bars below refuse it whatever it carries
		return at(12), "local NAT64"
	case within("2002::/16"):
		return at(2), "6to4"
	case within("2001::/32"): // the client's address is stored inverted
		for i := 12; i < 16; i++ {
			b[i] = ^b[i]
		}
		return at(12), "Teredo"
	case within("::/96") && addr != netip.IPv6Unspecified() && addr != netip.IPv6Loopback():
		return at(12), "IPv4-compatible"
	case within("::ffff:0:0:0/96"):
		return at(12), "IPv4-translated"
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return at(12), "ISATAP"
	}
	return netip.Addr{}, ""
}
