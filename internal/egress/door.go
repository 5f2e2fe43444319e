package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/perdure/perdure"
)

// door is the way out for one purpose. It has connections of its own, since what is open for one purpose is
// shut for others (EG5). It checks each request, and its transport each connection.
type door struct {
	guard     *Guard
	purpose   string
	transport *http.Transport

	// Of [Guard.Do], whose doors serve one request each.
	signing perdure.EgressSigning
	body    []byte // of the hop that is sent next
}

// errSlowHeader ends a hop that has no header in time.
var errSlowHeader = errors.New("no header in time")

// newDoor returns a door that keeps idle connections, or one whose every request has a connection of its own.
func (g *Guard) newDoor(purpose string, keep bool) *door {
	d := &door{guard: g, purpose: purpose}
	d.transport = &http.Transport{
		Proxy: nil, // the environment's proxies are not asked (EG4)
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return g.dial(ctx, purpose, network, addr)
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    g.config.HeaderTimeout,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      !keep,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if g.trust != nil {
		g.trust(d.transport)
	}
	return d
}

// RoundTrip carries out one hop under the operator's list. The error is a *perdure.EgressError, or the cause
// for which the request's context ended. The body of the answer has no limit here.
func (d *door) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.pass(req, d.guard.layers()...)
	if denial := (*perdure.EgressError)(nil); errors.As(err, &denial) {
		return nil, d.guard.deny(denial)
	}
	return resp, err
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] through.
func (d *door) CloseIdleConnections() { d.transport.CloseIdleConnections() }

// layer is a network list, and whose it is, for the text of a denial (EG6).
type layer struct {
	whose  string
	list   perdure.NetworkList
	broken error // the list cannot be read, so nothing is let through
}

// layers are those of the operator, and then a request's own.
func (g *Guard) layers(own ...perdure.NetworkList) []layer {
	kept := g.rules.now()
	all := []layer{{whose: perdure.LayerOperator, list: g.config.List}, {whose: perdure.LayerOperator, list: kept.list, broken: kept.broken}}
	for _, list := range own {
		all = append(all, layer{whose: perdure.LayerSession, list: list})
	}
	return all
}

// pass checks the URL of a hop against the layers, and sends it.
func (d *door) pass(req *http.Request, layers ...layer) (*http.Response, error) {
	if req.URL == nil {
		closeBody(req)
		return nil, &perdure.EgressError{Code: perdure.EgressInvalid, Text: "the request has no URL"}
	}
	u, err := d.admit(req.URL.String(), layers)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	hop := req.Clone(ctx)
	hop.URL, hop.Host = u, ""                                                     // the header Host says nothing but what was checked
	hop.GetBody = nil                                                             // so that the transport does not send a body twice
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(hop.Header)) // nothing, where nobody traces
	if err := d.sign(ctx, hop); err != nil {
		cancel(nil)
		closeBody(req)
		return nil, err
	}
	timer := time.AfterFunc(d.guard.config.HeaderTimeout, func() { cancel(errSlowHeader) })
	resp, err := d.transport.RoundTrip(hop)
	if !timer.Stop() && err == nil {
		_ = resp.Body.Close()
		err = errSlowHeader
	}
	if err != nil {
		err = d.explain(req, u, err, context.Cause(ctx))
		cancel(nil)
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, cancel: cancel}
	return resp, nil
}

// admit returns the normal form of a URL that may leave.
func (d *door) admit(raw string, layers []layer) (*url.URL, error) {
	u, err := perdure.NormalURL(raw)
	if err != nil {
		return nil, urlError(raw, err)
	}
	for _, l := range layers {
		if l.broken != nil {
			return nil, &perdure.EgressError{Code: perdure.EgressDenied, Host: u.Hostname(), Rule: perdure.RuleBlocked, Layer: l.whose,
				Text: fmt.Sprintf("the %s's rules cannot be read, so nothing leaves until they are mended: %v", l.whose, l.broken), Err: l.broken}
		}
		if ok, rule, pattern := l.list.Decide(u); !ok {
			return nil, &perdure.EgressError{Code: perdure.EgressDenied, Host: u.Hostname(), Rule: rule, Layer: l.whose, Text: listText(u, l.whose, rule, pattern)}
		}
	}
	port := portOf(u)
	if _, named := d.guard.isListed(d.purpose, u.Hostname(), port); isRefusedPort(port) && !named {
		return nil, &perdure.EgressError{Code: perdure.EgressDenied, Host: u.Hostname(), Rule: perdure.RuleAddress, Layer: perdure.LayerGuard, Text: fmt.Sprintf(
			"port %s belongs to another protocol than HTTP: refused. If it is meant, an operator can list %s for this purpose", port, net.JoinHostPort(u.Hostname(), port))}
	}
	return u, nil
}

