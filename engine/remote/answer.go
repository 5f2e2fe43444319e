package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	maxAnswerBytes  = 64 << 20
	maxProblemBytes = 1 << 20
)

var errTooBig = errors.New("the answer is too big to be read")

// answer is a response of 2xx whose body is being read. It is cut when nothing comes for too long.
type answer struct {
	what   string
	base   string // of the server; empty for a socket
	header http.Header
	status int
	body   io.ReadCloser
	watch  *time.Timer
	limit  time.Duration
	cancel context.CancelCauseFunc
}

// refusal reads an answer that is an error.
func (a *answer) refusal() error {
	text, err := a.read(maxProblemBytes)
	if err != nil && !errors.Is(err, errTooBig) {
		return a.blame(err)
	}
	p := problemOf(a.status, text)
	p.base = a.base
	switch {
	case p.Code == "in_flight":
		return &away{err: p, after: a.retryAfter(), busy: true}
	case a.status == http.StatusBadGateway, a.status == http.StatusServiceUnavailable, a.status == http.StatusGatewayTimeout:
		return &away{err: p, after: a.retryAfter()}
	}
	return p
}

// retryAfter returns the seconds that the server asked for.
func (a *answer) retryAfter() time.Duration {
	seconds, err := strconv.ParseUint(a.header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Read reads the body, and sets the watch back whenever something came.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if n > 0 {
		a.watch.Reset(a.limit)
	}
	return n, err
}

// read reads the whole body.
func (a *answer) read(most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(a, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, errTooBig
	}
	return text, err
}

// blame tells an answer that was cut from one that is too big.
func (a *answer) blame(err error) error {
	if errors.Is(err, errTooBig) {
		return fmt.Errorf("%s: %w", a.what, err)
	}
	return &away{err: fmt.Errorf("the answer broke off: %w", err)}
}

func (a *answer) close() {
	a.watch.Stop()
	a.cancel(nil)
	if a.body != nil {
		_ = a.body.Close() // there is nothing more to learn from it
	}
}
