// Package mcptool makes tools of an MCP server's tools, and keeps such a server alive beside its client.
//
// It may import the root, tool and the MCP SDK. The one thing to know: a call's id on the wire is its idempotency key and
// execution, so that the same call, sent again after a crash, is one call to the keeper, and its answer is found.
package mcptool

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// metaCall is the metadata under which a request says which call it is.
const metaCall = "io.github.perdure/call"

// legacyVersion is asked for where the newest is not understood.
const legacyVersion = "2025-11-25"

// Config says which server, and how it is reached. Dial or URL is required.
type Config struct {
	// Dial connects to the server's keeper, and starts one where there is none. It is called again when the connection is lost.
	Dial func(ctx context.Context) (io.ReadWriteCloser, error)
	URL  string       // of a server over HTTP, instead
	HTTP *http.Client // the way there; required with URL

	Classes map[string]perdure.EffectClass // by the server's name of the tool; a tool without one is at_most_once (TL10)
	Version string                         // of this client; empty: dev
	Log     *slog.Logger                   // nil: discarded
}

// Client is a connection to an MCP server that is made again when it is lost. It is safe for concurrent use.
type Client struct {
	cfg Config
	mcp *mcp.Client

	mu      sync.Mutex
	session *mcp.ClientSession // guarded by mu; nil: there is none
	born    time.Time          // guarded by mu; of the keeper's server; zero: nobody keeps it
	conn    io.Closer          // guarded by mu
	sinks   map[string]tool.Sink
}

// Open connects to a server.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if (cfg.Dial == nil) == (cfg.URL == "") || cfg.URL != "" && cfg.HTTP == nil {
		return nil, fmt.Errorf("open MCP client: %w configuration: Dial, or URL and HTTP, are required", perdure.Invalid)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	c := &Client{cfg: cfg, sinks: map[string]tool.Sink{}}
	c.mcp = mcp.NewClient(&mcp.Implementation{Name: "perdure", Version: cfg.Version}, &mcp.ClientOptions{
		Logger: cfg.Log, Capabilities: &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.progress(r.Params) },
	})
	if _, _, err := c.connected(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// probeTime is how long a server may take to say which version it speaks.
const probeTime = 30 * time.Second

// connected returns the connection, made anew where it was lost, and since when its server lives.
func (c *Client) connected(ctx context.Context) (*mcp.ClientSession, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		return c.session, c.born, nil
	}
	var failed error
	for _, version := range []string{"", legacyVersion} {
		probe, cancel := context.WithTimeout(ctx, probeTime)
		session, err := c.connect(probe, version)
		cancel()
		if err == nil {
			c.session = session
			go func() { // until the connection ends
				_ = session.Wait() // why does not matter: it is made anew
				c.lost(session)
			}()
			return session, c.born, nil
		}
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, time.Time{}, fmt.Errorf("connect to the MCP server: %w: %w", perdure.Unavailable, failed)
}

// connect makes one connection; whoever calls holds mu.
func (c *Client) connect(ctx context.Context, version string) (*mcp.ClientSession, error) {
	options := &mcp.ClientSessionOptions{ProtocolVersion: version}
	if c.cfg.URL != "" {
		c.born = time.Time{}
		return c.mcp.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: c.cfg.URL, HTTPClient: c.cfg.HTTP}, options)
	}
	conn, err := c.cfg.Dial(ctx)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	first, err := in.ReadBytes('\n')
	var said hello
	if err == nil {
		err = perdure.DecodeKnownJSON(first, &said)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the keeper says nothing: %w", err), conn.Close())
	}
	session, err := c.mcp.Connect(ctx, &named{c: c, inner: &mcp.IOTransport{Reader: readCloser{in, conn}, Writer: conn}}, options)
	if err != nil {
		return nil, errors.Join(err, ignoreClosed(conn.Close()))
	}
	c.born, c.conn = said.Keeper.At, conn
	return session, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// lost forgets a connection that ended.
func (c *Client) lost(session *mcp.ClientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == session {
		c.session = nil
	}
}

