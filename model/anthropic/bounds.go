package anthropic

import (
	"errors"
	"fmt"
	"io"

	"github.com/perdure/perdure/internal/sse"
	"github.com/perdure/perdure/model"
)

const (
	// maxAnswerBytes bounds one answer. 128,000 tokens, the longest answer of any known model, need
	// 17 MB if each token has an event of its own.
	maxAnswerBytes = 32 << 20
	// maxEventBytes bounds one event, which needs a multiple of its size in memory.
	maxEventBytes = 16 << 20
	// maxBlocks bounds the content blocks of an answer, and thereby its calls.
	maxBlocks = 1000
)

var (
	errTooLong = errors.New("the answer is longer than 32 MiB")
	errTooWide = errors.New("one event of the stream is longer than 16 MiB")
	errTooMany = fmt.Errorf("the answer has more than %d content blocks, and none of its calls is made", maxBlocks)
)

// limitError returns the error for an answer that exceeds a limit, or nil if err is not about one.
// It is not retryable, because another attempt would do the same.
func limitError(err error) *model.Error {
	if errors.Is(err, sse.ErrTooLong) {
		err = errTooWide
	}
	for _, bound := range []error{errTooLong, errTooWide, errTooMany} {
		if errors.Is(err, bound) {
			return &model.Error{Code: model.Processing, Text: bound.Error(), Err: bound}
		}
	}
	return nil
}

// limitedBody is the body of an answer. It ends with an error after a number of bytes, in total or
// in one event.
type limitedBody struct {
	io.ReadCloser
	left  int64
	event int64 // remaining bytes of this event; the decoder may already have read a part of the next one
}

func newBounded(body io.ReadCloser) *limitedBody {
	return &limitedBody{ReadCloser: body, left: maxAnswerBytes, event: maxEventBytes}
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
