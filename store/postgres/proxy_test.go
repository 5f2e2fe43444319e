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

// fault is what a proxy does to a COMMIT.
type fault int

// The faults.
const (
	none      fault = iota
	before          // the connection breaks, and the server does not hear of the COMMIT
	after           // the server has committed, and the connection breaks with its answer
	meanwhile       // the connection breaks as soon as the COMMIT is on its way
	blackHole       // nothing comes through any more, and nobody is told
)

// commitMessage is COMMIT as it stands in a connection: the letter of a simple query, its length, its text.
const commitMessage = "Q\x00\x00\x00\x0bCOMMIT\x00"

// proxy stands between a store and its server. It does its fault to the next COMMIT.
type proxy struct {
	url string // of the database, through the proxy

	mu    sync.Mutex
	fault fault         // guarded by mu
	left  int           // guarded by mu; COMMITs that it is still to be done to: 1 or 0
	done  int           // guarded by mu; COMMITs that it was done to
	hit   chan struct{} // guarded by mu; closed when the first suffers
	conns []net.Conn    // guarded by mu; both ends of all connections
}

// newProxy makes a proxy before the database of a URL, which ends with the test.
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

// do has the next COMMIT suffer a fault. hit is closed when it does.
func (p *proxy) do(f fault) (hit <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.left, p.done, p.hit = f, 1, 0, make(chan struct{})
	return p.hit
}

// count is how many COMMITs have suffered.
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

// next is what is to be done to a COMMIT.
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

// forward carries what the client says, and looks for COMMIT. A store writes it at once, so it comes in one piece.
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
			_, _ = io.Copy(io.Discard, client) // until the client goes
			<-swallow                          // and the server's side stays, as if nobody had told it
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

// back carries what the server says. Once swallow is closed it breaks the connection in place of the next answer.
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

// noLeaks fails a test that leaves goroutines behind, those of the drivers' farewells aside, which end by themselves.
func noLeaks(t *testing.T) {
	t.Helper()
	ignored := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignored) })
}
