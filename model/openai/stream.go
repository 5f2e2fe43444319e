package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sse"
	"github.com/perdure/perdure/model"
)

const (
	// maxAnswerBytes bounds one answer. 128,000 tokens, the longest answer of any known model, need
	// 48 MB if each token has a chunk of its own.
	maxAnswerBytes = 64 << 20
	// maxEventBytes bounds one event, which needs a multiple of its size in memory.
	maxEventBytes = 16 << 20
	// usageWait is how long the reader waits for usage after the answer has finished.
	usageWait = 10 * time.Second
)

var (
	errTooLong = errors.New("the answer is longer than 64 MiB")
	errTooWide = errors.New("one event of the stream is longer than 16 MiB")
	errTooMany = fmt.Errorf("the answer has more than %d calls, and none of them is made", maxCalls)
)

// stream reads one answer. It is used by one goroutine.
type stream struct {
	mask func(*model.Error) *model.Error
	stop context.CancelFunc // cancels the request

	text, thinking charBuffer
	calls          calls
	usage          perdure.Usage
	model          string // the answering model
	hasRefusal     bool   // the answer contains a refusal in words
	finish         string // the finish_reason; empty: not finished
	failed         *model.Error
}

// read yields deltas until the stream ends, for whatever reason.
func (s *stream) read(res *http.Response) iter.Seq[model.Delta] {
	return func(yield func(model.Delta) bool) {
		body := &limitedBody{ReadCloser: res.Body, left: maxAnswerBytes}
		events := sse.NewReader(body, maxEventBytes)
		for {
			body.begin()
			e, err := events.Next()
			if err != nil {
				s.failed = broken(err)
				return
			}
			d, more := s.event(e)
			if d != nil && !yield(*d) || !more {
				return
			}
			if s.finish != "" && s.stop != nil {
				timeout := time.AfterFunc(usageWait, s.stop)
				defer timeout.Stop()
				s.stop = nil
			}
		}
	}
}

// event handles one event. It returns a delta, or nil if the event adds nothing, and whether
// another event may follow.
func (s *stream) event(e sse.Event) (*model.Delta, bool) {
	text := bytes.TrimSpace(e.Data)
	if len(text) == 0 {
		return nil, true
	}
	if string(text) == "[DONE]" {
		return nil, false
	}
	c, err := decode(text)
	if s.finish != "" {
		if err != nil {
			return nil, true
		}
		grown := s.count(c.Usage)
		if grown == nil {
			return nil, true
		}
		return &model.Delta{Usage: grown}, true
	}
	if err == nil {
		if wrong := c.problem(); wrong != nil {
			err = streamError(wrong)
		} else if e.Name == "error" {
			err = streamError(text)
		}
	}
	if err != nil {
		s.failed = err
		return nil, false
	}
	d := s.addChunk(c)
	return d, !s.calls.tooMany
}

// addChunk adds a chunk and returns what is new, or nil.
func (s *stream) addChunk(c chunk) *model.Delta {
	var d model.Delta
	isNew := false
	if c.Model != "" && s.model == "" {
		s.model, d.Model, isNew = c.Model, c.Model, true
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 || s.finish != "" {
			continue
		}
		thinking := choice.Delta.ReasoningContent
		thinking = cmp.Or(thinking, choice.Delta.Reasoning)
		d.Thinking += s.thinking.add(thinking)
		d.Text += s.text.add(choice.Delta.Content + choice.Delta.Refusal)
		s.hasRefusal = s.hasRefusal || choice.Delta.Refusal != ""
		for _, p := range choice.Delta.ToolCalls {
			if s.calls.add(p) {
				isNew = true // a sign of progress
			}
		}
		s.finish = choice.FinishReason
	}
	d.Usage = s.count(c.Usage)
	if !isNew && d.Text == "" && d.Thinking == "" && d.Usage == nil {
		return nil
	}
	return &d
}

// count adds the usage of a chunk and returns the total if it has grown, else nil.
func (s *stream) count(text json.RawMessage) *perdure.Usage {
	now := raisedUsage(s.usage, text)
	if now == s.usage {
		return nil
	}
	s.usage = now
	return &now
}

