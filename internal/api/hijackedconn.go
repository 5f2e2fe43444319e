package api

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// hijackedConn is the connection of a long-running response, hijacked from net/http after its
// header was sent. While nothing is written it holds neither a buffer nor a request; net/http would
// keep about 20 KiB and a deep stack for each waiting client (R20). No further request is read from
// the connection, so the response says that the connection closes with it. Only the writing
// goroutine uses a line.
type hijackedConn struct {
	conn         net.Conn
	chunked      bool       // HTTP/1.1; in HTTP/1.0 the end of the connection ends the response
	chunks       *sync.Pool // of *chunk, shared by all lines
	pending      *chunk     // text not sent yet; nil: none
	err          error      // the first write error; nothing more is sent after it
	onDisconnect func(error)
}

var _ http.ResponseWriter = (*hijackedConn)(nil)

// The parts of a chunk: its length in four hex digits, its text, its end.
const (
	chunkHead = len("0000\r\n")
	chunkText = 8 << 10
	chunkTail = len("\r\n")
)

// chunk collects small writes until a flush.
type chunk struct {
	end   int // end of the text, as an index into bytes
	bytes [chunkHead + chunkText + chunkTail]byte
}

// Header returns an empty header: the real one has already been sent.
func (l *hijackedConn) Header() http.Header { return http.Header{} }

// WriteHeader does nothing: the header has already been sent.
func (l *hijackedConn) WriteHeader(int) {}

// SetWriteDeadline implements the method used by http.ResponseController.
func (l *hijackedConn) SetWriteDeadline(t time.Time) error { return l.conn.SetWriteDeadline(t) }

// Write buffers short texts until a flush. A long text is sent directly, without a copy, because
// all followers share it.
func (l *hijackedConn) Write(text []byte) (int, error) {
	if l.pending != nil && len(text) > chunkHead+chunkText-l.pending.end {
		if err := l.FlushError(); err != nil {
			return 0, err
		}
	}
	if len(text) > chunkText {
		return l.sendChunk(text)
	}
	if l.pending == nil {
		l.pending, _ = l.chunks.Get().(*chunk)
		if l.pending == nil {
			l.pending = &chunk{}
		}
		l.pending.end = chunkHead
	}
	l.pending.end += copy(l.pending.bytes[l.pending.end:], text)
	return len(text), nil
}

// sendChunk sends a text as a chunk of its own.
func (l *hijackedConn) sendChunk(text []byte) (n int, err error) {
	if l.chunked {
		if err := l.send(append(strconv.AppendInt(nil, int64(len(text)), 16), "\r\n"...)); err != nil {
			return 0, err
		}
	}
	if err = l.send(text); err == nil && l.chunked {
		err = l.send([]byte("\r\n"))
	}
	if err != nil {
		return 0, err
	}
	return len(text), nil
}

// FlushError sends buffered text. It implements the method used by http.ResponseController.
func (l *hijackedConn) FlushError() error {
	c := l.pending
	if c == nil || c.end == chunkHead {
		return nil
	}
	l.pending = nil
	defer l.chunks.Put(c)
	if !l.chunked {
		return l.send(c.bytes[chunkHead:c.end])
	}
	length := c.end - chunkHead
	for i := 3; i >= 0; i, length = i-1, length/16 {
		c.bytes[i] = "0123456789abcdef"[length%16]
	}
	copy(c.bytes[4:], "\r\n")
	return l.send(c.bytes[:c.end+copy(c.bytes[c.end:], "\r\n")])
}

func (l *hijackedConn) send(text []byte) error {
	if l.err == nil {
		if _, l.err = l.conn.Write(text); l.err != nil {
			l.onDisconnect(l.err)
		}
	}
	return l.err
}

// end completes the response.
func (l *hijackedConn) end() {
	if err := l.FlushError(); err == nil && l.chunked {
		_ = l.send([]byte("0\r\n\r\n")) // the client may be gone
	}
}

// awaitDisconnect returns when the client disconnects or sends something. No further requests are
// read here, so the first byte from the client ends the detection of a disconnect.
func (l *hijackedConn) awaitDisconnect() {
	var one [1]byte
	if _, err := l.conn.Read(one[:]); err != nil {
		l.onDisconnect(err)
	}
}

// detachContext gives a request a context that survives the end of the net/http handler; normally
// net/http cancels it. Until req.untie is called, the context still ends with the original one, as
// when the client disconnects. req.end cancels it.
func (req *request) detachContext(r *http.Request) *http.Request {
	given := r.Context()
	ctx, end := context.WithCancelCause(context.WithoutCancel(given))
	req.end, req.detach = end, context.AfterFunc(given, func() { end(context.Cause(given)) })
	req.cleanups = append(req.cleanups, func() { req.detach(); end(nil) })
	return r.WithContext(ctx)
}

// hijack hijacks the connection of a response whose header was written; nil: the connection
// cannot be hijacked.
func (a *API) hijack(out *responseWriter, r *http.Request, req *request) *hijackedConn {
	if req.end == nil || r.ProtoMajor != 1 {
		return nil
	}
	conn, buffered, err := out.control.Hijack()
	if err != nil {
		return nil
	}
	req.detach()
	l := &hijackedConn{conn: conn, chunked: r.ProtoAtLeast(1, 1), chunks: &a.chunks, onDisconnect: func(err error) { req.end(err) }}
	if err := buffered.Flush(); err != nil {
		l.onDisconnect(err)
	}
	return l
}

// serveRest writes the rest of a response on its connection, in a goroutine of its own, because the
// goroutine that served the request has a deep stack. finish is called at the end and reports
// whether the response is cut.
func (a *API) serveRest(l *hijackedConn, req *request, finish func(*responseWriter, any) bool) {
	out := newResponseWriter(l, a.cfg.WriteTimeout)
	out.status = http.StatusOK
	deaf := make(chan struct{})
	go func() {
		defer close(deaf)
		l.awaitDisconnect()
	}()
	defer func() {
		if !finish(out, recover()) {
			l.end()
		}
		_ = l.conn.Close() // the response is complete, or cut
		<-deaf
	}()
	req.rest(&stream{out: out})
}

// summaryRequest returns a request reduced to what the final log line and trace need.
func summaryRequest(r *http.Request) *http.Request {
	return (&http.Request{Method: r.Method, URL: &url.URL{Path: r.URL.Path}}).WithContext(r.Context())
}
