package api

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// MaxConnections is how many connections a server has at a time: one that asks costs some 40 KiB and two goroutines (R23).
const MaxConnections = 8192

// turnedAway is what a connection that is one too many is told.
func turnedAway() []byte {
	return (&Problem{
		Status: http.StatusServiceUnavailable, Code: "overloaded", Title: "Overloaded", Retryable: true, RequestID: uuid.NewString(),
		Detail: "more are connected than can be served; nothing was read of this. Send it again, later",
	}).whole()
}

// Bounded is a listener that has so many connections at a time. One that is too many is told to come later and closed, before
// anything of it is read.
func Bounded(l net.Listener, most int) *Crowd {
	return &Crowd{Listener: l, most: most, in: map[*oneOfCrowd]bool{}, gone: make(chan struct{})}
}

// Crowd is a listener that knows the connections that it let in, those of streams included, which net/http knows no more. It is
// safe for concurrent use.
type Crowd struct {
	net.Listener
	most int

	mu   sync.Mutex
	in   map[*oneOfCrowd]bool // guarded by mu
	gone chan struct{}        // guarded by mu; closed and replaced when a connection ends
}

// Accept returns the next connection for which there is room.
func (c *Crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if one := c.enter(conn); one != nil {
			return one, nil
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // it has room for this: nothing was written before
		_, _ = conn.Write(turnedAway())
		_ = conn.Close()
	}
}

// enter counts a connection; nil: there is no room.
func (c *Crowd) enter(conn net.Conn) *oneOfCrowd {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.in) >= c.most {
		return nil
	}
	one := &oneOfCrowd{Conn: conn, of: c}
	c.in[one] = true
	return one
}

func (c *Crowd) leave(one *oneOfCrowd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.in[one] {
		return
	}
	delete(c.in, one)
	close(c.gone)
	c.gone = make(chan struct{})
}

// Wait returns when no connection is open, or with ctx.
func (c *Crowd) Wait(ctx context.Context) {
	for {
		c.mu.Lock()
		open, gone := len(c.in), c.gone
		c.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return
		}
	}
}

// Cut closes all connections. Who has one meets an error, and leaves: Wait tells when all have.
func (c *Crowd) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.in {
		_ = one.Conn.Close() // it is closed then, whatever it says
	}
}

// oneOfCrowd is a connection that is counted until who has it closes it.
type oneOfCrowd struct {
	net.Conn
	of     *Crowd
	handed atomic.Bool // a handler has it: see handOver
}

// Close closes the connection, and makes room for another one.
func (o *oneOfCrowd) Close() error {
	defer o.of.leave(o)
	return o.Conn.Close()
}

// CloseWrite ends what is sent: a server that refuses somebody who is still sending does so, that the answer is not lost.
func (o *oneOfCrowd) CloseWrite() error {
	if c, can := o.Conn.(interface{ CloseWrite() error }); can {
		return c.CloseWrite()
	}
	return nil
}
