package mcptool

import (
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// closeTime is how long the end of a connection may take. A server that says nothing then is left as it is.
const closeTime = time.Second

// connection is one connection to the server.
type connection struct {
	session *mcp.ClientSession
	born    time.Time // of the keeper's server; zero: the server has no keeper
	dropped int       // messages of the server that were dropped since the connection before
	conn    io.Closer // to the keeper; nil: the server is reached over HTTP

	gone    chan struct{} // closed when the connection carries nothing any more
	once    sync.Once     // closes gone
	waiting int           // guarded by the client's mu; calls that were sent, and whose answers nobody has read
}

// cut ends what the connection carries: calls in flight return, and nothing is sent any more, also not
// that they are cancelled. The server goes on with them.
func (n *connection) cut() {
	n.once.Do(func() { close(n.gone) })
	if n.conn != nil {
		_ = n.conn.Close() // the server may have ended it
	}
}

// lost forgets a connection that ended.
func (c *Client) lost(session *mcp.ClientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil && c.now.session == session {
		c.now = nil
	}
}

// waits notes that a call is sent over a connection. gone is closed when that is cut; answered notes that
// somebody has read the call's answer, or does not want it.
func (c *Client) waits(session *mcp.ClientSession) (gone <-chan struct{}, answered func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.now
	if of == nil || of.session != session {
		return nil, func() {} // it was lost, and so is the call
	}
	of.waiting++
	return of.gone, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		of.waiting--
	}
}

// Close ends the connection, within two seconds. Calls in flight return here, and go on at the server: the SDK
// would wait for their answers. With end, the keeper's server ends too, unless a call was left to it.
func (c *Client) Close(end bool) error {
	c.mu.Lock()
	of := c.now
	c.now = nil
	left := of != nil && of.waiting > 0
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
	go func() { // until the SDK has ended what it waits for
		defer close(closed)
		_ = of.session.Close() // it is lost anyway
	}()
	select {
	case <-closed:
	case <-of.gone:
		select { // what was cut ends soon, if it ends at all
		case <-closed:
		case <-time.After(closeTime):
		}
	}
	return ignoreClosed(err)
}
