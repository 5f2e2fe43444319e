package openai

import (
	"cmp"
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
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

const (
	maxProblemBytes = 64 << 10 // read of an answer that is not a stream
	maxTextBytes    = 500      // of the provider's message
	maxRetryAfter   = 24 * time.Hour
)

// problem is an error in the form of a provider. There are nearly as many forms as servers.
type problem struct { // the body had the form of an error
	known               bool // the form was one of an error
	code, kind, param   string
	message, statusWord string
}

// head reads the start of a body.
func head(res *http.Response) []byte {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxProblemBytes)) // the part before a read error is enough
	return text
}

// readProblem decodes {"error":{…}} (OpenAI), {"error":"…"} (older Ollama), {"message":…} (older
// vLLM), {"detail":…} (FastAPI), or a list of one of these (Gemini).
func readProblem(text []byte) problem {
	var top any
	if perdure.DecodeKnownJSON(text, &top) != nil {
		return problem{}
	}
	if list, ok := top.([]any); ok && len(list) > 0 {
		top = list[0]
	}
	outer, ok := top.(map[string]any)
	if !ok {
		return problem{message: textOf(top), known: textOf(top) != ""}
	}
	inner, ok := outer["error"].(map[string]any)
	if !ok {
		inner = outer
	}
	p := problem{
		code: textOf(inner["code"]), kind: cmp.Or(textOf(inner["type"]), textOf(inner["error_type"])), param: textOf(inner["param"]),
		statusWord: textOf(inner["status"]),
		message:    cmp.Or(textOf(inner["message"]), textOf(inner["error"]), textOf(inner["detail"]), textOf(outer["message"])),
	}
	if list, ok := inner["detail"].([]any); ok && p.message == "" {
		if text, err := json.Marshal(list); err == nil {
			p.message = string(text)
		}
	}
	if metadata, ok := inner["metadata"].(map[string]any); ok { // OpenRouter: the message of its own provider
		if raw := textOf(metadata["raw"]); raw != "" {
			p.message += ": " + raw
		}
	}
	p.known = p.message != "" || p.code != "" && outer["choices"] == nil
	return p
}

// textOf returns a string or a number as text; else "".
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// statusError returns the error for a status other than 200.
func statusError(res *http.Response) *model.Error {
	text := head(res)
	p := readProblem(text)
	e := &model.Error{Code: p.codeFor(res.StatusCode), Text: p.message, Err: fmt.Errorf("HTTP status %d", res.StatusCode)}
	if e.Code.Retryable() {
		e.RetryAfter = retryAfter(res.Header)
	}
	if strings.Contains(e.Text, "stream_options") {
		e.Text += " (Config.NoUsage leaves it out)"
	}
	if e.Text != "" {
		return e
	}
	e.Text = "the server answered " + strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode)
	switch kind := res.Header.Get("Content-Type"); {
	case res.StatusCode/100 == 3:
		e.Text += " to " + res.Header.Get("Location") + ": use that address as BaseURL"
	case strings.HasPrefix(kind, "text/plain") || kind == "":
		e.Text += ": " + string(text)
	case res.StatusCode == http.StatusNotFound:
		e.Text += ": is BaseURL right?"
	}
	return e
}

// codeFor returns the code for a status.
func (p problem) codeFor(status int) model.Code {
	if status/100 == 4 || status == http.StatusInternalServerError {
		if code := p.codeFromText(); code != "" {
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
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
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
	if status, err := strconv.Atoi(p.code); err == nil && status/100 >= 4 && status/100 <= 5 {
		return p.codeFor(status)
	}
	if code := p.codeFromText(); code != "" {
		return code
	}
	switch kind := strings.ToLower(p.code + " " + p.kind); {
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
	name := strings.ToLower(p.code + " " + p.kind)
	all := name + " " + strings.ToLower(p.message)
	has := func(text string, words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case has(all, "context_length_exceeded", "exceed_context_size", "maximum context length", "context length", "context window",
		"context size", "prompt is too long", "too many tokens", "input is too long", "request too large",
		"maximum prompt length", "max_tokens must be at least 1, got -"):
		return model.TooLarge
	case has(name, "invalid_function_parameters", "invalid_tool_schema"), strings.HasPrefix(p.param, "tools["),
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

// streamError returns the error in a chunk.
func streamError(text json.RawMessage) *model.Error {
	p := readProblem(text)
	return &model.Error{Code: p.codeInStream(), Text: cmp.Or(p.message, "the provider aborted the answer")}
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

// retryAfter returns the wait that a provider asks for; 0: none.
func retryAfter(header http.Header) time.Duration {
	numbers := []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}}
	for _, h := range numbers {
		n, err := strconv.ParseFloat(strings.TrimSpace(header.Get(h.name)), 64)
		if err == nil && n > 0 {
			return time.Duration(min(n*float64(h.unit), float64(maxRetryAfter)))
		}
	}
	if at, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
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
