package api

import (
	"bytes"
	"net/http"
	"time"
)

// writeChunk is how many bytes are written under one deadline, so that a slow line is told from a dead one.
const writeChunk = 32 << 10

// answer is a ResponseWriter with a deadline for every write (H9). Only the goroutine that serves uses it.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	status  int // 0: nothing is written yet
	bytes   int64
	slow    time.Time // zero, or when the client used up half of a deadline: nothing is written later than timeout after it
}

func newAnswer(w http.ResponseWriter, timeout time.Duration) *answer {
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
	a.extend(time.Now())
	return a
}

// extend gives the next write its time. Writers that know no deadlines, as in tests, have none.
func (a *answer) extend(now time.Time) {
	if !a.slow.IsZero() {
		now = a.slow
	}
	_ = a.control.SetWriteDeadline(now.Add(a.timeout))
}

// end gives the server the time to finish the answer.
func (a *answer) end() { a.extend(time.Now()) }

// Unwrap lets a ResponseController find the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader writes the header once.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		a.ResponseWriter.WriteHeader(status)
	}
}

// Write writes in chunks, each under a deadline of its own.
func (a *answer) Write(body []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	written := 0
	for len(body) > 0 {
		began := time.Now()
		a.extend(began)
		n, err := a.ResponseWriter.Write(body[:min(len(body), writeChunk)])
		written += n
		a.bytes += int64(n)
		if err != nil {
			return written, err
		}
		a.judge(began)
		body = body[n:]
	}
	return written, nil
}

// Flush sends what was written.
func (a *answer) Flush() error {
	began := time.Now()
	a.extend(began)
	err := a.control.Flush()
	a.judge(began)
	return err
}

// judge notes a client that takes what it is sent, but too slowly (ST5).
func (a *answer) judge(began time.Time) {
	if a.slow.IsZero() && time.Since(began) > a.timeout/2 {
		a.slow = began
	}
}

// recorder keeps an answer instead of sending it.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is the header of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the first status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write keeps the body.
func (r *recorder) Write(body []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(body)
}
