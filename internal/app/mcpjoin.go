package app

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/cli/mcp"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/mcpserver"
	"github.com/perdure/perdure/store/sqlite"
)

// joinSocket is the socket on which a proxy serves the clients of further proxies with the same
// command line: each window of a client starts a proxy of its own.
const joinSocket = "mcp.sock"

// proxyProgram is the name of a proxy in the lock of its folder.
const proxyProgram = "perdure mcp proxy"

const (
	joinAccepted = "joined\n"
	joinRefused  = "refused\n" // the proxy has another command line
	greetTime    = 5 * time.Second
	joinPause    = 50 * time.Millisecond
	// joinTime is how long a proxy waits for one that holds the folder and cannot be joined: it is
	// starting or stopping.
	joinTime = 30 * time.Second
	// joinSilence is how long a proxy waits without a message.
	joinSilence = 5 * time.Second
)

// errOtherProxy reports that the proxy of a folder has another command line.
var errOtherProxy = errors.New("another command line")

// digestOf identifies what a proxy was started with: proxies with the same digest share a server.
func digestOf(p mcp.ProxyOptions) string {
	text, err := json.Marshal([]any{p.Command, p.URL, p.Classes, p.SoftBudget})
	if err != nil {
		panic(err) // texts and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// proxyHub accepts the clients of further proxies. The proxy that holds the folder has it.
type proxyHub struct {
	listener net.Listener
	digest   string
	clients  sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool // guarded by mu
	closed bool              // guarded by mu
}

// openHub listens. Clients that connect wait until start is called. It returns nil where the path
// is too long for a socket.
func openHub(dir string, p mcp.ProxyOptions) (*proxyHub, error) {
	path := filepath.Join(dir, joinSocket)
	if len(path) > maxSocketPath {
		return nil, nil
	}
	// no process listens on it: the caller holds the folder
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen for further clients: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for further clients: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for further clients: %w", err), listener.Close())
	}
	return &proxyHub{listener: listener, digest: digestOf(p), open: map[net.Conn]bool{}}, nil
}

// start serves the clients that connect until the hub is closed.
func (h *proxyHub) start(ctx context.Context, server *mcpserver.Server, log *slog.Logger) {
	if h != nil {
		h.clients.Go(func() { h.accept(ctx, server, log) })
	}
}

func (h *proxyHub) accept(ctx context.Context, server *mcpserver.Server, log *slog.Logger) {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			_ = conn.Close() // the client connects to the next holder
			return
		}
		h.open[conn] = true
		h.mu.Unlock()
		h.clients.Go(func() {
			if err := h.client(ctx, server, conn); err != nil {
				log.Warn("serving a further MCP client failed", "error", err)
			}
			h.mu.Lock()
			delete(h.open, conn)
			h.mu.Unlock()
		})
	}
}

// client serves one client.
func (h *proxyHub) client(ctx context.Context, server *mcpserver.Server, conn net.Conn) error {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(greetTime)) // a socket takes deadlines
	in := bufio.NewReaderSize(conn, 64<<10)
	digest, err := in.ReadSlice('\n')
	if err != nil {
		return nil // it has left
	}
	_ = conn.SetReadDeadline(time.Time{})
	if strings.TrimSpace(string(digest)) != h.digest {
		_, _ = io.WriteString(conn, joinRefused) // a client that has left needs no answer
		return nil
	}
	if _, err := io.WriteString(conn, joinAccepted); err != nil {
		return nil
	}
	return server.ServeStdio(ctx, io.NopCloser(in), conn)
}

// close ends all connections, and reports whether there were none. Work that their calls started
// continues, and the next holder of the folder has it.
func (h *proxyHub) close() (alone bool) {
	if h == nil {
		return true
	}
	h.mu.Lock()
	h.closed = true
	alone = len(h.open) == 0
	for conn := range h.open {
		if half, ok := conn.(interface{ CloseRead() error }); ok {
			_ = half.CloseRead() // ends its session; the client then connects to the next holder
		}
	}
	h.mu.Unlock()
	_ = h.listener.Close() // removes the socket
	h.clients.Wait()
	return alone
}

// joinHub connects to the proxy that holds the folder. It returns errOtherProxy if that one was
// started with another command line.
func joinHub(ctx context.Context, dir string, p mcp.ProxyOptions, log *slog.Logger) (net.Conn, *bufio.Reader, error) {
	conn, err := egress.DialSocket(ctx, filepath.Join(dir, joinSocket))
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the wait for the answer
	defer stop()
	silent := time.AfterFunc(joinSilence, func() { log.Warn("waiting for the MCP server, which another client has started", "proxy", p.Name) })
	defer silent.Stop()
	in := bufio.NewReaderSize(conn, 64<<10)
	_, err = io.WriteString(conn, digestOf(p)+"\n")
	answer := ""
	if err == nil {
		answer, err = in.ReadString('\n')
	}
	switch {
	case err == nil && answer == joinAccepted:
		return conn, in, nil
	case err == nil:
		err = errOtherProxy
	}
	return nil, nil, errors.Join(err, conn.Close())
}

// joinProxy serves the client of this proxy with the server of the proxy that holds the folder.
// When that proxy ends, one of the others takes its place.
func joinProxy(ctx context.Context, dir string, p mcp.ProxyOptions, held error, log *slog.Logger) error {
	if p.Listen != "" || !strings.Contains(held.Error(), proxyProgram) {
		return heldProxy(p.Name, held)
	}
	r := newRelay(ctx, p.In, p.Out)
	for since := time.Now(); ; {
		conn, in, err := joinHub(ctx, dir, p, log)
		switch {
		case errors.Is(err, errOtherProxy):
			return &cli.StoreMismatch{What: "the proxy " + p.Name + " is running with another command line",
				Todo: "give this one another name: --name NAME"}
		case err == nil:
			if r.serve(in, conn) {
				return r.failure()
			}
			since = time.Now()
			continue
		}
		st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Program: proxyProgram})
		switch {
		case err == nil:
			return r.hold(func(in io.Reader, out io.Writer) error {
				p.In, p.Out = in, out
				return holdProxy(ctx, p, dir, st, log)
			})
		case !errors.Is(err, perdure.Conflict):
			return err
		case time.Since(since) > joinTime:
			return heldProxy(p.Name, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(joinPause):
		}
	}
}

// heldProxy returns the error of a proxy whose folder another process holds.
func heldProxy(name string, held error) error {
	_, who, _ := strings.Cut(held.Error(), " is held by ")
	who, _, _ = strings.Cut(who, ";")
	if who == "" {
		return held
	}
	return &cli.StoreMismatch{What: "the proxy " + name + " is in use by " + who,
		Todo: "stop that process, or give this proxy another name: --name NAME"}
}
