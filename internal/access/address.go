package access

import (
	"net"
	"net/netip"
)

// AddressOf returns the address of a client, as the limits of requests without a token count it.
func AddressOf(remote string) string { return addressOf(remote).String() }

// addressOf returns the address that failures are counted for: an IPv4 address, or the /64 network
// of an IPv6 address, because a host has many of those.
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
