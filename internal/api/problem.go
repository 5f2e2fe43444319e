package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/access"
)

// Problem is an error as shown to callers, in the format of RFC 9457 with additional members (H3).
type Problem struct {
	Type        string       `json:"type" doc:"A page about this kind of problem: an absolute URL if the server knows its own URL, else a path on the server."`
	Title       string       `json:"title"`
	Status      int          `json:"status"`
	Detail      string       `json:"detail" doc:"What happened, and what to do about it."`
	Instance    string       `json:"instance" doc:"The requested path."`
	Code        string       `json:"code" doc:"The kind of problem, for programs."`
	RequestID   string       `json:"request_id"`
	Retryable   bool         `json:"retryable" doc:"The same request may succeed later."`
	FieldErrors []FieldError `json:"field_errors,omitempty" doc:"What is wrong with which part of the request."`
	FirstOffset *int64       `json:"first_offset,omitempty" doc:"For a rotated log: the first offset that is still available."`

	cause  error       // the cause of an internal error, for the log and for detailed disclosure
	header http.Header // headers of the response
}

// FieldError says what is wrong with one part of a request.
type FieldError struct {
	Field   string `json:"field" doc:"A JSON pointer into the body, or query., path. or header. followed by the name of a parameter."`
	Message string `json:"message"`
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problems for every requested one.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns the headers of the response.
func (p *Problem) GetHeaders() http.Header { return p.header }

// generic is the only text that a reader gets under generic disclosure and about internal errors.
const generic = "An error occurred while processing the request."

// problemClass is a class of problems.
type problemClass struct {
	status         int
	code           string
	title          string
	retryable      bool
	standardDetail string // the detail under standard disclosure, if the error's own text may contain internals
}

// classes maps each error kind to a class, in this one place (ER1). The first matching kind wins.
var classes = []struct {
	kind error
	problemClass
}{
	{KeyReused, problemClass{http.StatusUnprocessableEntity, "key_reused", "Idempotency key reused", false, ""}},
	{perdure.NotFound, problemClass{http.StatusNotFound, "not_found", "Not found", false, ""}},
	{perdure.Denied, problemClass{http.StatusForbidden, "forbidden", "Forbidden", false, ""}},
	{perdure.UnknownOutcome, problemClass{http.StatusConflict, "unknown_outcome", "Unknown outcome", false, ""}},
	{perdure.Lost, problemClass{http.StatusConflict, "lost", "Lost", false, ""}},
	{perdure.Conflict, problemClass{http.StatusConflict, "conflict", "Conflict", false, ""}},
	{perdure.Limit, problemClass{http.StatusTooManyRequests, "limit", "Limit reached", true, ""}},
	{perdure.Storage, problemClass{http.StatusInsufficientStorage, "storage", "Storage", false, "The store cannot write durably at the moment. The request was not acknowledged."}},
	{perdure.Unavailable, problemClass{http.StatusServiceUnavailable, "unavailable", "Unavailable", true, "The service is unavailable at the moment. Try again later."}},
	{perdure.Invalid, problemClass{http.StatusBadRequest, "invalid", "Invalid request", false, ""}},
	{context.Canceled, problemClass{http.StatusServiceUnavailable, "unavailable", "Unavailable", true, "The request was canceled. Try again."}},
	{context.DeadlineExceeded, problemClass{http.StatusServiceUnavailable, "unavailable", "Unavailable", true, "The request took too long. Try again."}},
}

// transport maps errors that only have a status: those of the router, the server and this package.
var transport = map[int]problemClass{
	http.StatusBadRequest:                  {code: "invalid", title: "Invalid request"},
	http.StatusUnauthorized:                {code: "unauthorized", title: "Unauthorized"},
	http.StatusForbidden:                   {code: "forbidden", title: "Forbidden"},
	http.StatusNotFound:                    {code: "not_found", title: "Not found"},
	http.StatusMethodNotAllowed:            {code: "method_not_allowed", title: "Method not allowed"},
	http.StatusNotAcceptable:               {code: "not_acceptable", title: "Not acceptable"},
	http.StatusRequestTimeout:              {code: "request_timeout", title: "Request timeout", retryable: true},
	http.StatusConflict:                    {code: "in_flight", title: "Request in flight", retryable: true},
	http.StatusGone:                        {code: "rotated", title: "No longer available"},
	http.StatusPreconditionFailed:          {code: "precondition_failed", title: "Precondition failed"},
	http.StatusPreconditionRequired:        {code: "precondition_required", title: "Precondition required"},
	http.StatusRequestEntityTooLarge:       {code: "too_large", title: "Body too large"},
	http.StatusRequestURITooLong:           {code: "uri_too_long", title: "URI too long"},
	http.StatusUnsupportedMediaType:        {code: "unsupported_media_type", title: "Unsupported media type"},
	http.StatusTooManyRequests:             {code: "limit", title: "Limit reached", retryable: true},
	http.StatusRequestHeaderFieldsTooLarge: {code: "header_too_large", title: "Header too large"},
	http.StatusNotImplemented:              {code: "not_implemented", title: "Not implemented"},
	http.StatusServiceUnavailable:          {code: "draining", title: "Shutting down", retryable: true},
}

// otherClass are the codes outside both tables.
var otherClass = []string{"internal", "overloaded", "processing_error", "rate_limited"}

// Codes returns the codes of all problems, sorted. Each has a section on the page of problem types.
func Codes() []string {
	all := slices.Clone(otherClass)
	for _, c := range classes {
		all = append(all, c.code)
	}
	for _, c := range transport {
		all = append(all, c.code)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// draining refuses a write to a server that is shutting down (R3).
func draining() error {
	return &Problem{Status: http.StatusServiceUnavailable, Detail: "the server is shutting down; send the request to its successor"}
}

// problemOf converts any error to a problem, for the request in ctx.
func problemOf(ctx context.Context, err error) *Problem {
	req := requestOf(ctx)
	p := &Problem{}
	var own *Problem
	switch {
	case revoked(ctx) && errors.Is(err, context.Canceled):
		*p = *unauthorized(access.Ended.Error())
		p.fill(transport[p.Status])
	case errors.As(err, &own):
		*p = *own
		p.fill(transport[p.Status])
	default:
		p.classify(err, req.disclosure)
	}
	if p.Code == "" {
		p.Status, p.Code, p.Title, p.Detail = http.StatusInternalServerError, "internal", "Internal error", generic
		if req.disclosure == Detailed && p.cause != nil {
			p.Detail = cut(p.cause.Error(), 500)
		}
	}
	p.header = p.header.Clone()
	if p.Retryable && p.Status != http.StatusRequestTimeout && p.header.Get("Retry-After") == "" {
		if p.header == nil {
			p.header = http.Header{}
		}
		p.header.Set("Retry-After", strconv.Itoa(1)) // seconds
	}
	p.Type, p.Instance, p.RequestID = req.server+problemsPage+p.Code, req.path, req.id
	return p
}

// fill completes a problem that has only a status.
func (p *Problem) fill(c problemClass) {
	p.Code, p.Title, p.Retryable = orDefault(p.Code, c.code), orDefault(p.Title, c.title), c.retryable
}

// classify fills a problem from an error of the engine.
func (p *Problem) classify(err error, d Disclosure) {
	p.cause = err
	for _, c := range classes {
		if !errors.Is(err, c.kind) {
			continue
		}
		p.Status, p.Detail = c.status, cut(err.Error(), 1000)
		p.fill(c.problemClass)
		if c.standardDetail != "" && d != Detailed {
			p.Detail = c.standardDetail
		}
		var gone *perdure.LogRotated
		if errors.As(err, &gone) {
			p.Status, p.Code, p.Title, p.FirstOffset = http.StatusGone, "", "", &gone.First
			p.fill(transport[p.Status])
		}
		var field *fieldError
		if errors.As(err, &field) {
			p.FieldErrors = []FieldError{field.FieldError}
		}
		var fields fieldErrors
		if errors.As(err, &fields) {
			p.FieldErrors = fields
		}
		break
	}
	if d == Generic && p.Code != "" {
		p.Code, p.Title, p.Detail, p.FieldErrors, p.FirstOffset = "processing_error", "Processing error", generic, nil, nil
	}
}

// cut shortens a text to at most n bytes, at a character boundary, and marks the cut with an
// ellipsis.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// fieldError is an Invalid error about one field.
type fieldError struct{ FieldError }

// Error names the field and the fault.
func (f *fieldError) Error() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// Unwrap returns Invalid.
func (f *fieldError) Unwrap() error { return perdure.Invalid }

// fieldErrors is an Invalid error about several fields.
type fieldErrors []FieldError

// Error joins all faults.
func (f fieldErrors) Error() string {
	words := make([]string, 0, len(f))
	for _, one := range f {
		words = append(words, one.Message)
	}
	return strings.Join(words, "; ")
}

// Unwrap returns Invalid.
func (f fieldErrors) Unwrap() error { return perdure.Invalid }

// invalid returns the error of one field.
func invalid(field, format string, args ...any) error {
	return &fieldError{FieldError{Field: field, Message: fmt.Sprintf(format, args...)}}
}

// refuse writes a problem outside any operation.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(r.Context(), err)
	a.logCause(r.Context(), p)
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	body, err := json.Marshal(p)
	if err == nil {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
}

// logCause logs the cause of an internal error, which the response does not show.
func (a *API) logCause(ctx context.Context, p *Problem) {
	if p.Status >= http.StatusInternalServerError && p.cause != nil && ctx.Err() == nil {
		a.cfg.Log.WarnContext(ctx, "request failed", "request_id", p.RequestID, "error", p.cause)
	}
}

var replaceProblems sync.Once

// useProblems makes huma report its own errors as problems of this package, and makes its arrays
// never null. Both are package variables of huma, so it runs once per process.
func useProblems() {
	replaceProblems.Do(func() {
		huma.DefaultArrayNullable = false // our lists are [] or absent
		huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
			return problemOf(context.Background(), parameterProblem(status, msg, errs))
		}
		huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
			return problemOf(ctx.Context(), parameterProblem(status, msg, errs))
		}
	})
}

// parameterProblem converts errors that huma found in parameters: 400 with the names of the fields.
func parameterProblem(status int, msg string, errs []error) *Problem {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	p := &Problem{Status: status, Detail: msg}
	for _, err := range errs {
		var detail *huma.ErrorDetail
		if errors.As(err, &detail) {
			p.FieldErrors = append(p.FieldErrors, FieldError{Field: detail.Location, Message: detail.Message})
		}
	}
	if len(p.FieldErrors) > 0 {
		p.Detail = p.FieldErrors[0].Field + ": " + p.FieldErrors[0].Message
	}
	return p
}
