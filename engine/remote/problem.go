package remote

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/perdure/perdure"
)

// Problem is an error that the server answered (H3). Its text is the server's; errors.Is tells its kind.
type Problem struct {
	Type      string  `json:"type"`  // a page about it, as the server wrote it; Page is its URL
	Title     string  `json:"title"` // the same for all of its code
	Status    int     `json:"status"`
	Detail    string  `json:"detail"` // what happened this time, and what to do
	Code      string  `json:"code"`   // not_found, conflict …
	RequestID string  `json:"request_id"`
	Retryable bool    `json:"retryable"`
	Fields    []Field `json:"field_errors,omitempty"`
	First     *int64  `json:"first_offset,omitempty"` // of a log that was rotated: where it goes on

	base string // of the server, where a browser reaches it, too; empty: it does not
}

// Field says what is wrong with one part of a request.
type Field struct {
	Field   string `json:"field"` // a JSON pointer into the body, or a parameter such as query.limit
	Message string `json:"message"`
}

// Unauthorized reports that the server does not let this caller do it: the token is missing or wrong.
func (p *Problem) Unauthorized() bool {
	return p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden
}

// Request is the id under which the server's log has more about it; empty: it gave none.
func (p *Problem) Request() string { return p.RequestID }

// Page is the URL of a page about it; empty: none that opens.
func (p *Problem) Page() string {
	if strings.HasPrefix(p.Type, "/") && p.base != "" {
		return p.base + p.Type
	}
	if strings.HasPrefix(p.Type, "https://") || strings.HasPrefix(p.Type, "http://") {
		return p.Type
	}
	return ""
}

// Kind is its code; empty: the server gave none.
func (p *Problem) Kind() string { return p.Code }

// Error returns the server's text. That of an internal error is generic, so it comes with the request's id.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if text == "" {
		text = fmt.Sprintf("the server answered %d %s", p.Status, http.StatusText(p.Status))
	}
	if p.kind() == "" && p.RequestID != "" {
		text += " (request " + p.RequestID + ", under which the server's log has more)"
	}
	return text
}

// Is reports whether target is the problem's kind.
func (p *Problem) Is(target error) bool {
	kind := p.kind()
	return kind != "" && target == kind
}

// kind returns what the root calls it; empty: internal. A code says more than a status, which others than the
// server may have set.
func (p *Problem) kind() perdure.Kind {
	switch p.Code {
	case "not_found":
		return perdure.NotFound
	case "conflict", "in_flight":
		return perdure.Conflict
	case "lost":
		return perdure.Lost
	case "limit":
		return perdure.Limit
	case "unavailable", "draining":
		return perdure.Unavailable
	case "unknown_outcome":
		return perdure.UnknownOutcome
	case "storage":
		return perdure.Storage
	case "forbidden":
		return perdure.Denied
	case "internal":
		return ""
	}
	return kindOf(p.Status)
}

// kindOf tells the kind from the status alone. What is wrong with a request, its token included, is Invalid.
func kindOf(status int) perdure.Kind {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return perdure.NotFound
	case http.StatusForbidden:
		return perdure.Denied
	case http.StatusConflict, http.StatusPreconditionFailed:
		return perdure.Conflict
	case http.StatusTooManyRequests:
		return perdure.Limit
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return perdure.Unavailable
	case http.StatusInsufficientStorage:
		return perdure.Storage
	}
	if status >= 400 && status < 500 {
		return perdure.Invalid
	}
	return ""
}

// problemOf reads an answer that is an error. text may be anything: a proxy answers in words of its own.
func problemOf(status int, text []byte) *Problem {
	p := &Problem{}
	if err := perdure.DecodeKnownJSON(text, p); err != nil {
		p = &Problem{}
	}
	p.Status = status
	return p
}
