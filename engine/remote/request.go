package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/perdure/perdure"
)

// longPoll is how long the server is asked to wait for something.
const longPoll = 30 * time.Second

var errSilent = errors.New("it said nothing for too long")

// request is one thing asked of the server, however often it is sent.
type request struct {
	what    string // for errors: the step and the id
	path    string // escaped
	under   string // what follows a name in the path
	query   url.Values
	body    any    // of a write; nil: it reads, unless it has lines
	put     bool   // its body says how what the path names is to be
	remove  bool   // it is what the path names that goes
	lines   []byte // of a write whose body is JSON lines; nil: none
	raw     []byte // of a write whose body is bytes; nil: none
	method  string // of a write; empty: as the other fields say
	header  map[string]string
	actor   string // who writes
	patient bool   // no limit for the beginning of the answer: a tool runs meanwhile
	accept  string // empty: JSON
	resume  string // Last-Event-ID; empty: none
	place   string // the parameter that says where a list goes on; empty: cursor
}

// sent is a request in the form in which it is sent each time.
type sent struct {
	request
	text []byte
	key  string // the idempotency key of a write (C16)
}

// seal writes the body and mints the key. Invalid: the body cannot be written as JSON.
func (r request) seal() (sent, error) {
	s := sent{request: r}
	if r.body == nil && r.method == "" {
		s.method = http.MethodGet
	}
	if r.remove {
		s.method, s.key = http.MethodDelete, rand.Text()
		return s, nil
	}
	if r.lines != nil {
		s.method, s.text, s.key = http.MethodPost, r.lines, rand.Text()
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

// call asks until there is an answer, and decodes it into what into points to; nil: nobody reads it.
func (e *Engine) call(ctx context.Context, r request, into any) (http.Header, error) {
	return e.callWith(ctx, r, into, e.patience(e.cfg.Retry))
}

// callWith is call with a patience that spans several calls.
func (e *Engine) callWith(ctx context.Context, r request, into any, p *patience) (http.Header, error) {
	s, err := r.seal()
	if err != nil {
		return nil, err
	}
	for {
		header, err := e.once(ctx, s, into)
		if err == nil {
			p.meet()
			return header, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", r.what, context.Cause(ctx))
		}
		failure := (*away)(nil)
		if !errors.As(err, &failure) {
			return nil, err
		}
		if err := p.wait(ctx, failure); err != nil {
			return nil, e.explain(ctx, r.what, err)
		}
	}
}

// explain words the end of somebody's patience.
func (e *Engine) explain(ctx context.Context, what string, err error) error {
	problem := (*Problem)(nil)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case errors.As(err, &problem):
		return problem
	}
	return fmt.Errorf("%s: %w: no whole answer from %s: %w; see whether the server runs there (perdure serve)", what, perdure.Unavailable, e.cfg.URL, err)
}

// once sends a request and reads the whole answer.
func (e *Engine) once(ctx context.Context, s sent, into any) (http.Header, error) {
	a, err := e.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer a.close()
	raw, unread := into.(*bytes.Buffer) // takes the answer as it is
	most := e.most
	if unread {
		most = maxArchiveBytes
	}
	text, err := a.read(most)
	if err != nil {
		return nil, a.blame(err)
	}
	if into == nil {
		return a.header, nil
	}
	if unread {
		raw.Write(text) // never fails
		return a.header, nil
	}
	if err := perdure.DecodeKnownJSON(text, into); err != nil {
		return nil, fmt.Errorf("%s: the answer cannot be read: %w", s.what, err)
	}
	return a.header, nil
}

// open sends a request. An error is an *away where another try makes sense, or final.
func (e *Engine) open(ctx context.Context, s sent) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	limit := e.silence
	if s.query.Has("wait") {
		limit += longPoll
	}
	a := &answer{what: s.what, cancel: cancel, limit: limit, watch: time.AfterFunc(limit, func() { cancel(errSilent) })}
	if !e.socket {
		a.base = e.base
	}
	if s.patient {
		a.watch.Stop()
	}
	req, err := e.compose(ctx, s)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("%s: %w request: %w", s.what, perdure.Invalid, err)
	}
	resp, err := e.http.Do(req) //nolint:bodyclose // answer.close does it
	if err != nil {
		defer a.close()
		if errors.Is(err, perdure.Invalid) { // the way there is refused, and will be again
			return nil, fmt.Errorf("%s: %w", s.what, err)
		}
		return nil, &away{err: causeOf(ctx, err)}
	}
	a.header, a.status, a.body = resp.Header, resp.StatusCode, resp.Body
	a.watch.Reset(a.limit)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer a.close()
		return nil, a.refusal()
	}
	return a, nil
}

// causeOf prefers our own reason for giving up to the transport's word for it, and leaves out the URL, which
// every error of ours names anyway.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

func (e *Engine) compose(ctx context.Context, s sent) (*http.Request, error) {
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
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header)) // nothing, where the caller traces nothing
	set("Accept", "application/json")
	set("Accept", s.accept)
	set("Last-Event-ID", s.resume)
	set("Idempotency-Key", s.key)
	switch {
	case s.lines != nil:
		set("Content-Type", formLines)
	case s.raw != nil:
		set("Content-Type", formBytes)
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

// actor returns the word under which a write is done over a socket.
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
