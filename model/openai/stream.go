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
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/internal/sse"
	"github.com/perdure/perdure/model"
)

const (
	// maxAnswerBytes bounds one answer. 128,000 tokens, the longest answer of any known model, need
	// 48 MB if each token has a chunk of its own.
	maxAnswerBytes = 64 << 20
	// maxEventBytes bounds one event, which needs a multiple of its size in memory.
	maxEventBytes = 16 << 20
	// usageWait is how long the reader waits for usage, and for content that comes late, after the
	// answer has finished.
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
	stop context.CancelFunc // ends a request whose answer has finished
	// stopped says that stop was called because nothing came after the finish for usageWait.
	stopped atomic.Bool
	began   func() // called with the first content
	// family is the family of the model, for the state that it wants back.
	family string

	text, thinking charBuffer
	calls          calls
	fields         openFields // of the answer
	thinkingAs     []string   // the fields in which thinking arrived
	usage          perdure.Usage
	model          string // the answering model
	hasContent     bool   // text, thinking or a call has arrived
	hasText        bool   // text has arrived
	hasRefusal     bool   // the answer contains a refusal in words
	finish         string // the last finish_reason; empty: not finished
	finishedBy     []byte // the chunk with it; the same chunk again is a repetition
	early          string // a finish_reason after which more content arrived
	done           bool   // the server marked the end of the stream
	isMessage      bool   // a chunk had a message and not a piece of one
	chunks         int
	said           strings.Builder // the text so far
	isOurs         bool            // a chunk of the protocol has arrived
	noise          string          // the last data that is no JSON
	failed         *model.Error
	refused        *modelwire.Refused // an error of the server that is all of the answer
}

// read yields deltas until the stream ends, for whatever reason.
func (s *stream) read(res *http.Response) iter.Seq[model.Delta] {
	return func(yield func(model.Delta) bool) {
		body := &limitedBody{ReadCloser: res.Body, left: maxAnswerBytes}
		kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
		values := sse.NewValues(body, kind, maxEventBytes)
		late := time.AfterFunc(usageWait, func() { // started by the finish
			s.stopped.Store(true)
			s.stop()
		})
		late.Stop()
		defer late.Stop()
		for isLate := false; ; {
			body.begin()
			v, err := values.Next()
			if err != nil {
				if !s.stopped.Load() {
					s.failed = s.ended(err, values, res.Header)
				}
				return
			}
			d, more := s.event(v)
			finished := s.finish != "" || s.early != ""
			if d == nil && !s.hasContent && !finished && more {
				d = &model.Delta{} // a sign of life
			}
			if finished && (!isLate || d != nil) {
				late.Reset(usageWait)
				isLate = true
			}
			if d != nil && !yield(*d) || !more {
				return
			}
		}
	}
}

// ended returns the error for a body that ended with err; nil: it ended in order.
func (s *stream) ended(err error, values *sse.Values, header http.Header) *model.Error {
	isEnd := err == io.EOF //nolint:errorlint // it is never wrapped
	switch {
	case errors.Is(err, sse.ErrForeign), isEnd && !s.isOurs && s.noise == "" && !values.MayBeStream():
		return foreignError(header, values.Head())
	case errors.Is(err, sse.ErrBroken):
		return brokenChunk()
	}
	return broken(err)
}

// event handles one event or value. It returns a delta, or nil if it adds nothing, and whether
// another one may follow.
func (s *stream) event(v sse.Value) (*model.Delta, bool) {
	text := bytes.TrimSpace(v.Data)
	if len(text) == 0 {
		return nil, true
	}
	if string(bytes.Trim(text, `"`)) == sse.DoneMark {
		s.done = true
		return nil, false
	}
	if text[0] != '{' && text[0] != '[' {
		if v.Name == "error" {
			return nil, s.fail(streamError(text), text)
		}
		s.noise = string(text)
		return nil, true
	}
	chunks, err := sse.Split(text)
	var sum *model.Delta
	for _, one := range chunks {
		c := decode(one)
		if s.finish != "" && bytes.Equal(one, s.finishedBy) {
			c.choices = nil // a repetition
		}
		if c.problem == nil && v.Name == "error" {
			c.problem = one
		}
		if c.problem != nil && !s.fail(streamError(c.problem), one) {
			return sum, false
		}
		sum = joined(sum, s.addChunk(c, one))
	}
	if err != nil && !s.fail(brokenChunk(), nil) {
		return sum, false
	}
	return sum, !s.calls.tooMany
}

