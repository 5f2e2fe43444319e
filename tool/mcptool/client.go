// Package mcptool makes tools of an MCP server's tools, and keeps such a server alive beside its client.
//
// It may import the root, tool and the MCP SDK. The one thing to know: a call's id on the wire is its idempotency key and
// execution, so that the same call, sent again after a crash, is one call to the keeper, and its answer is found.
package mcptool

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
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

// modernVersion is the first without sessions, on which calls may become tasks.
const modernVersion = "2026-07-28"

// Config says which server, and how it is reached. Dial or URL is required.
type Config struct {
	// Dial connects to the server's keeper, and starts one where there is none. It is called again when the connection is lost.
	Dial func(ctx context.Context) (io.ReadWriteCloser, error)
	URL  string       // of a server over HTTP, instead
	HTTP *http.Client // the way there, with its transport; required with URL

	Classes map[string]perdure.EffectClass // by the server's name of the tool; a tool without one is at_most_once (TL10)
	Version string                         // of this client; empty: dev
	Handles Handles                        // nil: a call that the server makes a task is lost with this process
	Era     string                         // the version that the server is known to speak; empty: it is asked
	Learned func(era string)               // is told the version when it is another one; nil: nobody is
	Log     *slog.Logger                   // nil: discarded
}

// Client is a connection to an MCP server that is made again when it is lost. It is safe for concurrent use.
type Client struct {
	cfg Config
	mcp *mcp.Client

	mu      sync.Mutex
	session *mcp.ClientSession  // guarded by mu; nil: there is none
	born    time.Time           // guarded by mu; of the keeper's server; zero: nobody keeps it
	conn    io.Closer           // guarded by mu
	calls   map[string]tool.Env // guarded by mu; that run, by their ids on the wire
	mirrors bool                // guarded by mu; some argument goes into a header of HTTP, as the tool's definition says
	until   time.Time           // guarded by mu; the server wants to be left alone
}

// Open connects to a server.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if (cfg.Dial == nil) == (cfg.URL == "") || cfg.URL != "" && (cfg.HTTP == nil || cfg.HTTP.Transport == nil) {
		return nil, fmt.Errorf("open MCP client: %w configuration: Dial, or URL and HTTP, are required", perdure.Invalid)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	c := &Client{cfg: cfg, calls: map[string]tool.Env{}}
	if cfg.URL != "" {
		way := *cfg.HTTP
		way.Transport = &taskWay{next: cfg.HTTP.Transport, wait: c.leaveAlone}
		c.cfg.HTTP = &way
	}
	caps := &mcp.ClientCapabilities{}
	caps.AddExtension(extension, nil)
	c.mcp = mcp.NewClient(&mcp.Implementation{Name: "perdure", Version: cfg.Version}, &mcp.ClientOptions{
		Logger: cfg.Log, Capabilities: caps,
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return c.elicit(ctx, r.Params)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.progress(r.Params) },
	})
	c.mcp.AddReceivingMiddleware(notHandedOn)
	if err := knowTasks(c.mcp); err != nil {
		return nil, err
	}
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
	for _, version := range c.versions() {
		probe, cancel := context.WithTimeout(ctx, probeTime)
		session, err := c.connect(probe, version)
		cancel()
		if err == nil {
			if c.mirrors {
				_, _ = list(ctx, session) // what the server wants in a header it asks for itself
			}
			c.session = session
			if spoken := session.InitializeResult(); spoken != nil && spoken.ProtocolVersion != c.cfg.Era {
				if c.cfg.Era = spoken.ProtocolVersion; c.cfg.Learned != nil {
					c.cfg.Learned(c.cfg.Era)
				}
			}
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

// versions is what is asked for, in turn; whoever calls holds mu. A server that is known to speak an older version is not asked for the
// newest first.
func (c *Client) versions() []string {
	if c.cfg.Era != "" && c.cfg.Era < modernVersion {
		return []string{c.cfg.Era, ""}
	}
	return []string{"", legacyVersion}
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
	all, err := list(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("list the tools of the MCP server: %w", err)
	}
	for _, t := range all {
		if bytes.Contains(mustJSON(t.InputSchema), []byte(`"x-mcp-header"`)) {
			c.mu.Lock()
			c.mirrors = true
			c.mu.Unlock()
		}
	}
	return all, nil
}

// list lists the tools of a connection, which knows from then on what of their arguments goes into headers.
func list(ctx context.Context, session *mcp.ClientSession) (all []*mcp.Tool, err error) {
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	return all, nil
}

// hears notes that a call runs, until what it returns is called.
func (c *Client) hears(id string, env tool.Env) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[id] = env
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
	}
}

// leaveAlone notes that the server wants to be left alone for a while.
func (c *Client) leaveAlone(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(d)
}

// About says which server it is, and whether it makes tasks of calls; nothing while there is no connection.
func (c *Client) About() (server string, tasks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil || c.session.InitializeResult() == nil {
		return "", false
	}
	if info := c.session.InitializeResult().ServerInfo; info != nil {
		server = strings.TrimSpace(info.Name + " " + info.Version)
	}
	return server, makesTasks(c.session)
}

// busy reports whether calls run.
func (c *Client) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls) > 0
}

// alone is for how long the server wants to be left alone.
func (c *Client) alone() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.until)
}

// elicit puts a question of the server to people. The protocol does not say which call it belongs to, so there must be one only.
func (c *Client) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	c.mu.Lock()
	running := slices.Collect(maps.Values(c.calls))
	c.mu.Unlock()
	if len(running) != 1 {
		return nil, fmt.Errorf("%d calls run, and it is not known which of them asks: the question is not handed on", len(running))
	}
	said, err := ask(ctx, running[0], Asked{Prompt: p.Message, Schema: mustJSON(p.RequestedSchema)})
	if err != nil {
		return nil, fmt.Errorf("nobody can be asked here: %w", err)
	}
	result := &mcp.ElicitResult{Action: "accept"}
	return result, perdure.DecodeKnownJSON(mustJSON(said["content"]), &result.Content)
}

// notHandedOn refuses what servers ask of their clients that is not handed on. The SDK has its own words for a method that is not found.
func notHandedOn(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "sampling/createMessage", "roots/list":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: method + " is not handed on: Perdure stands between this server and its client"}
		}
		return next(ctx, method, req)
	}
}

// progress hands a server's word on a call to its sink.
func (c *Client) progress(p *mcp.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	c.mu.Lock()
	env, ok := c.calls[token]
	c.mu.Unlock()
	if !ok {
		return
	}
	sink := env.Report()
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
			answered.Result, _ = plainResult(r.Result)
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
