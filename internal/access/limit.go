package access

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// maxAddresses is how many addresses are remembered that have failed.
const maxAddresses = 4096

// failures counts wrong tokens by address: so many at once, then one each while. It is safe for concurrent use.
type failures struct {
	burst int
	every time.Duration // after which one more is allowed

	mu sync.Mutex
	by map[netip.Addr]time.Time // guarded by mu; when all that was counted is forgotten
}

// wait is how long an address has to wait before it may fail again; 0: not at all.
func (f *failures) wait(addr netip.Addr, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, failed := f.by[addr]
	if !failed {
		return 0
	}
	return max(until.Sub(now)-time.Duration(f.burst-1)*f.every, 0)
}

// count counts a failure.
func (f *failures) count(addr netip.Addr, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = map[netip.Addr]time.Time{}
	}
	if _, known := f.by[addr]; !known && len(f.by) >= maxAddresses {
		f.makeRoom(now)
	}
	until := f.by[addr]
	if until.Before(now) {
		until = now
	}
	f.by[addr] = until.Add(f.every)
}

// makeRoom forgets who has waited, or else anybody.
func (f *failures) makeRoom(now time.Time) {
	for addr, until := range f.by {
		if until.Before(now) {
			delete(f.by, addr)
		}
	}
	for addr := range f.by {
		if len(f.by) < maxAddresses {
			return
		}
		delete(f.by, addr)
	}
}

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