// fail ends the answer with an error, unless it has finished, and reports whether it goes on.
func (s *stream) fail(e *model.Error, text []byte) bool {
	if s.finish != "" {
		return true
	}
	s.failed = e
	if !s.hasContent && text != nil {
		refused := modelwire.NewRefused(0, text)
		s.refused = &refused
	}
	return false
}

// joined returns two deltas as one.
func joined(a, b *model.Delta) *model.Delta {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	a.Text += b.Text
	a.Thinking += b.Thinking
	a.Model = cmp.Or(a.Model, b.Model)
	a.Usage = cmp.Or(b.Usage, a.Usage)
	return a
}

// addChunk adds a chunk and returns what is new, or nil. text is the chunk as it arrived.
func (s *stream) addChunk(c chunk, text []byte) *model.Delta {
	var d model.Delta
	isNew := false
	s.isOurs = s.isOurs || c.isOurs
	s.chunks++
	if c.model != "" && s.model == "" {
		s.model, d.Model, isNew = c.model, c.model, true
	}
	for _, choice := range c.choices {
		if choice.index != 0 {
			continue
		}
		if choice.isMessage {
			s.isMessage, s.fields = true, openFields{}
			choice.delta.text = strings.TrimPrefix(choice.delta.text, s.said.String())
		}
		content := s.addDelta(choice.delta, &d)
		if content && s.finish != "" {
			s.early, s.finish = s.finish, ""
		}
		if choice.finish != "" && s.finish == "" {
			s.finish, s.finishedBy = choice.finish, bytes.Clone(text)
		}
		isNew = s.addFields(choice.delta.fields) || content || isNew
	}
	d.Usage = s.count(c.usage)
	if !isNew && d.Text == "" && d.Thinking == "" && d.Usage == nil {
		return nil
	}
	return &d
}

// addDelta adds a delta of the answer to d, and reports whether it has content.
func (s *stream) addDelta(from delta, d *model.Delta) bool {
	text := from.text + from.refusal
	content := text != "" || from.thinking != ""
	d.Thinking += s.thinking.add(from.thinking)
	d.Text += s.text.add(text)
	s.said.WriteString(from.text)
	s.hasText = s.hasText || text != ""
	s.hasRefusal = s.hasRefusal || from.refusal != ""
	for _, p := range from.calls {
		if s.calls.add(p) {
			content = true // a sign of progress
		}
	}
	if content && !s.hasContent {
		s.hasContent = true
		s.began()
	}
	return content
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
	finish, err := s.outcome()
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
	d := model.Delta{Finish: finish, State: s.state()}
	if s.usage != (perdure.Usage{}) {
		d.Usage = &s.usage
	}
	return append(last, d), nil
}

// outcome returns how the answer ended. An answer without a finish_reason, or with one before its
// last content, is complete if the server marked its end and nothing in it is half.
func (s *stream) outcome() (model.Finish, *model.Error) {
	some := s.hasText || len(s.calls.started) > 0
	whole := some && s.calls.areWhole()
	switch {
	case s.finish != "":
		return modelwire.Finish(s.finish)
	case s.early != "" && whole:
		return modelwire.Finish(s.early)
	case s.failed != nil:
		return "", s.failed
	case s.done && whole, s.isMessage && s.chunks == 1 && some:
		return model.FinishStop, nil
	}
	text := "the stream ended early, without a finish_reason"
	if s.noise != "" {
		text += ": " + s.noise
	}
	e := &model.Error{Code: model.Unavailable, Text: text}
	if s.noise != "" && !s.hasContent {
		refused := modelwire.NewRefused(0, []byte(s.noise))
		s.refused = &refused
	}
	return "", e
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
