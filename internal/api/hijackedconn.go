package api

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// hijackedConn is the connection of a long-running response, hijacked from net/http after its
// header was sent. While nothing is written it holds neither a buffer nor a request. http.Server
// has no setting for that: for each waiting client it keeps 32 KiB of buffers, request and deep
// stack, more than all the rest of a stream (R20, decision 036). No further request is read from
// the connection, so the response says that the connection closes with it. Only the writing
// goroutine uses a hijackedConn.
type hijackedConn struct {
	net.Conn
	chunked bool         // HTTP/1.1; in HTTP/1.0 the end of the connection ends the response
	buffers *sync.Pool   // of *chunkBuffer, shared by all connections
	pending *chunkBuffer // contains text that is not sent, or an error; nil: nothing was written since the last flush
	cancel  context.CancelCauseFunc
}

var _ http.ResponseWriter = (*hijackedConn)(nil)

// chunkBuffer collects text until a flush, which sends it as one chunk. After a failed write it
// sends nothing more.
type chunkBuffer struct {
	*bufio.Writer                // the text
	chunks        io.WriteCloser // writes chunks to wire
	wire          *bufio.Writer  // the connection: a chunk and its length are one write
}

// newChunkBuffer is for sync.Pool.New.
func newChunkBuffer() any {
	const size = 8 << 10
	wire := bufio.NewWriterSize(nil, size+len("0000\r\n\r\n"))
	chunks := httputil.NewChunkedWriter(wire)
	return &chunkBuffer{Writer: bufio.NewWriterSize(chunks, size), chunks: chunks, wire: wire}
}

// Header returns an empty header: the real one has already been sent.
func (c *hijackedConn) Header() http.Header { return http.Header{} }

// WriteHeader does nothing: the header has already been sent.
func (c *hijackedConn) WriteHeader(int) {}

// buffer returns the pending buffer, or takes one from the pool.
func (c *hijackedConn) buffer() *chunkBuffer {
	if c.pending == nil {
		c.pending, _ = c.buffers.Get().(*chunkBuffer)
		c.pending.wire.Reset(c.Conn)
		if c.pending.Reset(c.pending.chunks); !c.chunked {
			c.pending.Reset(c.pending.wire)
		}
	}
	return c.pending
}

// Write buffers text until a flush. A long text is sent directly, because all followers share it.
func (c *hijackedConn) Write(text []byte) (n int, err error) {
	if n, err = c.buffer().Write(text); err != nil {
		c.cancel(err)
	}
	return n, err
}

// FlushError sends buffered text. It implements the method used by http.ResponseController.
func (c *hijackedConn) FlushError() error {
	if c.pending == nil {
		return nil
	}
	err := c.pending.Flush()
	if err == nil {
		err = c.pending.wire.Flush()
	}
	if err != nil {
		c.cancel(err)
		return err
	}
	c.pending.wire.Reset(nil)
	c.buffers.Put(c.pending)
	c.pending = nil
	return nil
}

// end completes the response.
func (c *hijackedConn) end() {
	if err := c.FlushError(); err != nil || !c.chunked {
		return
	}
	b := c.buffer()
	_ = b.chunks.Close()
	_, _ = b.wire.WriteString("\r\n")
	_ = c.FlushError() // the client may be gone
}

// awaitDisconnect returns when the client disconnects or sends something. No further requests are
// read here, so the first byte from the client ends the detection of a disconnect.
func (c *hijackedConn) awaitDisconnect() {
	var one [1]byte
	if _, err := c.Read(one[:]); err != nil {
		c.cancel(err)
	}
}

// detachContext gives a request a context that survives the end of the net/http handler; normally
// net/http cancels it. Until req.detach is called, the context still ends with the original one, as
// when the client disconnects. req.end cancels it.
func (req *request) detachContext(r *http.Request) *http.Request {
	given := r.Context()
	ctx, end := context.WithCancelCause(context.WithoutCancel(given))
	req.end, req.detach = end, context.AfterFunc(given, func() { end(context.Cause(given)) })
	req.cleanups = append(req.cleanups, func() { req.detach(); end(nil) })
	return r.WithContext(ctx)
}

// hijack hijacks the connection of a response whose header was written, and lets out write to it;
// nil: the connection cannot be hijacked.
func (a *API) hijack(out *responseWriter, r *http.Request, req *request) *hijackedConn {
	if req.end == nil {
		return nil
	}
	conn, _, err := out.control.Hijack() // this sends the header
	if err != nil {
		return nil
	}
	req.detach()
	c := &hijackedConn{Conn: conn, chunked: r.ProtoAtLeast(1, 1), buffers: &a.buffers, cancel: req.end}
	out.ResponseWriter, out.control = c, http.NewResponseController(c)
	return c
}

// serveRest writes the rest of a response on its connection, in a goroutine of its own, because the
// goroutine that served the request has a deep stack. finish is called at the end and reports
// whether the response is cut; then the connection is closed.
func (c *hijackedConn) serveRest(rest func(), finish func(panicked any) (cut bool)) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c.awaitDisconnect()
	}()
	defer func() {
		if !finish(recover()) {
			c.end()
		}
		_ = c.Close() // the response is complete, or cut
		<-gone
	}()
	rest()
}

// summaryRequest returns a request reduced to what the final log line and trace need.
func summaryRequest(r *http.Request) *http.Request {
	return (&http.Request{Method: r.Method, URL: &url.URL{Path: r.URL.Path}}).WithContext(r.Context())
}