// end returns the last deltas, and an error unless the answer is complete. An answer that has
// finished is complete, even if the stream broke afterwards.
func (s *stream) end() ([]model.Delta, error) {
	finish, err := finishOf(s.finish)
	if s.finish == "" && s.failed != nil {
		err = s.failed
	}
	if s.calls.tooMany {
		err = limitError(errTooMany)
	}
	if err == nil && s.hasRefusal && finish == model.FinishStop {
		finish = model.FinishRefusal
	}
	var last []model.Delta
	if err == nil {
		if rest := (model.Delta{Text: s.text.rest(), Thinking: s.thinking.rest()}); rest.Text != "" || rest.Thinking != "" {
			last = append(last, rest)
		}
	}
	closed, broken := s.closed(finish, err)
	for i := range closed {
		last = append(last, model.Delta{Call: &closed[i]})
	}
	if broken > 0 {
		last = append(last, model.Delta{DiscardedCalls: broken})
	}
	if err != nil {
		return last, s.mask(err)
	}
	if finish == model.FinishStop && len(s.calls.started) > 0 {
		finish = model.FinishCalls
	}
	d := model.Delta{Finish: finish}
	if s.usage != (perdure.Usage{}) {
		d.Usage = &s.usage
	}
	return append(last, d), nil
}

// closed returns the calls to make, and the number of calls that are discarded. No calls are made
// if the answer is a refusal, or if it exceeds a limit, because such an answer is not meaningful.
func (s *stream) closed(finish model.Finish, err *model.Error) ([]perdure.ToolCall, int) {
	switch {
	case finish == model.FinishRefusal, err != nil && isLimitError(err.Err):
		return nil, len(s.calls.started)
	case err != nil:
		return s.calls.end(brokenStream)
	case finish == model.FinishLength:
		return s.calls.end(lengthLimit)
	}
	return s.calls.end(finished)
}

// finishOf translates a finish_reason. Calls are handled later, because some servers say stop
// although there are calls, and some tool_calls although there are none. The words are documented
// by OpenAI, Mistral, Hugging Face and Ollama.
func finishOf(reason string) (model.Finish, *model.Error) {
	is := func(words ...string) bool { return slices.Contains(words, strings.ToLower(reason)) }
	switch {
	case reason == "":
		return "", &model.Error{Code: model.Unavailable, Text: "the stream ended early, without a finish_reason"}
	case is("stop", "tool_calls", "function_call", "eos", "eos_token", "stop_sequence", "end_turn"):
		return model.FinishStop, nil
	case is("length", "max_tokens", "model_length"):
		return model.FinishLength, nil
	case is("content_filter"):
		return model.FinishRefusal, nil
	case is("insufficient_system_resource", "error", "abort", "timeout"):
		return "", &model.Error{Code: model.Unavailable, Text: "the provider stopped the answer: " + reason}
	}
	return "", &model.Error{Code: model.Processing, Text: "the answer ended with an unknown finish_reason: " + reason}
}

// broken returns the error for a stream that ended with err; nil: it ended without one.
func broken(err error) *model.Error {
	switch {
	case err == io.EOF: //nolint:errorlint // it is never wrapped
		return nil
	case errors.Is(err, sse.ErrTooLong):
		return limitError(errTooWide)
	case isLimitError(err):
		return limitError(err)
	}
	return &model.Error{Code: model.Unavailable, Text: "the stream broke: " + err.Error(), Err: err}
}

// limitError returns the error for an answer that exceeds a limit. It is not retryable, because
// another attempt would do the same.
func limitError(why error) *model.Error {
	return &model.Error{Code: model.Processing, Text: why.Error(), Err: why}
}

func isLimitError(err error) bool {
	return errors.Is(err, errTooLong) || errors.Is(err, errTooWide) || errors.Is(err, errTooMany)
}

// limitedBody is a body that ends with an error after a number of bytes, in total or in one event.
type limitedBody struct {
	io.ReadCloser
	left  int64
	event int64 // remaining bytes of this event; the reader may already have read a part of the next one
}

// begin starts an event.
func (b *limitedBody) begin() { b.event = maxEventBytes }

func (b *limitedBody) Read(p []byte) (int, error) {
	switch {
	case b.left <= 0:
		return 0, errTooLong
	case b.event <= 0:
		return 0, errTooWide
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left, b.event)])
	b.left -= int64(n)
	b.event -= int64(n)
	return n, err
}
