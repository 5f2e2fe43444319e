package remote

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/perdure/perdure"
)

// Problem is an error response of the server (RFC 9457). Its text is the server's; use errors.Is
// for its kind.
type Problem struct {
	Type      string  `json:"type"`  // the page about the problem, as the server sent it; see Page
	Title     string  `json:"title"` // the same for every problem with this code
	Status    int     `json:"status"`
	Detail    string  `json:"detail"` // what happened and what to do
	Code      string  `json:"code"`   // not_found, conflict …
	RequestID string  `json:"request_id"`
	Retryable bool    `json:"retryable"`
	Fields    []Field `json:"field_errors,omitempty"`
	First     *int64  `json:"first_offset,omitempty"` // of a rotated log: the first available offset

	base string // the server's URL, if a browser can reach it; otherwise empty
}

// Field describes an error in one part of a request.
type Field struct {
	Field   string `json:"field"` // a JSON pointer into the body, or a parameter such as query.limit
	Message string `json:"message"`
}

// Unauthorized reports whether the server refused the caller because the token is missing, wrong or
// insufficient.
func (p *Problem) Unauthorized() bool {
	return p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden
}

// Request returns the id of the request in the server's log; empty: none.
func (p *Problem) Request() string { return p.RequestID }

// Page returns the URL of a page about the problem; empty: none.
func (p *Problem) Page() string {
	if strings.HasPrefix(p.Type, "/") && p.base != "" {
		return p.base + p.Type
	}
	if strings.HasPrefix(p.Type, "https://") || strings.HasPrefix(p.Type, "http://") {
		return p.Type
	}
	return ""
}

// Kind returns the code of the problem; empty: none.
func (p *Problem) Kind() string { return p.Code }

// Error returns the server's text. The text of an internal error is generic, so the id of the
// request is added.
func (p *Problem) Error() string {
	text := p.Detail
	text = cmp.Or(text, p.Title)
	if text == "" {
		text = fmt.Sprintf("the server answered %d %s", p.Status, http.StatusText(p.Status))
	}
	if p.kind() == "" && p.RequestID != "" {
		text += " (request " + p.RequestID + "; see the server's log)"
	}
	return text
}

// Is reports whether target is the problem's kind.
func (p *Problem) Is(target error) bool {
	kind := p.kind()
	return kind != "" && target == kind
}

// kind returns the root's kind for the problem; empty: internal error. It prefers the code to the
// status, because a proxy may have set the status.
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

// kindOf returns the kind for a status. A faulty request, or a faulty token, is Invalid.
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

// problemOf decodes an error response. text may be anything, because a proxy sends its own format.
func problemOf(status int, text []byte) *Problem {
	p := &Problem{}
	if err := perdure.DecodeKnownJSON(text, p); err != nil {
		p = &Problem{}
	}
	p.Status = status
	return p
}
