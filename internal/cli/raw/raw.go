// Package raw sends requests to the HTTP API unchanged, for perdure api.
//
// It may import the root. The one thing to know: a request may reach the server more than once,
// since it is retried when no response arrives. A write carries the same idempotency key each time,
// so it is executed once.
package raw

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

const (
	// retryTime is how long a request is retried while the server does not respond.
	retryTime = 10 * time.Second
	// firstPause is the pause before the second attempt. It doubles with each attempt, up to
	// lastPause.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
	// pageBytes is the maximum size of one page of a list.
	pageBytes = 64 << 20
	// problemBytes is the maximum size of an error body.
	problemBytes = 1 << 20
)

// Client is a connection to a server.
type Client struct {
	Base  string // http://HOST:PORT, without a trailing slash
	Token string // bearer token; empty: none is sent
	Actor string // for a socket: the user who acts; empty: none is named
	HTTP  *http.Client
}

// Request is one HTTP request.
type Request struct {
	Method string
	Path   string // with or without a leading slash; may contain a query
	Query  url.Values
	Header http.Header
	Body   []byte // nil: none
	Key    string // idempotency key of a write; Header overrides it
}

// IsWrite reports whether a method may change something.
func IsWrite(method string) bool {
	return !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, method)
}

// Do sends a request until there is a response, whose body the caller closes. Unavailable: there
// was no response in time.
func (w Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	began, next := time.Now(), firstPause
	for {
		req, err := w.newRequest(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("%w request: %w", perdure.Invalid, err)
		}
		resp, err := w.HTTP.Do(req)
		switch {
		case err == nil:
			return resp, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, perdure.Invalid): // a retry would be refused again
			return nil, err
		case time.Since(began)+next > retryTime:
			return nil, unanswered(w.Base, cause(err))
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		next = min(2*next, lastPause)
	}
}

// cause removes the URL from an error, because the user typed it.
func cause(err error) error {
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

// unanswered returns the error of a request without a response. It is Unavailable.
func unanswered(base string, err error) error {
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: cannot connect to %s: %w", perdure.Unavailable, base, dial.Err)
	}
	return fmt.Errorf("%w: no response from the server: %w", perdure.Unavailable, err)
}

func (w Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	path, query, _ := strings.Cut("/"+strings.TrimPrefix(r.Path, "/"), "?")
	all, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Query {
		all[name] = append(all[name], values...)
	}
	target := w.Base + path
	if len(all) > 0 {
		target += "?" + all.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	set("Accept", "application/json, */*;q=0.5")
	if len(r.Body) > 0 {
		set("Content-Type", "application/json")
	}
	if IsWrite(r.Method) {
		set("Idempotency-Key", r.Key)
		set("Perdure-Actor", w.Actor)
	}
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if w.Token != "" {
		set("Authorization", "Bearer "+w.Token)
	}
	return req, nil
}

// Problem is an error response.
type Problem struct {
	Type      string `json:"type"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	RequestID string `json:"request_id"`
	Text      []byte `json:"-"` // the full body
	Base      string `json:"-"` // of the server, as a browser can reach it; empty: it cannot
}

// Error returns the message of the server.
func (p *Problem) Error() string {
	for _, text := range []string{p.Detail, p.Title} {
		if text != "" {
			return text
		}
	}
	return fmt.Sprintf("the server responded with %d %s", p.Status, http.StatusText(p.Status))
}

// Request returns the request id, which is also in the server's log; empty: there is none.
func (p *Problem) Request() string { return p.RequestID }

// Page returns the URL of its documentation; empty: there is none that opens.
func (p *Problem) Page() string {
	if strings.HasPrefix(p.Type, "/") && p.Base != "" {
		return p.Base + p.Type
	}
	if strings.HasPrefix(p.Type, "https://") || strings.HasPrefix(p.Type, "http://") {
		return p.Type
	}
	return ""
}

// Kind returns the problem code; empty: there is none.
func (p *Problem) Kind() string { return p.Code }

// ProblemOf returns the problem of an error response; nil: the response is a success. It reads the
// body of an error response.
func (w Client) ProblemOf(resp *http.Response) *Problem {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	p := &Problem{}
	text, err := io.ReadAll(io.LimitReader(resp.Body, problemBytes))
	if err != nil || perdure.DecodeKnownJSON(text, p) != nil {
		p = &Problem{RequestID: resp.Header.Get("X-Request-Id")} // the response of a proxy
	}
	p.Status, p.Text = resp.StatusCode, text
	if w.Actor == "" { // with an actor, it is a socket
		p.Base = w.Base
	}
	return p
}

// page is a page of a list.
type page struct {
	Items   []json.RawMessage `json:"items"`
	Next    string            `json:"next"`
	LastSeq int64             `json:"last_seq"`
}

// Pages reads all pages of a list and returns them as one page, in the format of a page. The error
// is a *Problem when the server refused. Invalid: the response is not a list.
func (w Client) Pages(ctx context.Context, r Request) ([]byte, error) {
	all := []json.RawMessage{}
	r.Query = cloned(r.Query)
	for {
		got, err := w.page(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, got.Items...)
		name, next := got.nextCursor(r.Path)
		if next == "" {
			break
		}
		if r.Query.Get(name) == next {
			return nil, fmt.Errorf("%w: the list does not end: the server returned the same cursor twice",
				perdure.Unavailable)
		}
		r.Query.Set(name, next)
	}
	return json.Marshal(map[string]any{"items": all})
}

func cloned(query url.Values) url.Values {
	all := url.Values{}
	for name, values := range query {
		all[name] = slices.Clone(values)
	}
	return all
}

func (w Client) page(ctx context.Context, r Request) (page, error) {
	var got page
	resp, err := w.Do(ctx, r)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	if p := w.ProblemOf(resp); p != nil {
		return got, p
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, pageBytes))
	switch {
	case err != nil:
		return got, fmt.Errorf("%w: the response was cut off: %w", perdure.Unavailable, err)
	case perdure.DecodeKnownJSON(text, &got) != nil || got.Items == nil:
		return got, fmt.Errorf("%w use of --paginate: the response is not a list", perdure.Invalid)
	}
	return got, nil
}

// nextCursor returns the query parameter for the next page, and its value; empty: this is the last
// page. A journal has no cursor, but returns its last sequence number.
func (p page) nextCursor(path string) (name, value string) {
	path, _, _ = strings.Cut(path, "?")
	switch {
	case p.Next != "" && strings.HasSuffix(path, "/messages") && strings.Contains(path, "/tasks/"):
		return "after", p.Next
	case p.Next != "":
		return "cursor", p.Next
	case len(p.Items) == 0:
		return "", ""
	}
	var last struct {
		Seq int64 `json:"seq"`
	}
	if perdure.DecodeKnownJSON(p.Items[len(p.Items)-1], &last) != nil || last.Seq >= p.LastSeq {
		return "", ""
	}
	return "after", strconv.FormatInt(last.Seq, 10)
}
