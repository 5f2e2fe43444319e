package openaitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// pieceBytes is the maximum size of a text or of arguments in one chunk, unless a character is
// longer.
const pieceBytes = 12

// answer writes the answer to one request. It is used by one goroutine.
type answer struct {
	w         http.ResponseWriter
	question  *checkedRequest
	number    int
	duplicate bool
	cutAfter  int
	half, cut bool
	closing   bool   // the next event is the last one
	ended     func() // counts the events; called before the client can see the end of the answer

	model string // the answering model
	calls int    // started so far
	usage perdure.Usage
	sent  int // complete events
}

// answer streams the answer of a model.
func (a *answer) answer(ctx context.Context, stream iter.Seq2[model.Delta, error]) {
	a.model = a.question.request.Model
	started := false
	for d, err := range stream {
		if ctx.Err() != nil {
			return // the client has disconnected
		}
		if err != nil {
			a.fail(ctx, err, started)
			return
		}
		if d.Model != "" {
			a.model = d.Model
		}
		if !started {
			started = true
			a.open()
		}
		a.delta(d)
		if d.Finish != "" {
			a.end(d.Finish)
			return
		}
	}
	a.breakOff() // as when a provider's own connection breaks
}

// open sends the first chunk, which has no content.
func (a *answer) open() {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.w.WriteHeader(http.StatusOK)
	a.chunk(map[string]any{"role": "assistant", "content": ""}, nil, false)
}

func (a *answer) delta(d model.Delta) {
	for piece := range pieces(d.Thinking) {
		a.chunk(map[string]any{"reasoning_content": piece}, nil, false)
	}
	for piece := range pieces(d.Text) {
		a.chunk(map[string]any{"content": piece}, nil, false)
	}
	if d.Call != nil {
		a.call(string(d.Call.ID), d.Call.Name, string(d.Call.Arguments))
	}
	for range d.DiscardedCalls {
		a.call("", "broken", `{"this": "is cut o`)
	}
	if d.Usage != nil {
		a.usage = *d.Usage
	}
}

// call sends a call: its name first, then its arguments in pieces. An empty id is replaced by one
// that is the same for the same transcript.
func (a *answer) call(id, name, arguments string) {
	if id == "" {
		id = fmt.Sprintf("call_%d_%d", len(a.question.request.Messages), a.calls)
	}
	a.chunk(map[string]any{"tool_calls": []any{map[string]any{
		"index": a.calls, "id": id, "type": "function", "function": map[string]any{"name": name, "arguments": ""},
	}}}, nil, a.duplicate)
	for piece := range pieces(arguments) {
		a.chunk(map[string]any{"tool_calls": []any{map[string]any{"index": a.calls, "function": map[string]any{"arguments": piece}}}}, nil, false)
	}
	a.calls++
}

// end finishes an answer: the finish, usage if it was requested, and the last line.
func (a *answer) end(finish model.Finish) {
	reasons := map[model.Finish]string{
		model.FinishStop: "stop", model.FinishCalls: "tool_calls", model.FinishLength: "length", model.FinishRefusal: "content_filter",
	}
	a.chunk(map[string]any{}, reasons[finish], a.duplicate)
	if a.question.usage {
		last := a.frame()
		last["choices"] = []any{}
		last["usage"] = map[string]any{
			"prompt_tokens": a.usage.InputTokens, "completion_tokens": a.usage.OutputTokens,
			"total_tokens":          a.usage.InputTokens + a.usage.OutputTokens,
			"prompt_tokens_details": map[string]any{"cached_tokens": a.usage.CachedTokens},
		}
		a.event(encode(last))
	}
	a.closing = true
	a.event("[DONE]")
	if a.cut && a.sent == a.cutAfter {
		a.breakOff()
	}
}

// frame returns the fields that every chunk has.
func (a *answer) frame() map[string]any {
	return map[string]any{
		"id": "chatcmpl-" + strconv.Itoa(a.number), "object": "chat.completion.chunk", "created": 1767225600, "model": a.model,
	}
}

