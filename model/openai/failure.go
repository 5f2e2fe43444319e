package openai

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/model"
)

const (
	maxProblemBytes = 64 << 10 // read of an answer that is not a stream
	maxTextBytes    = 500      // of the provider's message
)

// head reads the start of a body.
func head(res *http.Response) []byte {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxProblemBytes)) // the part before a read error is enough
	return text
}

// statusError returns the error for a status other than 200 and its body.
func statusError(res *http.Response, text []byte) *model.Error {
	p := problem{modelwire.ReadProblem(text)}
	e := &model.Error{Code: p.codeFor(res.StatusCode), Text: p.Message, Err: fmt.Errorf("HTTP status %d", res.StatusCode)}
	if e.Code.Retryable() {
		e.RetryAfter = cmp.Or(modelwire.RetryAfter(res.Header), p.RetryAfter)
	}
	e.Text += settingFor(e.Text)
	if e.Text != "" && p.Known {
		return e
	}
	said := e.Text
	e.Text = "the server answered " + strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode)
	switch {
	case res.StatusCode/100 == 3:
		e.Text += " to " + res.Header.Get("Location") + ": use that address as the base URL"
	case said != "":
		e.Text += ": " + said
	}
	if res.StatusCode == http.StatusNotFound {
		e.Text += ": is the base URL right?"
	}
	return e
}

// settingFor returns the advice for an error that names something which a setting changes; empty:
// none does.
func settingFor(text string) string {
	switch {
	case strings.Contains(text, "stream_options"):
		return " (the model option stream_options=false leaves it out)"
	case strings.Contains(text, "max_tokens"), strings.Contains(text, "max_completion_tokens"):
		return " (the model options max_tokens and max_tokens_field change it)"
	}
	return ""
}

// problem is an error of a server, for which the package has codes.
type problem struct{ modelwire.Problem }

// Statuses that no standard names: Groq has no capacity for a cheap request, and a proxy closed
// the request.
const (
	statusFlexCapacity = 498
	statusClientClosed = 499
)

// codeFor returns the code for a status.
func (p problem) codeFor(status int) model.Code {
	if status/100 == 4 || status == http.StatusInternalServerError {
		if code := p.codeFromText(); code != "" {
			return code
		}
	}
	if status/100 == 4 && !slices.Contains([]int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusTooManyRequests}, status) {
		if code := p.Passing(); code != "" {
			return code
		}
	}
	switch status {
	case http.StatusTooManyRequests:
		return model.RateLimited
	case http.StatusPaymentRequired:
		return model.QuotaExhausted
	case http.StatusNotFound:
		return model.ModelUnavailable
	case http.StatusRequestEntityTooLarge:
		return model.TooLarge
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusFailedDependency, statusFlexCapacity, statusClientClosed:
		return model.Unavailable
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return model.Misconfigured
	}
	switch status / 100 {
	case 3:
		return model.Misconfigured
	case 5:
		return model.Unavailable
	}
	return model.Processing
}

// codeInStream returns the code for an error that came with status 200. Without a known reason the
// server is at fault, because it had accepted the request.
func (p problem) codeInStream() model.Code {
	if status, err := strconv.Atoi(p.Code); err == nil && status/100 >= 4 && status/100 <= 5 {
		return p.codeFor(status)
	}
	if code := cmp.Or(p.codeFromText(), p.Passing()); code != "" {
		return code
	}
	switch kind := strings.ToLower(p.Code + " " + p.Kind); {
	case strings.Contains(kind, "rate_limit"):
		return model.RateLimited
	case strings.Contains(kind, "invalid_request"), strings.Contains(kind, "authentication"), strings.Contains(kind, "permission"):
		return model.Misconfigured
	}
	return model.Unavailable
}

// codeFromText returns the code that the texts of the error indicate, which is more precise than
// the status; empty: none. The texts are those of OpenAI, vLLM, llama.cpp, Ollama, DeepSeek,
// OpenRouter, Groq, Mistral and xAI.
func (p problem) codeFromText() model.Code {
	name := strings.ToLower(p.Code + " " + p.Kind)
	all := name + " " + strings.ToLower(p.Message)
	has := func(text string, words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case has(all, "context_length_exceeded", "exceed_context_size", "maximum context length", "context length", "context window",
		"context size", "prompt is too long", "too many tokens", "input is too long", "request too large",
		"maximum prompt length", "max_tokens must be at least 1, got -"):
		return model.TooLarge
	case has(name, "invalid_function_parameters", "invalid_tool_schema"), strings.HasPrefix(p.Param, "tools["),
		has(all, "invalid schema for function", "invalid function schema", "invalid tool schema", "invalid 'tools["):
		return model.InvalidToolSchema
	case has(name, "usage_limit", "usage_not_included"), has(all, "usage limit"):
		return model.UsageLimit
	case has(name, "insufficient_quota", "billing"),
		has(all, "insufficient balance", "insufficient credit", "credit balance", "billing hard limit"):
		return model.QuotaExhausted
	case has(name, "model_not_found", "invalid_model"), has(all, "not a valid model", "invalid model name", "model not exist"):
		return model.ModelUnavailable
	}
	return ""
}

// streamError returns the error in a chunk, or in data that is no JSON.
func streamError(text []byte) *model.Error {
	p := problem{modelwire.ReadProblem(text)}
	return &model.Error{Code: p.codeInStream(), RetryAfter: p.RetryAfter,
		Text: cmp.Or(p.Message, "the provider aborted the answer") + settingFor(p.Message)}
}

// foreignError returns the error for an answer with status 200 that is neither a stream nor an
// answer as a whole. A page or a text may say that the server is only busy.
func foreignError(header http.Header, text []byte) *model.Error {
	p := problem{modelwire.ReadProblem(text)}
	if p.Known || p.Passing() != "" {
		return &model.Error{Code: p.codeInStream(), Text: p.Message}
	}
	kind := cmp.Or(header.Get("Content-Type"), "nothing")
	return &model.Error{Code: model.Misconfigured,
		Text: fmt.Sprintf("the server answered with %s instead of a stream (%.100s): is the base URL right?", kind, p.Message)}
}

// transportError returns the error for a request without an answer.
func transportError(err error) *model.Error {
	var denied *perdure.EgressError
	if errors.As(err, &denied) && denied.Code != perdure.EgressTransport {
		return &model.Error{Code: model.Misconfigured, Text: denied.Error(), Err: err}
	}
	text := err.Error()
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		text = wrapped.Err.Error()
	}
	return &model.Error{Code: model.Unavailable, Text: text, Err: err}
}

// cutText shortens a text at a character boundary.
func cutText(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	end := maxTextBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + " …"
}

// mask removes the key from an error, makes its text one line, and shortens it. The key is removed
// first, so that shortening cannot leave a part of it.
func (m *Model) mask(e *model.Error) *model.Error {
	e.Text = cutText(strings.Join(strings.Fields(m.secret.Mask(strings.ToValidUTF8(e.Text, "\uFFFD"))), " "))
	e.Err = m.secret.MaskError(e.Err)
	return e
}
