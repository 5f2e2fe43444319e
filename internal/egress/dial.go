package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure"
)

// maxAddresses bounds how many addresses of one name are accepted and tried.
const maxAddresses = 32

// dial connects to a host for a purpose. The error is a *perdure.EgressError, or ctx's.
func (g *Guard) dial(ctx context.Context, purpose, network, hostPort string) (net.Conn, error) {
	// The transport may detach the dial from the request's context.
	ctx, cancel := context.WithTimeout(ctx, g.config.HeaderTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return nil, &perdure.EgressError{Code: perdure.EgressInvalid, Host: hostPort, Text: "only TCP to a host and port is allowed", Err: err}
	}
	found, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	checked, err := g.check(purpose, host, port, found)
	if err != nil {
		return nil, err
	}
	return g.connect(ctx, host, checked)
}

// resolve returns every address of a host, without duplicates. It is the only lookup of a
// connection.
func (g *Guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	answer, err := g.config.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, transportError(host, fmt.Sprintf("the name %s was not found: %v", host, err), err)
	}
	var found []netip.Addr
	for _, addr := range answer {
		if addr = addr.Unmap(); !slices.Contains(found, addr) {
			found = append(found, addr)
		}
	}
	switch {
	case len(found) == 0:
		return nil, transportError(host, fmt.Sprintf("the name %s has no address", host), nil)
	case len(found) > maxAddresses:
		return nil, transportError(host, fmt.Sprintf("the name %s has %d addresses, more than %d", host, len(found), maxAddresses), nil)
	}
	return found, nil
}

// check returns the addresses to connect to: all addresses of the host, or an error if one of them
// is refused (EG2).
func (g *Guard) check(purpose, host, port string, found []netip.Addr) ([]netip.AddrPort, error) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, &perdure.EgressError{Code: perdure.EgressInvalid, Host: host, Text: "invalid port " + port, Err: err}
	}
	listed, _ := g.isListed(purpose, host, port)
	literal := len(found) == 1 && found[0].String() == host
	var checked []netip.AddrPort
	for _, addr := range found {
		what, typed := g.addresses.refusalReason(addr)
		if what != "" && (!listed || typed && !literal) {
			return nil, &perdure.EgressError{Code: perdure.EgressDenied, Host: host, Rule: perdure.RuleAddress, Layer: perdure.LayerGuard,
				Text: refusal{host, port, addr, what, typed && !literal}.text()}
		}
		checked = append(checked, netip.AddrPortFrom(addr, uint16(number)))
	}
	return checked, nil
}

// refusal is a refused address, and the host that resolved to it.
type refusal struct {
	host, port string
	addr       netip.Addr
	what       string // kind of address, for messages
	typed      bool   // only listing the address itself would open it
}

// text returns the message of the refusal and says how an operator can allow it.
func (r refusal) text() string {
	subject, open := fmt.Sprintf("%s is %s", r.addr, r.what), net.JoinHostPort(r.host, r.port)
	if r.addr.String() != r.host {
		subject = fmt.Sprintf("%s resolves to %s, %s", r.host, r.addr, r.what)
	}
	if r.typed {
		open = net.JoinHostPort(r.addr.String(), r.port)
	}
	return fmt.Sprintf("%s, and is refused. If this is intended, an operator can list %s for this purpose", subject, open)
}

// connect tries the checked addresses in order, each with a fair share of the remaining time.
// ControlContext checks the address again on the socket itself, before the first packet.
func (g *Guard) connect(ctx context.Context, host string, checked []netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: 30 * time.Second, ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" || !slices.Contains(checked, netip.AddrPortFrom(to.Addr().Unmap(), to.Port())) {
			return &perdure.EgressError{Code: perdure.EgressDenied, Host: host, Rule: perdure.RuleAddress, Layer: perdure.LayerGuard, Text: address + " is not one of the checked addresses", Err: err}
		}
		if g.testDialCheck != nil {
			return g.testDialCheck(to)
		}
		return nil
	}}
	var failures []error
	for i, to := range checked {
		conn, err := dialOne(ctx, dialer, to, len(checked)-i)
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	if denial := (*perdure.EgressError)(nil); errors.As(failures[0], &denial) {
		return nil, denial
	}
	return nil, transportError(host, fmt.Sprintf("no connection to %s: %v", host, failures[0]), errors.Join(failures...))
}

// dialOne dials one address with its share of the remaining time; left is how many addresses
// remain.
func dialOne(ctx context.Context, dialer net.Dialer, to netip.AddrPort, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		dialer.Timeout = time.Until(deadline) / time.Duration(left)
	}
	return dialer.DialContext(ctx, "tcp", to.String())
}

func transportError(host, text string, err error) *perdure.EgressError {
	return &perdure.EgressError{Code: perdure.EgressTransport, Host: host, Text: text, Err: err}
}
