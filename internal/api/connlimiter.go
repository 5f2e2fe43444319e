package api

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
)

// MaxConnections is the number of connections that a server accepts at a time. A connection with a
// request in progress costs about 40 KiB and two goroutines.
const MaxConnections = 8192

// overloadedResponse returns the response to a connection above the limit.
func overloadedResponse() []byte {
	return (&Problem{
		Status: http.StatusServiceUnavailable, Code: "overloaded", Title: "Overloaded", Retryable: true, RequestID: uuid.NewString(),
		Detail: "the server has reached its connection limit; the request was not read. Retry it later",
	}).httpResponse()
}

// LimitConns returns a listener with a limit of open connections. A connection above the limit is
// answered with 503 and closed before anything is read from it (H3). netutil.LimitListener would
// let it wait without an answer.
func LimitConns(l net.Listener, limit int) *ConnLimiter {
	return &ConnLimiter{Listener: l, limit: int64(limit), slots: semaphore.NewWeighted(int64(limit)), open: map[*limitedConn]bool{}}
}

// ConnLimiter is a listener that tracks the open connections that it accepted. These include the
// connections of streams, which http.Server.Shutdown does not know because they are hijacked. It is
// safe for concurrent use.
type ConnLimiter struct {
	net.Listener
	limit int64
	slots *semaphore.Weighted // as many as limit; each open connection has one

	mu   sync.Mutex
	open map[*limitedConn]bool // guarded by mu
}

// Accept returns the next connection within the limit.
func (c *ConnLimiter) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c.slots.TryAcquire(1) {
			return c.add(conn), nil
		}
		// The send buffer is empty, so this does not block.
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(overloadedResponse())
		_ = conn.Close()
	}
}

// add adds a connection that has a slot.
func (c *ConnLimiter) add(conn net.Conn) *limitedConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &limitedConn{Conn: conn, limiter: c}
	c.open[one] = true
	return one
}

func (c *ConnLimiter) remove(one *limitedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[one] {
		delete(c.open, one)
		c.slots.Release(1)
	}
}

// Wait returns when no connection is open, or when ctx ends.
func (c *ConnLimiter) Wait(ctx context.Context) {
	if c.slots.Acquire(ctx, c.limit) == nil {
		c.slots.Release(c.limit)
	}
}

// CloseAll closes all connections. Their users then get an error and close them too; Wait returns
// when all have done so.
func (c *ConnLimiter) CloseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.open {
		_ = one.Conn.Close() // the connection is closed even if Close reports an error
	}
}

// limitedConn is a connection that counts against the limit until its user closes it.
type limitedConn struct {
	net.Conn
	limiter   *ConnLimiter
	inHandler atomic.Bool // a handler is using the connection: see markInHandler
}

// Close closes the connection and frees its place under the limit.
func (o *limitedConn) Close() error {
	defer o.limiter.remove(o)
	return o.Conn.Close()
}

// CloseWrite shuts down the sending side. net/http does so after it refuses a client that is still
// sending, so that the response is not lost.
func (o *limitedConn) CloseWrite() error {
	if c, can := o.Conn.(interface{ CloseWrite() error }); can {
		return c.CloseWrite()
	}
	return nil
}
