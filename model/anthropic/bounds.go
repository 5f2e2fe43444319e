package anthropic

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/perdure/perdure/model"
)

const (
	// maxAnswerBytes bounds what is read of one answer. 128,000 tokens, the most that a model is known to say, need
	// 17 MB where each comes in an event of its own.
	maxAnswerBytes = 32 << 20
	// maxEventBytes bounds one event of it, which costs a multiple of itself in memory.
	maxEventBytes = 16 << 20
	// maxBlocks bounds the content blocks of an answer, and with them its calls.
	maxBlocks = 1000
)

var (
	errTooLong = errors.New("the answer is longer than 32 MiB")
	errTooWide = errors.New("one event of the stream is longer than 16 MiB")
	errTooMany = fmt.Errorf("the answer has more than %d content blocks: none of its calls is made", maxBlocks)
)

// tooMuch is the error for an answer beyond one of the bounds; nil: err is none of them. To ask again would bring the same.
func tooMuch(err error) *model.Error {
	if errors.Is(err, bufio.ErrTooLong) { // of a line; the SDK's own bound
		err = errTooWide
	}
	for _, bound := range []error{errTooLong, errTooWide, errTooMany} {
		if errors.Is(err, bound) {
			return &model.Error{Code: model.Processing, Text: bound.Error(), Err: bound}
		}
	}
	return nil
}

// bounded is the body of one answer, which ends with an error after so many bytes, of all or of one event.
type bounded struct {
	io.ReadCloser
	left  int64
	event int64 // bytes that the present event may still have; the reader of events may hold some of the next one
}

func newBounded() *bounded { return &bounded{left: maxAnswerBytes, event: maxEventBytes} }

// around puts it around the body of an answer.
func (b *bounded) around(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err == nil {
		b.ReadCloser, res.Body = res.Body, b
	}
	return res, err
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
