package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// longPoll is how long the server is asked to wait.
const longPoll = 30 * time.Second

var errSilent = errors.New("the server sent nothing for too long")

// request is one request to the server, however often it is sent.
type request struct {
	what      string // for errors: the step and the id
	path      string // escaped
	suffix    string // the part of the path after a name
	query     url.Values
	body      any    // of a write; nil: a read, unless remove, lines or raw is set
	put       bool   // the body is the complete new state of the resource
	remove    bool   // removes the resource
	jsonLines []byte // the body of a write with JSON lines; nil: none
	raw       []byte // the body of a write with bytes; nil: none
	method    string // of a write; empty: derived from the other fields
	header    map[string]string
	actor     string // of a write
	// No time limit for the start of the response, because a tool runs in the meantime, or the
	// program that has it starts.
	noTimeout   bool
	accept      string // empty: JSON
	resume      string // Last-Event-ID; empty: none
	cursorParam string // the name of the cursor parameter of a list; empty: cursor
}

// encodedRequest is a request as it is sent in every attempt.
type encodedRequest struct {
	request
	text []byte
	key  string // the idempotency key of a write (C16)
}

// encode encodes the body and creates the idempotency key. Invalid: the body cannot be encoded as
// JSON.
func (r request) encode() (encodedRequest, error) {
	s := encodedRequest{request: r}
	if r.body == nil && r.method == "" {
		s.method = http.MethodGet
	}
	if r.remove {
		s.method, s.key = http.MethodDelete, rand.Text()
		return s, nil
	}
	if r.jsonLines != nil {
		s.method, s.text, s.key = http.MethodPost, r.jsonLines, rand.Text()
		return s, nil
	}
	if r.raw != nil {
		s.method, s.text, s.key = r.method, r.raw, rand.Text()
		return s, nil
	}
	if r.body == nil {
		return s, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.body); err != nil {
		return s, fmt.Errorf("%s: %w request: %w", r.what, perdure.Invalid, err)
	}
	s.text, s.key = out.Bytes(), rand.Text()
	switch {
	case r.put:
		s.method = http.MethodPut
	case s.method == "":
		s.method = http.MethodPost
	}
	if r.method != "" {
		s.method = r.method
	}
	return s, nil
}

// call sends a request until there is a response, and decodes the response into *into; into may be
// nil.
func (e *Engine) call(ctx context.Context, r request, into any) (http.Header, error) {
	return e.callWith(ctx, r, into, e.retryBudget(e.cfg.Retry))
}

// callWith is call with a retry budget that spans several calls.
func (e *Engine) callWith(ctx context.Context, r request, into any, p *retryBudget) (http.Header, error) {
	s, err := r.encode()
	if err != nil {
		return nil, err
	}
	for {
		header, err := e.sendOnce(ctx, s, into)
		if err == nil {
			p.noteResponse()
			return header, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", r.what, context.Cause(ctx))
		}
		failure := (*retryableError)(nil)
		if !errors.As(err, &failure) {
			return nil, err
		}
		if err := p.wait(ctx, failure); err != nil {
			return nil, e.finalError(ctx, r.what, err)
		}
	}
}

// finalError builds the error after the retry budget is used up.
func (e *Engine) finalError(ctx context.Context, what string, err error) error {
	problem := (*Problem)(nil)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case errors.As(err, &problem):
		return problem
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return &unreachableError{url: e.shownURL(), err: err}
	}
	return fmt.Errorf("%s: %w: no complete response from %s: %w; "+
		"check that the server is running there (perdure serve)", what, perdure.Unavailable, e.shownURL(), err)
}

// unreachableError reports that no connection could be made. It is Unavailable.
type unreachableError struct {
	url string
	err error // contains a *net.OpError
}

// Error names the server and the innermost cause.
func (u *unreachableError) Error() string {
	return fmt.Sprintf("cannot connect to %s: %s", u.url, innermost(u.err))
}

