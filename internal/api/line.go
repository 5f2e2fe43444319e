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

// line is the connection of an answer that goes on, taken over from net/http when its header was sent. While nothing is written
// it holds no buffer and no request, where net/http would keep some 20 KiB and a deep stack for each client that waits (R20). It
// says that the connection ends with the answer, since nobody reads another request from it. Only the goroutine that writes
// uses it.
type line struct {
	conn    net.Conn
	chunked bool       // HTTP/1.1; before that the end of the connection is the end of the answer
	spare   *sync.Pool // of *chunk, for all lines
	held    *chunk     // what is not sent yet; nil: nothing
	broken  error      // why something was not sent: nothing more is
	gone    func(error)
}

var _ http.ResponseWriter = (*line)(nil)

// The room of a chunk: its length in four digits, its text, its end.
const (
	chunkHead = len("0000\r\n")
	chunkText = 8 << 10
	chunkTail = len("\r\n")
)

// chunk is what is sent at once of small pieces.
type chunk struct {
	end   int // of the text in bytes
	bytes [chunkHead + chunkText + chunkTail]byte
}

// Header is empty: it was sent.
func (l *line) Header() http.Header { return http.Header{} }

// WriteHeader does nothing: it was sent.
func (l *line) WriteHeader(int) {}

// SetWriteDeadline is for a ResponseController.
func (l *line) SetWriteDeadline(t time.Time) error { return l.conn.SetWriteDeadline(t) }

// Write keeps what is short until Flush. What is long is sent as it is: it is shared by all who are sent the same.
func (l *line) Write(text []byte) (int, error) {
	if l.held != nil && len(text) > chunkHead+chunkText-l.held.end {
		if err := l.FlushError(); err != nil {
			return 0, err
		}
	}
	if len(text) > chunkText {
		return l.whole(text)
	}
	if l.held == nil {
		l.held, _ = l.spare.Get().(*chunk)
		if l.held == nil {
			l.held = &chunk{}
		}
		l.held.end = chunkHead
	}
	l.held.end += copy(l.held.bytes[l.held.end:], text)
	return len(text), nil
}

// whole sends a text as a chunk of its own.
func (l *line) whole(text []byte) (n int, err error) {
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

// FlushError sends what is kept. It is for a ResponseController.
func (l *line) FlushError() error {
	c := l.held
	if c == nil || c.end == chunkHead {
		return nil
	}
	l.held = nil
	defer l.spare.Put(c)
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

func (l *line) send(text []byte) error {
	if l.broken == nil {
		if _, l.broken = l.conn.Write(text); l.broken != nil {
			l.gone(l.broken)
		}
	}
	return l.broken
}

// end ends an answer that is whole.
func (l *line) end() {
	if err := l.FlushError(); err == nil && l.chunked {
		_ = l.send([]byte("0\r\n\r\n")) // a client that is gone needs no end
	}
}

// listen returns when the client hangs up. When it sends something it is not heard any more: nobody reads requests here.
func (l *line) listen() {
	var one [1]byte
	if _, err := l.conn.Read(one[:]); err != nil {
		l.gone(err)
	}
}

// outlive gives a request a context that does not end when net/http is done with it, as it does otherwise when its client hangs
// up. req.untie ends that, too, and req.end the context.
func (req *request) outlive(r *http.Request) *http.Request {
	given := r.Context()
	ctx, end := context.WithCancelCause(context.WithoutCancel(given))
	req.end, req.untie = end, context.AfterFunc(given, func() { end(context.Cause(given)) })
	req.leaves = append(req.leaves, func() { req.untie(); end(nil) })
	return r.WithContext(ctx)
}

// takeOver takes the connection of an answer whose header was written; nil: it cannot be taken.
func (a *API) takeOver(out *answer, r *http.Request, req *request) *line {
	if req.end == nil || r.ProtoMajor != 1 {
		return nil
	}
	conn, buffered, err := out.control.Hijack()
	if err != nil {
		return nil
	}
	req.untie()
	l := &line{conn: conn, chunked: r.ProtoAtLeast(1, 1), spare: &a.chunks, gone: func(err error) { req.end(err) }}
	if err := buffered.Flush(); err != nil {
		l.gone(err)
	}
	return l
}

// goOn writes the rest of an answer on its connection, in a goroutine of its own: the one that served the request has a stack as
// deep as the request was. finish is called when it has ended, and says whether it is cut.
func (a *API) goOn(l *line, req *request, finish func(*answer, any) bool) {
	out := newAnswer(l, a.cfg.WriteTimeout)
	out.status = http.StatusOK
	deaf := make(chan struct{})
	go func() {
		defer close(deaf)
		l.listen()
	}()
	defer func() {
		if !finish(out, recover()) {
			l.end()
		}
		_ = l.conn.Close() // all of it was sent, or it is cut
		<-deaf
	}()
	req.rest(&stream{out: out})
}

// brief is a request without what came with it, as far as it is told of in the end.
func brief(r *http.Request) *http.Request {
	return (&http.Request{Method: r.Method, URL: &url.URL{Path: r.URL.Path}}).WithContext(r.Context())
}
