package access

import (
	"net"
	"net/netip"
)

// addressOf is whom a failure counts for: an IPv4 address, or the network of an IPv6 one, of which a host has many.
func addressOf(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			addr = network.Addr()
		}
	}
	return addr
}