// innermost returns the cause of a connection that could not be made, such as "connection refused",
// and any other error as it is.
func innermost(err error) error {
	dial := (*net.OpError)(nil)
	if !errors.As(err, &dial) || dial.Op != "dial" {
		return err
	}
	cause := dial.Err
	for next := errors.Unwrap(cause); next != nil; next = errors.Unwrap(cause) {
		cause = next
	}
	return cause
}

// Unwrap returns the kind and the cause.
func (u *unreachableError) Unwrap() []error { return []error{perdure.Unavailable, u.err} }

// shownURL returns the URL of the server without a password.
func (e *Engine) shownURL() string {
	if u, err := url.Parse(e.cfg.URL); err == nil {
		return u.Redacted()
	}
	return e.cfg.URL
}

// sendOnce sends a request and reads the complete response.
func (e *Engine) sendOnce(ctx context.Context, s encodedRequest, into any) (http.Header, error) {
	a, err := e.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer a.close()
	raw, unread := into.(*bytes.Buffer) // receives the response without decoding
	most := e.maxBytes
	if unread {
		most = engine.MaxArchiveBytes
	}
	text, err := a.read(most)
	if err != nil {
		return nil, a.readError(err)
	}
	if into == nil {
		return a.header, nil
	}
	if unread {
		raw.Write(text) // never fails
		return a.header, nil
	}
	if err := perdure.DecodeKnownJSON(text, into); err != nil {
		return nil, fmt.Errorf("%s: the response cannot be decoded: %w", s.what, err)
	}
	return a.header, nil
}

// open sends a request. Its error is an *away if a retry makes sense; any other error is final.
func (e *Engine) open(ctx context.Context, s encodedRequest) (*response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	limit := e.silence
	if s.query.Has("wait") {
		limit += longPoll
	}
	a := &response{
		what: s.what, cancel: cancel, limit: limit, watch: time.AfterFunc(limit, func() { cancel(errSilent) }),
	}
	if !e.socket {
		a.base = e.base
	}
	if s.noTimeout {
		a.watch.Stop()
	}
	req, err := e.newHTTPRequest(ctx, s)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("%s: %w request: %w", s.what, perdure.Invalid, err)
	}
	resp, err := e.http.Do(req) //nolint:bodyclose // answer.close does it
	if err != nil {
		defer a.close()
		if errors.Is(err, perdure.Invalid) { // the dialer refuses the address, and would do so again
			return nil, fmt.Errorf("%s: %w", s.what, err)
		}
		return nil, &retryableError{err: causeOf(ctx, err)}
	}
	a.header, a.status, a.body = resp.Header, resp.StatusCode, resp.Body
	a.watch.Reset(a.limit)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer a.close()
		return nil, a.problem()
	}
	return a, nil
}

// causeOf prefers the cause of ctx to the transport's error, and removes the URL from it, because
// every error contains the URL anyway.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

func (e *Engine) newHTTPRequest(ctx context.Context, s encodedRequest) (*http.Request, error) {
	target := e.base + s.path
	if len(s.query) > 0 {
		target += "?" + s.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, s.method, target, bytes.NewReader(s.text))
	if err != nil {
		return nil, err
	}
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header)) // nothing without a trace in ctx
	set("Accept", "application/json")
	set("Accept", s.accept)
	set("Last-Event-ID", s.resume)
	set("Idempotency-Key", s.key)
	switch {
	case s.jsonLines != nil:
		set("Content-Type", contentTypeJSONLines)
	case s.raw != nil:
		set("Content-Type", contentTypeBytes)
	case s.body != nil:
		set("Content-Type", "application/json")
	}
	for name, value := range s.header {
		set(name, value)
	}
	if e.cfg.Token != "" {
		set("Authorization", "Bearer "+e.cfg.Token)
	}
	if e.socket && s.method != http.MethodGet {
		set("Perdure-Actor", e.actor(s.actor))
	}
	return req, nil
}

// actor returns the actor of a write over a socket.
func (e *Engine) actor(by string) string {
	switch {
	case isActor(by):
		return by
	case e.cfg.Actor != "":
		return e.cfg.Actor
	}
	return "user"
}

// segment escapes an id for a path.
func segment[T ~string](id T) string { return url.PathEscape(string(id)) }