// Check says, before anything is sent or even looked up, why a request for a URL would be denied: its form, the
// lists, the port, or an address that stands in it. It is for the moment a URL is saved (EG5); nil promises
// nothing about the moment it is used, since names lead elsewhere by then. The error is a *perdure.EgressError.
func (g *Guard) Check(purpose, rawURL string, list perdure.NetworkList) error {
	d := door{guard: g, purpose: purpose}
	u, err := d.admit(rawURL, g.layers(list))
	if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		_, err = g.check(purpose, u.Hostname(), portOf(u), []netip.Addr{addr})
		return err
	}
	return nil
}

// Try says what would become of a request for a URL, as far as that can be known without a connection: Check, and then a
// lookup of the name, whose every address is looked at. It returns where a connection would go. The error is a
// *perdure.EgressError, or ctx's; nobody is told of a denial.
func (g *Guard) Try(ctx context.Context, purpose, rawURL string, list perdure.NetworkList) ([]netip.AddrPort, error) {
	d := door{guard: g, purpose: purpose}
	u, err := d.admit(rawURL, g.layers(list))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.config.HeaderTimeout)
	defer cancel()
	found, err := g.resolve(ctx, u.Hostname())
	if err != nil {
		return nil, err
	}
	return g.check(purpose, u.Hostname(), portOf(u), found)
}

// sign lets the host put its name to a hop that asks for it. Where the request goes, and how it is framed, stays as it is.
func (d *door) sign(ctx context.Context, hop *http.Request) error {
	switch hook := d.guard.config.Sign; {
	case d.signing == "" || d.signing == perdure.SigningDisabled, d.signing == perdure.SigningDefault && hook == nil:
		return nil
	case hook == nil:
		return unsigned(hop, "nothing here signs requests, and this one has to be signed", nil)
	default:
		shown := hop.Clone(ctx)
		shown.Body = nil
		if err := hook(ctx, shown, bytes.Clone(d.body)); err != nil {
			return unsigned(hop, "the request was not signed: "+err.Error(), err)
		}
		header, fault := cleanHeader(shown.Header)
		if fault != "" {
			return unsigned(hop, fault, nil)
		}
		hop.Header = header
		return nil
	}
}

func unsigned(hop *http.Request, text string, err error) error {
	return &perdure.EgressError{Code: perdure.EgressUnsigned, Host: hop.URL.Hostname(), Text: text, Err: err}
}

// urlError is the error of a URL that has no normal form.
func urlError(raw string, err error) *perdure.EgressError {
	e := &perdure.EgressError{Code: perdure.EgressInvalid, Text: err.Error(), Err: err}
	if u, parseErr := url.Parse(raw); parseErr == nil {
		e.Host = u.Hostname()
	}
	if perdure.IsScheme(err) {
		e.Code, e.Rule, e.Layer = perdure.EgressDenied, perdure.RuleScheme, perdure.LayerGuard
	}
	return e
}

func listText(u *url.URL, whose, rule, pattern string) string {
	switch {
	case rule == perdure.RuleAllowed:
		return fmt.Sprintf("%s is in no pattern of the %s's list of allowed hosts: ask for it to be added, or use a host that is", u.Hostname(), whose)
	case pattern == "*":
		return fmt.Sprintf("the %s's list of blocked hosts has *: nothing leaves", whose)
	}
	return fmt.Sprintf("%s is blocked by %q in the %s's list: use another host, or ask for that pattern to be removed", u.Hostname(), pattern, whose)
}

// explain turns the transport's error into ours. cause is why the hop's context ended, or nil.
func (d *door) explain(req *http.Request, u *url.URL, err, cause error) error {
	if req.Context().Err() != nil {
		return context.Cause(req.Context())
	}
	if errors.Is(cause, errSlowHeader) || errors.Is(err, errSlowHeader) {
		return transportError(u.Hostname(), fmt.Sprintf("%s sent no header within %v", u.Hostname(), d.guard.config.HeaderTimeout), errSlowHeader)
	}
	if ours := (*perdure.EgressError)(nil); errors.As(err, &ours) {
		return ours
	}
	return transportError(u.Hostname(), fmt.Sprintf("no answer from %s: %v", u.Hostname(), err), err)
}

// body is the body of an answer. Closing it frees its hop's context.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// closeBody keeps a promise of [http.RoundTripper]: the body is closed, on errors too.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
