package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
)

const (
	maxTextBytes = 500 // bytes of the provider's message
)

// refusal is an error of the provider, from an event or a status.
type refusal struct {
	status int // HTTP status; 0: an event
	body   string
	header http.Header // nil: an event
}

// Error returns the body.
func (r refusal) Error() string { return r.body }

// brokenError is the error for a broken stream.
func brokenError(text string) *model.Error { return &model.Error{Code: model.Unavailable, Text: text} }

// streamError returns the error that ends a stream. Errors of the SDK may contain the request with
// the key, so they are masked.
func (m *Model) streamError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		return brokenError("the stream ended before the answer did")
	}
	if over := limitError(err); over != nil {
		return over
	}
	var ours *model.Error
	var refused refusal
	var denied *perdure.EgressError
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &refused):
		return m.refusalError(refused)
	case errors.As(err, &denied) && denied.Code != perdure.EgressTransport:
		return &model.Error{Code: model.Misconfigured, Text: m.safeText(denied.Error()), Err: m.secret.MaskError(err)}
	}
	return &model.Error{Code: model.Unavailable, Text: m.safeText(err.Error()), Err: m.secret.MaskError(err)}
}

// refusalError returns the error for a refusal.
func (m *Model) refusalError(r refusal) *model.Error {
	p := modelwire.ReadProblem([]byte(r.body))
	text := p.Message
	if r.status > 0 && !p.Known {
		text = strings.TrimSpace(fmt.Sprintf("status %d %s %s", r.status, http.StatusText(r.status), p.Message))
	}
	return &model.Error{
		Code: codeOf(r.status, p, text), Text: m.safeText(cmp.Or(text, "the provider aborted the answer")),
		RetryAfter: cmp.Or(modelwire.RetryAfter(r.header), p.RetryAfter),
	}
}

// badSchema matches the tool whose schema the provider refused.
var badSchema = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`tools\.\d+\..*input_schema`) })

// codeOf returns the code of an error with this text. status is 0 for an event.
func codeOf(status int, p modelwire.Problem, text string) model.Code {
	kind := p.Kind
	words := strings.ToLower(text)
	says := func(any ...string) bool {
		for _, s := range any {
			if strings.Contains(words, s) {
				return true
			}
		}
		return false
	}
	is := func(code int, name string) bool { return status == code || kind == name && status < 500 }
	switch {
	case status >= 500, is(http.StatusRequestTimeout, "timeout_error"), kind == "overloaded_error", kind == "api_error":
		return model.Unavailable
	case says("usage limit"):
		return model.UsageLimit
	case is(http.StatusPaymentRequired, "billing_error"), says("credit balance"), !is(http.StatusTooManyRequests, "rate_limit_error") && says("billing"):
		return model.QuotaExhausted
	case is(http.StatusRequestEntityTooLarge, "request_too_large"), says("prompt is too long", "exceed context limit"):
		return model.TooLarge
	case is(http.StatusTooManyRequests, "rate_limit_error"):
		return model.RateLimited
	case status != http.StatusUnauthorized && p.Passing() != "":
		return p.Passing()
	case is(http.StatusNotFound, "not_found_error"):
		return model.ModelUnavailable
	case is(http.StatusBadRequest, "invalid_request_error") && badSchema().MatchString(text):
		return model.InvalidToolSchema
	case is(http.StatusBadRequest, "invalid_request_error"), is(http.StatusUnauthorized, "authentication_error"), is(http.StatusForbidden, "permission_error"):
		return model.Misconfigured
	}
	return model.Processing
}

// anyKey matches everything that looks like a key of this provider.
var anyKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`sk-ant-[A-Za-z0-9_-]+`) })

// safeText makes a foreign text fit for an error: on one line, without keys, and shortened. Keys
// are removed first, so that shortening cannot leave a part of one.
func (m *Model) safeText(text string) string {
	text = m.secret.Mask(text)
	text = anyKey().ReplaceAllLiteralString(text, redact.Mark)
	text = strings.Join(strings.Fields(valid(text)), " ")
	if len(text) <= maxTextBytes {
		return text
	}
	end := maxTextBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
