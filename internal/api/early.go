package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/google/uuid"
)

// net/http refuses some malformed requests before it calls a handler, with a plain text response
// that no setting of its Server changes. So the connection replaces such a response by a problem
// (H3, decision 036). The flag inHandler is set from the moment when a handler has its request
// until net/http has sent the response: whatever is written in that time comes from the handler and
// passes unchanged.

// connKey is the context key of the connection of a request.
type connKey struct{}

// withConn is for http.Server.ConnContext. It makes the connection available to markInHandler.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if one, ok := c.(*limitedConn); ok {
		return context.WithValue(ctx, connKey{}, one)
	}
	return ctx
}

// markInHandler wraps a handler so that the connection knows when the handler uses it.
func markInHandler(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if one, ok := r.Context().Value(connKey{}).(*limitedConn); ok {
			one.inHandler.Store(true)
		}
		handler.ServeHTTP(w, r)
	})
}

// unmarkIdleConn is for http.Server.ConnState: the response on an idle connection is complete.
func unmarkIdleConn(c net.Conn, state http.ConnState) {
	if one, ok := c.(*limitedConn); ok && state == http.StateIdle {
		one.inHandler.Store(false)
	}
}

// Write passes the response of a handler on and replaces a refusal by net/http with a problem.
func (o *limitedConn) Write(text []byte) (int, error) {
	if !o.inHandler.Load() {
		if status := earlyRefusalStatus(text); status != 0 {
			if _, err := o.Conn.Write(earlyProblem(status)); err != nil {
				return 0, err
			}
			return len(text), nil
		}
	}
	return o.Conn.Write(text)
}

// earlyRefusalStatus returns the status of a refusal written by net/http, or 0 if text is none.
func earlyRefusalStatus(text []byte) int {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil || res.StatusCode < http.StatusBadRequest {
		return 0
	}
	return res.StatusCode
}

// earlyProblem returns a complete response, after which the connection is closed.
func earlyProblem(status int) []byte {
	p := &Problem{Status: status, Detail: "the request could not be parsed: " + http.StatusText(status), RequestID: uuid.NewString()}
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		p.Detail = fmt.Sprintf("the request header is larger than %d bytes", maxHeaderBytes)
	case http.StatusNotImplemented:
		p.Detail = "the only supported Transfer-Encoding is chunked"
	case http.StatusExpectationFailed:
		p.Detail = "the only supported Expect is 100-continue"
	}
	known, ok := transport[status]
	if !ok {
		known = problemClass{code: "invalid", title: http.StatusText(status)}
	}
	p.fill(known)
	return p.httpResponse()
}

// httpResponse encodes a problem as a complete HTTP response, for a request that no handler gets.
func (p *Problem) httpResponse() []byte {
	p.Type = problemsPage + p.Code
	body, err := json.Marshal(p)
	if err != nil { // a Problem always encodes
		body = nil
	}
	res := &http.Response{
		StatusCode: p.Status, ProtoMajor: 1, ProtoMinor: 1, Close: true, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Type": {p.ContentType("")}, "X-Request-Id": {p.RequestID}},
	}
	if p.Retryable {
		res.Header.Set("Retry-After", "1")
	}
	var out bytes.Buffer
	_ = res.Write(&out) // a buffer does not fail
	return out.Bytes()
}
