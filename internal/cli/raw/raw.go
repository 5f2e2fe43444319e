// Package raw is the room of the command line for requests of the HTTP API as they are: perdure api.
//
// It may import the root. The one thing to know: a request may reach the server more often than once, since it is sent again
// when no answer came; a write carries the same idempotency key each time, so it is carried out once (C16).
package raw

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

const (
	// retryTime is how long a request is sent again to a server that does not answer.
	retryTime = 10 * time.Second
	// firstPause is before the second try; each later one is twice as long, up to lastPause.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
	// pageBytes bounds one page of a list.
	pageBytes = 64 << 20
	// problemBytes bounds what is read of an error.
	problemBytes = 1 << 20
)

// Way is how a server is reached.
type Way struct {
	Base  string // http://HOST:PORT, without a slash at its end
	Token string // bearer; empty: none is sent
	Actor string // over a socket: who acts; empty: nobody is named
	HTTP  *http.Client
}

// Request is one thing to ask for.
type Request struct {
	Method string
	Path   string // with or without a slash at its front, and with what stands behind a ? of its own
	Query  url.Values
	Header http.Header
	Body   []byte // nil: none
	Key    string // the idempotency key of a write, which Header may overrule
}

// Writes reports whether a method may change something.
func Writes(method string) bool {
	return !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, method)
}

// Do sends a request until there is an answer, whose body is the caller's to close. Unavailable: there is none in time.
func (w Way) Do(ctx context.Context, r Request) (*http.Response, error) {
	began, next := time.Now(), firstPause
	for {
		req, err := w.compose(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("%w request: %w", perdure.Invalid, err)
		}
		resp, err := w.HTTP.Do(req)
		switch {
		case err == nil:
			return resp, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, perdure.Invalid): // the way there is refused, and will be again
			return nil, err
		case time.Since(began)+next > retryTime:
			return nil, fmt.Errorf("%w: no answer from the server: %w", perdure.Unavailable, cause(err))
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

// cause leaves out the URL, which whoever asked has typed.
func cause(err error) error {
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

func (w Way) compose(ctx context.Context, r Request) (*http.Request, error) {
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
	if Writes(r.Method) {
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

// Problem is an answer that is an error (H3).
type Problem struct {
	Type      string `json:"type"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	RequestID string `json:"request_id"`
	Text      []byte `json:"-"` // the whole body
	Base      string `json:"-"` // of the server, where a browser reaches it, too; empty: it does not
}

// Error is what the server said.
func (p *Problem) Error() string {
	for _, text := range []string{p.Detail, p.Title} {
		if text != "" {
			return text
		}
	}
	return fmt.Sprintf("the server answered %d %s", p.Status, http.StatusText(p.Status))
}

// Request is the id under which the server's log has more; empty: it gave none.
func (p *Problem) Request() string { return p.RequestID }

// Page is the URL of a page about it; empty: none that opens.
func (p *Problem) Page() string {
	if strings.HasPrefix(p.Type, "/") && p.Base != "" {
		return p.Base + p.Type
	}
	if strings.HasPrefix(p.Type, "https://") || strings.HasPrefix(p.Type, "http://") {
		return p.Type
	}
	return ""
}

// Kind is its code; empty: the server gave none.
func (p *Problem) Kind() string { return p.Code }

// Refused returns the problem of an answer that is one; nil: it is none. It reads the body of one that is.
func (w Way) Refused(resp *http.Response) *Problem {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	p := &Problem{}
	text, err := io.ReadAll(io.LimitReader(resp.Body, problemBytes))
	if err != nil || perdure.DecodeKnownJSON(text, p) != nil {
		p = &Problem{RequestID: resp.Header.Get("X-Request-Id")} // a proxy answers in words of its own
	}
	p.Status, p.Text = resp.StatusCode, text
	if w.Actor == "" { // else it is a socket
		p.Base = w.Base
	}
	return p
}

// page is a list as it is answered.
type page struct {
	Items   []json.RawMessage `json:"items"`
	Next    string            `json:"next"`
	LastSeq int64             `json:"last_seq"`
}

// All reads a list to its end and returns it as one page, so that whatever reads a page reads the whole. The error is a
// *Problem where the server refused. Invalid: what is answered is no list.
func (w Way) All(ctx context.Context, r Request) ([]byte, error) {
	all := []json.RawMessage{}
	r.Query = cloned(r.Query)
	for {
		got, err := w.page(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, got.Items...)
		name, next := got.goesOn(r.Path)
		if next == "" {
			break
		}
		if r.Query.Get(name) == next {
			return nil, fmt.Errorf("%w: the list does not go on: the server gave the same place twice", perdure.Unavailable)
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

func (w Way) page(ctx context.Context, r Request) (page, error) {
	var got page
	resp, err := w.Do(ctx, r)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	if p := w.Refused(resp); p != nil {
		return got, p
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, pageBytes))
	switch {
	case err != nil:
		return got, fmt.Errorf("%w: the answer was cut: %w", perdure.Unavailable, err)
	case perdure.DecodeKnownJSON(text, &got) != nil || got.Items == nil:
		return got, fmt.Errorf("%w use of --paginate: what is answered is no list", perdure.Invalid)
	}
	return got, nil
}

// goesOn returns the parameter that asks for the page after this one, and its value; empty: this is the last one. A journal
// says how far it goes instead of a cursor.
func (p page) goesOn(path string) (name, value string) {
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
