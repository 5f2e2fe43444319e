package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/google/uuid"
)

// Some requests net/http refuses before it asks a handler, in words of its own and as plain text. Its server has no way to say them
// otherwise; so the connection says them (H3). A connection was handed over from when a handler has its request until net/http is
// done with the answer: what is written meanwhile is the handler's, whatever it looks like.

// handedKey is the key of the connection in the context of a request.
type handedKey struct{}

// knowConnection is for http.Server.ConnContext.
func knowConnection(ctx context.Context, c net.Conn) context.Context {
	if one, ok := c.(*oneOfCrowd); ok {
		return context.WithValue(ctx, handedKey{}, one)
	}
	return ctx
}

// handOver is a handler whose connections know when it has them.
func handOver(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if one, ok := r.Context().Value(handedKey{}).(*oneOfCrowd); ok {
			one.handed.Store(true)
		}
		handler.ServeHTTP(w, r)
	})
}

// takeBack is for http.Server.ConnState: an idle connection has its answer.
func takeBack(c net.Conn, state http.ConnState) {
	if one, ok := c.(*oneOfCrowd); ok && state == http.StateIdle {
		one.handed.Store(false)
	}
}

// Write writes what a handler answers as it is, and what net/http refuses as a problem.
func (o *oneOfCrowd) Write(text []byte) (int, error) {
	if !o.handed.Load() {
		if status := refusedEarly(text); status != 0 {
			if _, err := o.Conn.Write(earlyProblem(status)); err != nil {
				return 0, err
			}
			return len(text), nil
		}
	}
	return o.Conn.Write(text)
}

// refusedEarly is the status of a refusal by net/http; 0: it is none.
func refusedEarly(text []byte) int {
	rest, ok := bytes.CutPrefix(text, []byte("HTTP/1.1 "))
	if !ok || len(rest) < 4 || rest[3] != ' ' {
		return 0
	}
	status, err := strconv.Atoi(string(rest[:3]))
	if err != nil || status < http.StatusBadRequest {
		return 0
	}
	return status
}

// earlyProblem is a whole answer, after which the connection ends.
func earlyProblem(status int) []byte {
	p := &Problem{Status: status, Detail: "the request cannot be read: " + http.StatusText(status), RequestID: uuid.NewString()}
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		p.Detail = fmt.Sprintf("the header has more than %d bytes", maxHeaderBytes)
	case http.StatusNotImplemented:
		p.Detail = "no Transfer-Encoding but chunked is read"
	case http.StatusExpectationFailed:
		p.Detail = "no Expect but 100-continue is met"
	}
	known, ok := transport[status]
	if !ok {
		known = class{code: "invalid", title: http.StatusText(status)}
	}
	p.fill(known)
	return p.whole()
}

// whole is a problem as a whole answer, outside net/http.
func (p *Problem) whole() []byte {
	p.Type = problemsPage + p.Code
	body, err := json.Marshal(p)
	if err != nil { // it has nothing that could not be written
		body = nil
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nX-Request-Id: %s\r\nConnection: close\r\nContent-Length: %d\r\n",
		p.Status, http.StatusText(p.Status), p.ContentType(""), p.RequestID, len(body))
	if p.Retryable {
		out.WriteString("Retry-After: 1\r\n")
	}
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes()
}
