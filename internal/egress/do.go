package egress

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/urlform"
)

// errTimeout ends a request that takes longer than Config.Timeout.
var errTimeout = errors.New("request timed out")

// framingFields lists the header fields that the guard itself sets, or that determine how a message
// is framed.
const framingFields = "Accept-Encoding Connection Content-Length Expect Host Http2-Settings Keep-Alive Proxy-Authorization Proxy-Connection " +
	"Te Trailer Transfer-Encoding Upgrade"

// Do carries out one request, follows up to five redirects, and returns a response of any status.
// It never retries and never reuses a connection: each hop is resolved, checked, dialed and closed.
//
// The error is a *perdure.EgressError, or ctx's cause when ctx ended. If the response broke off,
// the part that arrived is returned with the error; otherwise Status is 0.
func (g *Guard) Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error) {
	timed, cancel := context.WithTimeoutCause(ctx, g.config.Timeout, errTimeout)
	defer cancel()
	out, err := g.do(timed, req)
	egressErr := (*perdure.EgressError)(nil)
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &egressErr):
		return out, g.deny(egressErr)
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	}
	return out, transportError(hostOf(req.URL), fmt.Sprintf("%s took more than %v", hostOf(req.URL), g.config.Timeout), err)
}

func (g *Guard) do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error) {
	hop, err := g.firstHop(req)
	if err != nil {
		return perdure.WebResponse{}, err
	}
	d := g.newTransport(req.Purpose, false)
	defer d.CloseIdleConnections()
	d.signing, d.secrets = req.Signing, req.Secrets
	for n := 1; ; n++ {
		d.body = hop.body
		resp, err := d.send(hop.request(ctx), g.layers(req.List)...)
		if err != nil {
			return perdure.WebResponse{}, hop.addRedirector(err)
		}
		if location := resp.Header.Get("Location"); !isRedirect(resp.StatusCode) || location == "" || req.NoRedirects {
			return g.readResponse(ctx, resp, hop, req.MaxBytes)
		}
		_ = resp.Body.Close()
		if hop, err = hop.next(resp, n, req.Secrets); err != nil {
			return perdure.WebResponse{}, err
		}
	}
}

// hop is one request in a chain of redirects.
type hop struct {
	method         string
	url            *url.URL
	header         http.Header
	body           []byte
	redirectedFrom string // the host that redirected here; empty: the first hop
}

// firstHop validates everything that does not depend on addresses.
func (g *Guard) firstHop(req perdure.WebRequest) (hop, error) {
	u, err := urlform.Normal(req.URL)
	if err != nil {
		return hop{}, urlError(req.URL, err)
	}
	invalid := func(format string, args ...any) (hop, error) {
		return hop{}, &perdure.EgressError{Code: perdure.EgressInvalid, Host: u.Hostname(), Text: fmt.Sprintf(format, args...)}
	}
	method := req.Method
	method = cmp.Or(method, http.MethodGet)
	switch {
	case req.Signing != "" && req.Signing != perdure.SigningDisabled && req.Signing != perdure.SigningDefault && req.Signing != perdure.SigningRequired:
		return invalid("invalid signing %q: want disabled, platform_default or required", string(req.Signing))
	case !isToken(method):
		return invalid("invalid method %q: want GET, POST or another HTTP method", method)
	case strings.EqualFold(method, http.MethodConnect), strings.EqualFold(method, http.MethodTrace):
		return invalid("the method %s is refused: it opens a tunnel or echoes the header", method)
	case int64(len(req.Body)) > g.config.MaxRequestBytes:
		return invalid("the body has %d bytes; at most %d are allowed", len(req.Body), g.config.MaxRequestBytes)
	}
	header, fault := cleanHeader(req.Header)
	if fault != "" {
		return invalid("%s", fault)
	}
	return hop{method: method, url: u, header: header, body: req.Body}, nil
}

// cleanHeader returns the header fields that the caller may set, or what is wrong with one of them.
func cleanHeader(in map[string][]string) (http.Header, string) {
	header, size := make(http.Header), 0
	for name, values := range in {
		if !isToken(name) {
			return nil, fmt.Sprintf("invalid header field name %q: want letters, digits and -", name)
		}
		name = http.CanonicalHeaderKey(name)
		if strings.Contains(" "+framingFields+" ", " "+name+" ") {
			continue
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return nil, fmt.Sprintf("the value of header field %s has a control character", name)
			}
			size += len(name) + len(value) + len(": \r\n")
			header[name] = append(header[name], value)
		}
	}
	if size > maxHeaderBytes {
		return nil, fmt.Sprintf("the header has %d bytes; at most %d are allowed", size, maxHeaderBytes)
	}
	return header, ""
}

// isToken reports whether s is a valid method or field name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	strange := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, strange)
}

func (h hop) request(ctx context.Context) *http.Request {
	req := (&http.Request{Method: h.method, URL: h.url, Header: h.header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	if len(h.body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(h.body)), int64(len(h.body))
	}
	return req
}

// next returns the hop that a redirect leads to; n counts redirects from 1. Its URL and header have
// the references of secrets, not their values.
func (h hop) next(resp *http.Response, n int, secrets []perdure.WebSecret) (hop, error) {
	to, err := h.url.Parse(resp.Header.Get("Location"))
	if err == nil {
		if denial := redirectError(h.url, to, n); denial != nil {
			return hop{}, denial
		}
		to, err = urlform.Normal(to.String())
	}
	if err != nil {
		return hop{}, hop{redirectedFrom: h.url.Hostname()}.addRedirector(urlError(resp.Header.Get("Location"), err))
	}
	next := hop{url: to, header: h.header.Clone(), body: h.body, redirectedFrom: h.url.Hostname()}
	method, keepsBody := methodAfter(resp.StatusCode, h.method)
	next.method = method
	if !keepsBody {
		next.body = nil
		for name := range next.header {
			if strings.HasPrefix(name, "Content-") {
				delete(next.header, name)
			}
		}
	}
	if !sameOrigin(h.url, to) {
		dropCredentials(next.header)
		dropSecrets(next.header, secrets)
	}
	return next, nil
}

// addRedirector adds to an error which host redirected to the refused URL.
func (h hop) addRedirector(err error) error {
	egressErr := (*perdure.EgressError)(nil)
	if h.redirectedFrom == "" || !errors.As(err, &egressErr) {
		return err
	}
	named := *egressErr
	named.Text = h.redirectedFrom + " redirects here: " + named.Text
	if named.Code == perdure.EgressInvalid { // the server's fault, not the caller's
		named.Code, named.Rule, named.Layer = perdure.EgressDenied, perdure.RuleRedirect, perdure.LayerGuard
	}
	return &named
}

// readResponse reads the response up to its limit. The limit counts bytes after decompression.
func (g *Guard) readResponse(ctx context.Context, resp *http.Response, h hop, limit int64) (perdure.WebResponse, error) {
	defer resp.Body.Close()
	if limit <= 0 || limit > g.config.MaxResponseBytes {
		limit = g.config.MaxResponseBytes
	}
	out := perdure.WebResponse{URL: h.url.String(), Status: resp.StatusCode, Header: resp.Header}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	out.Body = text[:min(int64(len(text)), limit)]
	switch {
	case ctx.Err() != nil && err != nil:
		return out, context.Cause(ctx)
	case err != nil:
		return out, transportError(h.url.Hostname(), fmt.Sprintf("the response of %s broke off after %d bytes: %v", h.url.Hostname(), len(text), err), err)
	}
	out.Truncated = int64(len(text)) > limit
	return out, nil
}

// hostOf returns the host of a URL as the caller wrote it; empty: it has none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
