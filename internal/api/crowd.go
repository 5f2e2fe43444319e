package api

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// MaxConnections is how many connections a server has at a time: each costs some 40 KiB and two goroutines (R23).
const MaxConnections = 8192

// turnedAway is what a connection that is one too many is told.
const turnedAway = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// Bounded is a listener that has so many connections at a time. One that is too many is told to come later and closed, before
// anything of it is read.
func Bounded(l net.Listener, most int) net.Listener { return &crowd{Listener: l, most: int64(most)} }

type crowd struct {
	net.Listener
	most int64
	open atomic.Int64
}

// Accept returns the next connection for which there is room.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c.open.Add(1) <= c.most {
			return &oneOfCrowd{Conn: conn, left: sync.OnceFunc(func() { c.open.Add(-1) })}, nil
		}
		c.open.Add(-1)
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // it has room for this: nothing was written before
		_, _ = conn.Write([]byte(turnedAway))
		_ = conn.Close()
	}
}

// oneOfCrowd is a connection that is counted until it is closed.
type oneOfCrowd struct {
	net.Conn
	left func()
}

// Close closes the connection, and makes room for another one.
func (o *oneOfCrowd) Close() error {
	defer o.left()
	return o.Conn.Close()
}

// CloseWrite ends what is sent: a server that refuses somebody who is still sending does so, that the answer is not lost.
func (o *oneOfCrowd) CloseWrite() error {
	if c, can := o.Conn.(interface{ CloseWrite() error }); can {
		return c.CloseWrite()
	}
	return nil
}
