package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/perdure/perdure"
)

// errTimeout ends a request that takes longer than Config.Timeout.
var errTimeout = errors.New("the request took too long")

// framing are the fields of a header that are the guard's own, or that say how a message is cut.
const framing = "Accept-Encoding Connection Content-Length Expect Host Http2-Settings Keep-Alive Proxy-Authorization Proxy-Connection " +
	"Te Trailer Transfer-Encoding Upgrade"

// Do carries out one request, with up to five redirects, and returns an answer of any status. Nothing is tried
// again, and no connection is used twice: each hop is resolved, checked, dialed and closed.
//
// The error is a *perdure.EgressError, or ctx's cause when ctx ended. Of an answer that broke off what came of it is returned, too; else
// Status is 0.
func (g *Guard) Do(ctx context.Context, req perdure.WebRequest) (perdure.WebResponse, error) {
	timed, cancel := context.WithTimeoutCause(ctx, g.config.Timeout, errTimeout)
	defer cancel()
	out, err := g.do(timed, req)
	ours := (*perdure.EgressError)(nil)
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &ours):
		return out, g.deny(ours)
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
	d := g.newDoor(req.Purpose, false)
	defer d.CloseIdleConnections()
	d.signing = req.Signing
	for n := 1; ; n++ {
		d.body = hop.body
		resp, err := d.pass(hop.request(ctx), g.layers(req.List)...)
		if err != nil {
			return perdure.WebResponse{}, hop.blame(err)
		}
		if location := resp.Header.Get("Location"); !isRedirect(resp.StatusCode) || location == "" || req.NoRedirects {
			return g.take(ctx, resp, hop, req.MaxBytes)
		}
		_ = resp.Body.Close()
		if hop, err = hop.next(resp, n); err != nil {
			return perdure.WebResponse{}, err
		}
	}
}

// hop is one of the requests that a request becomes by redirects.
type hop struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
	from   string // the host that sent here; empty: the first hop
}

// firstHop checks what does not depend on addresses.
func (g *Guard) firstHop(req perdure.WebRequest) (hop, error) {
	u, err := perdure.NormalURL(req.URL)
	if err != nil {
		return hop{}, urlError(req.URL, err)
	}
	invalid := func(format string, args ...any) (hop, error) {
		return hop{}, &perdure.EgressError{Code: perdure.EgressInvalid, Host: u.Hostname(), Text: fmt.Sprintf(format, args...)}
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	switch {
	case req.Signing != "" && req.Signing != perdure.SigningDisabled && req.Signing != perdure.SigningDefault && req.Signing != perdure.SigningRequired:
		return invalid("there is no way of signing %q: write disabled, platform_default or required", string(req.Signing))
	case !isToken(method):
		return invalid("the method %q is none: write GET, POST or the like", method)
	case strings.EqualFold(method, http.MethodConnect), strings.EqualFold(method, http.MethodTrace):
		return invalid("the method %s is refused: it asks for a tunnel or an echo of the header", method)
	case int64(len(req.Body)) > g.config.MaxOut:
		return invalid("the body has %d bytes: at most %d leave", len(req.Body), g.config.MaxOut)
	}
	header, fault := cleanHeader(req.Header)
	if fault != "" {
		return invalid("%s", fault)
	}
	return hop{method: method, url: u, header: header, body: req.Body}, nil
}

// cleanHeader returns the fields that are the caller's to set, or what is wrong with one.
func cleanHeader(in map[string][]string) (http.Header, string) {
	header, size := make(http.Header), 0
	for name, values := range in {
		if !isToken(name) {
			return nil, fmt.Sprintf("the header has a field with the name %q: letters, digits and - are allowed", name)
		}
		name = http.CanonicalHeaderKey(name)
		if strings.Contains(" "+framing+" ", " "+name+" ") {
			continue
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return nil, fmt.Sprintf("the field %s of the header has a control character in its value", name)
			}
			size += len(name) + len(value) + len(": \r\n")
			header[name] = append(header[name], value)
		}
	}
	if size > maxHeaderBytes {
		return nil, fmt.Sprintf("the header has %d bytes: at most %d leave", size, maxHeaderBytes)
	}
	return header, ""
}

// isToken reports whether a text may be a method or the name of a field (RFC 9110, 5.6.2).
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

// next returns the hop that a redirect asks for; n counts redirects from 1.
func (h hop) next(resp *http.Response, n int) (hop, error) {
	to, err := h.url.Parse(resp.Header.Get("Location"))
	if err == nil {
		if denial := redirectError(h.url, to, n); denial != nil {
			return hop{}, denial
		}
		to, err = perdure.NormalURL(to.String())
	}
	if err != nil {
		return hop{}, hop{from: h.url.Hostname()}.blame(urlError(resp.Header.Get("Location"), err))
	}
	next := hop{url: to, header: h.header.Clone(), body: h.body, from: h.url.Hostname()}
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
	}
	return next, nil
}

// blame says who sent a request to where it was refused.
func (h hop) blame(err error) error {
	ours := (*perdure.EgressError)(nil)
	if h.from == "" || !errors.As(err, &ours) {
		return err
	}
	told := *ours
	told.Text = h.from + " redirects here: " + told.Text
	if told.Code == perdure.EgressInvalid { // the server's fault, not the caller's
		told.Code, told.Rule, told.Layer = perdure.EgressDenied, perdure.RuleRedirect, perdure.LayerGuard
	}
	return &told
}

// take reads the answer up to its limit. The limit counts bytes after decompression.
func (g *Guard) take(ctx context.Context, resp *http.Response, h hop, limit int64) (perdure.WebResponse, error) {
	defer resp.Body.Close()
	if limit <= 0 || limit > g.config.MaxIn {
		limit = g.config.MaxIn
	}
	out := perdure.WebResponse{URL: h.url.String(), Status: resp.StatusCode, Header: resp.Header}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	out.Body = text[:min(int64(len(text)), limit)]
	switch {
	case ctx.Err() != nil && err != nil:
		return out, context.Cause(ctx)
	case err != nil:
		return out, transportError(h.url.Hostname(), fmt.Sprintf("the answer of %s broke off after %d bytes: %v", h.url.Hostname(), len(text), err), err)
	}
	out.Truncated = int64(len(text)) > limit
	return out, nil
}

// hostOf returns the host of a URL as it was asked for; empty: it has none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
