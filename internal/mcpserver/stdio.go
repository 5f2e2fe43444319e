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

// ServeStdio serves one client on a pair of streams, until it disconnects or ctx ends. Both
// protocol versions are served on the same streams: each request states its version. The principal
// is Config.Local.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	if s.cfg.Local == nil {
		return fmt.Errorf("serve stdio: %w configuration: Local is required", perdure.Invalid)
	}
	err := s.mcp.Run(ctx, &pipes{s: s, inner: &mcp.IOTransport{Reader: in, Writer: out}})
	if err == nil || ctx.Err() != nil {
		return nil
	}
	// The last two: disconnected before the response.
	for _, gone := range []error{io.EOF, mcp.ErrConnectionClosed, io.ErrClosedPipe, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return fmt.Errorf("serve stdio: %w", err)
}

// pipes is a stream transport that records which replies were written completely.
type pipes struct {
	s     *Server
	inner mcp.Transport
}

func (p *pipes) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := p.inner.Connect(ctx)
	return &pipe{Connection: conn, s: p.s}, err
}

type pipe struct {
	mcp.Connection
	s *Server
}

// Read moves parameters that the SDK does not know into metadata.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := p.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && err == nil {
		r.Params = adaptParams(message{ID: marshal(r.ID.Raw()), Method: r.Method, Params: r.Params})
	}
	return m, err
}

// Write records, once a reply is written completely, the calls that it contains (M4).
func (p *pipe) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && !r.IsCall() {
		if n, ok := (notifier{p.s}).unwrapNotification(r.Params); ok {
			m = &jsonrpc.Request{Method: n.Method, Params: n.Params}
		}
	}
	answer := p.replyOf(ctx, m)
	if answer == nil {
		return p.Connection.Write(ctx, m)
	}
	_, end := p.s.registerReply(answer)
	defer end()
	if err := p.Connection.Write(ctx, m); err != nil {
		return err
	}
	p.s.recordDelivered(answer)
	return nil
}

// replyOf returns the reply of a message about to be written, if it contains a call; else nil.
func (p *pipe) replyOf(ctx context.Context, m jsonrpc.Message) *reply {
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
		return nil // the reply is still written; a repeated call then joins this one
	}
	key := perdure.CallKey{Session: session, Call: perdure.CallID(id)}
	return &reply{ended: make(chan struct{}), caller: p.s.cfg.Local.Access, calls: []perdure.CallKey{key}, writing: true}
}
