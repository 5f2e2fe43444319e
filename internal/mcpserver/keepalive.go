package mcpserver

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// keepAliveWriter is a response that, if it is a stream, writes a comment whenever nothing else was
// written for a while: proxies often close a connection that has been silent for a minute. Each
// Write must be a whole event. Safe for concurrent use.
type keepAliveWriter struct {
	http.ResponseWriter
	every  time.Duration
	onGone func() // called when a comment cannot be written

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil until the first write of a stream
	ended bool        // guarded by mu; no more comments
}

// Write writes events and restarts the timer of the next comment.
func (p *keepAliveWriter) Write(event []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.ResponseWriter.Write(event)
	switch {
	case p.timer != nil:
		p.timer.Reset(p.every)
	case strings.HasPrefix(p.Header().Get("Content-Type"), "text/event-stream"):
		p.timer = time.AfterFunc(p.every, p.ping)
	}
	return n, err
}

// FlushError sends buffered data. It implements the method used by http.ResponseController.
func (p *keepAliveWriter) FlushError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flush()
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (p *keepAliveWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// flush is FlushError for callers that hold mu.
func (p *keepAliveWriter) flush() error { return http.NewResponseController(p.ResponseWriter).Flush() }

// ping writes a comment. If that fails, the client has disconnected.
func (p *keepAliveWriter) ping() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if _, err := p.ResponseWriter.Write([]byte(": ping\n\n")); err != nil || p.flush() != nil {
		p.onGone()
		return
	}
	p.timer.Reset(p.every)
}

// end stops the comments. It must be called before the handler returns, because nothing may be
// written after that.
func (p *keepAliveWriter) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
