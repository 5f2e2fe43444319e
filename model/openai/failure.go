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
	maxProblemBytes = 64 << 10 // read of an answer that is no stream
	maxTextBytes    = 500      // of the provider's words
	maxRetryAfter   = 24 * time.Hour
)

// problem is what a provider says went wrong. There are nearly as many forms as servers.
type problem struct {
	known               bool // the form was one of an error
	code, kind, param   string
	message, statusWord string
}

// head reads the beginning of a body.
func head(res *http.Response) []byte {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxProblemBytes)) // what came before an error is enough
	return text
}

// readProblem reads {"error":{…}} (OpenAI), {"error":"…"} (older Ollama), {"message":…} (older vLLM), {"detail":…}
// (FastAPI), or a list of one of these (Gemini).
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
		return problem{message: word(top), known: word(top) != ""}
	}
	inner, ok := outer["error"].(map[string]any)
	if !ok {
		inner = outer
	}
	p := problem{
		code: word(inner["code"]), kind: cmp.Or(word(inner["type"]), word(inner["error_type"])), param: word(inner["param"]),
		statusWord: word(inner["status"]),
		message:    cmp.Or(word(inner["message"]), word(inner["error"]), word(inner["detail"]), word(outer["message"])),
	}
	if list, ok := inner["detail"].([]any); ok && p.message == "" {
		if text, err := json.Marshal(list); err == nil {
			p.message = string(text)
		}
	}
	if metadata, ok := inner["metadata"].(map[string]any); ok { // OpenRouter: what its own provider said
		if raw := word(metadata["raw"]); raw != "" {
			p.message += ": " + raw
		}
	}
	p.known = p.message != "" || p.code != "" && outer["choices"] == nil
	return p
}

// word returns a text or number; empty: neither.
func word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// refusal is the error for a status other than 200.
func refusal(res *http.Response) *model.Error {
	text := head(res)
	p := readProblem(text)
	e := &model.Error{Code: p.of(res.StatusCode), Text: p.message, Err: fmt.Errorf("HTTP status %d", res.StatusCode)}
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
		e.Text += " to " + res.Header.Get("Location") + ": give the address itself as BaseURL"
	case strings.HasPrefix(kind, "text/plain") || kind == "":
		e.Text += ": " + string(text)
	case res.StatusCode == http.StatusNotFound:
		e.Text += ": is BaseURL right?"
	}
	return e
}

// of returns the code for a status (4.6).
func (p problem) of(status int) model.Code {
	if status/100 == 4 || status == http.StatusInternalServerError {
		if code := p.said(); code != "" {
			return code
		}
	}
	switch status {
	case http.StatusTooManyRequests:
		return model.RateLimited
	case http.StatusPaymentRequired:
		return model.QuotaExhausted
	case http.StatusNotFound:
		return model.NoModel
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

// inStream returns the code for an error that came with status 200. Where it says nothing that is known, the fault is
// the server's: it had taken the request.
func (p problem) inStream() model.Code {
	if status, err := strconv.Atoi(p.code); err == nil && status/100 >= 4 && status/100 <= 5 {
		return p.of(status)
	}
	if code := p.said(); code != "" {
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

// said returns the code that the words tell, more exactly than a status does; empty: nothing is known from them. The
// words are those of OpenAI, vLLM, llama.cpp, Ollama, DeepSeek, OpenRouter, Groq, Mistral and xAI.
func (p problem) said() model.Code {
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
		return model.BadToolSchema
	case has(name, "usage_limit", "usage_not_included"), has(all, "usage limit"):
		return model.UsageLimit
	case has(name, "insufficient_quota", "billing"),
		has(all, "insufficient balance", "insufficient credit", "credit balance", "billing hard limit"):
		return model.QuotaExhausted
	case has(name, "model_not_found", "invalid_model"), has(all, "not a valid model", "invalid model name", "model not exist"):
		return model.NoModel
	}
	return ""
}

// streamError is the error that a chunk holds.
func streamError(text json.RawMessage) *model.Error {
	p := readProblem(text)
	return &model.Error{Code: p.inStream(), Text: cmp.Or(p.message, "the provider broke the answer off")}
}

// transport is the error for a request that got no answer.
func transport(err error) *model.Error {
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

// retryAfter returns what a provider asks for; 0: nothing.
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

// cutText cuts a text between characters.
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

// mask takes the key out of an error, makes its text one line, and cuts it. The key goes first, so that no cut leaves a
// part of it.
func (m *Model) mask(e *model.Error) *model.Error {
	e.Text = cutText(strings.Join(strings.Fields(m.secret.Mask(strings.ToValidUTF8(e.Text, "\uFFFD"))), " "))
	e.Err = m.secret.MaskError(e.Err)
	return e
}
