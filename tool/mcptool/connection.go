package mcptool

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// closeTime is the timeout for closing a connection. After it, an unresponsive server is left as it
// is.
const closeTime = time.Second

// connection is one connection to the server.
type connection struct {
	session     *mcp.ClientSession
	serverStart time.Time // start time of the broker's server; zero: the server has no broker
	dropped     int       // messages of the server dropped since the previous connection
	conn        io.Closer // to the broker; nil: the server is reached over HTTP

	closed  chan struct{} // closed when the connection is cut
	once    sync.Once     // closes gone
	waiting int           // guarded by the client's mu; calls that were sent and have no answer yet

	lateAnswer atomic.Bool // the server answered methodDiscover after the older handshake was begun
}

// answeredLate reports whether the server supports the newest protocol version, but was slow to say
// so.
func (n *connection) answeredLate() bool { return n.lateAnswer.Load() }

// lostSession forgets a connection whose session the server does not know any more. The next
// request makes a new one. Calls that run on the old one keep it until they end.
func (c *Client) lostSession(of *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || c.now != of {
		return
	}
	c.now = nil
	c.abandoned = append(c.abandoned, of)
	go func() { // until its calls have ended, or it is cut
		_ = of.session.Close() // the server does not know it
	}()
}

// cut stops all traffic of the connection: running calls return, and nothing more is sent, not even
// a cancel. The server continues its calls.
func (n *connection) cut() {
	n.once.Do(func() { close(n.closed) })
	if n.conn != nil {
		_ = n.conn.Close() // the server may already have closed it
	}
}

// lost forgets a connection that has ended.
func (c *Client) lost(session *mcp.ClientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil && c.now.session == session {
		c.now = nil
	}
}

// waitFor registers a call that is about to be sent over a connection. gone is closed when the
// connection is cut. The caller calls answered when the answer was read, or is not wanted.
func (c *Client) waitFor(session *mcp.ClientSession) (gone <-chan struct{}, answered func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.now
	if of == nil || of.session != session {
		return nil, func() {} // the connection was lost, and so is the call
	}
	of.waiting++
	return of.closed, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		of.waiting--
	}
}

// Close ends the connection within two seconds. Running calls return here and continue at the
// server; the SDK alone would wait for their answers. If end is true, the broker's server ends too,
// unless a call is still running there.
func (c *Client) Close(end bool) error {
	c.mu.Lock()
	of := c.now
	c.now = nil
	left := of != nil && of.waiting > 0
	for _, old := range c.abandoned {
		old.cut()
	}
	c.abandoned = nil
	c.mu.Unlock()
	if of == nil {
		return nil
	}
	late := time.AfterFunc(closeTime, of.cut)
	defer late.Stop()
	defer of.cut()
	var err error
	if w, ok := of.conn.(io.Writer); ok && end && !left {
		_, err = w.Write([]byte(`{"jsonrpc":"2.0","method":"` + endMethod + `"}` + "\n"))
	}
	if left {
		of.cut()
	}
	closed := make(chan struct{})
	go func() { // until the SDK has finished
		defer close(closed)
		_ = of.session.Close() // the connection is lost anyway
	}()
	select {
	case <-closed:
	case <-of.closed:
		select { // after a cut the SDK finishes soon, if at all
		case <-closed:
		case <-time.After(closeTime):
		}
	}
	return ignoreClosed(err)
}
