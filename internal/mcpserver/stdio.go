package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
)

// ServeStdio serves one client on a pair of streams, until it goes or ctx ends. Both eras are served on the same streams:
// each request says which it is of. The principal is Config.Local.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	if s.cfg.Local == nil {
		return fmt.Errorf("serve stdio: %w configuration: Local is required", perdure.Invalid)
	}
	err := s.mcp.Run(ctx, &pipes{s: s, inner: &mcp.IOTransport{Reader: in, Writer: out}})
	if err == nil || ctx.Err() != nil {
		return nil
	}
	for _, gone := range []error{io.EOF, mcp.ErrConnectionClosed, io.ErrClosedPipe, syscall.EPIPE} { // the last two: before its answer
		if errors.Is(err, gone) {
			return nil
		}
	}
	return fmt.Errorf("serve stdio: %w", err)
}

// pipes is a transport over streams that notices which replies were written whole.
type pipes struct {
	s     *Server
	inner mcp.Transport
}

// Connect implements mcp.Transport.
func (p *pipes) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := p.inner.Connect(ctx)
	return &pipe{Connection: conn, s: p.s}, err
}

type pipe struct {
	mcp.Connection
	s *Server
}

// Read moves what the SDK does not know to where it keeps it.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := p.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && err == nil {
		r.Params = adaptParams(message{ID: marshal(r.ID.Raw()), Method: r.Method, Params: r.Params})
	}
	return m, err
}

// Write notes, once a reply is written whole, the calls that it tells of (M4).
func (p *pipe) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && !r.IsCall() {
		if n, ok := p.s.unwrapped(r.Params); ok {
			m = &jsonrpc.Request{Method: n.Method, Params: n.Params}
		}
	}
	answer := p.telling(ctx, m)
	if answer == nil {
		return p.Connection.Write(ctx, m)
	}
	_, end := p.s.underWay(answer)
	defer end()
	if err := p.Connection.Write(ctx, m); err != nil {
		return err
	}
	p.s.told(answer)
	return nil
}

// telling is a message that is about to be written, as the reply that tells of a call; nil: it is none.
func (p *pipe) telling(ctx context.Context, m jsonrpc.Message) *reply {
	r, ok := m.(*jsonrpc.Response)
	if !ok || !bytes.Contains(r.Result, []byte(metaCall)) {
		return nil
	}
	var id string
	if perdure.DecodeJSON(metaOf(r.Result)[metaCall], &id) != nil {
		return nil
	}
	session, err := p.s.session(ctx, *p.s.cfg.Local)
	if err != nil {
		return nil // it is written all the same; a call of the same content joins this one
	}
	key := perdure.CallKey{Session: session, Call: perdure.CallID(id)}
	return &reply{ended: make(chan struct{}), who: p.s.cfg.Local.Who, calls: []perdure.CallKey{key}, begun: true}
}
