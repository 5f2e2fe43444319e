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
	"github.com/perdure/perdure/internal/urlform"
)

// purposeTransport is the transport for one purpose. It has its own connections, because a
// connection that is allowed for one purpose is not for others (EG5). It checks each request, and
// its http.Transport each connection.
type purposeTransport struct {
	guard     *Guard
	purpose   string
	transport *http.Transport

	// Only for [Guardrail.Command], whose doors serve one request each.
	signing perdure.EgressSigning
	body    []byte // of the next hop
	secrets []perdure.WebSecret
}

// errSlowHeader ends a hop whose response header does not arrive in time.
var errSlowHeader = errors.New("response header timed out")

// newTransport returns a door that reuses idle connections if keep is set, and otherwise opens one
// per request.
func (g *Guard) newTransport(purpose string, keep bool) *purposeTransport {
	d := &purposeTransport{guard: g, purpose: purpose}
	d.transport = &http.Transport{
		Proxy: nil, // proxies from the environment are ignored (EG4)
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
	if g.testTrust != nil {
		g.testTrust(d.transport)
	}
	return d
}

// RoundTrip carries out one hop under the operator's list. The error is a *perdure.EgressError, or
// the cause for which the request's context ended. The response body has no size limit here.
func (d *purposeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.send(req, d.guard.layers()...)
	if denial := (*perdure.EgressError)(nil); errors.As(err, &denial) {
		return nil, d.guard.deny(denial)
	}
	return resp, err
}

// CloseIdleConnections is called by [http.Client.CloseIdleConnections].
func (d *purposeTransport) CloseIdleConnections() { d.transport.CloseIdleConnections() }

// layer is a network list and its owner, which a denial names (EG6).
type layer struct {
	owner  string
	list   perdure.NetworkList
	broken error // the list cannot be read, so every request is denied
}

// layers returns the operator's lists, followed by those of the request.
func (g *Guard) layers(own ...perdure.NetworkList) []layer {
	kept := g.rules.current()
	all := []layer{{owner: perdure.LayerOperator, list: g.config.List}, {owner: perdure.LayerOperator, list: kept.list, broken: kept.broken}}
	for _, list := range own {
		all = append(all, layer{owner: perdure.LayerSession, list: list})
	}
	return all
}

// send checks the URL of a hop against the layers, and sends it.
func (d *purposeTransport) send(req *http.Request, layers ...layer) (*http.Response, error) {
	if req.URL == nil {
		closeBody(req)
		return nil, &perdure.EgressError{Code: perdure.EgressInvalid, Text: "the request has no URL"}
	}
	u, err := d.allowedURL(req.URL.String(), layers)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	hop := req.Clone(ctx)
	// The Host header must match the checked URL.
	hop.URL, hop.Host = u, ""
	// So that the transport never sends a body twice.
	hop.GetBody = nil
	// Adds nothing without a span.
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(hop.Header))
	if err = InsertSecrets(hop, d.secrets); err == nil {
		err = d.checkInserted(hop.URL, u, layers)
	}
	if err == nil {
		err = d.sign(ctx, hop)
	}
	if err != nil {
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
		err = d.convertError(req, u, err, context.Cause(ctx))
		cancel(nil)
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, cancel: cancel}
	return resp, nil
}

// allowedURL returns the normal form of a URL if the layers and the port allow it.
func (d *purposeTransport) allowedURL(raw string, layers []layer) (*url.URL, error) {
	u, err := urlform.Normal(raw)
	if err != nil {
		return nil, urlError(raw, err)
	}
	for _, l := range layers {
		if l.broken != nil {
			return nil, &perdure.EgressError{Code: perdure.EgressDenied, Host: u.Hostname(), Rule: perdure.RuleBlocked, Layer: l.owner,
				Text: fmt.Sprintf("the %s's rules cannot be read, so all requests are denied until they are repaired: %v", l.owner, l.broken), Err: l.broken}
		}
		if ok, rule, pattern := l.list.Decide(u); !ok {
			return nil, &perdure.EgressError{Code: perdure.EgressDenied, Host: u.Hostname(), Rule: rule, Layer: l.owner, Text: listText(u, l.owner, rule, pattern)}
		}
	}
	port := portOf(u)
	if _, named := d.guard.isListed(d.purpose, u.Hostname(), port); isRefusedPort(port) && !named {
		return nil, &perdure.EgressError{Code: perdure.EgressDenied, Host: u.Hostname(), Rule: perdure.RuleAddress, Layer: perdure.LayerGuard, Text: fmt.Sprintf(
			"port %s belongs to a protocol other than HTTP, and is refused. If this is intended, an operator can list %s for this purpose", port, net.JoinHostPort(u.Hostname(), port))}
	}
	return u, nil
}

