package mcptool

import (
	"context"
	"io"
	"net/http"
	"time"
)

// seen records the last event of the answer to a request; nil: the event belongs to no answer.
func (w *httpWire) seen(q *httpRequest, event string) {
	if q == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q.lastEvent = event
}

// maxResumes is the number of failed attempts to resume the stream of an answer.
const maxResumes = 5

// resume continues the stream of an answer after its last event. If that cannot be done, only this
// request has no answer.
func (w *httpWire) resume(r *http.Request) (*http.Response, error) {
	q, again := w.resumed(r.Header.Get(lastEventHeader))
	resp, err := w.next.RoundTrip(r)
	switch {
	case err == nil && isEventStream(resp):
		resp.Body = w.events(q, resp.Body)
		return resp, nil
	case q == nil || err != nil && again: // the SDK tries again
		return resp, err
	case err == nil:
		_ = resp.Body.Close() // not a stream of events
	}
	w.forget(q)
	lost := map[string]any{"code": codeRejected, "message": "the stream with its answer ended, and the server does not resume it"}
	text := mustJSON(map[string]any{"jsonrpc": "2.0", "id": q.id.Raw(), "error": lost})
	return respond(r, http.StatusOK, "text/event-stream", append(append([]byte("data: "), text...), "\n\n"...)), nil
}

// resumed returns the request whose answer had this event last, and whether another attempt to
// resume it makes sense after a failure.
func (w *httpWire) resumed(event string) (q *httpRequest, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.open {
		if of.lastEvent == event {
			of.resumes++
			return of, of.resumes < maxResumes
		}
	}
	return nil, false
}

// listen opens the stream of messages that the server sends on its own. It is optional, so no
// failure of it ends the connection.
func (w *httpWire) listen(r *http.Request) *http.Response {
	resp := respond(r, http.StatusOK, "text/event-stream", nil)
	resp.Body, resp.ContentLength = &standingStream{w: w, r: r}, -1
	return resp
}

// standingStream is that stream. It is opened again when it has ended. The SDK would give up after
// some attempts, and end the running calls with it.
type standingStream struct {
	w        *httpWire
	r        *http.Request
	body     io.ReadCloser
	attempts int
}

// Pauses before the stream is opened again.
const (
	minListenPause = time.Second
	maxListenPause = 30 * time.Second
)

// Read implements io.Reader.
func (s *standingStream) Read(p []byte) (int, error) {
	ctx := s.r.Context()
	for {
		if s.body != nil {
			n, err := s.body.Read(p)
			if n > 0 || err == nil {
				return n, nil
			}
			_ = s.body.Close() // it has ended
			s.body = nil
		}
		if s.attempts > 0 {
			pause := time.NewTimer(min(minListenPause<<min(s.attempts-1, 10), maxListenPause))
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return 0, context.Cause(ctx)
			}
		}
		s.attempts++
		select {
		case <-s.w.made.closed: // nothing more is sent
			<-ctx.Done()
			return 0, context.Cause(ctx)
		default:
		}
		resp, err := s.w.next.RoundTrip(s.r.Clone(ctx))
		switch {
		case err != nil:
			continue
		case isEventStream(resp):
			s.body = s.w.events(nil, resp.Body)
			continue
		}
		_ = resp.Body.Close() // not a stream of events
		if resp.StatusCode < http.StatusInternalServerError {
			<-ctx.Done() // the server has no such stream, or not for this session
			return 0, context.Cause(ctx)
		}
	}
}

// Close implements io.Closer.
func (s *standingStream) Close() error {
	if s.body == nil {
		return nil
	}
	return s.body.Close()
}
