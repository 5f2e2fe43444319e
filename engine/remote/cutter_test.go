package remote_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a TCP proxy that cuts each connection after a random number of bytes, in either
// direction.
type cutter struct {
	addr   string
	target string
	cuts   atomic.Int64
	group  sync.WaitGroup

	mu     sync.Mutex
	dice   *rand.Rand            // guarded by mu
	conns  map[net.Conn]struct{} // guarded by mu
	closed bool                  // guarded by mu
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: listener.Addr().String(), target: target, dice: rand.New(rand.NewPCG(seed, 0)), conns: map[net.Conn]struct{}{}}
	c.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.group.Go(func() { c.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.mu.Lock()
		c.closed = true
		for conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.group.Wait()
	})
	return c
}

// keep registers a connection to be closed at the end, or closes it if the end has come.
func (c *cutter) keep(conn net.Conn) (budget int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
	}
	c.conns[conn] = struct{}{}
	return c.dice.Int64N(4000)
}

// carry copies both ways until the bytes of one way are used up.
func (c *cutter) carry(client net.Conn) {
	there := c.keep(client)
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		_ = client.Close()
		return
	}
	back := c.keep(server)
	var ways sync.WaitGroup
	way := func(to, from net.Conn, budget int64) {
		if n, _ := io.CopyN(to, from, budget); n == budget {
			c.cuts.Add(1)
		}
		_ = to.Close()
		_ = from.Close()
	}
	ways.Go(func() { way(server, client, there) })
	ways.Go(func() { way(client, server, back) })
	ways.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, client)
	delete(c.conns, server)
}
