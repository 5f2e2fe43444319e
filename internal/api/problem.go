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

// Problem is an error as callers see it, in the form of RFC 9457 with our own members (H3).
type Problem struct {
	Type        string       `json:"type" doc:"A page about this kind of problem: an absolute URL where the server knows its own, else a path of it."`
	Title       string       `json:"title"`
	Status      int          `json:"status"`
	Detail      string       `json:"detail" doc:"What happened, and what to do."`
	Instance    string       `json:"instance" doc:"The path that was asked for."`
	Code        string       `json:"code" doc:"The kind of problem, for programs."`
	RequestID   string       `json:"request_id"`
	Retryable   bool         `json:"retryable" doc:"The same request may succeed later."`
	FieldErrors []FieldError `json:"field_errors,omitempty" doc:"What is wrong with which part of the request."`
	FirstOffset *int64       `json:"first_offset,omitempty" doc:"Of a log that was rotated: where it goes on."`

	cause  error       // of an internal error, for the log and for detailed
	header http.Header // goes with the answer
}

// FieldError says what is wrong with one part of a request.
type FieldError struct {
	Field   string `json:"field" doc:"A JSON pointer into the body, or the name of a parameter after query, path or header and a dot."`
	Message string `json:"message"`
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of problems, whatever was asked for.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders is what goes with the answer.
func (p *Problem) GetHeaders() http.Header { return p.header }

// generic is what a reader learns of what is none of their business.
const generic = "An error occurred while processing the request."

// class is a class of problems.
type class struct {
	status int
	code   string
	title  string
	retry  bool
	seal   string // what the detail is under standard, when the error's own text is not for everybody
}

// classes maps kinds, once (ER1). The first that an error is, it has.
var classes = []struct {
	kind error
	class
}{
	{KeyReused, class{http.StatusUnprocessableEntity, "key_reused", "Idempotency key reused", false, ""}},
	{perdure.NotFound, class{http.StatusNotFound, "not_found", "Not found", false, ""}},
	{perdure.Denied, class{http.StatusForbidden, "forbidden", "Forbidden", false, ""}},
	{perdure.UnknownOutcome, class{http.StatusConflict, "unknown_outcome", "Unknown outcome", false, ""}},
	{perdure.Lost, class{http.StatusConflict, "lost", "Lost", false, ""}},
	{perdure.Conflict, class{http.StatusConflict, "conflict", "Conflict", false, ""}},
	{perdure.Limit, class{http.StatusTooManyRequests, "limit", "Limit reached", true, ""}},
	{perdure.Storage, class{http.StatusInsufficientStorage, "storage", "Storage", false, "The store cannot promise durability now. Nothing was acknowledged."}},
	{perdure.Unavailable, class{http.StatusServiceUnavailable, "unavailable", "Unavailable", true, "This cannot be done now. Try again."}},
	{perdure.Invalid, class{http.StatusBadRequest, "invalid", "Invalid request", false, ""}},
	{context.Canceled, class{http.StatusServiceUnavailable, "unavailable", "Unavailable", true, "The request was ended. Try again."}},
	{context.DeadlineExceeded, class{http.StatusServiceUnavailable, "unavailable", "Unavailable", true, "The request took too long. Try again."}},
}

// transport maps what has only a status: the router's, the server's and this package's own refusals.
var transport = map[int]class{
	http.StatusBadRequest:                  {code: "invalid", title: "Invalid request"},
	http.StatusUnauthorized:                {code: "unauthorized", title: "Unauthorized"},
	http.StatusForbidden:                   {code: "forbidden", title: "Forbidden"},
	http.StatusNotFound:                    {code: "not_found", title: "Not found"},
	http.StatusMethodNotAllowed:            {code: "method_not_allowed", title: "Method not allowed"},
	http.StatusNotAcceptable:               {code: "not_acceptable", title: "Not acceptable"},
	http.StatusRequestTimeout:              {code: "request_timeout", title: "Request timeout", retry: true},
	http.StatusConflict:                    {code: "in_flight", title: "Request in flight", retry: true},
	http.StatusGone:                        {code: "rotated", title: "Rotated away"},
	http.StatusPreconditionFailed:          {code: "precondition_failed", title: "Precondition failed"},
	http.StatusPreconditionRequired:        {code: "precondition_required", title: "Precondition required"},
	http.StatusRequestEntityTooLarge:       {code: "too_large", title: "Body too large"},
	http.StatusRequestURITooLong:           {code: "uri_too_long", title: "URI too long"},
	http.StatusUnsupportedMediaType:        {code: "unsupported_media_type", title: "Unsupported media type"},
	http.StatusTooManyRequests:             {code: "limit", title: "Limit reached", retry: true},
	http.StatusRequestHeaderFieldsTooLarge: {code: "header_too_large", title: "Header too large"},
	http.StatusNotImplemented:              {code: "not_implemented", title: "Not implemented"},
	http.StatusServiceUnavailable:          {code: "draining", title: "Draining", retry: true},
}

// others are the codes that stand in no table.
var others = []string{"internal", "overloaded", "processing_error", "rate_limited"}

// Codes are the codes of all problems, sorted. Each has a section on the page of problem types.
func Codes() []string {
	all := slices.Clone(others)
	for _, c := range classes {
		all = append(all, c.code)
	}
	for _, c := range transport {
		all = append(all, c.code)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// draining refuses a write to a server that comes to its end (R3).
func draining() error {
	return &Problem{Status: http.StatusServiceUnavailable, Detail: "the server is shutting down; send the request again, to the next one"}
}

// problemOf makes a problem of any error, for the request in ctx.
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
		p.judge(err, req.disclosure)
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

// fill completes a problem that says its status.
func (p *Problem) fill(c class) {
	p.Code, p.Title, p.Retryable = orDefault(p.Code, c.code), orDefault(p.Title, c.title), c.retry
}

// judge makes a problem of an error of the engine.
func (p *Problem) judge(err error, d Disclosure) {
	p.cause = err
	for _, c := range classes {
		if !errors.Is(err, c.kind) {
			continue
		}
		p.Status, p.Detail = c.status, cut(err.Error(), 1000)
		p.fill(c.class)
		if c.seal != "" && d != Detailed {
			p.Detail = c.seal
		}
		var gone *perdure.Rotated
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

// cut shortens a text to n bytes, at a whole character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// fieldError is Invalid input at one place.
type fieldError struct{ FieldError }

// Error names the place and the fault.
func (f *fieldError) Error() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// Unwrap makes it Invalid.
func (f *fieldError) Unwrap() error { return perdure.Invalid }

// fieldErrors is Invalid input at several places.
type fieldErrors []FieldError

// Error says all that is wrong.
func (f fieldErrors) Error() string {
	words := make([]string, 0, len(f))
	for _, one := range f {
		words = append(words, one.Message)
	}
	return strings.Join(words, "; ")
}

// Unwrap makes it Invalid.
func (f fieldErrors) Unwrap() error { return perdure.Invalid }

// invalid is the error of one field.
func invalid(field, format string, args ...any) error {
	return &fieldError{FieldError{Field: field, Message: fmt.Sprintf(format, args...)}}
}

// refuse writes a problem, outside any operation.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(r.Context(), err)
	a.told(r.Context(), p)
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

// told writes to the log what a caller is not told.
func (a *API) told(ctx context.Context, p *Problem) {
	if p.Status >= http.StatusInternalServerError && p.cause != nil && ctx.Err() == nil {
		a.cfg.Log.WarnContext(ctx, "a request failed", "request_id", p.RequestID, "error", p.cause)
	}
}

var replaceProblems sync.Once

// useProblems makes the errors that huma finds by itself problems of ours, and its arrays never null. These are
// variables of its package, so this is done once in a process.
func useProblems() {
	replaceProblems.Do(func() {
		huma.DefaultArrayNullable = false // our lists are [] or absent
		huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
			return problemOf(context.Background(), found(status, msg, errs))
		}
		huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
			return problemOf(ctx.Context(), found(status, msg, errs))
		}
	})
}

// found is what huma found wrong with the parameters: 400 with their names.
func found(status int, msg string, errs []error) *Problem {
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
