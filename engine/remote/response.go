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
	maxResponseBytes = 64 << 20
	maxProblemBytes  = 1 << 20
)

var errTooLarge = errors.New("the response is too large")

// response is a successful response whose body is being read. It is aborted when nothing arrives
// for too long.
type response struct {
	what   string
	base   string // the server's URL; empty for a socket
	header http.Header
	status int
	body   io.ReadCloser
	watch  *time.Timer
	limit  time.Duration
	cancel context.CancelCauseFunc
}

// problem reads an error response.
func (a *response) problem() error {
	text, err := a.read(maxProblemBytes)
	if err != nil && !errors.Is(err, errTooLarge) {
		return a.readError(err)
	}
	p := problemOf(a.status, text)
	p.base = a.base
	switch {
	case p.Code == "in_flight":
		return &retryableError{err: p, retryAfter: a.retryAfter(), busy: true}
	case a.status == http.StatusBadGateway, a.status == http.StatusServiceUnavailable,
		a.status == http.StatusGatewayTimeout:
		return &retryableError{err: p, retryAfter: a.retryAfter()}
	}
	return p
}

// retryAfter returns the delay that the server asked for.
func (a *response) retryAfter() time.Duration {
	seconds, err := strconv.ParseUint(a.header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Read reads the body, and resets the timer whenever data arrives.
func (a *response) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	if n > 0 {
		a.watch.Reset(a.limit)
	}
	return n, err
}

// read reads the complete body.
func (a *response) read(most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(a, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, errTooLarge
	}
	return text, err
}

// readError distinguishes a response that was cut off, which may be retried, from one that is too
// large.
func (a *response) readError(err error) error {
	if errors.Is(err, errTooLarge) {
		return fmt.Errorf("%s: %w", a.what, err)
	}
	return &retryableError{err: fmt.Errorf("the response was cut off: %w", err)}
}

func (a *response) close() {
	a.watch.Stop()
	a.cancel(nil)
	if a.body != nil {
		_ = a.body.Close() // its error tells nothing new
	}
}
