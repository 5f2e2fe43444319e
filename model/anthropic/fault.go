package anthropic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/model"
)

const (
	maxWords = 500            // bytes of the provider's words
	maxWait  = 24 * time.Hour // that a provider may ask for; the durable layer waits less (4.6)
)

// refusal is an error of the provider that came as an event or as a status.
type refusal struct {
	status int // of HTTP; 0: an event
	body   string
	header http.Header // nil: an event
}

// Error returns the body.
func (r refusal) Error() string { return r.body }

// cut is a stream that broke.
func cut(text string) *model.Error { return &model.Error{Code: model.Unavailable, Text: text} }

// fault makes the error by which a stream ends. What carries the request, and with it the key, goes into no chain.
func (m *Model) fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		return cut("the stream ended before the answer did")
	}
	if over := tooMuch(err); over != nil {
		return over
	}
	var ours *model.Error
	var event refusal
	var status *sdk.Error
	var denied *perdure.EgressError
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &event):
		return m.refused(event)
	case errors.As(err, &status):
		r := refusal{body: status.RawJSON()}
		if status.StatusCode >= 400 { // an error event comes under the status of its stream
			r.status = status.StatusCode
			r.header = status.Response.Header
		}
		return m.refused(r)
	case errors.As(err, &denied) && denied.Code != perdure.EgressTransport:
		return &model.Error{Code: model.Misconfigured, Text: m.words(denied.Error()), Err: m.secret.MaskError(err)}
	}
	return &model.Error{Code: model.Unavailable, Text: m.words(err.Error()), Err: m.secret.MaskError(err)}
}

// refused makes the error of a refusal.
func (m *Model) refused(r refusal) *model.Error {
	var envelope struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	text := r.body
	if err := perdure.DecodeKnownJSON([]byte(r.body), &envelope); err == nil && envelope.Error.Message != "" {
		text = envelope.Error.Message
	} else if r.status > 0 {
		text = strings.TrimSpace(fmt.Sprintf("status %d %s %s", r.status, http.StatusText(r.status), r.body))
	}
	return &model.Error{
		Code: codeOf(r.status, envelope.Error.Type, text), Text: m.words(text), RetryAfter: retryAfter(r.header, time.Now()),
	}
}

// badSchema finds the tool whose schema a refusal names.
var badSchema = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`tools\.\d+\..*input_schema`) })

// codeOf finds the code of 4.6. kind is the provider's type of error, where it gave one, and status is 0 for an event.
func codeOf(status int, kind, text string) model.Code {
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
	case is(http.StatusNotFound, "not_found_error"):
		return model.NoModel
	case is(http.StatusBadRequest, "invalid_request_error") && badSchema().MatchString(text):
		return model.BadToolSchema
	case is(http.StatusBadRequest, "invalid_request_error"), is(http.StatusUnauthorized, "authentication_error"), is(http.StatusForbidden, "permission_error"):
		return model.Misconfigured
	}
	return model.Processing
}

// retryAfter reads how long the provider wants to be left alone, in seconds or as a date; 0: it does not say, or now.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if seconds > 0 && seconds < maxWait.Seconds() {
			return time.Duration(seconds * float64(time.Second))
		}
		if seconds > 0 {
			return maxWait
		}
		return 0
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxWait)
	}
	return 0
}

// anyKey finds what looks like a key of this provider, whoever's it is.
var anyKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`sk-ant-[A-Za-z0-9_-]+`) })

// words makes what somebody else wrote fit for an error: on one line, without a key, and cut. The key goes first, so
// that no cut leaves a part of it.
func (m *Model) words(text string) string {
	text = m.secret.Mask(text)
	text = anyKey().ReplaceAllLiteralString(text, redact.Mark)
	text = strings.Join(strings.Fields(valid(text)), " ")
	if len(text) <= maxWords {
		return text
	}
	end := maxWords
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
