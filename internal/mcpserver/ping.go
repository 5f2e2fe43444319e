package mcpserver

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// pinged is an answer that, when it is a stream, says a comment while nothing else is said: what stands between a client and a server
// often ends a connection that was silent for a minute. It is written whole events. Writes and flushes may come at once with the
// comments.
type pinged struct {
	http.ResponseWriter
	every time.Duration
	gone  func() // is called when a comment cannot be written

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil until something of a stream is written
	ended bool        // guarded by mu; nothing more is written
}

// Write writes events, after which it is silent for a while at most.
func (p *pinged) Write(event []byte) (int, error) {
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

// FlushError sends what was written. It is for a ResponseController.
func (p *pinged) FlushError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.flush()
}

// Unwrap gives the writer to http.ResponseController.
func (p *pinged) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// flush is FlushError with mu held.
func (p *pinged) flush() error { return http.NewResponseController(p.ResponseWriter).Flush() }

// ping says that the stream is there, or notices that nobody reads it.
func (p *pinged) ping() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if _, err := p.ResponseWriter.Write([]byte(": ping\n\n")); err != nil || p.flush() != nil {
		p.gone()
		return
	}
	p.timer.Reset(p.every)
}

// end is called before the answer's handler returns: nothing may be written after that.
func (p *pinged) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}
