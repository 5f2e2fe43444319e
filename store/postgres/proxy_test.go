package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/jackc/pgx/v5"
)

// fault is the fault that a proxy applies to a COMMIT.
type fault int

// The faults.
const (
	none      fault = iota
	before          // the connection breaks, and the server does not receive the COMMIT
	after           // the server has committed, and the connection breaks before its answer
	meanwhile       // the connection breaks as soon as the COMMIT is sent
	blackHole       // packets are dropped, without an error on either side
)

// commitMessage is COMMIT on the wire: the type of a simple query, its length, its text.
const commitMessage = "Q\x00\x00\x00\x0bCOMMIT\x00"

// proxy is a proxy between a store and its server. It applies its fault to the next COMMIT.
type proxy struct {
	url string // of the database, through the proxy

	mu    sync.Mutex
	fault fault         // guarded by mu
	left  int           // guarded by mu; COMMITs still to fail: 1 or 0
	done  int           // guarded by mu; COMMITs that failed
	hit   chan struct{} // guarded by mu; closed at the first failure
	conns []net.Conn    // guarded by mu; both ends of all connections
}

// newProxy makes a proxy for the database of a URL, which ends with the test.
func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "px") // not the folder of the test: the path of a socket holds 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	listener, err := net.Listen("unix", filepath.Join(folder, socket))
	if err != nil {
		t.Fatalf("set TMPDIR to a folder with a shorter path, perhaps: %v", err)
	}
	p := &proxy{url: "postgres://postgres@/" + cfg.Database + "?sslmode=disable&host=" + folder}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			server, err := net.Dial("unix", filepath.Join(cfg.Host, socket))
			if err != nil {
				client.Close()
				continue
			}
			p.keep(client, server)
			swallow := make(chan struct{})
			all.Go(func() { p.forward(client, server, swallow) })
			all.Go(func() { p.back(server, client, swallow) })
		}
	})
	t.Cleanup(func() {
		err := listener.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		all.Wait()
		if err := errors.Join(err, os.RemoveAll(folder)); err != nil {
			t.Error(err)
		}
	})
	return p
}

// do applies a fault to the next COMMIT. hit is closed when that happens.
func (p *proxy) do(f fault) (hit <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.left, p.done, p.hit = f, 1, 0, make(chan struct{})
	return p.hit
}

// count returns how many COMMITs failed.
func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conns...)
}

// next returns the fault for a COMMIT.
func (p *proxy) next() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 {
		return none
	}
	p.left--
	p.done++
	close(p.hit)
	return p.fault
}

// forward copies the client's messages, and looks for COMMIT. A store writes it at once, so it
// arrives in one read.
func (p *proxy) forward(client, server net.Conn, swallow chan struct{}) {
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		f := none
		if bytes.Contains(buffer[:n], []byte(commitMessage)) {
			f = p.next()
		}
		switch f {
		case before:
			client.Close()
			return
		case blackHole:
			_, _ = io.Copy(io.Discard, client) // until the client disconnects
			<-swallow                          // the server's side stays open, as if it had noticed nothing
			return
		case after:
			close(swallow)
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
		if f == meanwhile {
			client.Close()
			return
		}
	}
}

// back copies the server's messages. Once swallow is closed it breaks the connection instead of
// forwarding the next answer.
func (p *proxy) back(server, client net.Conn, swallow chan struct{}) {
	defer client.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			select {
			case <-swallow:
			default:
				close(swallow)
			}
			return
		}
		select {
		case <-swallow:
			return
		default:
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// noLeaks fails a test that leaves goroutines behind, except those in which drivers close
// connections, which end by themselves.
func noLeaks(t *testing.T) {
	t.Helper()
	ignored := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignored) })
}