// chunk sends the delta of a choice; finish is nil or a word.
func (a *answer) chunk(delta map[string]any, finish any, twice bool) {
	c := a.frame()
	c["choices"] = []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}
	if a.question.usage {
		c["usage"] = nil
	}
	text := encode(c)
	a.event(text)
	if twice {
		a.event(text)
	}
}

// event sends one event, or breaks the connection instead.
func (a *answer) event(text string) {
	frame := "data: " + text + "\n\n"
	if a.cut && a.sent == a.cutAfter {
		if a.half {
			a.write(frame[:len(frame)/2])
		}
		a.breakOff()
	}
	a.sent++
	if a.closing {
		a.ended()
	}
	a.write(frame)
}

func (a *answer) write(text string) {
	// A disconnected client is noticed through its context.
	_, _ = a.w.Write([]byte(text))
	_ = http.NewResponseController(a.w).Flush()
}

// breakOff breaks the connection. What was written before still reaches the client.
func (a *answer) breakOff() {
	a.ended()
	_ = http.NewResponseController(a.w).Flush()
	panic(http.ErrAbortHandler)
}

// fail answers an error of the model: with a status, or inside a stream that has started.
func (a *answer) fail(ctx context.Context, err error, started bool) {
	failure := &model.Error{Code: model.Processing, Text: err.Error()}
	errors.As(err, &failure)
	if failure.Code == model.Stalled {
		<-ctx.Done()
		return
	}
	p := problemOf(failure)
	if started {
		a.closing = true
		a.event(encode(p.body(failure.Code)))
		return
	}
	if a.cut && a.cutAfter == 0 {
		a.breakOff()
	}
	a.ended()
	if failure.RetryAfter > 0 {
		a.w.Header().Set("Retry-After-Ms", strconv.FormatInt(failure.RetryAfter.Milliseconds(), 10))
		a.w.Header().Set("Retry-After", strconv.FormatInt(int64((failure.RetryAfter+time.Second-1)/time.Second), 10))
	}
	p.write(a.w)
}

// problem is an error in the form of the protocol.
type problem struct {
	status              int
	kind, code, message string
}

func problemOf(e *model.Error) problem {
	p := map[model.Code]problem{
		model.RateLimited:       {http.StatusTooManyRequests, "requests", "rate_limit_exceeded", e.Text},
		model.Unavailable:       {http.StatusServiceUnavailable, "server_error", "", e.Text},
		model.TooLarge:          {http.StatusBadRequest, "invalid_request_error", "context_length_exceeded", e.Text},
		model.InvalidToolSchema: {http.StatusBadRequest, "invalid_request_error", "invalid_function_parameters", e.Text},
		model.Misconfigured:     {http.StatusForbidden, "invalid_request_error", "unsupported_country_region_territory", e.Text},
		model.QuotaExhausted:    {http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", e.Text},
		model.UsageLimit:        {http.StatusTooManyRequests, "usage_limit_reached", "usage_limit_reached", e.Text},
		model.ModelUnavailable:  {http.StatusNotFound, "invalid_request_error", "model_not_found", e.Text},
	}[e.Code]
	if p.status == 0 {
		p = problem{http.StatusTeapot, "processing_error", "", e.Text} // no provider has a code for it
	}
	return p
}

// body returns the error as JSON. Inside a stream there is no status, so the code contains it.
func (p problem) body(inStream model.Code) map[string]any {
	e := map[string]any{"message": p.message, "type": p.kind, "param": nil, "code": nil}
	switch {
	case p.code != "":
		e["code"] = p.code
	case inStream != "":
		e["code"] = p.status
	}
	return map[string]any{"error": e}
}

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.status)
	_, _ = w.Write([]byte(encode(p.body("")))) // a disconnected client needs no error
}

// encode encodes values of this package, which always are valid JSON.
func encode(v map[string]any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// pieces splits a text into small pieces at character boundaries.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := min(pieceBytes, len(text))
			for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
				n--
			}
			if n == 0 {
				_, n = utf8.DecodeRuneInString(text)
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}