// Close ends the connection. With end, the keeper's server ends too, if nothing runs there.
func (c *Client) Close(end bool) error {
	c.mu.Lock()
	session, conn := c.session, c.conn
	c.session = nil
	c.mu.Unlock()
	var err error
	if w, ok := conn.(io.Writer); ok && end {
		_, err = w.Write([]byte(`{"jsonrpc":"2.0","method":"` + endMethod + `"}` + "\n"))
	}
	if session != nil {
		_ = session.Close() // it is lost anyway
	}
	return ignoreClosed(err)
}

// Definitions lists the server's tools.
func (c *Client) Definitions(ctx context.Context) ([]*mcp.Tool, error) {
	session, _, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	var all []*mcp.Tool
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list the tools of the MCP server: %w", err)
		}
		all = append(all, t)
	}
	return all, nil
}

// progress hands a server's word on a call to its sink.
func (c *Client) progress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	c.mu.Lock()
	sink := c.sinks[token]
	c.mu.Unlock()
	if sink == nil {
		return
	}
	sink.Progress(p.Progress, p.Total, p.Message)
	if p.Message != "" {
		sink.Status(p.Message)
	}
}

// named is a transport on which requests have ids of our own: a tool call that of the call, all others one that no earlier
// connection had.
type named struct {
	c     *Client
	inner mcp.Transport
}

// Connect implements mcp.Transport.
func (n *named) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := n.inner.Connect(ctx)
	return &namedConn{Connection: conn, prefix: rand.Text()[:12] + "-", ours: map[string]jsonrpc.ID{}, theirs: map[any]string{}}, err
}

type namedConn struct {
	mcp.Connection
	prefix string

	mu     sync.Mutex
	ours   map[string]jsonrpc.ID // guarded by mu; the SDK's id, by that on the wire
	theirs map[any]string        // guarded by mu; the id on the wire, by the SDK's
}

// Write implements mcp.Connection.
func (n *namedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		return n.Connection.Write(ctx, m)
	}
	sent := *r
	if r.IsCall() {
		name := callOf(r)
		if name == "" {
			name = n.prefix + fmt.Sprint(r.ID.Raw())
		}
		id, err := jsonrpc.MakeID(name)
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.ours[name], n.theirs[r.ID.Raw()] = r.ID, name
		n.mu.Unlock()
		sent.ID = id
	} else if r.Method == "notifications/cancelled" {
		sent.Params = n.canceled(r.Params)
	}
	return n.Connection.Write(ctx, &sent)
}

// canceled names the request that is cancelled as the wire does.
func (n *namedConn) canceled(params json.RawMessage) json.RawMessage {
	var fields map[string]any
	if perdure.DecodeJSON(params, &fields) != nil {
		return params
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for raw, name := range n.theirs {
		if fmt.Sprint(raw) == strings.TrimSuffix(fmt.Sprint(fields["requestId"]), ".0") {
			fields["requestId"] = name
			return mustJSON(fields)
		}
	}
	return params
}

// Read implements mcp.Connection. An answer to nobody is skipped.
func (n *namedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := n.Connection.Read(ctx)
		r, ok := m.(*jsonrpc.Response)
		if err != nil || !ok {
			return m, err
		}
		name, _ := r.ID.Raw().(string)
		n.mu.Lock()
		id, known := n.ours[name]
		delete(n.ours, name)
		delete(n.theirs, id.Raw())
		n.mu.Unlock()
		if known {
			answered := *r
			answered.ID = id
			return &answered, nil
		}
	}
}

// callOf is the name of a tool call; empty: it is none of ours.
func callOf(r *jsonrpc.Request) string {
	if r.Method != "tools/call" {
		return ""
	}
	var with struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var name string
	if perdure.DecodeKnownJSON(r.Params, &with) != nil || perdure.DecodeJSON(with.Meta[metaCall], &name) != nil {
		return ""
	}
	return name
}

// wireID is a call's id on the wire: the same for every sending of one execution.
func wireID(call tool.Call) string { return call.Key + "/" + strconv.Itoa(max(call.Execution, 1)) }
