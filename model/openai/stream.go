package openai

import (
	"bufio"
	"bytes"
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

	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

const (
	// maxAnswerBytes bounds what is read of one answer. 128,000 tokens, the most that a model is known to say, need 48 MB
	// where each comes in a chunk of its own.
	maxAnswerBytes = 64 << 20
	// maxEventBytes bounds one event of it, which costs a multiple of itself in memory.
	maxEventBytes = 16 << 20
	// usageWait is how long usage may still come when the answer has finished.
	usageWait = 10 * time.Second
)

var (
	errTooLong = errors.New("the answer is longer than 64 MiB")
	errTooWide = errors.New("one event of the stream is longer than 16 MiB")
	errTooMany = fmt.Errorf("the answer has more than %d calls: none of them is made", maxCalls)
)

// stream reads one answer. It is used by one goroutine.
type stream struct {
	mask func(*model.Error) *model.Error
	stop context.CancelFunc // ends the request

	text, thinking seam
	calls          calls
	usage          perdure.Usage
	model          string // which answers
	refused        bool   // in words
	finish         string // the provider's word; empty: not finished
	failed         *model.Error
}

// read yields what comes, up to the end of the stream, whatever ends it.
func (s *stream) read(res *http.Response) iter.Seq[model.Delta] {
	return func(yield func(model.Delta) bool) {
		body := &bounded{ReadCloser: res.Body, left: maxAnswerBytes}
		res.Body = body
		events := ssestream.NewDecoder(res)
		for body.begin(); events.Next(); body.begin() {
			d, more := s.event(events.Event())
			if d != nil && !yield(*d) || !more {
				return
			}
			if s.finish != "" && s.stop != nil {
				patience := time.AfterFunc(usageWait, s.stop)
				defer patience.Stop()
				s.stop = nil
			}
		}
		s.failed = broken(events.Err())
	}
}

// event takes one event: what it says, nil for nothing, and whether another one may follow.
func (s *stream) event(e ssestream.Event) (*model.Delta, bool) {
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
		} else if e.Type == "error" {
			err = streamError(text)
		}
	}
	if err != nil {
		s.failed = err
		return nil, false
	}
	d := s.take(c)
	return d, !s.calls.tooMany
}

// take folds a chunk in and returns what is new.
func (s *stream) take(c chunk) *model.Delta {
	var d model.Delta
	some := false
	if c.Model != "" && s.model == "" {
		s.model, d.Model, some = c.Model, c.Model, true
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 || s.finish != "" {
			continue
		}
		thinking := choice.Delta.ReasoningContent
		if thinking == "" {
			thinking = choice.Delta.Reasoning
		}
		d.Thinking += s.thinking.add(thinking)
		d.Text += s.text.add(choice.Delta.Content + choice.Delta.Refusal)
		s.refused = s.refused || choice.Delta.Refusal != ""
		for _, p := range choice.Delta.ToolCalls {
			if s.calls.add(p) {
				some = true // a sign of life
			}
		}
		s.finish = choice.FinishReason
	}
	d.Usage = s.count(c.Usage)
	if !some && d.Text == "" && d.Thinking == "" && d.Usage == nil {
		return nil
	}
	return &d
}

// count takes what a chunk says of usage, and returns usage where it has grown; nil: it has not.
func (s *stream) count(text json.RawMessage) *perdure.Usage {
	now := larger(s.usage, text)
	if now == s.usage {
		return nil
	}
	s.usage = now
	return &now
}

// end returns the last deltas, and an error unless the answer is whole. Once it has finished it is whole, whatever
// happened to the stream afterwards.
func (s *stream) end() ([]model.Delta, error) {
	finish, err := finishOf(s.finish)
	if s.finish == "" && s.failed != nil {
		err = s.failed
	}
	if s.calls.tooMany {
		err = tooMuch(errTooMany)
	}
	if err == nil && s.refused && finish == model.FinishStop {
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
		last = append(last, model.Delta{Broken: broken})
	}
	if err != nil {
		return last, s.mask(err)
	}
	if finish == model.FinishStop && len(s.calls.begun) > 0 {
		finish = model.FinishCalls
	}
	d := model.Delta{Finish: finish}
	if s.usage != (perdure.Usage{}) {
		d.Usage = &s.usage
	}
	return append(last, d), nil
}

// closed returns the calls that are to be made, and how many are not. What is refused is not done, nor what belongs to
// an answer that is too large for anybody to have meant it.
func (s *stream) closed(finish model.Finish, err *model.Error) ([]perdure.ToolCall, int) {
	switch {
	case finish == model.FinishRefusal, err != nil && isTooMuch(err.Err):
		return nil, len(s.calls.begun)
	case err != nil:
		return s.calls.end(torn)
	case finish == model.FinishLength:
		return s.calls.end(short)
	}
	return s.calls.end(finished)
}

// finishOf returns what a finish_reason means; calls are looked at later, since some servers say stop with calls, and
// some tool_calls without. The words in lower case are documented by OpenAI, Mistral, Hugging Face and Ollama.
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
	return "", &model.Error{Code: model.Processing, Text: "the answer ended for a reason that is not known here: " + reason}
}

// broken is the error for a stream that err ended; nil: it ended without one.
func broken(err error) *model.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return tooMuch(errTooWide)
	case isTooMuch(err):
		return tooMuch(err)
	}
	return &model.Error{Code: model.Unavailable, Text: "the stream broke: " + err.Error(), Err: err}
}

// tooMuch is the error for an answer beyond one of the bounds. To ask again would bring the same.
func tooMuch(why error) *model.Error {
	return &model.Error{Code: model.Processing, Text: why.Error(), Err: why}
}

func isTooMuch(err error) bool {
	return errors.Is(err, errTooLong) || errors.Is(err, errTooWide) || errors.Is(err, errTooMany)
}

// bounded is a body that ends with an error after so many bytes, of all or of one event.
type bounded struct {
	io.ReadCloser
	left  int64
	event int64 // bytes that the present event may still have; the reader of events may hold some of the next one
}

// begin begins an event.
func (b *bounded) begin() { b.event = maxEventBytes }

func (b *bounded) Read(p []byte) (int, error) {
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