// checkInserted checks a URL again after secrets were inserted into it: the lists are about what is
// sent. written is the URL with the references. No error shows the URL that would be sent, or which
// pattern it matches, because that would show a part of a secret.
func (d *purposeTransport) checkInserted(sent, written *url.URL, layers []layer) error {
	if sent.String() == written.String() {
		return nil
	}
	allowed, err := d.allowedURL(sent.String(), layers)
	if denial := (*perdure.EgressError)(nil); errors.As(err, &denial) && denial.Code == perdure.EgressDenied {
		return &perdure.EgressError{Code: perdure.EgressDenied, Host: written.Hostname(), Rule: denial.Rule, Layer: denial.Layer, Text: fmt.Sprintf(
			"with the value of the secret in it, the URL is not allowed by the %s's list: use another URL, or send the secret in a header", denial.Layer)}
	}
	if err != nil || allowed.String() != sent.String() {
		return &perdure.EgressError{Code: perdure.EgressDenied, Host: written.Hostname(), Rule: perdure.RuleSecret, Layer: perdure.LayerGuard,
			Text: "the value of the secret changes which path the URL has, for instance because it is a dot segment: send the secret in a header or in the query"}
	}
	return nil
}

// Check says why a request for a URL would be denied as far as that can be known without a lookup:
// its form, the lists, the port, or a literal address. It is for the moment at which a URL is saved
// (EG5). A nil error does not promise that a later request is allowed, since a name may resolve to
// other addresses by then. The error is a *perdure.EgressError.
func (g *Guard) Check(purpose, rawURL string, list perdure.NetworkList) error {
	d := purposeTransport{guard: g, purpose: purpose}
	u, err := d.allowedURL(rawURL, g.layers(list))
	if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		_, err = g.check(purpose, u.Hostname(), portOf(u), []netip.Addr{addr})
		return err
	}
	return nil
}

// Resolve says whether a request for a URL would be allowed as far as that can be known without a
// connection: Check, and then a lookup whose every address is checked. It returns the addresses
// that a connection would use. The error is a *perdure.EgressError, or ctx's. Denials are not
// reported to Config.Denied.
func (g *Guard) Resolve(ctx context.Context, purpose, rawURL string, list perdure.NetworkList) ([]netip.AddrPort, error) {
	d := purposeTransport{guard: g, purpose: purpose}
	u, err := d.allowedURL(rawURL, g.layers(list))
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

// sign lets Config.Sign sign a hop that asks for it. Only the header that the hook leaves counts,
// without framing fields: it cannot change where the request goes or how it is framed.
func (d *purposeTransport) sign(ctx context.Context, hop *http.Request) error {
	switch hook := d.guard.config.Sign; {
	case d.signing == "" || d.signing == perdure.SigningDisabled, d.signing == perdure.SigningDefault && hook == nil:
		return nil
	case hook == nil:
		return unsigned(hop, "the request must be signed, but no signing is configured", nil)
	default:
		shown := hop.Clone(ctx)
		shown.Body = nil
		if err := hook(ctx, shown, bytes.Clone(d.body)); err != nil {
			return unsigned(hop, "sign the request: "+err.Error(), err)
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

// urlError is the error for a URL that has no normal form.
func urlError(raw string, err error) *perdure.EgressError {
	e := &perdure.EgressError{Code: perdure.EgressInvalid, Text: err.Error(), Err: err}
	if u, parseErr := url.Parse(raw); parseErr == nil {
		e.Host = u.Hostname()
	}
	if urlform.IsScheme(err) {
		e.Code, e.Rule, e.Layer = perdure.EgressDenied, perdure.RuleScheme, perdure.LayerGuard
	}
	return e
}

func listText(u *url.URL, owner, rule, pattern string) string {
	switch {
	case rule == perdure.RuleAllowed:
		return fmt.Sprintf("%s matches no pattern in the %s's list of allowed hosts: use an allowed host, or ask for it to be added", u.Hostname(), owner)
	case pattern == "*":
		return fmt.Sprintf("the %s's list of blocked hosts has *, so all requests are denied", owner)
	}
	return fmt.Sprintf("%s is blocked by %q in the %s's list: use another host, or ask for that pattern to be removed", u.Hostname(), pattern, owner)
}

// convertError converts the transport's error. cause is why the hop's context ended, or nil.
func (d *purposeTransport) convertError(req *http.Request, u *url.URL, err, cause error) error {
	if req.Context().Err() != nil {
		return context.Cause(req.Context())
	}
	if errors.Is(cause, errSlowHeader) || errors.Is(err, errSlowHeader) {
		return transportError(u.Hostname(), fmt.Sprintf("%s sent no response header within %v", u.Hostname(), d.guard.config.HeaderTimeout), errSlowHeader)
	}
	if egressErr := (*perdure.EgressError)(nil); errors.As(err, &egressErr) {
		return egressErr
	}
	return transportError(u.Hostname(), fmt.Sprintf("no response from %s: %v", u.Hostname(), err), err)
}

// body is a response body that cancels its hop's context when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// closeBody closes the request body, which an [http.RoundTripper] must do on errors, too.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
