package api

import (
	"bytes"
	"net/http"
	"time"
)

// writeChunk is the number of bytes written under one deadline. It separates a slow connection from
// a dead one.
const writeChunk = 32 << 10

// responseWriter is a ResponseWriter that sets a deadline for every write (H9). Only the serving
// goroutine uses it.
type responseWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	status  int // 0: nothing has been written
	bytes   int64
	// slow is when the client first used more than half of a write deadline, or zero. Once it is
	// set, all later writes share the deadline slow+timeout.
	slow time.Time
}

func newResponseWriter(w http.ResponseWriter, timeout time.Duration) *responseWriter {
	a := &responseWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
	a.extend(time.Now())
	return a
}

// extend sets the deadline of the next write. Writers without deadlines, such as those of tests,
// ignore it.
func (a *responseWriter) extend(now time.Time) {
	if !a.slow.IsZero() {
		now = a.slow
	}
	_ = a.control.SetWriteDeadline(now.Add(a.timeout))
}

// end gives the server time to finish the response.
func (a *responseWriter) end() { a.extend(time.Now()) }

// Unwrap lets a ResponseController find the connection.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader writes the header once.
func (a *responseWriter) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		a.ResponseWriter.WriteHeader(status)
	}
}

// Write writes in chunks, each with its own deadline.
func (a *responseWriter) Write(body []byte) (int, error) {
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
		a.noteSlowRead(began)
		body = body[n:]
	}
	return written, nil
}

// Flush sends buffered data.
func (a *responseWriter) Flush() error {
	began := time.Now()
	a.extend(began)
	err := a.control.Flush()
	a.noteSlowRead(began)
	return err
}

// noteSlowRead records that a client reads, but too slowly (ST5).
func (a *responseWriter) noteSlowRead(began time.Time) {
	if a.slow.IsZero() && time.Since(began) > a.timeout/2 {
		a.slow = began
	}
}

// recorder buffers a response instead of sending it.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the response.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader stores the first status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write stores the body.
func (r *recorder) Write(body []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(body)
}
